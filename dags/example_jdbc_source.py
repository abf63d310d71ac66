"""### New and changed rows of a database to topics

Every table of the database becomes a topic `example-«table»`: rows that are new or were changed since the last run, exactly once, as
JSON. A table that is added is read by the next run; a run with nothing new starts no Spark.

The database is that of `CONNECT_EXAMPLE_JDBC_URL`, by default a SQLite file `shop.db` in the directory of `CONNECT_DEMO_DIR`. With an
Airflow Connection write `"connection.url": "${airflow:shop:uri}"`. Triggered by hand, since the database has to be there first:

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
