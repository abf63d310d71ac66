"""``airflow connect dlq``: the last dead-letter records of a sink, with the headers that describe each failure.

Read from the brokers of this host's worker settings. Of the topic only the records of this connector are shown, and no more than a part of
each: its config names the topic, and other connectors may use the same.
"""

from contextlib import closing, suppress
from datetime import datetime
from typing import Any, Final

from airflow_provider_connect.cli.configs import shown
from airflow_provider_connect.cli.connection import Verbs, speaks_to_connect
from airflow_provider_connect.cli.printing import print_rows
from airflow_provider_connect.config.client_settings import ClientKind, connector_overrides, internal_client_config
from airflow_provider_connect.config.masking import Mask, config_secrets, secret_values
from airflow_provider_connect.config.worker_settings import KAFKAS_OWN, WorkerSettings
from airflow_provider_connect.errors import BadRequestException, ConnectException, NotFoundException
from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.hooks.airflow_settings import worker_settings
from airflow_provider_connect.hooks.connect import ConnectHook
from airflow_provider_connect.plugins.validation.reliability import DEAD_LETTERS
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.stores.log_consumer import LogConsumer, LogRecord
from airflow_provider_connect.stores.offset_location import is_elsewhere
from airflow_provider_connect.stores.topic_admin import TopicAdmin

PREFIX: Final = "__connect.errors."
MOST_RECORDS: Final = 1000
LONGEST_TEXT: Final = 4000
"""Characters of a key, value or header that are shown."""

Row = dict[str, Any]  # Any: JSON


@speaks_to_connect
def dead_letters(arguments: Any, verbs: Verbs) -> None:
    """The newest last. Secrets of the connector's config are hidden in every text."""
    if not 1 <= arguments.limit <= MOST_RECORDS:
        raise BadRequestException(f"--limit is a number from 1 to {MOST_RECORDS}, not {arguments.limit}")
    settings = _settings(verbs)
    config = verbs.connector_config(arguments.name)
    topic = _topic(arguments.name, config, settings)
    mask = Mask(_secrets(verbs, arguments.name, config, settings))
    rows = [row for row in _last(settings, topic, arguments.limit, mask) if _is_of(arguments.name, row)][-arguments.limit :]
    print_rows(rows if arguments.output != "table" else [_line(row) for row in rows], arguments.output)
    if not rows and arguments.output == "table":
        print(f"Topic {topic} has no dead-letter records of connector {arguments.name} among the last {arguments.limit} of a partition")


def _settings(verbs: Verbs) -> WorkerSettings:
    if isinstance(verbs, Herder):
        return verbs.settings
    return verbs.get_settings() if isinstance(verbs, ConnectHook) else worker_settings()


def _topic(name: str, config: dict[str, str], settings: WorkerSettings) -> str:
    """Raises BadRequestException where there is none, or none that may be shown."""
    topic = config.get(DEAD_LETTERS, "").strip()
    if not topic:
        raise BadRequestException(f"Connector {name} has no dead letter queue: {DEAD_LETTERS} is not set")
    if topic in KAFKAS_OWN | {internal.name for internal in settings.internal_topics}:
        raise BadRequestException(f"{DEAD_LETTERS}={topic} is an internal topic, whose records are not shown")
    if is_elsewhere(settings, connector_overrides(config, ClientKind.PRODUCER)):
        raise BadRequestException(f"The dead letter queue of connector {name} is on another cluster than the worker's")
    return topic


def _secrets(verbs: Verbs, name: str, config: dict[str, str], settings: WorkerSettings) -> set[str]:
    found, visible = config_secrets(config), shown(verbs, config)
    with suppress(ConnectException):  # a variable without a value here; what the config holds itself is hidden all the same
        found |= secret_values(config, settings.config_providers(name), {})
    return found | {value for key, value in config.items() if visible.get(key) != value}


def _last(settings: WorkerSettings, topic: str, count: int, mask: Mask) -> list[Row]:
    """The last ``count`` records of each partition, in the order of their times. Raises NotFoundException."""
    with closing(TopicAdmin(settings)) as admin:
        partitions = [TopicPartition(topic, number) for number in range(admin.partitions([topic]).get(topic, 0))]
        if not partitions:
            raise NotFoundException(f"Topic {topic} does not exist yet: no record has failed")
        begins, ends = admin.beginning_offsets(partitions), admin.end_offsets(partitions)
    starts = {partition: max(begins[partition], ends[partition] - count) for partition in partitions}
    rows: list[Row] = []
    with LogConsumer(internal_client_config(settings, ClientKind.CONSUMER, "dead-letters")) as consumer:
        consumer.read(starts, take=lambda record: rows.append(_row(record, mask)))
    return sorted(rows, key=lambda row: (row["timestamp"], row["partition"], row["offset"]))


def _row(record: LogRecord, mask: Mask) -> Row:
    headers = {mask(name): _text(value, mask) for name, value in record.headers}
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _text(record.key, mask),
        "value": _text(record.value, mask),
        "errors": {name.removeprefix(PREFIX): text for name, text in headers.items() if name.startswith(PREFIX)},
        "headers": {name: text for name, text in headers.items() if not name.startswith(PREFIX)},
    }


def _text(data: bytes | None, mask: Mask) -> str | None:
    """As text where it is UTF-8, else in hexadecimal. Secrets are hidden before it is cut: of a part of one, nothing is recognised."""
    if data is None:
        return None
    hidden = mask.in_bytes(data)
    try:
        text = mask(hidden.decode())
    except UnicodeDecodeError:
        text = f"0x{hidden[: LONGEST_TEXT // 2].hex()}"
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"


def _is_of(name: str, row: Row) -> bool:
    """A record without context headers may be of any connector that uses the topic."""
    return bool(row["errors"].get("connector.name", name) == name)


def _line(row: Row) -> Row:
    errors, at = row["errors"], row["timestamp"]
    return {
        "when": datetime.fromtimestamp(at / 1000).astimezone().isoformat(sep=" ", timespec="seconds") if at >= 0 else None,
        "offset": f"{row['partition']}:{row['offset']}",
        "task": errors.get("task.id"),
        "from": f"{errors['topic']}:{errors.get('partition')}:{errors.get('offset')}" if "topic" in errors else None,
        "stage": errors.get("stage"),
        "error": (errors.get("exception.message") or "").partition("\n")[0][:200] or None,
        "value": (row["value"] or "")[:200] or None,
    }
