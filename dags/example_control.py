"""### The life of a connector, step by step

This DAG uses every operator and every sensor for connectors, in the order of a connector's life. It validates and creates a connector,
waits, pauses, resumes, updates, restarts and stops it, sets its offsets, starts it over, and deletes it. `CONNECT_EXAMPLE_CONN_ID` names
the Connection of the Connect cluster, by default `connect_default`. If the Connection's host is a URL, the cluster may be a real Kafka
Connect. The files are in the directory `CONNECT_DEMO_DIR`. It must be on a disk that the cluster can also read, below its
`connectors.allowed.paths`.

Trigger it yourself. The waits are deferred to the triggerer, so they do not occupy a worker.
"""

import os
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, chain, task

from airflow_provider_connect.operators.config import CreateConnectorOperator, UpdateConnectorOperator, ValidateConfigOperator
from airflow_provider_connect.operators.control import (
    AlterOffsetsOperator,
    DeleteConnectorOperator,
    PauseConnectorOperator,
    ResetOffsetsOperator,
    RestartConnectorOperator,
    ResumeConnectorOperator,
    StopConnectorOperator,
)
from airflow_provider_connect.sensors.connect import (
    ConnectorStateSensor,
    OffsetSensor,
    SinkLagSensor,
    TaskStateSensor,
    TopicActiveSensor,
)

FILE = Path(os.environ.get("CONNECT_DEMO_DIR", "/tmp/connect-demo")) / "life-input.txt"
SOURCE, SINK, TOPIC = "example-life-source", "example-life-sink", "example-life-lines"
STRING = "org.apache.kafka.connect.storage.StringConverter"
SOURCE_CONFIG = {
    "connector.class": "FileStreamSource",
    "tasks.max": 1,
    "file": str(FILE),
    "topic": TOPIC,
    "key.converter": STRING,
    "value.converter": STRING,
}
SINK_CONFIG = {
    "connector.class": "FileStreamSink",
    "tasks.max": 1,
    "file": str(FILE.with_name("life-output.txt")),
    "topics": TOPIC,
    "key.converter": STRING,
    "value.converter": STRING,
}
LINES = "one\ntwo\nthree\n"

with DAG(
    "connect_example_life",
    schedule=None,
    doc_md=__doc__,
    tags=["demo"],
    default_args={
        "connect_conn_id": os.environ.get("CONNECT_EXAMPLE_CONN_ID", "connect_default"),
        "deferrable": True,
        "execution_timeout": timedelta(minutes=10),
    },
) as dag:

    @task
    def write_lines() -> None:
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(LINES)

    chain(
        write_lines(),
        ValidateConfigOperator(task_id="validate", connector=SOURCE, config=SOURCE_CONFIG),
        [
            CreateConnectorOperator(task_id="create_source", connector=SOURCE, config=SOURCE_CONFIG, if_exists="update"),
            CreateConnectorOperator(task_id="create_sink", connector=SINK, config=SINK_CONFIG, if_exists="update"),
        ],
        ConnectorStateSensor(task_id="sink_runs", connector=SINK, states="RUNNING", timeout=300),
        TaskStateSensor(task_id="task_of_the_source_runs", connector=SOURCE, connector_task=0, timeout=300),
        TopicActiveSensor(task_id="topic_is_used", connector=SOURCE, topic=TOPIC, timeout=300),
        OffsetSensor(
            task_id="all_is_read",
            connector=SOURCE,
            partition={"filename": str(FILE)},
            offset={"position": len(LINES)},
            timeout=300,
        ),
        SinkLagSensor(task_id="all_is_written", connector=SINK, timeout=300),
        PauseConnectorOperator(task_id="pause", connector=SOURCE),
        ResumeConnectorOperator(task_id="resume", connector=SOURCE),
        UpdateConnectorOperator(task_id="update", connector=SOURCE, config={"batch.size": 100}, merge=True, wait=True),
        RestartConnectorOperator(task_id="restart", connector=SOURCE),
        StopConnectorOperator(task_id="stop", connector=SOURCE),
        AlterOffsetsOperator(
            task_id="read_the_last_line_again",
            connector=SOURCE,
            offsets=[{"partition": {"filename": str(FILE)}, "offset": {"position": len("one\ntwo\n")}}],
        ),
        ResetOffsetsOperator(task_id="start_over", connector=SINK, stop=True),
        [
            DeleteConnectorOperator(task_id="delete_source", connector=SOURCE),
            DeleteConnectorOperator(task_id="delete_sink", connector=SINK),
        ],
    )
