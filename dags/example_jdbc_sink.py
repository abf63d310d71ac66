"""### Topics to tables of a database

Each topic of `example-orders` and `example-people` becomes a table `orders` and `people`: made and widened as the records' schema asks,
rows inserted or changed by their `id`, exactly once. The topics are those that `example-jdbc-source` fills; any records of JSON with a
schema will do.

The database is that of `CONNECT_EXAMPLE_JDBC_SINK_URL`, by default a SQLite file `warehouse.db` in the directory of `CONNECT_DEMO_DIR`.
With an Airflow Connection write `"connection.url": "${airflow:warehouse:uri}"`. Triggered by hand.
"""

import os

from airflow_provider_connect import ConnectorDag

DIRECTORY = os.environ.get("CONNECT_DEMO_DIR", "/tmp/connect-demo")
JSON = "org.apache.kafka.connect.json.JsonConverter"

ConnectorDag(
    "example-jdbc-sink",
    {
        "connector.class": "JdbcSink",
        "tasks.max": "1",
        "topics.regex": "example-(orders|people)",
        "connection.url": os.environ.get("CONNECT_EXAMPLE_JDBC_SINK_URL", f"jdbc:sqlite:{DIRECTORY}/warehouse.db"),
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
        "auto.create": "true",
        "auto.evolve": "true",
        "table.name.pattern": "example-(.*)",
        "value.converter": JSON,
        "value.converter.schemas.enable": "true",
        "airflow.tags": "demo",
        "airflow.description": "Topics to tables of a database",
    },
    schedule=None,
    doc_md=__doc__,
)
