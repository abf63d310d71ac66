"""Runs with a registry: a column added in PostgreSQL comes by Avro or Protobuf to a table; a registry that is away; broken records."""

from __future__ import annotations

import dataclasses
from contextlib import closing
from datetime import UTC

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient

from airflow_provider_connect.converters.registry.avro_converter import AvroConverter
from airflow_provider_connect.data.schema import STRING_SCHEMA
from airflow_provider_connect.dev.postgres_server import PostgresServer
from airflow_provider_connect.runtime.model.run import RunState
from tests.example_dags import configs_of
from tests.integration.lake.tables import catalog_of, table_of
from tests.integration.registry.conftest import configured
from tests.integration.worker.conftest import environment  # noqa: F401 - a fixture
from tests.integration.worker.environment import RunEnvironment, make_topic
from tests.integration.worker.test_jdbc_sink import Target
from tests.registry_server import RegistryServer


@pytest.mark.parametrize("kind", ["avro", "protobuf"])
def test_an_added_column_comes_from_postgresql_by_a_registrys_format_to_tables_and_files(
    environment: RunEnvironment,  # noqa: F811
    registry: RegistryServer,
    postgres: PostgresServer,
    unique: str,
    *,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The example, and beside its sink one for Parquet files and one for an Iceberg table. Between the runs only rows and columns come."""
    name = unique[-14:].replace("-", "_").lower()
    with closing(Target(postgres, f"shop_{name}")) as shop, closing(Target(postgres, f"house_{name}")) as house:
        monkeypatch.setenv("CONNECT_EXAMPLE_REGISTRY_URL", registry.url)
        monkeypatch.setenv("CONNECT_EXAMPLE_JDBC_URL", shop.url)
        monkeypatch.setenv("CONNECT_EXAMPLE_JDBC_SINK_URL", house.url)
        configs = configs_of(monkeypatch, f"example_{kind}.py")
        configs[f"example-{kind}-source"] |= {"topic.prefix": f"{kind}-{name}-", "schema.pattern": shop.name}
        configs[f"example-{kind}-sink"] |= {"topics.regex": f"{kind}-{name}-.*", "table.name.pattern": f"{kind}-{name}-(.*)"}
        converter = {key: value for key, value in configs[f"example-{kind}-sink"].items() if "converter" in key}
        files = {"connector.class": "FileSystemSink", "url": str(environment.folder), "format": "parquet"}
        lake = {"connector.class": "IcebergSink", "iceberg.tables": "shop.orders", "iceberg.tables.evolve-schema-enabled": "true"}
        lake |= {"iceberg.tables.auto-create-enabled": "true", **catalog_of(environment.folder)}
        for connector, config in (("files", files), ("lake", lake)):
            configs[connector] = {"name": connector, "topics": f"{kind}-{name}-orders", **converter, **config}

        def run() -> None:
            for connector, config in configs.items():
                result = dataclasses.replace(environment, connector=connector).run(config)
                assert (result.state, result.error) == (RunState.DONE, None)

        shop.do("CREATE TABLE orders (id SERIAL PRIMARY KEY, what TEXT, price NUMERIC(10, 2), at TIMESTAMP NOT NULL)")
        shop.do("INSERT INTO orders (what, price, at) VALUES ('tea', 1.20, '2024-01-01 12:00:00.5'), (NULL, NULL, '2024-01-02')")
        run()
        shop.do("ALTER TABLE orders ADD amount BIGINT")
        shop.do("INSERT INTO orders (what, price, at, amount) VALUES ('cups', 9.99, '2024-01-03', 7)")
        run()
        columns = "id, what, price, at, amount"
        rows = shop.do(f"SELECT {columns} FROM orders ORDER BY id")
        assert house.do(f"SELECT {columns} FROM orders ORDER BY id") == rows
        assert [row[4] for row in rows] == [None, None, 7]
        parts = [pq.read_table(path, partitioning=None) for path in environment.folder.rglob(f"{kind}-*.parquet")]
        for found in (pa.concat_tables(parts, promote_options="default"), table_of(environment.folder, "shop.orders").scan().to_arrow()):
            values = found.sort_by("id").select(columns.split(", ")).to_pylist()
            assert [(*row.values(),) for row in values] == [(*row[:3], row[3].replace(tzinfo=UTC), row[4]) for row in rows]
    assert SchemaRegistryClient(registry.client_settings).get_versions(f"{kind}-{name}-orders-value") == [1, 2]


def test_nothing_is_lost_while_the_registry_is_away_or_among_broken_records(
    environment: RunEnvironment,  # noqa: F811
    registry: RegistryServer,
    unique: str,
    free_port: int,
) -> None:
    topic, count = make_topic(environment.bootstrap, f"avro-{unique}"), 300
    converter = configured(AvroConverter, registry.url)
    good = converter.from_connect_column(topic, STRING_SCHEMA, pa.array([f"line {n}" for n in range(count)])).to_pylist()
    unknown = b"\0" + (99999999).to_bytes(4, "big") + b"x"
    producer = Producer({"bootstrap.servers": environment.bootstrap})
    for number, record in enumerate(good):
        producer.produce(topic, record)
        if number % 100 == 50:
            for broken in (b"text", unknown, record + b"\0"):
                producer.produce(topic, broken)
    producer.flush()
    settings = {
        "value.converter": "AvroConverter",
        "value.converter.schema.registry.url": f"http://127.0.0.1:{free_port}",
        "value.converter.max.retries": "0",
        "errors.tolerance": "all",
    }
    away = environment.run(environment.file_sink(topic) | settings)
    assert away.state is RunState.FAILED
    assert not environment.file.exists() or environment.lines() == []
    environment.put_config(environment.file_sink(topic) | settings | {"value.converter.schema.registry.url": registry.url})
    done = environment.run()
    assert (done.state, done.error) == (RunState.DONE, None)
    assert environment.lines() == [f"line {n}" for n in range(count)]
