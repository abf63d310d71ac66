"""``airflow connect dlq get``: the last dead-letter records of a sink, with the headers that describe each failure.

Reads from the brokers of this host's worker settings. Prints only the connector's own records, because other connectors may use the same
topic. Prints only a part of each record.
"""

import sys
from datetime import datetime
from typing import Any, Final

from airflow_provider_connect.cli.configs import secrets_of
from airflow_provider_connect.cli.connection import Verbs, connect_command
from airflow_provider_connect.cli.printing import print_rows, visible
from airflow_provider_connect.errors import BadRequestException, first_line
from airflow_provider_connect.hooks.airflow_settings import worker_settings
from airflow_provider_connect.hooks.connect import ConnectHook
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.dead_letters import Row, dead_letter_topic, is_of, row_of
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.stores.last_records import MOST_OFFSETS, TIMEOUT_SECONDS, RecordSearch

MOST_RECORDS: Final = 1000


@connect_command
def dead_letters(arguments: Any, verbs: Verbs) -> None:
    """Print the records, the newest last. Secrets of the connector's config are hidden. After a timeout, prints the records that were read
    and exits with code 1."""
    if not 1 <= arguments.limit <= MOST_RECORDS:
        raise BadRequestException(f"--limit is a number from 1 to {MOST_RECORDS}, not {arguments.limit}")
    settings = _settings(verbs)
    config = verbs.connector_config(arguments.name)
    topic = dead_letter_topic(arguments.name, config, settings)
    mask = Mask(secrets_of(verbs, arguments.name, config, settings))
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


def line_of(row: Row) -> Row:
    """The row of a table."""
    errors = row["errors"]
    return {
        "when": _when(row["timestamp"]),
        "offset": f"{row['partition']}:{row['offset']}",
        "task": errors.get("task.id"),
        "from": f"{errors['topic']}:{errors.get('partition')}:{errors.get('offset')}" if "topic" in errors else None,
        "stage": errors.get("stage"),
        "error": first_line(errors.get("exception.message") or "")[:200] or None,
        "value": (row["value"] or "")[:200] or None,
    }


def _when(timestamp: int) -> str | None:
    """The time, or the number itself if it is out of range, because producers may write any number."""
    try:
        at = datetime.fromtimestamp(timestamp / 1000).astimezone()
    except (ValueError, OverflowError, OSError):
        return str(timestamp)
    return at.isoformat(sep=" ", timespec="seconds") if timestamp >= 0 else None
