"""### New rows of a database to Protobuf topics, and from there to tables

`example-protobuf-source` writes each table of a database to a topic `protobuf-«table»`. `example-protobuf-sink` writes these topics to
tables of another database. Records are Protobuf, with schemas in a schema registry. With `optional.for.nullables` null stays null, even in
columns of numbers and texts. If a column is added to a table, the next run writes a new version of the topic's schema.

`CONNECT_EXAMPLE_REGISTRY_URL` names the registry. `CONNECT_EXAMPLE_JDBC_URL` and `CONNECT_EXAMPLE_JDBC_SINK_URL` name the databases.
Trigger the DAGs yourself, first the source.
"""

import os

from airflow_provider_connect import ConnectorDag

DIRECTORY = os.environ.get("CONNECT_DEMO_DIR", "/tmp/connect-demo")
PROTOBUF = {
    "value.converter": "io.confluent.connect.protobuf.ProtobufConverter",
    "value.converter.schema.registry.url": os.environ.get("CONNECT_EXAMPLE_REGISTRY_URL", "http://localhost:8081"),
    "value.converter.optional.for.nullables": "true",
    "airflow.tags": "demo",
}

ConnectorDag(
    "example-protobuf-source",
    {
        "connector.class": "JdbcSource",
        "connection.url": os.environ.get("CONNECT_EXAMPLE_JDBC_URL", f"jdbc:sqlite:{DIRECTORY}/shop.db"),
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "topic.prefix": "protobuf-",
        "airflow.description": "New rows of a database to Protobuf topics",
        **PROTOBUF,
    },
    schedule=None,
    doc_md=__doc__,
)

ConnectorDag(
    "example-protobuf-sink",
    {
        "connector.class": "JdbcSink",
        "topics.regex": "protobuf-.*",
        "connection.url": os.environ.get("CONNECT_EXAMPLE_JDBC_SINK_URL", f"jdbc:sqlite:{DIRECTORY}/warehouse.db"),
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
        "auto.create": "true",
        "auto.evolve": "true",
        "table.name.pattern": "protobuf-(.*)",
        "airflow.description": "Protobuf topics to tables of a database",
        **PROTOBUF,
    },
    schedule=None,
    doc_md=__doc__,
)
