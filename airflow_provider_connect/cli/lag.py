"""``airflow connect lag``: the lags of sinks, by partition."""

import sys
from typing import Any

from airflow_provider_connect.cli.connection import Verbs, connect_command
from airflow_provider_connect.cli.printing import print_rows, print_value, visible
from airflow_provider_connect.client.conditions import lag_is_unknown
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.hooks.airflow_settings import worker_settings
from airflow_provider_connect.hooks.connect import ConnectHook
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.page import total_lag
from airflow_provider_connect.runtime.model.views import ConnectorInfo
from airflow_provider_connect.runtime.stores.admin_connection import server_info
from airflow_provider_connect.runtime.stores.sink_lag import sink_lag

Lag = dict[TopicPartition, int | None]


@connect_command
def lag(arguments: Any, verbs: Verbs) -> None:
    """Print the lags of the named sinks, or of all sinks: a row per partition, and a row for the sum. Sinks with an unknown lag are named
    on standard error, and the exit code is 1."""
    names, found, is_unknown = arguments.names or _sinks(verbs), dict[str, Lag](), False
    for name in dict.fromkeys(names):
        try:
            found[name] = _lag(verbs, name)
        except ConnectException as error:
            if len(names) == 1:
                raise
            print(visible(f"{name}: {error.message}"), file=sys.stderr)
            is_unknown = True
            continue
        if None in found[name].values():
            print(visible(f"The lag of {name} {lag_is_unknown(found[name])}"), file=sys.stderr)
            is_unknown = True
    _print(found, arguments.output)
    if is_unknown:
        sys.exit(1)


def _sinks(verbs: Verbs) -> list[str]:
    infos = {name: views.get("info") for name, views in verbs.expanded(info=True, status=False).items()}
    return sorted(name for name, info in infos.items() if isinstance(info, ConnectorInfo) and info.type == "sink")


def _lag(verbs: Verbs, name: str) -> Lag:
    """With ``--url``, asks the brokers of this host's worker settings. These must be the brokers of the server's cluster."""
    if isinstance(verbs, ConnectHook):
        return verbs.sink_lag(name)
    settings = verbs.settings if isinstance(verbs, Herder) else worker_settings()
    server = server_info(settings) if isinstance(verbs, Herder) else verbs.server_info()
    return sink_lag(settings, server, verbs.connector_config(name), verbs.offsets(name))


def _print(found: dict[str, Lag], output: str) -> None:
    partitions = {
        name: [{"topic": at.topic, "partition": at.partition, "lag": records} for at, records in sorted(lags.items())]
        for name, lags in found.items()
    }
    if output != "table":
        print_value(
            [{"name": name, "lag": total_lag(found[name].values()), "partitions": rows} for name, rows in partitions.items()], output
        )
        return
    rows: list[dict[str, object]] = []
    for name, each in partitions.items():
        rows += [{"name": name, **row} for row in each]
        rows.append({"name": name, "topic": "all", "partition": None, "lag": total_lag(found[name].values())})
    print_rows(rows, output)
