"""The checks whether a task may run."""

from __future__ import annotations

import pytest

from airflow_provider_connect.errors import FencedException
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.worker.task.task_payload import require_newest_claim

CLAIM = Claim(5, "id")


@pytest.mark.parametrize("newest", [None, Claim(4, "id"), Claim(6, "id")])
def test_any_claim_but_the_newest_of_the_connector_is_refused(newest: Claim | None) -> None:
    state = ClusterConfigState(claims={"other": CLAIM} if newest is None else {"other": CLAIM, "c": newest})
    with pytest.raises(FencedException, match="claim id:5 of c is no longer the newest"):
        require_newest_claim(state, "c", CLAIM)


def test_the_newest_claim_of_the_connector_is_accepted() -> None:
    require_newest_claim(ClusterConfigState(claims={"other": Claim(6, "id"), "c": CLAIM}), "c", CLAIM)
