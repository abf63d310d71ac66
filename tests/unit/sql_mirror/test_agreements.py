"""Agreements and leases on a real database: who may change what."""

from sqlalchemy import Connection

from airflow_provider_connect.runtime.sql_mirror.queries import Agreement, agreements, drop_lease, hold_lease, move_agreement

RAN, PAUSED = Agreement(False, "STARTED"), Agreement(True, "PAUSED")


def test_an_agreement_moves_from_what_was_seen_and_from_nothing_else(database: Connection) -> None:
    assert move_agreement(database, "orders", None, RAN)
    assert not move_agreement(database, "orders", None, PAUSED)  # another process was first
    assert not move_agreement(database, "orders", PAUSED, RAN)
    assert move_agreement(database, "orders", RAN, PAUSED)
    assert agreements(database) == {"orders": PAUSED}


def test_one_holder_at_a_time_until_it_lets_go_or_time_runs_out(database: Connection) -> None:
    def hold(holder: str, now: float) -> bool:
        return hold_lease(database, "reconciler", holder, now=now, seconds=10)

    assert hold("a", 100)
    assert not hold("b", 105)
    assert hold("a", 105)
    assert not hold("b", 114)
    assert hold("b", 116)
    assert not hold("a", 117)
    drop_lease(database, "reconciler", "a")  # it is not a's to drop
    assert not hold("a", 117)
    drop_lease(database, "reconciler", "b")
    assert hold("a", 117)
