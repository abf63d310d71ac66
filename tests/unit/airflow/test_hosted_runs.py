"""What a connector's run in a shared application learns of the connector's statuses."""

from dataclasses import dataclass, field

from airflow_provider_connect.api_server.hosted_runs import HostedFailure, hosted_failure
from airflow_provider_connect.api_server.runs import hosted_connectors
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import ConnectorStatus, StatusState, TaskStatus

OLD, NEW = Claim(4, "topic"), Claim(9, "topic")


@dataclass
class Topics:
    """Two tasks of the connector ``orders``, which was claimed last by ``NEW``."""

    configs: ClusterConfigState = field(default_factory=ClusterConfigState)
    statuses: StatusState = field(default_factory=StatusState)

    def __post_init__(self) -> None:
        self.configs.connector_configs["orders"] = {"airflow.application": "crm"}
        self.configs.task_counts["orders"] = 2
        self.configs.claims["orders"] = NEW

    def put(self, task: int | None, state: State, claim: Claim | None = NEW) -> None:
        trace = f"trace {task}" if state is State.FAILED else None
        if task is None:
            self.statuses.apply(ConnectorStatus("orders", state, "host:1", trace, claim=claim))
        else:
            self.statuses.apply(TaskStatus("orders", task, state, "host:1", trace, claim=claim))


def test_a_run_fails_with_its_connector_or_with_all_of_its_tasks() -> None:
    topics = Topics()
    topics.put(None, State.RUNNING)
    topics.put(0, State.RUNNING)
    topics.put(1, State.RUNNING)
    assert hosted_failure(topics, "orders") is None
    topics.put(1, State.FAILED)
    assert hosted_failure(topics, "orders") == HostedFailure(("trace 1",), is_whole=False)
    topics.put(0, State.FAILED)
    assert hosted_failure(topics, "orders") == HostedFailure(("trace 0", "trace 1"), is_whole=True)
    topics.put(0, State.RUNNING)
    topics.put(None, State.FAILED)
    assert hosted_failure(topics, "orders") == HostedFailure(("trace None", "trace 1"), is_whole=True)


def test_a_failure_of_an_older_claim_is_over() -> None:
    """A retry has claimed the connector, and the application is about to host it again."""
    topics = Topics()
    topics.put(0, State.FAILED, OLD)
    topics.put(1, State.FAILED, OLD)
    assert hosted_failure(topics, "orders") is None
    topics.put(0, State.FAILED, None)  # of a real Kafka Connect worker
    assert hosted_failure(topics, "orders") == HostedFailure(("trace 0",), is_whole=False)


def test_a_stopped_connector_is_not_hosted() -> None:
    configs = Topics().configs
    configs.connector_configs |= {"alone": {}, "wrong": {"airflow.application": "../x"}, "stopped": {"airflow.application": "crm"}}
    configs.target_states["stopped"] = TargetState.STOPPED
    assert hosted_connectors(configs) == {"orders": "crm"}
