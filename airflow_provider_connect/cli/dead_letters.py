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
from airflow_provider_connect.config.config_providers import ConfigProvider, airflow_values, variable_values, variables
from airflow_provider_connect.config.masking import Mask, config_secrets
from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.errors import BadRequestException, ConnectException
from airflow_provider_connect.herder.dead_letters import Row, dead_letter_topic, is_of, row_of
from airflow_provider_connect.herder.herder import Herder
from airflow_provider_connect.hooks.airflow_settings import airflow_secrets, worker_settings
from airflow_provider_connect.hooks.connect import ConnectHook
from airflow_provider_connect.model.config_limits import cut
from airflow_provider_connect.stores.last_records import MOST_OFFSETS, TIMEOUT_SECONDS, RecordSearch

MOST_RECORDS: Final = 1000


@speaks_to_connect
def dead_letters(arguments: Any, verbs: Verbs) -> None:
    """The newest last. Secrets of the connector's config are hidden in every text. The exit code is 1 where the time was over before all
    was read: what was read by then is printed."""
    if not 1 <= arguments.limit <= MOST_RECORDS:
        raise BadRequestException(f"--limit is a number from 1 to {MOST_RECORDS}, not {arguments.limit}")
    settings = _settings(verbs)
    config = verbs.connector_config(arguments.name)
    topic = dead_letter_topic(arguments.name, config, settings)
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
