"""### Topics to tables of a database

The records of `example-orders` and `example-people` become rows of the tables `orders` and `people`. Rows are inserted or updated by their
`id`, exactly once. The records' schema determines the tables' columns. `example-jdbc-source` fills the topics. Any JSON records with a
schema are suitable.

`CONNECT_EXAMPLE_JDBC_SINK_URL` names the database, by default the SQLite file `warehouse.db` in the directory `CONNECT_DEMO_DIR`. To use an
Airflow Connection, write `"connection.url": "${airflow:warehouse:uri}"`. Trigger the DAG yourself.
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
