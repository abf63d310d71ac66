"""Chains of commits in a store, and files for them, as one process after another writes them; moves that replace nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from airflow_provider_connect.connectors.filesystem.commit_chain import CommitChain
from airflow_provider_connect.connectors.filesystem.source.task import archive
from airflow_provider_connect.connectors.filesystem.stores.location import STORE_KEYS, open_store
from airflow_provider_connect.connectors.filesystem.stores.store import Store
from airflow_provider_connect.sdk.allowed_paths import NOTHING_ALLOWED
from airflow_provider_connect.sdk.config_def import ConfigDef
from airflow_provider_connect.sdk.offset_row import OffsetRow
from tests.waiting import HANG_SECONDS


def opened(settings: dict[str, str]) -> Store:
    """The store, as a process of its own has it."""
    return open_store(ConfigDef(*STORE_KEYS).parse(settings), NOTHING_ALLOWED)


def taken(store: Store, epoch: int) -> CommitChain:
    """The chain of one partition, with a claim."""
    chain = CommitChain(store, "state")
    chain.take("t-0", OffsetRow(None, f"topic:{epoch}", epoch))
    return chain


def written(store: Store, chain: CommitChain, text: str) -> str:
    """The temporary path of a file that holds ``text``."""
    path = chain.temporary_path(text)
    file = store.new_file(path)
    file.stream.write(text.encode())
    file.close()
    return path


def check_moves_replace_nothing(store: Store, another: Callable[[], Store]) -> None:
    """Files of one name, day after day; then several processes at once."""
    for day in range(4):
        assert store.create("in/orders.csv.gz", f"day {day}".encode())
        archive(store, "in/orders.csv.gz", "done")
    archive(store, "in/orders.csv.gz", "done")  # another process has moved it
    expected = {"done/in/orders.csv.gz": b"day 0"} | {f"done/in/orders-{day}.csv.gz": b"day %d" % day for day in range(1, 4)}
    assert {file.path: store.read(file.path) for file in store.files()} == expected
    with pytest.raises(FileNotFoundError):
        store.move_new("in/none", "done/none")
    stores = [another() for _ in range(4)]
    together = threading.Barrier(len(stores))
    failures: list[BaseException] = []

    def move(number: int) -> None:
        together.wait(HANG_SECONDS)
        try:
            moves = (stores[number].move_new(f"{number}/name", f"same/{each}") for each in range(4))
            assert any(moves)
        except BaseException as error:
            failures.append(error)

    for number in range(len(stores)):
        assert store.create(f"{number}/name", str(number).encode())
    threads = [threading.Thread(target=move, args=(number,)) for number in range(len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(store.read(file.path) for file in store.files("same")) == [b"0", b"1", b"2", b"3"]
    for each in stores:
        each.close()
