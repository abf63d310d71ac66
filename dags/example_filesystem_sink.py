"""### Topics to files

The records of `example-orders` and `example-people` as Parquet files, a folder for each topic and day, exactly once. The topics are those
that `example-jdbc-source` fills; any records of JSON with a schema will do.

The files lie in the folder of `CONNECT_EXAMPLE_FILES_URL`, by default in that of `CONNECT_DEMO_DIR`, below `files`. Triggered by hand.
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
