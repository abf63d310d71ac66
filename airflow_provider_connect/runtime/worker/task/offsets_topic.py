"""Recognizes an offsets topic that was recreated. The topic lacks a source's offsets, so the source would read everything again."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping
from contextlib import closing

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.model.connector_settings import Guarantee
from airflow_provider_connect.runtime.stores.batch_log import recreated_offsets_topic
from airflow_provider_connect.runtime.worker.task.environment import TaskEnvironment

log = logging.getLogger(__name__)


def refuse_lost_offsets(environment: TaskEnvironment, topic_ids: Mapping[str, str]) -> None:
    """Raise ConnectException if the connector, which has no offsets, has committed some to an earlier topic of the same name. With at
    least once, only warn. ``topic_ids`` has the current id of the offsets topic."""
    connector = environment.payload.connector
    with closing(environment.backing.batch_log()) as store:
        topic = recreated_offsets_topic(store.entries(connector), topic_ids)
    if topic is None:
        return
    text = f"Topic {topic} was created anew since connector {connector} committed its offsets, and has none of them. "
    if environment.payload.guarantee == Guarantee.AT_LEAST_ONCE:
        log.warning("%sEverything is read again", text)
        return
    name, path = shlex.quote(connector), f"/connectors/{connector}/offsets"
    raise ConnectException(
        f"{text}Everything would be delivered again. Stop the connector, and set the offsets to go on from (airflow connect offsets alter "
        f"{name}, or PATCH {path}); or undo their loss, if the SQL mirror knows them (airflow connect offsets undo {name}, or POST "
        f"{path}/undo); or reset them to read everything again (airflow connect offsets reset {name}, or DELETE {path})"
    )
