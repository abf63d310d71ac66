"""What ``airflow connect doctor`` reports of a replication slot."""

import pytest

from airflow_provider_connect.api_server.cluster_checks import Outcome
from airflow_provider_connect.api_server.replication_slots import MANY_BYTES, slot_finding
from airflow_provider_connect.runtime.java.bounded.replication_slot import RetainedWal
from airflow_provider_connect.runtime.model.states import TargetState


@pytest.mark.parametrize(
    ("target", "held_bytes", "outcome", "text"),
    [
        (TargetState.STARTED, 5, Outcome.OK, "holds back 5 bytes of WAL; max_slot_wal_keep_size is -1"),
        (TargetState.STARTED, MANY_BYTES, Outcome.WARNING, f"holds back {MANY_BYTES} bytes"),
        (TargetState.PAUSED, 5, Outcome.WARNING, "Connector orders is PAUSED"),
        (TargetState.STOPPED, 5, Outcome.WARNING, "Connector orders is STOPPED"),
        (TargetState.STARTED, None, Outcome.WRONG, "has lost the WAL that it needs"),
        (TargetState.STOPPED, None, Outcome.WRONG, "has lost the WAL that it needs"),
    ],
)
def test_a_slot_that_no_run_moves_is_a_warning(target: TargetState, held_bytes: int | None, outcome: Outcome, text: str) -> None:
    found = slot_finding("orders", target, RetainedWal("postgresql://db:5432/shop", "shop_orders", held_bytes, "-1"))
    assert (found.subject, found.outcome) == ("slots", outcome)
    assert text in found.text
    assert (found.fix == "") == (outcome is Outcome.OK)


@pytest.mark.parametrize(("name", "word"), [("orders", "orders"), ("new orders", "'new orders'")])
def test_the_connector_of_a_lost_slot_runs_again_after_the_commands(name: str, word: str) -> None:
    """It is STOPPED while its offsets are reset, and the slot cannot be dropped while a run uses it."""
    fix = slot_finding(name, TargetState.STARTED, RetainedWal("postgresql://db:5432/shop", "shop_orders", None, "-1")).fix
    commands = [
        f"airflow connect stop {word}",
        "SELECT pg_drop_replication_slot('shop_orders')",
        f"airflow connect offsets reset {word}",
        f"airflow connect resume {word}",
    ]
    found = [fix.find(command) for command in commands]
    assert -1 not in found
    assert found == sorted(found)
