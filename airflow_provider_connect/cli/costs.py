"""``airflow connect cost``: the usage of connectors' runs, and its cost at the worker's prices."""

import sys
from typing import Any

from airflow_provider_connect.cli.connection import Verbs, connect_command
from airflow_provider_connect.cli.printing import print_rows, print_value
from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.runtime.model.cost import ConnectorCosts, Cost, Costs
from airflow_provider_connect.runtime.model.view_json import to_json

_TOTAL = "total"


@connect_command
def cost(arguments: Any, verbs: Verbs) -> None:
    """Print a row per connector and day, or with --runs per run, and the total. JSON and YAML have the whole answer."""
    if arguments.name is not None:
        _print_one(verbs.connector_costs(arguments.name, days=arguments.days), arguments)
    elif arguments.runs:
        raise BadRequestException("--runs prints the runs of one connector: name it")
    else:
        _print_all(verbs.costs(days=arguments.days), arguments)


def _print_all(found: Costs, arguments: Any) -> None:
    rows = [{"connector": each.connector, "day": each.day, **_columns(found, each.cost)} for each in found.days]
    _print(found, [*rows, {"connector": _TOTAL, "day": None, **_columns(found, found.total)}], arguments)


def _print_one(found: ConnectorCosts, arguments: Any) -> None:
    if arguments.runs:
        rows = [{"run": each.run, **_columns(found, each.cost)} for each in found.runs]
        _print(found, [*rows, {"run": _TOTAL, **_columns(found, found.total)}], arguments)
        if not found.is_whole:
            print("The oldest runs have no rows but are in the total: give fewer --days to see them", file=sys.stderr)
    else:
        rows = [{"day": each.day, **_columns(found, each.cost)} for each in found.days]
        _print(found, [*rows, {"day": _TOTAL, **_columns(found, found.total)}], arguments)


def _print(found: Costs | ConnectorCosts, rows: list[dict[str, object]], arguments: Any) -> None:
    if arguments.output == "table":
        print_rows(rows, "table")
    else:
        print_value(to_json(found), arguments.output)


def _columns(found: Costs | ConnectorCosts, cost: Cost) -> dict[str, object]:
    """The columns of one row. Without prices, there is no cost."""
    columns: dict[str, object] = {
        "runs": cost.runs,
        "records": cost.records,
        "bytes": cost.bytes,
        "task_seconds": f"{cost.seconds:.1f}",
        "cpu_seconds": f"{cost.cpu_seconds:.1f}",
    }
    if cost.money is not None:
        columns["cost"] = f"{cost.money:.6f} {found.prices.currency}".rstrip()
    return columns
