"""### Topics of another Kafka cluster

Every record of the topics `example-…` of another cluster becomes a record of the topics `shop.example-…` here, exactly once, with the same
bytes, headers, timestamp and partition. The next run also mirrors a new topic. A run without new records does not start Spark.
`example-mirror-checkpoint` then sets the offsets from which the groups `example-…` of that cluster can continue here.
`example-mirror-heartbeat` writes a heartbeat.

`CONNECT_EXAMPLE_SOURCE_BOOTSTRAP` names the other cluster, and `CONNECT_EXAMPLE_TARGET_BOOTSTRAP` the worker's own. Trigger the DAGs
yourself when the other cluster exists.
"""

import os

from airflow_provider_connect import ConnectorDag

clusters = {
    "source.cluster.alias": "shop",
    "source.cluster.bootstrap.servers": os.environ.get("CONNECT_EXAMPLE_SOURCE_BOOTSTRAP", "shop:9092"),
    "target.cluster.alias": "here",
    "target.cluster.bootstrap.servers": os.environ.get("CONNECT_EXAMPLE_TARGET_BOOTSTRAP", "127.0.0.1:9092"),
    "airflow.tags": "demo",
}

ConnectorDag(
    "example-mirror-source",
    {
        "connector.class": "MirrorSource",
        "tasks.max": "2",
        **clusters,
        "topics": "example-.*",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "airflow.description": "Topics of another Kafka cluster",
    },
    schedule=None,
    doc_md=__doc__,
)

ConnectorDag(
    "example-mirror-checkpoint",
    {
        "connector.class": "MirrorCheckpoint",
        "tasks.max": "1",
        **clusters,
        "groups": "example-.*",
        "sync.group.offsets.enabled": "true",
        "checkpoints.topic.replication.factor": "1",
        "airflow.description": "Where the groups of another Kafka cluster go on",
    },
    schedule=None,
    doc_md=__doc__,
)

ConnectorDag(
    "example-mirror-heartbeat",
    {
        "connector.class": "MirrorHeartbeat",
        **clusters,
        "heartbeats.topic.replication.factor": "1",
        "airflow.description": "One heartbeat from another Kafka cluster a run",
    },
    schedule=None,
    doc_md=__doc__,
)
