"""### A topic to a Delta table

The records of `example-orders` become rows of a Delta table: one row for each `id`, exactly once. The records' schema determines the
table's columns. `example-jdbc-source` fills the topic. Any JSON records with a schema and a field `id` are suitable.

The table is the folder `delta-orders` in the directory `CONNECT_DEMO_DIR`. Trigger the DAG yourself.
"""

import os

from airflow_provider_connect import ConnectorDag

DIRECTORY = os.environ.get("CONNECT_DEMO_DIR", "/tmp/connect-demo")

ConnectorDag(
    "example-delta-sink",
    {
        "connector.class": "DeltaSink",
        "tasks.max": "1",
        "topics": "example-orders",
        "delta.table.path": f"{DIRECTORY}/delta-orders",
        "delta.table.auto-create-enabled": "true",
        "delta.table.evolve-schema-enabled": "true",
        "delta.table.upsert-mode-enabled": "true",
        "delta.table.id-columns": "id",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true",
        "airflow.tags": "demo",
        "airflow.description": "A topic to a Delta table",
    },
    schedule=None,
    doc_md=__doc__,
)
