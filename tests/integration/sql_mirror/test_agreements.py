"""Agreements and leases on each kind of database, as the processes of several API servers change them at once."""

from concurrent.futures import ThreadPoolExecutor

from sqlalchemy import Engine

from airflow_provider_connect.runtime.sql_mirror.queries import (
    Agreement,
    agreements,
    drop_agreement,
    drop_lease,
    hold_lease,
    move_agreement,
)

RAN, PAUSED = Agreement(False, "STARTED"), Agreement(True, "PAUSED")
MANY = 16


def test_an_agreement_moves_from_what_was_seen_and_from_nothing_else(database: Engine) -> None:
    with database.begin() as session:
        assert move_agreement(session, "orders", None, RAN)
        assert not move_agreement(session, "orders", None, PAUSED)
        assert not move_agreement(session, "orders", PAUSED, RAN)
        assert move_agreement(session, "orders", RAN, PAUSED), "the transaction goes on behind a refusal"
    with database.begin() as session:
        assert agreements(session) == {"orders": PAUSED}


def test_names_that_differ_in_case_or_accents_are_different_connectors(database: Engine) -> None:
    names = ["orders", "Orders", "ördérs", "n" * 250, "N" * 250, "\U0001f600"]
    with database.begin() as session:
        for name in names:
            assert move_agreement(session, name, None, RAN), name
        assert move_agreement(session, "Orders", RAN, PAUSED)
        drop_agreement(session, "orders")
    with database.begin() as session:
        found = agreements(session)
    assert found == {name: PAUSED if name == "Orders" else RAN for name in names if name != "orders"}


def test_of_many_who_ask_for_a_lease_at_once_one_holds_it(database: Engine) -> None:
    def hold(number: int) -> bool:
        with database.begin() as session:
            return hold_lease(session, "reconciler", f"process-{number}", now=100.0, seconds=10)

    with ThreadPoolExecutor(MANY) as pool:
        held = list(pool.map(hold, range(MANY)))
    assert held.count(True) == 1
    holder = f"process-{held.index(True)}"
    with database.begin() as session:
        assert hold_lease(session, "reconciler", holder, now=100.0, seconds=10), "the same values again, which change no row"
        assert not hold_lease(session, "reconciler", "another", now=109.0, seconds=10)
        assert hold_lease(session, "reconciler", "another", now=111.0, seconds=10)
        drop_lease(session, "reconciler", holder)
        assert not hold_lease(session, "reconciler", holder, now=111.0, seconds=10)


def test_of_many_who_move_an_agreement_at_once_one_does(database: Engine) -> None:
    with database.begin() as session:
        assert move_agreement(session, "orders", None, RAN)

    def move(_: int) -> bool:
        with database.begin() as session:
            return move_agreement(session, "orders", RAN, PAUSED)

    with ThreadPoolExecutor(MANY) as pool:
        assert list(pool.map(move, range(MANY))).count(True) == 1
