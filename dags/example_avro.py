"""### New rows of a database to Avro topics, and from there to tables

`example-avro-source` writes each table of a database to a topic `avro-«table»`, `example-avro-sink` writes these topics to tables of
another database. Records are Avro; their schemas stand in a schema registry. A column that is added to a table becomes a new version of
the topic's schema with the next run, and a column of the other table with the next run after it.

The registry is that of `CONNECT_EXAMPLE_REGISTRY_URL`, the databases those of `CONNECT_EXAMPLE_JDBC_URL` and
`CONNECT_EXAMPLE_JDBC_SINK_URL`. Triggered by hand, first the source.
"""

import os

from airflow_provider_connect import ConnectorDag

DIRECTORY = os.environ.get("CONNECT_DEMO_DIR", "/tmp/connect-demo")
AVRO = {
    "value.converter": "io.confluent.connect.avro.AvroConverter",
    "value.converter.schema.registry.url": os.environ.get("CONNECT_EXAMPLE_REGISTRY_URL", "http://localhost:8081"),
    "airflow.tags": "demo",
}

ConnectorDag(
    "example-avro-source",
    {
        "connector.class": "JdbcSource",
        "connection.url": os.environ.get("CONNECT_EXAMPLE_JDBC_URL", f"jdbc:sqlite:{DIRECTORY}/shop.db"),
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "topic.prefix": "avro-",
        "airflow.description": "New rows of a database to Avro topics",
        **AVRO,
    },
    schedule=None,
    doc_md=__doc__,
)

ConnectorDag(
    "example-avro-sink",
    {
        "connector.class": "JdbcSink",
        "topics.regex": "avro-.*",
        "connection.url": os.environ.get("CONNECT_EXAMPLE_JDBC_SINK_URL", f"jdbc:sqlite:{DIRECTORY}/warehouse.db"),
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
        "auto.create": "true",
        "auto.evolve": "true",
        "table.name.pattern": "avro-(.*)",
        "airflow.description": "Avro topics to tables of a database",
        **AVRO,
    },
    schedule=None,
    doc_md=__doc__,
)
