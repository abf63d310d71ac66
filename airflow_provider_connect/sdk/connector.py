"""Connectors: what a config asks for, cut into task configs. A connector moves no data; its tasks do.

One instance lives in the driver of a run: ``initialize`` → ``start`` → ``task_configs`` → ``stop``. ``validate``, ``check``,
``has_new_data``, ``alter_offsets`` and the two methods about guarantees are called on throw-away instances that were never started.
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
"""The committed offset of a source partition; None where there is none."""


class ConnectorContext(Protocol):
    """What the framework offers a connector."""

    name: str
    is_preview: bool
    """Whether this is a preview, in which nothing may be written anywhere."""

    def offset(self, partition: Mapping[str, object]) -> dict[str, Any] | None:
        """The committed source offset of a source partition; None where there is none. Any: offsets are the connector's own JSON."""

    def request_task_reconfiguration(self) -> None:
        """Ask that ``task_configs`` be called again soon; from any thread."""

    def raise_error(self, error: Exception) -> None:
        """Fail the connector; from any thread."""


class ExactlyOnceSupport(StrEnum):
    """Whether a connector can deliver exactly once with a certain config."""

    SUPPORTED = "SUPPORTED"
    UNSUPPORTED = "UNSUPPORTED"


class Connector(Plugin):
    """What sources and sinks share."""

    task_class: ClassVar[type[SourceTask] | type[SinkTask]]
    default_settings: ClassVar[Mapping[str, str]] = {}
    """The framework's settings where a config leaves them out, before the worker's: converters that the connector's data need, say."""
    needs_spark: ClassVar[bool] = False
    """Whether tasks compute with frames of Spark. They run in threads of the application's driver, where
    ``SparkSession.builder.getOrCreate()`` is the application's session. Other tasks run in Python workers of executors, without one."""
    context: ConnectorContext
    config: Config
    allowed_paths: AllowedPaths = NOTHING_ALLOWED
    """The files of the host that this connector may reach. Set by the framework on each instance, before anything else is called."""
    allowed_spark: AllowedSpark = NO_SPARK
    """The formats of Spark, and their options, that this connector may use. Set by the framework before ``validate``."""
    refusal_of_topic: Callable[[str], str] = staticmethod(lambda _: "")
    """Why a topic may not hold records: it is an internal one of this worker or of Kafka; empty: it may. Set by the framework before tasks
    are planned and new data is checked for."""
    missing: str | None = None
    """What the config names, is not there and may still come, such as a file, as a sentence for users without secrets: ``check``,
    ``task_configs`` and a source's ``has_new_data`` may set it. The connector waits for it: its runs succeed with a warning, and previews,
    lists and ``/health`` show it. What it cannot wait for, ``check`` refuses."""

    def initialize(self, context: ConnectorContext) -> None:
        """Take the context. Called once, before ``start``."""
        self.context = context

    def start(self, config: Config) -> None:
        """Get ready to plan tasks. ``config`` is parsed and has its variables resolved."""
        self.config = config

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """One config a task, at most ``max_tasks`` of them, in an order that stays; an empty list: there is nothing to do.

        A Config stands for its ``originals``; numbers and booleans are published as text, and other values fail the connector before
        anything is written. Called after ``start``, at every run, so that what is new at the source is picked up."""
        raise NotImplementedError

    def stop(self) -> None:
        """Release whatever ``start`` took. Called once, also after ``start`` has failed."""

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """One value a key with its errors. Runs in a process of its own with a time limit; may connect to outside systems."""
        return self.config_def.validate(config)

    def check(self, config: Mapping[str, str]) -> None:
        """Raise ConfigException, naming the key and the way out, if a run could not start as things are outside: a folder that is not
        there, for instance. Called before each run, on the host that submits it; cheap, without pyarrow, and nothing is changed."""

    def check_fully(self, config: Mapping[str, str]) -> None:
        """As ``check``, for previews: called in a process of its own with a time limit, so it may load libraries and take seconds. For a
        connector whose tasks check more as they start than ``check`` does; by default the same."""
        self.check(config)

    def alter_offsets(self, config: Mapping[str, str], offsets: Any) -> bool:
        """Called when an admin sets these offsets while the connector is STOPPED: a mapping of source partition to source offset, or of
        TopicPartition to int; None resets. Return True to agree, False if unsure (they are set all the same), raise to refuse. A sink that
        keeps offsets in its destination rewrites them here."""
        return False

    @classmethod
    def task_config(cls, config: Mapping[str, str]) -> Config:
        """What a task of this connector is started with: ``config`` parsed by the task's own definition, or else by the connector's."""
        return (cls.task_class.config_def or cls.config_def).parse(config)


class SourceConnector(Connector):
    """Reads records from another system into Kafka."""

    task_class: ClassVar[type[SourceTask]]
    range_settings: ClassVar[tuple[str, ...]] = ()
    """The settings that bound what a source reads, such as a first and a last key. A backfill, which is a connector of its own with offsets
    of its own, is refused unless it sets one of them. Empty: nothing bounds it, and there are no backfills of it."""
    backfill_settings: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """Settings with the one value that a backfill may have, which is their default: with another it would take from the source what the
    live connector has not read yet."""

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """Whether tasks resume from the offsets of their records exactly; None: not known."""
        return None

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool:
        """Whether tasks use the transaction context, so that ``transaction.boundary=connector`` is allowed."""
        return False

    def output_topics(self, config: Mapping[str, str]) -> Sequence[str] | None:
        """The topics that tasks write to, before transformations, if the config determines them; None: the records do.

        Called on a throw-away instance by a program that embeds a connector and reads its records.
        """
        return None

    def has_new_data(self, config: Config, offsets: OffsetReader) -> bool | None:
        """Whether a run would find new data, checked cheaply and without pyarrow; None: unknown, so a run starts.

        Called inside the Airflow task process before anything is submitted. ``config`` is parsed by ``config_def`` and has its variables
        resolved; ``offsets`` returns the committed offset of a source partition, or None. Whatever this raises is logged, and a run starts.
        """
        return None

    def check_for_new_data(self, config: Mapping[str, str], offsets: OffsetReader) -> bool | None:
        """Call ``has_new_data`` with the parsed ``config``. The framework calls this, and so may tests; not to be overridden.

        A method whose first parameter is annotated as a mapping of texts, ``Mapping[str, str]`` for one, is given the texts.
        """
        first = next(iter(inspect.signature(self.has_new_data).parameters.values()), None)
        takes_texts = first is not None and str(first.annotation).endswith("[str, str]")
        with plugin_code():
            return self.has_new_data(config if takes_texts else self.config_def.parse(config), offsets)  # type: ignore[arg-type]


class SinkConnector(Connector):
    """Writes records from Kafka to another system."""

    task_class: ClassVar[type[SinkTask]]
    location_settings: ClassVar[tuple[str, ...]] = ()
    """The settings that name a destination which two connectors of this class cannot share: where it keeps offsets, or names what it
    writes, by topic and partition and not by the connector's name too. A backfill, which is a connector of its own that reads the same
    topics, is refused unless it changes one of them. Empty: connectors can share it."""
    keeps_offsets_apart: ClassVar[bool] = False
    """Whether an exactly-once destination keeps offsets where they can be lost without the records, such as in a table of their own. Where
    they are gone, a run FAILs instead of delivering everything again, unless ``destination.rollback`` asks for that."""

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport | None:
        """SUPPORTED if the destination commits data, offsets and claim together and refuses an older claim; None: not known."""
        return None


def listed_tasks(connector: Connector, generated: object) -> Sequence[object]:
    """What ``task_configs`` of ``connector`` returned, which must be a list. Raises TaskException."""
    if isinstance(generated, Sequence) and not isinstance(generated, str | bytes):
        return generated
    kind = type(generated).__name__
    raise TaskException(f"{_method(connector)} must return a list of mappings, got {kind}: an empty list means nothing to do")


def task_texts(connector: Connector, task: int, config: object) -> dict[str, str]:
    """One config of that list as texts. Raises TaskException with no value in it: some are secrets."""
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
