"""``airflow connect dlq``: the last dead-letter records of a sink, with the headers that describe each failure.

Read from the brokers of this host's worker settings. Of the topic only the records of this connector are shown, and no more than a part of
each: its config names the topic, and other connectors may use the same.
"""

import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from airflow_provider_connect.cli.configs import shown
from airflow_provider_connect.cli.connection import Verbs, speaks_to_connect
from airflow_provider_connect.cli.printing import print_rows, visible
from airflow_provider_connect.config.client_settings import ClientKind, connector_overrides
from airflow_provider_connect.config.config_providers import ConfigProvider, airflow_values, variable_values, variables
from airflow_provider_connect.config.masking import Mask, config_secrets
from airflow_provider_connect.config.worker_settings import KAFKAS_OWN, WorkerSettings
from airflow_provider_connect.errors import BadRequestException, ConnectException
from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.hooks.airflow_settings import airflow_secrets, worker_settings
from airflow_provider_connect.hooks.connect import ConnectHook
from airflow_provider_connect.model.config_limits import cut
from airflow_provider_connect.plugins.validation.reliability import DEAD_LETTERS
from airflow_provider_connect.stores.last_records import MOST_OFFSETS, TIMEOUT_SECONDS, RecordSearch
from airflow_provider_connect.stores.log_consumer import LogRecord
from airflow_provider_connect.stores.offset_location import is_elsewhere

PREFIX: Final = "__connect.errors."
MOST_RECORDS: Final = 1000
LONGEST_TEXT: Final = 4000
"""Characters of a key, value or header that are shown."""
LONGEST_NAME: Final = 200
"""Characters of a header's name."""
MOST_HEADERS: Final = 100
CONNECTOR_HEADER: Final = f"{PREFIX}connector.name"

Row = dict[str, Any]  # Any: JSON


@speaks_to_connect
def dead_letters(arguments: Any, verbs: Verbs) -> None:
    """The newest last. Secrets of the connector's config are hidden in every text. The exit code is 1 where the time was over before all
    was read: what was read by then is printed."""
    if not 1 <= arguments.limit <= MOST_RECORDS:
        raise BadRequestException(f"--limit is a number from 1 to {MOST_RECORDS}, not {arguments.limit}")
    settings = _settings(verbs)
    config = verbs.connector_config(arguments.name)
    topic = _topic(arguments.name, config, settings)
    mask = Mask(_secrets(verbs, arguments.name, config, settings))
    found = RecordSearch(arguments.limit, lambda record: is_of(arguments.name, record), lambda record: row_of(record, mask)).run(
        settings, topic
    )
    print_rows(found.kept if arguments.output != "table" else [line_of(row) for row in found.kept], arguments.output)
    if not found.is_whole:
        sys.exit(f"Topic {topic} was not read to the end within {TIMEOUT_SECONDS:g} s: older records of the connector may be missing")
    if not found.kept and arguments.output == "table":
        where = f"among the last {MOST_OFFSETS} offsets of a partition"
        print(visible(f"Topic {topic} has no dead-letter records of connector {arguments.name} {where}"))


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
    visible_config = shown(verbs, config)
    hidden = {value for key, value in config.items() if visible_config.get(key) != value}
    providers = settings.config_providers(name)
    values = values_of_variables(config, providers)
    unknown = [text for text in variables(config) if text not in values and text[2:].partition(":")[0] in providers]
    if unknown:
        named = cut(", ".join(unknown))
        print(visible(f"Variables that this host does not resolve, so that their values are not hidden: {named}"), file=sys.stderr)
    return hidden | config_secrets(config) | set(values.values())


def values_of_variables(config: Mapping[str, str], providers: Mapping[str, ConfigProvider]) -> dict[str, str]:
    """What the variables of ``config`` stand for, Airflow's too, as far as its connector may have them. Each is looked up by itself: one
    without a value here leaves those of the others hidden."""
    found: dict[str, str] = {}
    for variable in variables(config):
        with suppress(ConnectException):
            single = {"variable": variable}
            found |= variable_values(single, providers, airflow_values(single, providers, airflow_secrets))
    return found


def is_of(name: str, record: LogRecord) -> bool:
    """Whether the record is of connector ``name``, by its last header of that kind. One without context headers may be of any."""
    writers = [value for header, value in record.headers if header == CONNECTOR_HEADER]
    return not writers or writers[-1] == name.encode("utf-8", "replace")


def row_of(record: LogRecord, mask: Mask) -> Row:
    """The record with the context headers of its failure as ``errors``, the last ``MOST_HEADERS`` of them: a record that has failed twice
    has the newer ones behind. Of its own headers, the first ``MOST_HEADERS``."""
    errors = [(name.removeprefix(PREFIX), value) for name, value in record.headers if name.startswith(PREFIX)]
    others = [(name, value) for name, value in record.headers if not name.startswith(PREFIX)]
    return {
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": _text(record.key, mask),
        "value": _text(record.value, mask),
        "errors": {cut(mask(name), LONGEST_NAME): _text(value, mask) for name, value in errors[-MOST_HEADERS:]},
        "headers": {cut(mask(name), LONGEST_NAME): _text(value, mask) for name, value in others[:MOST_HEADERS]},
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
    return cut(text, LONGEST_TEXT)


def line_of(row: Row) -> Row:
    """The row of a table."""
    errors = row["errors"]
    return {
        "when": _when(row["timestamp"]),
        "offset": f"{row['partition']}:{row['offset']}",
        "task": errors.get("task.id"),
        "from": f"{errors['topic']}:{errors.get('partition')}:{errors.get('offset')}" if "topic" in errors else None,
        "stage": errors.get("stage"),
        "error": (errors.get("exception.message") or "").partition("\n")[0][:200] or None,
        "value": (row["value"] or "")[:200] or None,
    }


def _when(timestamp: int) -> str | None:
    """The number itself where no calendar has it: any producer may write any."""
    try:
        at = datetime.fromtimestamp(timestamp / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return str(timestamp)
    return at.isoformat(sep=" ", timespec="seconds") if timestamp >= 0 else None
