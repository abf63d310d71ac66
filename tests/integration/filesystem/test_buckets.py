"""Buckets, which have no rename: zombies, files of many parts, names, a bucket that is not there. On two servers of S3, and one of Azure,
where Go and Node.js are there."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from airflow_provider_connect.connectors.filesystem.commit_chain import CommitChain
from airflow_provider_connect.connectors.filesystem.source.task import archive
from airflow_provider_connect.connectors.filesystem.stores.object_store import ObjectStore
from airflow_provider_connect.connectors.filesystem.stores.store import Store
from airflow_provider_connect.errors import ConfigException, FencedException
from airflow_provider_connect.sdk.offset_row import OffsetRow
from tests.azure_server import AzuriteServer, azurite
from tests.integration.filesystem.chains import check_moves_replace_nothing, opened, taken, written
from tests.s3_servers import SERVERS, MotoServer, S3Server, s3_server

Server = S3Server | AzuriteServer


@pytest.fixture(scope="module", params=[*SERVERS, pytest.param("azurite", marks=pytest.mark.soak)])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    if request.param == "azurite" and azurite() is None:
        pytest.skip("there is no Node.js to run Azurite, or no package of it")
    with AzuriteServer() if request.param == "azurite" else s3_server(request.param) as server:
        yield server


@pytest.fixture
def settings(server: Server) -> dict[str, str]:
    return server.settings(uuid.uuid4().hex)


def published(store: Store) -> dict[str, bytes]:
    return {file.path: store.read(file.path) for file in store.files("out")}


def test_two_zombies_without_rename_write_nothing(settings: dict[str, str]) -> None:
    """One slept before its commit, the other between its commit and the moves, which the newer claim then makes."""
    store = opened(settings)
    first = taken(store, 1)
    late = [(written(store, first, "late"), "out/late")]
    second = taken(opened(settings), 2)
    own = [(written(store, second, "a"), "out/a"), (written(store, second, "b"), "out/b")]
    second._publish = lambda link: None  # type: ignore[method-assign]  # it sleeps here
    second.commit(2, own)
    assert published(store) == {}
    third = taken(opened(settings), 3)
    assert published(store) == {"out/a": b"a", "out/b": b"b"}
    third.commit(5, [(written(store, third, "c"), "out/c")])
    with pytest.raises(FencedException):
        first.commit(9, late)
    for temporary, path in own:  # the second wakes up
        assert not store.move(temporary, path)
    with pytest.raises(FencedException):
        second.commit(9, [(own[0][0], "out/z")])
    assert published(store) == {"out/a": b"a", "out/b": b"b", "out/c": b"c"}
    assert [file.path for file in store.files("state/files")] == []
    assert CommitChain(store, "state").take("t-0", OffsetRow(None, "topic:4", 4)).next_offset == 5


def test_only_one_of_many_creates_an_object(settings: dict[str, str]) -> None:
    stores = [opened(settings) for _ in range(5)]
    assert sorted(store.create("link", str(number).encode()) for number, store in enumerate(stores)) == [False] * 4 + [True]


def test_a_large_file_is_seen_whole_or_not(settings: dict[str, str]) -> None:
    store = opened(settings)
    file = store.new_file("large")
    for number in range(3):
        file.stream.write(bytes([number]) * (9 << 20))
        assert list(store.files()) == []
    file.close()
    assert [each.size for each in store.files()] == [27 << 20]
    abandoned = store.new_file("abandoned")
    abandoned.stream.write(b"x" * (20 << 20))
    abandoned.discard()
    del abandoned
    assert [each.path for each in store.files()] == ["large"]


def test_names_and_a_listing_behind_a_path(settings: dict[str, str]) -> None:
    store = opened(settings)
    names = ["a/name=ä b%2F+c.json", "a/name=é", "b/1", "b/2"]
    for name in names:
        assert store.create(name, name.encode())
    assert [file.path for file in store.files()] == sorted(names)
    assert [file.path for file in store.files("b", after="b/1")] == ["b/2"]
    assert store.read(names[0]) == names[0].encode()
    with pytest.raises(FileNotFoundError):
        store.read("c")


def test_keys_of_s3_are_listed_without_the_library_too(settings: dict[str, str]) -> None:
    if "aws.access.key.id" not in settings:
        pytest.skip("the listing by keys is that of S3")
    store = opened(settings)
    assert isinstance(store, ObjectStore)
    for name in ("a/name=ä b%2F+c&d.json", "a/name=é", "a-b", "b/1", "b/2"):
        assert store.create(name, name.encode())
    for folder, after in (("", ""), ("a", ""), ("b", "b/1"), ("", "a/name=é")):
        by_library, by_key = store.files(folder, after), store._files_by_key(folder, after)
        assert [(file.path, file.size, file.tag) for file in by_key] == [(file.path, file.size, file.tag) for file in by_library]


def test_a_wrong_bucket_is_named(server: Server) -> None:
    settings = server.settings("x")
    store = opened(settings | {"url": settings["url"].replace(server.bucket, "no-such-bucket")})
    with pytest.raises(ConfigException, match="url: There is no such bucket"):
        taken(store, 1)


def test_wrong_keys_are_named(server: Server) -> None:
    if isinstance(server, MotoServer):
        pytest.skip("it takes any credentials")
    settings = server.settings("x")
    for key in {"aws.secret.access.key", "azblob.account.key"} & settings.keys():
        with pytest.raises(ConfigException, match=f"The store refuses access.*{key.replace('.', '[.]')}"):
            taken(opened(settings | {key: "d3Jvbmc="}), 1)


def test_an_archive_replaces_no_file(settings: dict[str, str]) -> None:
    check_moves_replace_nothing(opened(settings), lambda: opened(settings))


@pytest.mark.parametrize("step", ["move", "remove"])
def test_a_move_that_was_killed_is_ended_by_the_next(settings: dict[str, str], step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before the copy, or before the original is removed. The archive has a file of that name and size of the day before."""
    store = opened(settings)
    for path, data in (("done/a.json", b"old"), ("a.json", b"new")):
        assert store.create(path, data)

    def killed(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store, step, killed)
        with pytest.raises(KeyboardInterrupt):
            archive(store, "a.json", "done")
    archive(store, "a.json", "done")
    assert {file.path: store.read(file.path) for file in store.files()} == {"done/a.json": b"old", "done/a-1.json": b"new"}
