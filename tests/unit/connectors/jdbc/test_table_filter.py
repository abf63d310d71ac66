"""Which tables the lists of names mean."""

from __future__ import annotations

import pytest

from airflow_provider_connect.connectors.jdbc.catalog.column import TableName
from airflow_provider_connect.connectors.jdbc.catalog.table_filter import TableFilter

TABLES = [
    TableName(*parts) for parts in (("orders", "public"), ("Orders", "other"), ("ITEMS", "public"), ("Log", "public"), ("LOG", "public"))
]


@pytest.mark.parametrize(
    ("include", "exclude", "chosen", "missing"),
    [
        (["orders"], [], ["public.orders"], []),  # letter for letter where a table is so called
        (["ORDERS"], [], ["public.orders", "other.Orders"], []),
        (["PUBLIC.ORDERS"], [], ["public.orders"], []),
        (["items", "orders"], [], ["public.orders", "public.ITEMS"], []),
        (["log"], [], [], ["log"]),  # two are so called
        (["Log"], [], ["public.Log"], []),
        (["nothing"], [], [], ["nothing"]),
        ([], ["items", "LOG", "oRDERS"], ["public.Log"], []),
        ([".*tems"], [], [], []),
        ([".*TEMS"], [], ["public.ITEMS"], []),
    ],
)
def test_names_mean_tables(include: list[str], exclude: list[str], chosen: list[str], missing: list[str]) -> None:
    given = TableFilter.of(include, exclude)
    assert [table.text for table in given.chosen(TABLES)] == chosen
    assert given.missing(TABLES) == missing
