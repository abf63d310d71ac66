"""### New rows of a database to Avro topics, and from there to tables

`example-avro-source` writes each table of a database to a topic `avro-«table»`. `example-avro-sink` writes these topics to tables of
another database. Records are Avro, with schemas in a schema registry. If a column is added to a table, the next run of the source writes a
new version of the topic's schema. The next run of the sink then adds the column to the other table.

`CONNECT_EXAMPLE_REGISTRY_URL` names the registry. `CONNECT_EXAMPLE_JDBC_URL` and `CONNECT_EXAMPLE_JDBC_SINK_URL` name the databases.
Trigger the DAGs yourself, first the source.
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
