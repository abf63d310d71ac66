"""### Lines of a file, filtered and split by SQL

Lines such as `Ada,12.50` are appended to `payments.txt`. Lines with an amount become records of the topic `demo-payments` with two fields,
name and amount. Other lines are dropped, and offsets advance past them. The environment variable `CONNECT_DEMO_DIR` names the directory.
"""

import os

from airflow_provider_connect import ConnectorDag

DIRECTORY = os.environ.get("CONNECT_DEMO_DIR", "/tmp/connect-demo")

ConnectorDag(
    "demo-payments",
    {
        "connector.class": "FileStreamSource",
        "tasks.max": "1",
        "file": f"{DIRECTORY}/payments.txt",
        "topic": "demo-payments",
        "transforms": "payments",
        "transforms.payments.type": "SqlTransform",
        "transforms.payments.sql": """
            SELECT trim(split_part(_value, ',', 1)) AS name, CAST(split_part(_value, ',', 2) AS DECIMAL(10, 2)) AS amount
            FROM batch
            WHERE TRY_CAST(split_part(_value, ',', 2) AS DECIMAL(10, 2)) IS NOT NULL
        """,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "value.converter.decimal.format": "numeric",
        "airflow.tags": "demo",
        "airflow.description": "Lines of a file, filtered and split by SQL",
    },
    doc_md=__doc__,
)
