"""Every step at which the fault tests kill is a commit's or a method of the product: a name that is wrong would strike nothing."""

import importlib
import itertools
from operator import attrgetter

import pytest

from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep
from tests.e2e.control.steps import ALL_STEPS
from tests.e2e.faults.steps import STEPS
from tests.integration.worker import test_delta_sink, test_iceberg_sink, test_jdbc_sink

PACKAGE = "airflow_provider_connect"
KILLS = {point.method for module in (test_delta_sink, test_iceberg_sink, test_jdbc_sink) for point in module.KILL_POINTS}
NAMES = sorted({*ALL_STEPS, *itertools.chain.from_iterable(steps for kind in STEPS.values() for steps in kind.values())})


@pytest.mark.parametrize(
    "name", [*(name for name in NAMES if ":" in name), *(f"{PACKAGE}.{name}" for name in sorted(KILLS) if ":" in name)]
)
def test_a_step_is_a_method(name: str) -> None:
    module, _, method = name.partition(":")
    assert callable(attrgetter(method)(importlib.import_module(module)))


def test_every_step_of_a_commit_is_struck() -> None:
    struck = {name for name in NAMES if ":" not in name}
    assert struck == {*CommitStep} - {CommitStep.ABORT_TRANSACTION}  # which tests/integration/worker/test_transactions.py strikes
