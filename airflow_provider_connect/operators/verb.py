"""What all operators that carry out a verb of Connect share: the Connection, waiting for what the verb leads to, and deferring.

Each does nothing that is done already, so that a task that is retried or cleared does no harm.
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
    """Carries out a verb on ``connector`` in the cluster of ``connect_conn_id``, and with ``wait`` ends when its effect shows.

    ``timeout_seconds`` bounds that wait. FAILED seen for ``failure_timeout_seconds`` without a break ends it at once, without a retry. A
    connector that is RUNNING without tasks has as long to get some. With ``deferrable`` the triggerer waits, and the worker's slot
    is free. The task returns numbers and states, no configs.
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
        """Carry the verb out; what the task returns. Does nothing where all is so already."""
        raise NotImplementedError

    def before(self, hook: "ConnectHook") -> Condition | None:
        """Prepare the verb; what must hold before it is carried out. None: nothing."""
        return None

    def after(self, result: Any) -> Condition | None:
        """What shows that the verb has taken effect; ``result`` is what ``act`` returned. None: nothing more is to come."""
        return None

    def execute(self, context: Any) -> Any:
        """Called by Airflow: 1 prepare and wait 2 act 3 wait."""
        with self._hook() as hook:
            condition = self.before(hook)
        if condition is not None:
            self._await(condition, "carry_on", {})
        return self._act()

    def carry_on(self, context: Any, event: Mapping[str, str]) -> Any:
        """Called by Airflow when the triggerer has waited for what must hold before."""
        self._take_event(event)
        return self._act()

    def complete(self, context: Any, event: Mapping[str, str], result: Any = None) -> Any:
        """Called by Airflow when the triggerer has waited for the effect."""
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
        from airflow_provider_connect.hooks.connect import ConnectHook  # loads the HTTP client: not where DAG files are parsed

        return ConnectHook(self.connect_conn_id)

    def _await(self, condition: Condition, method: str, arguments: dict[str, Any]) -> None:
        """Returns when the condition is met; with ``deferrable`` it need not return: ``method`` goes on then."""
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
        """A server that is away for a while ends no wait."""
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
