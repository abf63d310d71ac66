"""Shared by all operators that carry out a verb of Connect: the Connection, the wait for the verb's effect, and deferring.

An operator does not repeat completed work, so a retried or cleared task does no harm.
"""

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.sdk import BaseOperator
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_connect.client.conditions import Condition, FailureTimeout, Verdict, as_json
from airflow_provider_connect.client.conversation import is_outage
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.hooks.airflow_settings import CONNECTION
from airflow_provider_connect.triggers.connect import ERROR, FAILED, ConnectTrigger

if TYPE_CHECKING:
    from airflow_provider_connect.hooks.connect import ConnectHook


class ConnectVerbOperator(BaseOperator):  # type: ignore[misc]  # Airflow is not typed for us
    """Carries out a verb on ``connector`` in the cluster of ``connect_conn_id``. With ``wait`` it ends when the verb has taken effect.

    ``timeout_seconds`` limits the wait. If the connector is FAILED for ``failure_timeout_seconds`` without interruption, the task fails
    without a retry. A connector that is RUNNING without tasks has the same time to get tasks. With ``deferrable`` the triggerer waits, and
    the worker's slot is free. The task returns numbers and states, but no configs.
    """

    template_fields: ClassVar[Sequence[str]] = ("connector", "connect_conn_id")
    ui_color = "#e8f4ea"

    def __init__(
        self,
        *,
        connector: str,
        connect_conn_id: str = CONNECTION,
        wait: bool = True,
        timeout_seconds: float = 300.0,
        poll_seconds: float = 2.0,
        failure_timeout_seconds: float = 15.0,
        deferrable: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.connector, self.connect_conn_id = connector, connect_conn_id
        self.wait, self.timeout_seconds, self.poll_seconds = wait, timeout_seconds, poll_seconds
        self.failure_timeout_seconds = failure_timeout_seconds
        self.deferrable = conf.getboolean("operators", "default_deferrable", fallback=False) if deferrable is None else deferrable

    def act(self, hook: "ConnectHook") -> Any:
        """Carry out the verb and return the task's result. Does nothing if the verb has already taken effect."""
        raise NotImplementedError

    def before(self, hook: "ConnectHook") -> Condition | None:
        """Prepare the verb and return the condition that must be met before it is carried out. None: no condition."""
        return None

    def after(self, result: Any) -> Condition | None:
        """The condition that shows the verb's effect. ``result`` is the result of ``act``. None: there is nothing to wait for."""
        return None

    def execute(self, context: Any) -> Any:
        """Called by Airflow. (1) Prepare and wait. (2) Act. (3) Wait."""
        with self._hook() as hook:
            condition = self.before(hook)
        if condition is not None:
            self._await(condition, "carry_on", {})
        return self._act()

    def carry_on(self, context: Any, event: Mapping[str, str]) -> Any:
        """Called by Airflow when the triggerer's wait before the verb is over."""
        self._take_event(event)
        return self._act()

    def complete(self, context: Any, event: Mapping[str, str], result: Any = None) -> Any:
        """Called by Airflow when the triggerer's wait for the effect is over."""
        self._take_event(event)
        return result

    def _act(self) -> Any:
        with self._hook() as hook:
            result = self.act(hook)
        condition = self.after(result) if self.wait else None
        if condition is not None:
            self._await(condition, "complete", {"result": result})
        return result

    def _hook(self) -> "ConnectHook":
        from airflow_provider_connect.hooks.connect import ConnectHook  # loads the HTTP client, so not when DAG files are parsed

        return ConnectHook(self.connect_conn_id)

    def _await(self, condition: Condition, method: str, arguments: dict[str, Any]) -> None:
        """Wait until the condition is met. With ``deferrable`` this may not return: ``method`` then continues the task."""
        failure_timeout, deadline = FailureTimeout(self.failure_timeout_seconds), time.monotonic() + self.timeout_seconds
        with self._hook() as hook:
            while not failure_timeout.ends_wait(verdict := self._look(hook, condition)):
                if self.deferrable:
                    self._defer(condition, method, arguments)
                if time.monotonic() > deadline:
                    raise AirflowException(f"Not in {self.timeout_seconds} s: {verdict.text}")
                time.sleep(self.poll_seconds)
        if not verdict.is_met:
            raise AirflowFailException(verdict.text)
        self.log.info("%s", verdict.text)

    @staticmethod
    def _look(hook: "ConnectHook", condition: Condition) -> Verdict:
        """The current verdict. An unavailable server does not end the wait."""
        try:
            return hook.look(condition)
        except ConnectException as error:
            if not is_outage(error):
                raise
            return Verdict(False, error.message)

    def _defer(self, condition: Condition, method: str, arguments: dict[str, Any]) -> None:
        self.defer(
            trigger=ConnectTrigger(as_json(condition), self.connect_conn_id, self.poll_seconds, self.failure_timeout_seconds),
            method_name=method,
            kwargs=arguments,
            timeout=timedelta(seconds=self.timeout_seconds),
        )

    def _take_event(self, event: Mapping[str, str]) -> None:
        if event["status"] in (FAILED, ERROR):
            raise AirflowFailException(event["text"])
        self.log.info("%s", event["text"])
