"""### A topic to an Iceberg table

The records of `example-orders` become rows of the table `shop.orders`: one row for each `id`, exactly once. The records' schema determines
the table's columns. `example-jdbc-source` fills the topic. Any JSON records with a schema and a field `id` are suitable.

The catalog is a SQLite file, and the table is a folder. Both are in the directory `CONNECT_DEMO_DIR`. In production the catalog is
PostgreSQL or a REST catalog, and the table is in S3, with keys such as `${airflow:lake:password}`. Trigger the DAG yourself.
"""

import os

from airflow_provider_connect import ConnectorDag

DIRECTORY = os.environ.get("CONNECT_DEMO_DIR", "/tmp/connect-demo")

ConnectorDag(
    "example-iceberg-sink",
    {
        "connector.class": "IcebergSink",
        "tasks.max": "1",
        "topics": "example-orders",
        "iceberg.tables": "shop.orders",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.tables.evolve-schema-enabled": "true",
        "iceberg.tables.upsert-mode-enabled": "true",
        "iceberg.tables.default-id-columns": "id",
        "iceberg.catalog.type": "jdbc",
        "iceberg.catalog.uri": f"jdbc:sqlite:{DIRECTORY}/lake.db",
        "iceberg.catalog.warehouse": f"{DIRECTORY}/lake",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true",
        "airflow.tags": "demo",
        "airflow.description": "A topic to an Iceberg table",
    },
    schedule=None,
    doc_md=__doc__,
)
