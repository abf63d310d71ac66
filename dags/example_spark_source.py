"""### Any format that Spark reads, to a topic

The rows of Parquet files become records of the topic `example-spark-rows`. Each run writes the rows whose `id` is larger than all that
earlier runs have read, exactly once.

The files are in the folder `spark-rows` in the directory `CONNECT_DEMO_DIR`. The worker setting `connectors.spark.formats` must have
`parquet`. Trigger the DAG yourself.
"""

import os

from airflow_provider_connect import ConnectorDag

DIRECTORY = os.environ.get("CONNECT_DEMO_DIR", "/tmp/connect-demo")

ConnectorDag(
    "example-spark-source",
    {
        "connector.class": "SparkSource",
        "topic": "example-spark-rows",
        "format": "parquet",
        "path": f"{DIRECTORY}/spark-rows",
        "incremental.column": "id",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "airflow.tags": "demo",
        "airflow.description": "What Spark reads, to a topic",
    },
    schedule=None,
    doc_md=__doc__,
)
