"""Sensors for connectors of any Connect cluster: states, offsets, lag, topics. With ``deferrable=True`` they wait in the triggerer.

A sensor fails at once, without a retry, if its condition cannot be met because the connector or task is FAILED.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, ClassVar

from airflow.sdk import BaseSensorOperator
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_connect.client.conditions import (
    Condition,
    ConnectorReaches,
    LagBelow,
    OffsetReaches,
    TaskReaches,
    TopicActive,
    Verdict,
    as_json,
    known_states,
)
from airflow_provider_connect.hooks.airflow_settings import CONNECTION
from airflow_provider_connect.triggers.connect import ERROR, FAILED, ConnectTrigger


class ConnectSensor(BaseSensorOperator):  # type: ignore[misc]  # Airflow is not typed for us
    """The base class of these sensors. ``connect_conn_id`` is an Airflow Connection of type ``connect``."""

    template_fields: ClassVar[Sequence[str]] = ("connector", "connect_conn_id")

    def __init__(
        self,
        *,
        connector: str,
        connect_conn_id: str = CONNECTION,
        deferrable: bool | None = None,
        poke_interval: float = 5.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.connector, self.connect_conn_id = connector, connect_conn_id
        self.deferrable = conf.getboolean("operators", "default_deferrable", fallback=False) if deferrable is None else deferrable

    def condition(self) -> Condition | LagBelow:
        """The condition to wait for. Called after templates are rendered."""
        raise NotImplementedError

    def poke(self, context: Any) -> bool:
        """Called by Airflow once per ``poke_interval``."""
        return self._look().is_met

    def execute(self, context: Any) -> None:
        """Called by Airflow. If the condition is already met, the triggerer is not needed."""
        if not self.deferrable:
            super().execute(context)
        elif not self._look().is_met:
            trigger = ConnectTrigger(as_json(self.condition()), self.connect_conn_id, self._coerce_seconds(self.poke_interval))
            self.defer(trigger=trigger, method_name="execute_complete", timeout=timedelta(seconds=self._coerce_seconds(self.timeout)))

    def execute_complete(self, context: Any, event: Mapping[str, str]) -> None:
        """Called by Airflow with the trigger's event."""
        if event["status"] in (FAILED, ERROR):
            raise AirflowFailException(event["text"])
        self.log.info("%s", event["text"])

    def _look(self) -> Verdict:
        from airflow_provider_connect.hooks.connect import ConnectHook  # loads the HTTP client, so not when DAG files are parsed

        with ConnectHook(self.connect_conn_id) as hook:
            verdict = hook.look(self.condition())
        self.log.info("%s", verdict.text)
        if verdict.has_failed:
            raise AirflowFailException(verdict.text)
        return verdict

    @staticmethod
    def _coerce_seconds(value: float | timedelta) -> float:
        return value.total_seconds() if isinstance(value, timedelta) else float(value)


class ConnectorStateSensor(ConnectSensor):
    """Waits until the connector and its tasks are each in one of ``states``. With ``with_tasks=False``, ignores the tasks."""

    template_fields: ClassVar[Sequence[str]] = (*ConnectSensor.template_fields, "states")

    def __init__(self, *, states: str | Sequence[str] = "RUNNING", with_tasks: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.states, self.with_tasks = states, with_tasks

    def condition(self) -> ConnectorReaches:
        return ConnectorReaches(self.connector, known_states(self.states), self.with_tasks)


class TaskStateSensor(ConnectSensor):
    """Waits until the task with the number ``connector_task`` is in one of ``states``."""

    template_fields: ClassVar[Sequence[str]] = (*ConnectSensor.template_fields, "states")

    def __init__(self, *, connector_task: int, states: str | Sequence[str] = "RUNNING", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.connector_task, self.states = connector_task, states

    def condition(self) -> TaskReaches:
        return TaskReaches(self.connector, self.connector_task, known_states(self.states))


class OffsetSensor(ConnectSensor):
    """Waits until the partitions with all entries of ``partition`` have reached ``offset``.

    Numbers must be at least as large as in ``offset``; other values must be equal. Example for a file source:
    ``partition={"filename": "/data/in.txt"}`` and ``offset={"position": 4096}``. Example for a sink:
    ``partition={"kafka_topic": "orders", "kafka_partition": 0}`` and ``offset={"kafka_offset": 100}``. Without ``kafka_partition``, all
    partitions of the topic must reach the offset.
    """

    template_fields: ClassVar[Sequence[str]] = (*ConnectSensor.template_fields, "partition", "offset")

    def __init__(self, *, partition: Mapping[str, Any], offset: Mapping[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.partition, self.offset = dict(partition), dict(offset)

    def condition(self) -> OffsetReaches:
        return OffsetReaches(self.connector, self.partition, self.offset)


class SinkLagSensor(ConnectSensor):
    """Waits until a sink's lag, summed over its partitions, is below ``records``. With 1, waits until the sink has caught up.

    If a committed offset is beyond the end of its partition, because the topic was recreated or truncated, the lag is unknown: the sensor
    logs this, and waits for the run that begins where ``auto.offset.reset`` points.

    The sensor reads the end offsets of the topics from Kafka, so the Connection or the worker settings must name the brokers.
    """

    template_fields: ClassVar[Sequence[str]] = (*ConnectSensor.template_fields, "records")

    def __init__(self, *, records: int = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.records = records

    def condition(self) -> LagBelow:
        return LagBelow(self.connector, int(self.records))


class TopicActiveSensor(ConnectSensor):
    """Waits until the connector has used ``topic`` since its creation or since the last reset of its active topics."""

    template_fields: ClassVar[Sequence[str]] = (*ConnectSensor.template_fields, "topic")

    def __init__(self, *, topic: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.topic = topic

    def condition(self) -> TopicActive:
        return TopicActive(self.connector, self.topic)
