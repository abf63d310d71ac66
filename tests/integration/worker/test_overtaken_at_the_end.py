"""A bounded run that a newer one overtakes within its last commit, with the same tasks or with others that own its partitions."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from airflow_provider_connect.runtime.model.run import RunResult, RunState
from airflow_provider_connect.runtime.worker.application.task_body import run_task
from airflow_provider_connect.runtime.worker.delivery.commit_steps import SINK_STEPS, SOURCE_STEPS, CommitStep
from tests.integration.worker.environment import RunEnvironment, make_topic, send, values_of

Case = tuple[str, str, CommitStep, str, tuple[str, str]]
"""Kind, guarantee, the step, its side, and ``tasks.max`` of the older and the newer run."""
RECORDS = 40
IN_EVERY_RUN = {  # each direction and guarantee; partitions that move to other tasks, and back
    ("sink", "exactly_once", CommitStep.PRE_COMMIT, "after", ("1", "3")),
    ("sink", "exactly_once", CommitStep.COMMIT_GROUP, "after", ("3", "1")),
    ("sink", "at_least_once", CommitStep.COMMIT_GROUP, "before", ("1", "1")),
    ("sink", "at_most_once", CommitStep.COMMIT_GROUP, "after", ("3", "1")),
    ("source", "exactly_once", CommitStep.WRITE_RECORDS, "before", ("1", "1")),
    ("source", "exactly_once", CommitStep.COMMIT_TRANSACTION, "before", ("1", "1")),
    ("source", "at_least_once", CommitStep.COMMIT_OFFSETS, "before", ("1", "1")),
    ("source", "at_most_once", CommitStep.COMMIT_OFFSETS, "after", ("1", "1")),
}
CASES: list[Case] = [
    (kind, str(guarantee), step, side, tasks)
    for kind, every in (("sink", SINK_STEPS), ("source", SOURCE_STEPS))
    for guarantee, steps in every.items()
    for step in steps
    for side in ("before", "after")
    for tasks in ((("1", "1"), ("3", "1"), ("1", "3")) if kind == "sink" else (("1", "1"),))
]


class Overtaking:
    """A hook that makes a whole newer run of the connector, with ``config``, once, before or after a step of the older run."""

    def __init__(self, environment: RunEnvironment, config: dict[str, str], at: CommitStep, side: str) -> None:
        self._environment, self._config, self._at, self._side = environment, config, at, side
        self.newer: RunResult | None = None

    @contextmanager
    def __call__(self, step: CommitStep) -> Iterator[None]:
        is_struck = step is self._at and self.newer is None
        if is_struck and self._side == "before":
            self._run()
        yield
        if is_struck and self._side == "after" and self.newer is None:
            self._run()

    def _run(self) -> None:
        self._environment.put_config(self._config)
        self.newer = self._environment.application(engine=run_task).run()


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, id="{0}, {1}: {3} {2}, tasks {4[0]} to {4[1]}".format(*case), marks=[] if case in IN_EVERY_RUN else pytest.mark.soak
        )
        for case in CASES
    ],
)
def test_a_run_that_is_overtaken_in_its_last_commit(environment: RunEnvironment, unique: str, case: Case) -> None:
    kind, guarantee, step, side, tasks = case
    topic, wanted = make_topic(environment.bootstrap, unique, 3), {f"0-{number}" for number in range(RECORDS)}
    if kind == "sink":
        send(environment.bootstrap, topic, sorted(wanted), partitions=3)
    older, newer = (
        environment.file_sink(topic, delivery_guarantee=guarantee, tasks_max=count)
        if kind == "sink"
        else environment.numbers(topic, until=str(RECORDS), size=str(RECORDS), delivery_guarantee=guarantee, tasks_max=count)
        for count in tasks
    )
    hook = Overtaking(environment, newer, step, side)
    result = environment.application(older, engine=partial(run_task, step=hook)).run()
    assert hook.newer is not None
    assert hook.newer.state is RunState.DONE
    assert result.state in (RunState.STOPPED, RunState.DONE), result
    status = environment.statuses().task(environment.connector, 0)
    assert status is not None
    assert (status.state, status.claim) == ("RUNNING", hook.newer.claim)
    found = Counter(environment.lines() if kind == "sink" else values_of(environment.bootstrap, topic))
    if guarantee != "at_most_once":
        assert found.keys() >= wanted
    if guarantee != "at_least_once":
        assert set(found.values()) <= {1}
    counted = sum(task.records for each in (result, hook.newer) for task in each.tasks)
    assert counted <= found.total()
    assert environment.run().state is RunState.DONE
    assert Counter(environment.lines() if kind == "sink" else values_of(environment.bootstrap, topic)) == found
