"""### A topic to whatever Spark writes

The records of `example-orders` are appended to Parquet files by Spark, at least once. `example-jdbc-source` fills the topic; any records of
JSON with a schema will do.

The files lie in the folder `spark-orders` in the directory of `CONNECT_DEMO_DIR`. The worker setting `connectors.spark.formats` must name
`parquet`. Triggered by hand.
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
