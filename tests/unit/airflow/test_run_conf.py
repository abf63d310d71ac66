"""What the conf of a run may hold, and which run makes which needless."""

from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowFailException
from airflow.utils.types import DagRunType

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.operators.connect import ConnectTaskOperator
from airflow_provider_connect.operators.plan import ConnectPlanOperator
from airflow_provider_connect.operators.run_conf import covers, parse_tasks, refuse_backfill, requested_tasks, run_conf


@pytest.mark.parametrize("tasks", [None, [0], [2, 0]])
def test_what_is_asked_for_is_read_back(tasks: list[int] | None) -> None:
    found = requested_tasks({"dag_run": SimpleNamespace(conf=run_conf(tasks))})
    assert found == (None if tasks is None else sorted(tasks))


@pytest.mark.parametrize("conf", [None, {}, {"other": 1}])
def test_a_run_without_tasks_in_its_conf_is_of_all(conf: object) -> None:
    assert parse_tasks(conf) is None


@pytest.mark.parametrize("tasks", ["0", [], ["0"], [-1], [1.5], [True], [9999], {"0": 1}])
def test_what_a_user_wrote_who_triggered_the_run_is_checked(tasks: object) -> None:
    with pytest.raises(ConfigException, match="give a list of task numbers"):
        parse_tasks({"tasks": tasks})


@pytest.mark.parametrize(
    ("waiting", "tasks", "covered"),
    [
        ({}, None, True),
        (None, None, True),
        ({"tasks": [0]}, None, False),
        ({"tasks": [0, 1]}, [1], True),
        ({"tasks": [0]}, [0, 1], False),
        ({}, [0], False),
        ({"tasks": "x"}, None, False),
    ],
)
def test_a_run_that_waits_covers_what_it_does_for_sure(waiting: object, tasks: list[int] | None, covered: bool) -> None:
    assert covers(waiting, tasks) is covered


@pytest.mark.parametrize("operator", [ConnectTaskOperator, ConnectPlanOperator])
def test_a_run_of_a_backfill_is_refused_before_anything_is_read(operator: type[ConnectTaskOperator | ConnectPlanOperator]) -> None:
    """No settings, broker or database are there: whatever was asked of them first would fail with another text."""
    dag_run = SimpleNamespace(run_type=DagRunType.BACKFILL_JOB, conf={})
    with pytest.raises(
        AirflowFailException,
        match=r"no backfills: .* create a backfill of it with BackfillOperator .* offsets with AlterOffsetsOperator or PATCH",
    ):
        operator(task_id="run", connector="orders").execute({"dag_run": dag_run, "run_id": "backfill__1"})


@pytest.mark.parametrize("run_type", [each for each in DagRunType if each is not DagRunType.BACKFILL_JOB])
def test_a_run_of_another_type_is_no_backfill(run_type: DagRunType) -> None:
    refuse_backfill({"dag_run": SimpleNamespace(run_type=run_type)})
