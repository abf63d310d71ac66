"""### Topics to files

The records of `example-orders` and `example-people` are written to Parquet files, exactly once, with a folder for each topic and day.
`example-jdbc-source` fills the topics. Any JSON records with a schema are suitable.

`CONNECT_EXAMPLE_FILES_URL` names the folder of the files, by default `files` in the directory `CONNECT_DEMO_DIR`. Trigger the DAG yourself.
"""

import os

from airflow_provider_connect import ConnectorDag

DIRECTORY = os.environ.get("CONNECT_DEMO_DIR", "/tmp/connect-demo")
JSON = "org.apache.kafka.connect.json.JsonConverter"

ConnectorDag(
    "example-filesystem-sink",
    {
        "connector.class": "FileSystemSink",
        "tasks.max": "1",
        "topics.regex": "example-(orders|people)",
        "url": os.environ.get("CONNECT_EXAMPLE_FILES_URL", DIRECTORY),
        "topics.dir": "files",
        "format": "parquet",
        "partitioner.class": "DailyPartitioner",
        "timestamp.extractor": "Record",
        "value.converter": JSON,
        "value.converter.schemas.enable": "true",
        "airflow.tags": "demo",
        "airflow.description": "Topics to Parquet files",
    },
    schedule=None,
    doc_md=__doc__,
)
