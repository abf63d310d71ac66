"""Tables under OpenLineage's names: of every way to write a URL, and never with what logs in."""

import pytest

from airflow_provider_connect.connectors.jdbc.catalog.column import Column, ColumnKind, TableName
from airflow_provider_connect.connectors.jdbc.database.database_url import parse_url
from airflow_provider_connect.connectors.jdbc.database.datasets import table_dataset
from airflow_provider_connect.sdk.datasets import Dataset

PG = TableName("orders", "public", "shop")


@pytest.mark.parametrize(
    ("url", "table", "namespace", "name"),
    [
        ("jdbc:postgresql://db:6432/shop?user=canary&password=canary", PG, "postgres://db:6432", "shop.public.orders"),
        ("postgres://canary:canary@db/shop", PG, "postgres://db:5432", "shop.public.orders"),
        ("jdbc:postgresql://db/shop", TableName("orders"), "postgres://db:5432", "shop.public.orders"),
        ("jdbc:postgresql://db/shop?currentSchema=eu", TableName("orders"), "postgres://db:5432", "shop.eu.orders"),
        ("jdbc:postgresql://a:1,b:2/shop", PG, "postgres://a:1", "shop.public.orders"),
        ("jdbc:postgresql://a,b:2/shop", PG, "postgres://a:5432", "shop.public.orders"),
        ("jdbc:postgresql://[::1]/shop", PG, "postgres://[::1]:5432", "shop.public.orders"),
        ("jdbc:postgresql:shop", PG, "postgres://localhost:5432", "shop.public.orders"),
        ("postgresql:///shop?host=/var/run/x&port=6000", PG, "postgres://localhost:6000", "shop.public.orders"),
        ("mysql+pymysql://canary:canary@db/shop", TableName("orders"), "mysql://db:3306", "shop.orders"),
        ("jdbc:mariadb://db:3307/shop", TableName("orders", None, "other"), "mysql://db:3307", "other.orders"),
        ("mssql://db:1433/shop", TableName("orders", "dbo"), "mssql://db:1433", "shop.dbo.orders"),
        ("jdbc:sqlite:/data/shop.db?mode=ro", TableName("orders"), "sqlite:///data/shop.db", "orders"),
    ],
)
def test_a_table_has_its_servers_name_and_its_own(url: str, table: TableName, namespace: str, name: str) -> None:
    columns = [Column("id", ColumnKind.INT64, "bigint"), Column("tea", ColumnKind.STRING, "text")]
    found = table_dataset(parse_url(url).with_credentials("canary", "canary"), table, columns)
    assert found == Dataset(namespace, name, {"id": "bigint", "tea": "text"})
