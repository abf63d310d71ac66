"""### A topic to any format that Spark writes

Spark appends the records of `example-orders` to Parquet files, at least once. `example-jdbc-source` fills the topic. Any JSON records with
a schema are suitable.

The files are in the folder `spark-orders` in the directory `CONNECT_DEMO_DIR`. The worker setting `connectors.spark.formats` must have
`parquet`. Trigger the DAG yourself.
"""

import os

from airflow_provider_connect import ConnectorDag

DIRECTORY = os.environ.get("CONNECT_DEMO_DIR", "/tmp/connect-demo")

ConnectorDag(
    "example-spark-sink",
    {
        "connector.class": "SparkSink",
        "topics": "example-orders",
        "format": "parquet",
        "path": f"{DIRECTORY}/spark-orders",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true",
        "airflow.tags": "demo",
        "airflow.description": "A topic to whatever Spark writes",
    },
    schedule=None,
    doc_md=__doc__,
)
