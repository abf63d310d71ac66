"""The dead letter queue of a sink as users see it: its topic, the connector's records in it, and the visible part of each.

The config names the topic, and other connectors may use the same topic. Does not know who asks or how variables are resolved.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow_provider_connect.codecs.dead_letters import CONNECTOR_HEADER, PREFIX
from airflow_provider_connect.errors import BadRequestException, ConfigException
from airflow_provider_connect.runtime.config.client_settings import ClientKind, connector_overrides
from airflow_provider_connect.runtime.config.config_providers import is_public, variables
from airflow_provider_connect.runtime.config.internal_topics import KAFKAS_OWN
from airflow_provider_connect.runtime.config.masking import Mask, config_secrets
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.history import Redact
from airflow_provider_connect.runtime.model.ids import refusal_of_topic
from airflow_provider_connect.runtime.plugins.validation.delivery_checks import DEAD_LETTERS
from airflow_provider_connect.runtime.stores.log_consumer import LogRecord
from airflow_provider_connect.runtime.stores.offset_location import is_elsewhere

CONTEXT_HEADERS: Final = "errors.deadletterqueue.context.headers.enable"
Row = dict[str, Any]  # Any: JSON
SecretsOf = Callable[[str, Mapping[str, str], Redact], set[str]]
"""Returns the values in a connector's config that must not be shown, given its name, its config, and the visible form of the config."""


@dataclass(frozen=True, slots=True)
class Part:
    """How much of a record is shown: characters of a key, value or header, characters of a header's name, and headers of each kind."""

    text: int = 4000
    name: int = 200
    headers: int = 100


def dead_letter_topic(name: str, config: Mapping[str, str], settings: WorkerSettings) -> str:
    """The queue of connector ``name``. Raises BadRequestException if it has no queue, or one that may not be shown."""
    topic = config.get(DEAD_LETTERS, "").strip()
    if not topic:
        raise BadRequestException(f"Connector {name} has no dead letter queue: {DEAD_LETTERS} is not set")
    if topic in KAFKAS_OWN | {internal.name for internal in settings.internal_topics}:
        raise BadRequestException(f"{DEAD_LETTERS}={topic} is an internal topic, whose records are not shown")
    if refusal := refusal_of_topic(topic):
        raise BadRequestException(f"{DEAD_LETTERS}={cut(topic)} is not a valid topic: {refusal}")
    if is_elsewhere(settings, connector_overrides(config, ClientKind.PRODUCER)):
        raise BadRequestException(f"The dead letter queue of connector {name} is on another cluster than the worker's")
    return topic


class SinkSecrets:
    """A ``SecretsOf``. ``values_of`` returns the values of variables of a connector, in order, or raises ConfigException."""

    def __init__(self, settings: WorkerSettings, values_of: Callable[[str, Sequence[str]], list[str]]) -> None:
        self._settings = settings
        self._values_of = values_of

    def __call__(self, name: str, config: Mapping[str, str], redact: Redact) -> set[str]:
        """Raises BadRequestException if a variable has no value in this process, because its secret could not be hidden."""
        visible, providers = redact(config), self._settings.config_providers(name)
        secret = [text for text in variables(config) if not is_public(text, providers)]
        try:
            values = self._values_of(name, secret) if secret else []
        except ConfigException as error:
            text = f"Dead letters are not shown, for this server cannot hide the values of the config's variables: {error.message}"
            raise BadRequestException(text) from error
        return {value for key, value in config.items() if visible.get(key) != value} | config_secrets(config) | set(values)


def has_context_headers(config: Mapping[str, str]) -> bool:
    """Whether the sink's dead-letter records name the topic on which they failed, the connector and the error."""
    return config.get(CONTEXT_HEADERS, "").strip().lower() == "true"


def is_of(name: str, record: LogRecord, *, without_headers: bool = True) -> bool:
    """Whether connector ``name`` wrote the record, according to the last header that names a connector. A record without context headers
    counts if ``without_headers`` is true."""
    writers = [value for header, value in record.headers if header == CONNECTOR_HEADER]
    return writers[-1] == name.encode("utf-8", "replace") if writers else without_headers


def row_of(record: LogRecord, mask: Mask, part: Part = Part()) -> Row:
    """The record with the context headers of its failure as ``errors``. If there are several, the last ones apply, because a second failure
    appends its own headers. Of the other headers, the first are shown."""
    errors = [(name.removeprefix(PREFIX), value) for name, value in record.headers if name.startswith(PREFIX)]
    others = [(name, value) for name, value in record.headers if not name.startswith(PREFIX)]
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _text(record.key, mask, part.text),
        "value": _text(record.value, mask, part.text),
        "errors": {cut(mask(name), part.name): _text(value, mask, part.text) for name, value in errors[-part.headers :]},
        "headers": {cut(mask(name), part.name): _text(value, mask, part.text) for name, value in others[: part.headers]},
    }


def is_shown_whole(record: LogRecord, mask: Mask, part: Part = Part()) -> bool:
    """Whether ``row_of`` has the complete key and value as text, with nothing hidden or truncated. Only then can users edit them."""
    return all(data is None or _is_plain(data, _text(data, mask, part.text)) for data in (record.key, record.value))


def _is_plain(data: bytes, shown: str | None) -> bool:
    return shown is not None and shown.encode("utf-8", "surrogatepass") == data


def _text(data: bytes | None, mask: Mask, longest: int) -> str | None:
    """The bytes as text if they are UTF-8, else in hexadecimal. Secrets are hidden before the text is truncated, because a part of a secret
    is not recognised."""
    return None if data is None else cut(mask.text(data, longest // 2), longest)
