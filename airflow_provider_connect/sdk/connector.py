"""Connectors divide the work that a config describes into task configs. A connector moves no data; its tasks do.

Each run creates one instance in its driver: ``initialize`` → ``start`` → ``task_configs`` → ``stop``. ``validate``, ``check``,
``has_new_data``, ``alter_offsets`` and the two methods about guarantees are called on other instances, which are never started.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from airflow_provider_connect.data.java_text import text_of
from airflow_provider_connect.errors import TaskException, plugin_code
from airflow_provider_connect.sdk.allowed_paths import NOTHING_ALLOWED, AllowedPaths
from airflow_provider_connect.sdk.allowed_spark import NO_SPARK, AllowedSpark
from airflow_provider_connect.sdk.config_def import Config, ConfigValue, Password, Plugin, class_name_of

if TYPE_CHECKING:
    from airflow_provider_connect.sdk.task import SinkTask, SourceTask

OffsetReader = Callable[[Mapping[str, object]], Mapping[str, object] | None]
"""Takes a source partition and returns its committed offset. None: the partition has no offset."""


class DataSignal(Protocol):
    """Wakes a run that stays when its source may have new data. See ``SourceConnector.open_data_signal``. Used by one thread only."""

    def wait(self, timeout_seconds: float) -> bool:
        """Wait for a report of new data, for at most ``timeout_seconds``, which is half a second or less. True: ``has_new_data`` is called.

        The first call must return True, because data may have come before the signal was open. A report between two calls must not be lost:
        the next call returns True at once. Unnecessary reports only cost a call of ``has_new_data``. After an exception, the signal is
        closed, and the run checks for new data as without a signal."""

    def close(self) -> None:
        """Release everything. Called once, at the end of the run or after an exception of ``wait``."""


class ConnectorContext(Protocol):
    """The object through which a connector calls the framework. Passed to ``initialize``."""

    name: str
    is_preview: bool
    """Whether this run is a preview. A preview must not write anything anywhere."""

    def offset(self, partition: Mapping[str, object]) -> dict[str, Any] | None:
        """The committed offset of a source partition. None: the partition has no offset. Any: offsets are the connector's own JSON."""

    def request_task_reconfiguration(self) -> None:
        """Ask the framework to call ``task_configs`` again soon. May be called from any thread."""

    def raise_error(self, error: Exception) -> None:
        """Fail the connector. May be called from any thread."""


class ExactlyOnceSupport(StrEnum):
    """Whether a connector can deliver exactly once with a given config."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class Connector(Plugin):
    """Base of ``SourceConnector`` and ``SinkConnector``; authors subclass one of these."""

    task_class: ClassVar[type[SourceTask] | type[SinkTask]]
    default_settings: ClassVar[Mapping[str, str]] = {}
    """Defaults of framework settings, such as the converters that the connector's data need. They override the worker's settings; a config
    overrides them."""
    needs_spark: ClassVar[bool] = False
    """Whether tasks use Spark DataFrames. Such tasks run in threads of the application's driver, where
    ``SparkSession.builder.getOrCreate()`` returns the application's session. Other tasks run in Python workers of executors, without
    a session."""
    context: ConnectorContext
    config: Config
    allowed_paths: AllowedPaths = NOTHING_ALLOWED
    """The files of the host that this connector may reach. The framework sets it on each instance before it calls any method."""
    allowed_spark: AllowedSpark = NO_SPARK
    """The Spark formats and options that this connector may use. The framework sets it before ``validate``."""
    refusal_of_topic: Callable[[str], str] = staticmethod(lambda _: "")
    """Takes a topic. If it is an internal topic of this worker or of Kafka, or if Kafka accepts no topic of this name, returns the reason
    why it cannot hold records. Otherwise returns an empty string. Names are not checked if a transformation of the config may change them.
    The framework sets this attribute before ``validate``, ``check``, ``task_configs`` and ``has_new_data``."""
    missing: str | None = None
    """A sentence for users about a thing that the config names but that does not exist yet, such as a file, or about what a pattern selects
    but cannot be read, with the remedy. It must not contain secrets.

    ``check``, ``task_configs`` and a source's ``has_new_data`` may set it. The connector then waits: its runs succeed with a warning, and
    previews, lists and ``/health`` show the sentence. If the connector cannot wait, ``check`` raises ConfigException instead."""

    def initialize(self, context: ConnectorContext) -> None:
        """Keep the context. Called once, before ``start``."""
        self.context = context

    def start(self, config: Config) -> None:
        """Prepare to plan tasks. Called once, after ``initialize``. ``config`` is parsed, and its variables are resolved."""
        self.config = config

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """One config per task, at most ``max_tasks``, in a stable order. An empty list means that there is nothing to do.

        Called once per run, after ``start``, so each run can plan for new data. If a task config is a ``Config``, its ``originals`` are
        published. Numbers and booleans are published as text; any other value fails the connector before anything is written."""
        raise NotImplementedError

    def stop(self) -> None:
        """Release what ``start`` acquired. Called once, even if ``start`` failed."""

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """One value per key, with its errors. Called in its own process with a time limit, and may connect to outside systems."""
        return self.config_def.validate(config)

    def check(self, config: Mapping[str, str]) -> None:
        """Raise ConfigException if a run cannot start, for example because a folder is missing. Name the key and the remedy.

        Called before each run, on the host that submits it. Must be cheap, must not import pyarrow and must not change anything."""

    def check_fully(self, config: Mapping[str, str]) -> None:
        """Like ``check``, but for previews: it may import libraries and take seconds.

        Called in its own process with a time limit. Override it if tasks check more at their start than ``check`` does. By default it
        calls ``check``."""
        self.check(config)

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:
        """Accept or refuse offsets that an admin sets while the connector is STOPPED.

        ``config`` has its variables resolved. A source gets ``offsets`` as a list of pairs (source partition, source offset), a sink as a
        mapping of TopicPartition to int; None resets an offset. Return True to accept, or False if the connector cannot decide; the offsets
        are set in both cases. Raise an exception to refuse. A sink that stores offsets in its destination must change them in this method.
        Called in its own process with a time limit.
        """
        return False

    @classmethod
    def task_config(cls, config: Mapping[str, str]) -> Config:
        """``config`` as a task's ``start`` gets it: parsed by the task class's ``config_def``, or if the task class has none, by the
        connector's."""
        return (cls.task_class.config_def or cls.config_def).parse(config)


class SourceConnector(Connector):
    """Reads records from another system into Kafka."""

    task_class: ClassVar[type[SourceTask]]
    range_settings: ClassVar[tuple[str, ...]] = ()
    """Settings that limit what a source reads, such as a first and a last key. A backfill, which is a separate connector with its own
    offsets, must set one of these settings. Empty: the source cannot be limited, so it has no backfills."""
    check_seconds: ClassVar[float] = 2.0
    """In a run that stays (``docs/continuous.md``), the longest wait between two calls of ``has_new_data`` while there is no new data. The
    first wait is 0.02 s; each further wait is twice as long. With a data signal, each wait ends with the signal, and otherwise lasts
    ``check_seconds``, but at least half a second."""
    backfill_settings: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Settings that a backfill must leave at their defaults, with these defaults. With another value, the backfill would remove data from
    the source before the live connector has read the data."""

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Whether tasks resume exactly from the offsets of their records. None: unknown."""
        return None

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool:
        """Whether tasks use the transaction context, so that ``transaction.boundary=connector`` is allowed."""
        return False

    def output_topics(self, config: Mapping[str, str]) -> Sequence[str] | None:
        """The topics that tasks write to, before transformations. None: they depend on the records.

        A program that embeds a connector and reads its records calls this, on an instance that is never started.
        """
        return None

    def has_new_data(self, config: Config, offsets: OffsetReader) -> bool | None:
        """Whether a run would find new data. None: unknown, so a run starts.

        Called in the Airflow task process before each run is submitted; must be cheap and must not import pyarrow. ``config`` is parsed by
        ``config_def``, and its variables are resolved. An exception is logged, and a run starts.
        """
        return None

    def open_data_signal(self, config: Config) -> DataSignal | None:
        """A signal that wakes a run that stays as soon as there may be new data. None: the run checks at intervals only.

        Called once for each task, in the task's process, when the task has read everything for the first time. ``config`` is as for
        ``has_new_data``, which must be defined too. An exception is logged, and the run checks at intervals.
        """
        return None

    def check_for_new_data(self, config: Mapping[str, str], offsets: OffsetReader) -> bool | None:
        """Call ``has_new_data`` with the parsed ``config``. For the framework and for tests; do not override it.

        If the first parameter of ``has_new_data`` is annotated as a mapping of strings, such as ``Mapping[str, str]``, that method gets the
        unparsed config.
        """
        first = next(iter(inspect.signature(self.has_new_data).parameters.values()), None)
        takes_texts = first is not None and str(first.annotation).endswith("[str, str]")
        with plugin_code():
            return self.has_new_data(config if takes_texts else self.config_def.parse(config), offsets)  # type: ignore[arg-type]


class SinkConnector(Connector):
    """Writes records from Kafka to another system."""

    task_class: ClassVar[type[SinkTask]]
    location_settings: ClassVar[tuple[str, ...]] = ()
    """Settings that name the destination, if two connectors of this class cannot share a destination. They cannot share one whose offsets
    or file names contain topic and partition, but not the connector's name. A backfill is a separate connector for the same topics, so it
    must change one of these settings. Empty: connectors can share the destination."""
    stores_offsets_separately: ClassVar[bool] = False
    """Whether an exactly-once destination can lose offsets without losing records, for example because the offsets are in a separate table.
    If the offsets are missing, a run FAILs unless ``destination.rollback`` allows it to deliver all records again."""

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """SUPPORTED if the destination commits data, offsets and claim together and refuses an older claim. None: unknown."""
        return None


def require_task_list(connector: Connector, generated: object) -> Sequence[object]:
    """Return ``generated``, the result of ``task_configs``. Raises TaskException unless it is a list."""
    if isinstance(generated, Sequence) and not isinstance(generated, str | bytes):
        return generated
    kind = type(generated).__name__
    raise TaskException(f"{_method(connector)} must return a list of mappings, got {kind}: an empty list means nothing to do")


def task_config_texts(connector: Connector, task: int, config: object) -> dict[str, str]:
    """One task config, with its values as text. The message of a TaskException has no values, because values may be secret."""
    given = config.originals if isinstance(config, Config) else config
    origin = f"of task {task} from {_method(connector)}"
    if not isinstance(given, Mapping):
        raise TaskException(f"The config {origin} must be a mapping, got {type(given).__name__}")
    texts: dict[str, str] = {}
    for key, value in given.items():
        if not isinstance(key, str):
            raise TaskException(f"The names of settings must be text, got {type(key).__name__} in the config {origin}")
        if not isinstance(value, str | int | float):
            hint = _HINTS.get(type(value), "")
            raise TaskException(f"The setting '{key}' {origin} must be text, a number or a boolean, got {type(value).__name__}{hint}")
        texts[key] = text_of(value)
    return texts


def _method(connector: Connector) -> str:
    return f"task_configs of {class_name_of(type(connector))}"


_HINTS: Final = {type(None): ": leave it out", Password: ": take it from the config's originals"}
