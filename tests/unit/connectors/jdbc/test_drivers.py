"""A database whose packages are missing is refused by the name of the extra, at validation and where it is opened."""

import sys

import pytest

from airflow_provider_connect.connectors.jdbc.database import database
from airflow_provider_connect.connectors.jdbc.database.database import missing_driver
from airflow_provider_connect.connectors.jdbc.database.database_url import parse_url
from airflow_provider_connect.connectors.jdbc.sink.connector import JdbcSinkConnector
from airflow_provider_connect.connectors.jdbc.source.connector import JdbcSourceConnector
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED, NOTHING_ALLOWED, AllowedPaths

CASES = [
    ("postgresql://db/shop", "adbc_driver_manager, adbc_driver_postgresql, nanoarrow", "'airflow-provider-connect[jdbc]'"),
    ("jdbc:sqlite:shop.db", "adbc_driver_sqlite", "'airflow-provider-connect[jdbc]'"),
    ("jdbc:mysql://db/shop", "pymysql", "'airflow-provider-connect[mysql]'"),
    ("jdbc:mariadb://db/shop", "sqlalchemy, pymysql", "'airflow-provider-connect[mysql]'"),
    ("jdbc:sqlserver://db:1433;databaseName=shop", "pymssql", "'airflow-provider-connect[mssql]'"),
    ("jdbc:oracle:thin:@db:1521/shop", "oracledb", "'airflow-provider-connect[oracle]'"),
]


@pytest.mark.parametrize(("url", "missing", "packages"), CASES)
def test_what_is_missing_is_named_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, url: str, missing: str, packages: str
) -> None:
    for module in missing.split(", "):
        monkeypatch.setitem(sys.modules, module, None)
    reason = missing_driver(parse_url(url))
    assert reason is not None
    assert f"not installed here: {missing}. Run: pip install {packages} (" in reason


def test_a_driver_of_the_users_choice_is_left_to_sqlalchemy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymysql", None)
    assert missing_driver(parse_url("mysql+mysqldb://db/shop")) is None


@pytest.mark.parametrize("connector", [JdbcSourceConnector, JdbcSinkConnector])
@pytest.mark.parametrize("allowed", [ALL_ALLOWED, NOTHING_ALLOWED])
@pytest.mark.parametrize("product", ["hive2", "vertica", "snowflake", "redshift", "clickhouse", "teradata", "db2", "sybase"])
def test_a_database_without_dialect_is_refused_with_the_next_step(
    connector: type[JdbcSourceConnector] | type[JdbcSinkConnector], allowed: AllowedPaths, product: str
) -> None:
    made = connector()
    made.allowed_paths = allowed
    (error,) = _errors(made, {"connection.url": f"jdbc:{product}://db:1/shop", "topic.prefix": "shop-", "topics": "t"})
    assert f"There is no dialect for {product} here" in error
    assert "airflow connect plugins install confluentinc-kafka-connect-jdbc-VERSION.zip, copy the driver's jar (" in error
    assert "Oracle and SQL Server. " in error


@pytest.mark.parametrize("connector", [JdbcSourceConnector, JdbcSinkConnector])
def test_validation_names_the_extra_on_the_url(
    monkeypatch: pytest.MonkeyPatch, connector: type[JdbcSourceConnector] | type[JdbcSinkConnector]
) -> None:
    config = {"connection.url": "jdbc:postgresql://db/shop", "topic.prefix": "shop-", "topics": "t"}
    assert _errors(connector(), config) == []
    for module in ("adbc_driver_manager", "adbc_driver_postgresql"):
        monkeypatch.setitem(sys.modules, module, None)
    (error,) = _errors(connector(), config)
    assert "pip install 'airflow-provider-connect[jdbc]'" in error
    assert error.startswith("Invalid value postgresql:… for configuration connection.url: ")


def _errors(connector: JdbcSourceConnector | JdbcSinkConnector, config: dict[str, str]) -> list[str]:
    return [error for value in connector.validate(config) if value.name == "connection.url" for error in value.errors]


def test_so_does_opening_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymysql", None)
    with pytest.raises(ConfigException, match=r"pip install 'airflow-provider-connect\[mysql\]'"):
        database.open_database(parse_url("jdbc:mysql://db/shop"))
