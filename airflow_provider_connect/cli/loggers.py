"""``airflow connect loggers list|set``: the log levels of a Connect server, which lives as long as its process."""

from typing import Any

from airflow_provider_connect.cli.connection import speaks_to_server
from airflow_provider_connect.cli.printing import print_rows
from airflow_provider_connect.client.verbs import ConnectVerbs


@speaks_to_server
def list_loggers(arguments: Any, verbs: ConnectVerbs) -> None:
    rows = [{"logger": name, "level": view.level, "last_modified": view.last_modified} for name, view in verbs.loggers().items()]
    print_rows(rows, arguments.output)


@speaks_to_server
def set_level(arguments: Any, verbs: ConnectVerbs) -> None:
    changed = verbs.set_logger_level(arguments.logger, arguments.level, whole_cluster=arguments.cluster)
    print_rows([{"logger": name} for name in ([arguments.logger] if arguments.cluster else changed)], arguments.output)
