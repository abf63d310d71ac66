"""The chain of commits of a topic partition, in a folder: takers, processes that were thought dead, and answers that were lost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connectors.filesystem.commit_chain import CommitChain
from airflow_provider_connect.connectors.filesystem.stores.local_store import LocalStore
from airflow_provider_connect.errors import ConfigException, FencedException, StoreException
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED, AllowedPaths
from airflow_provider_connect.sdk.offset_row import OffsetRow


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(ALL_ALLOWED.folder("url", str(tmp_path)))


def chain(store: LocalStore) -> CommitChain:
    return CommitChain(store, "state")


def taken(store: LocalStore, epoch: int, scope: str = "topic") -> CommitChain:
    found = chain(store)
    found.take("t-0", OffsetRow(None, f"{scope}:{epoch}", epoch))
    return found


def data(store: LocalStore, owner: CommitChain, text: str) -> str:
    """A finished temporary file."""
    path = owner.temporary_path(f"{text}.txt")
    store.create(path, text.encode())
    return path


def paths(store: LocalStore, folder: str = "") -> list[str]:
    return [file.path for file in store.files(folder)]


def test_a_commit_publishes_its_files_and_the_next_claim_knows_its_offset(store: LocalStore) -> None:
    first = taken(store, 1)
    first.commit(7, [(data(store, first, "a"), "out/a"), (data(store, first, "b"), "out/b")])
    assert [store.read(path) for path in paths(store, "out")] == [b"a", b"b"]
    assert chain(store).take("t-0", OffsetRow(None, "topic:2", 2)).next_offset == 7


def test_a_zombie_is_fenced_and_publishes_nothing(store: LocalStore) -> None:
    zombie = taken(store, 1)
    temporary = data(store, zombie, "late")
    newer = taken(store, 2)
    with pytest.raises(FencedException):
        zombie.commit(5, [(temporary, "out/late")])
    newer.commit(3, [])
    with pytest.raises(FencedException):
        zombie.commit(5, [(temporary, "out/late")])
    assert paths(store, "out") == []
    assert chain(store).take("t-0", OffsetRow(None, "topic:3", 3)).next_offset == 3


def test_a_zombie_whose_link_was_removed_since_is_fenced(store: LocalStore) -> None:
    """Its next number is free again when old links are gone."""
    zombie = taken(store, 1)
    newer = taken(store, 2)
    for offset in range(6):
        newer.commit(offset, [])
    assert "state/links/00000000000000000001" not in paths(store)
    temporary = data(store, zombie, "late")
    with pytest.raises(FencedException):
        zombie.commit(99, [(temporary, "out/late")])
    assert paths(store, "out") == []
    newer.commit(6, [])
    assert chain(store).take("t-0", OffsetRow(None, "topic:3", 3)).next_offset == 6


@pytest.mark.parametrize("lost", ["the file", "the newest link", "both"])
def test_a_folder_that_was_restored_since_the_last_commit_takes_none(store: LocalStore, lost: str) -> None:
    owner = taken(store, 1)
    owner.commit(3, [(data(store, owner, "a"), "out/a")])
    temporary = data(store, owner, "b")
    for path in (*[temporary] * (lost != "the newest link"), *["state/links/00000000000000000001"] * (lost != "the file")):
        store.remove(path)
    with pytest.raises(StoreException, match="the folder was restored"):
        owner.commit(5, [(temporary, "out/b")])
    assert paths(store, "out") == ["out/a"]
    held = 3 if lost == "the file" else None
    assert chain(store).take("t-0", OffsetRow(None, "topic:2", 2)).next_offset == held


def test_a_commit_whose_files_were_moved_in_part_may_come_again(store: LocalStore) -> None:
    owner = taken(store, 1)
    files = [(data(store, owner, "a"), "out/a"), (data(store, owner, "b"), "out/b")]
    owner.commit(3, files)
    owner.commit(3, files)
    assert paths(store, "out") == ["out/a", "out/b"]


@pytest.mark.parametrize("moved", range(3))
def test_a_taker_finishes_the_commit_of_a_killed_process(store: LocalStore, moved: int) -> None:
    dying = taken(store, 1)
    files = [(data(store, dying, name), f"out/{name}") for name in ("a", "b")]

    class Killed(Exception):
        pass

    moves: list[str] = []

    class DyingStore(LocalStore):
        def move(self, path: str, to: str) -> bool:
            if len(moves) == moved:
                raise Killed
            moves.append(path)
            return super().move(path, to)

    dying._store = DyingStore(ALL_ALLOWED.folder("url", store._root.path))
    if moved < 2:
        with pytest.raises(Killed):
            dying.commit(4, files)
    else:
        dying.commit(4, files)
    assert chain(store).take("t-0", OffsetRow(None, "topic:2", 2)).next_offset == 4
    assert paths(store, "out") == ["out/a", "out/b"]
    for temporary, path in files:  # the zombie goes on with what it was about to do
        store.move(temporary, path)
    assert [store.read(path) for path in paths(store, "out")] == [b"a", b"b"]


def test_a_zombie_between_the_steps_of_a_link_is_fenced(store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newer claim has removed the other name under which the link was written."""
    zombie = taken(store, 1)
    link = os.link

    def slow(*names: str, **options: Any) -> None:
        monkeypatch.setattr(os, "link", link)
        taken(store, 2).commit(4, [])
        link(*names, **options)

    monkeypatch.setattr(os, "link", slow)
    with pytest.raises(FencedException):
        zombie.commit(5, [])
    assert taken(store, 3).next_offset == 4


def test_an_older_claim_cannot_take_the_chain(store: LocalStore) -> None:
    taken(store, 2)
    with pytest.raises(FencedException):
        taken(store, 1)


def test_claims_of_another_config_topic_take_the_chain(store: LocalStore) -> None:
    old = taken(store, 9)
    left = data(store, old, "left")
    assert left in paths(store)
    taken(store, 1, scope="other")
    assert left not in paths(store), "temporary files of older claims are removed, whatever claims they were"
    with pytest.raises(FencedException):
        old.commit(1, [])


def test_a_link_whose_answer_was_lost_counts(store: LocalStore) -> None:
    class Forgetful(LocalStore):
        def create(self, path: str, data: bytes) -> bool:
            super().create(path, data)
            return super().create(path, data)  # the library's own repetition finds what it has written

    forgetful = Forgetful(ALL_ALLOWED.folder("url", store._root.path))
    owner = taken(forgetful, 1)
    owner.commit(2, [(data(store, owner, "a"), "out/a")])
    assert paths(store, "out") == ["out/a"]


def test_altered_offsets_fence_the_task_that_still_writes(store: LocalStore) -> None:
    owner = taken(store, 1)
    owner.commit(5, [])
    assert chain(store).alter(2)
    with pytest.raises(FencedException):
        owner.commit(6, [])
    assert chain(store).take("t-0", OffsetRow(None, "topic:1", 1)).next_offset == 2


def test_few_links_stay(store: LocalStore) -> None:
    owner = taken(store, 1)
    for offset in range(20):
        owner.commit(offset, [])
    assert len(paths(store, "state/links")) == 4


def test_a_link_that_cannot_be_read_is_no_beginning(store: LocalStore) -> None:
    taken(store, 1)
    store.create("state/links/00000000000000000001", b"{")
    with pytest.raises(StoreException, match="does not contain the offset"):
        taken(store, 2)


def test_no_path_and_no_link_leads_out_of_the_folder(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (inside / "way").symlink_to(outside)
    store = LocalStore(AllowedPaths((str(inside),)).folder("url", str(inside)))
    for path in ("../outside/secret", "way/secret", "a/../../outside/secret"):
        with pytest.raises(ConfigException, match="url"):
            store.read(path)
        with pytest.raises(ConfigException, match="url"):
            store.create(path + "2", b"")
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert paths(store) == []


def test_a_root_that_vanishes_is_not_created(tmp_path: Path) -> None:
    root = tmp_path / "mount"
    root.mkdir()
    store = LocalStore(ALL_ALLOWED.folder("url", str(root)))
    store.create("a/b", b"x")
    for path in ("a/b", "a", "."):
        (root / path).unlink() if path == "a/b" else (root / path).rmdir()
    with pytest.raises(ConfigException, match="url: There is no folder"):
        store.create("a/c", b"x")
    assert not root.exists()


def test_a_listing_is_in_order_and_goes_on_behind_a_path(store: LocalStore) -> None:
    names = ["a", "a-", "b/1", "b/2", "b-1", "c/d/e", "c/d!"]
    for name in names:
        store.create(name, b"x")
    every = paths(store)
    assert every == sorted(names)
    for number, path in enumerate(every):
        assert [file.path for file in store.files("", after=path)] == every[number + 1 :]
