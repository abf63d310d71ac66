"""### New and changed rows of a database to topics

Rows that are new or have changed since the last run become JSON records, exactly once. Every table of the database has a topic
`example-«table»`. The next run also reads a new table. A run without new rows does not start Spark.

`CONNECT_EXAMPLE_JDBC_URL` names the database, by default the SQLite file `shop.db` in the directory `CONNECT_DEMO_DIR`. To use an Airflow
Connection, write `"connection.url": "${airflow:shop:uri}"`. Create the database first, then trigger the DAG yourself:

    sqlite3 /tmp/connect-demo/shop.db "CREATE TABLE orders (id INTEGER PRIMARY KEY, what TEXT, changed_at TIMESTAMP NOT NULL)"
"""

import os

from airflow_provider_connect import ConnectorDag

DIRECTORY = os.environ.get("CONNECT_DEMO_DIR", "/tmp/connect-demo")
JSON = "org.apache.kafka.connect.json.JsonConverter"

ConnectorDag(
    "example-jdbc-source",
    {
        "connector.class": "JdbcSource",
        "tasks.max": "1",
        "connection.url": os.environ.get("CONNECT_EXAMPLE_JDBC_URL", f"jdbc:sqlite:{DIRECTORY}/shop.db"),
        "mode": "timestamp+incrementing",
        "incrementing.column.name": "id",
        "timestamp.column.name": "changed_at",
        "topic.prefix": "example-",
        "value.converter": JSON,
        "value.converter.schemas.enable": "true",
        "airflow.tags": "demo",
        "airflow.description": "New and changed rows of a database to topics",
    },
    schedule=None,
    doc_md=__doc__,
)
