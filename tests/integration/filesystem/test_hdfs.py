"""FileSystemSink's store on a real name node and data node: the chain of commits, zombies, whole files, refusals."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from airflow_provider_connect.connectors.filesystem.source.connector import FileSystemSourceConnector
from airflow_provider_connect.connectors.filesystem.stores.location import STORE_KEYS, names_have_last_offset, parse_location
from airflow_provider_connect.connectors.filesystem.stores.web_hdfs_store import WebHdfsStore
from airflow_provider_connect.errors import ConfigException, FencedException, RetriableException
from airflow_provider_connect.sdk.config_def import ConfigDef
from airflow_provider_connect.sdk.testing import run
from tests.hdfs_server import HdfsServer, TwoNameNodes
from tests.integration.filesystem.chains import check_moves_replace_nothing, opened, taken, written


@pytest.fixture(scope="module")
def server() -> Iterator[HdfsServer]:
    with HdfsServer() as server:
        yield server


@pytest.fixture
def settings(server: HdfsServer) -> dict[str, str]:
    return server.settings(uuid.uuid4().hex)


@pytest.mark.soak
def test_zombies_write_nothing(settings: dict[str, str]) -> None:
    """One slept before its commit, the other between its commit and the renames."""
    store = opened(settings)
    first = taken(store, 1)
    late = [(written(store, first, "late"), "out/late")]
    second = taken(opened(settings), 2)
    own = [(written(store, second, "a"), "out/a")]
    second._publish = lambda link: None  # type: ignore[method-assign]  # it sleeps here
    second.commit(2, own)
    assert list(store.files("out")) == []
    third = taken(opened(settings), 3)
    third.commit(5, [(written(store, third, "c"), "out/c")])
    for zombie in (first, second):
        with pytest.raises(FencedException):
            zombie.commit(9, late)
    assert not store.move(*own[0])
    assert {file.path: store.read(file.path) for file in store.files("out")} == {"out/a": b"a", "out/c": b"c"}
    assert list(store.files("state/files")) == []


@pytest.mark.soak
def test_a_file_of_many_parts_replaces_another(settings: dict[str, str]) -> None:
    store = opened(settings)
    assert store.create("out/k=ä b%2F", b"old")
    file = store.new_file("large")
    for _ in range(3):
        file.stream.write(b"x" * (9 << 20))
    file.close()
    assert store.move("large", "out/k=ä b%2F")
    assert [(each.path, each.size) for each in store.files()] == [("out/k=ä b%2F", 27 << 20)]
    with store.open("out/k=ä b%2F") as opened_file:
        opened_file.seek(-3, 2)
        assert opened_file.read() == b"xxx"


@pytest.mark.soak
def test_a_user_without_rights_is_refused_by_name(settings: dict[str, str]) -> None:
    opened(settings).create("mine", b"x")
    with pytest.raises(ConfigException, match=r"url: .*Check hdfs\.user"):
        opened(settings | {"hdfs.user": "stranger"}).create("other", b"x")


def test_a_cluster_that_is_away_is_retriable() -> None:
    store = opened({"url": "webhdfs://127.0.0.1:9/data"})
    with pytest.raises(RetriableException, match="data/x cannot be used now"):
        store.read("x")


@pytest.mark.parametrize("key", ["url", "hdfs.url", "store.url"])
def test_addresses_of_the_well_known_sinks(key: str) -> None:
    config = ConfigDef(*STORE_KEYS).parse({key: "hdfs://name-node:8020/data"})
    location = parse_location(config)
    assert (location.key, location.host, location.folder, names_have_last_offset(config)) == (key, "name-node:8020", "data", True)


@pytest.mark.soak
def test_two_name_nodes_take_turns() -> None:
    """A failover, a name node that is gone, and one on standby alone."""
    with TwoNameNodes() as cluster:
        settings = cluster.settings("data")
        store = opened(settings)
        with pytest.raises(RetriableException, match="No name node is active"):
            store.create("early", b"x")
        cluster.make_active(1)
        chain = taken(store, 1)
        chain.commit(2, [(written(store, chain, "a"), "out/a")])
        cluster.make_standby(1)
        cluster.make_active(0)
        chain.commit(4, [(written(store, chain, "b"), "out/b")])
        assert not store.create("out/a", b"other")
        cluster.make_standby(0)
        cluster.make_active(1)
        cluster.end(0)
        newer = taken(opened(settings), 2)
        newer.commit(6, [(written(store, newer, "c"), "out/c")])
        with pytest.raises(FencedException):
            chain.commit(8, [])
        assert {file.path: store.read(file.path) for file in store.files("out")} == {f"out/{name}": name.encode() for name in "abc"}
        cluster.make_standby(1)
        alone = settings | {"url": f"webhdfs://127.0.0.1:{cluster.ports[1]}/data"}
        with pytest.raises(RetriableException, match="List all name nodes of the cluster: webhdfs://first:port,second:port"):
            opened(alone).read("out/a")


@pytest.mark.parametrize("nodes", ["a:0,b:1", "a,", ",a", "a:x,b", "user@a,b"])
def test_name_nodes_that_are_none_are_refused(nodes: str) -> None:
    with pytest.raises(ConfigException, match="url"):
        parse_location(ConfigDef(*STORE_KEYS).parse({"url": f"webhdfs://{nodes}/data"}))


@pytest.mark.soak
def test_an_archive_replaces_no_file(settings: dict[str, str]) -> None:
    check_moves_replace_nothing(opened(settings), lambda: opened(settings))


@pytest.mark.soak
def test_a_folder_that_is_missing_or_vanishes_fails_the_source_by_name(settings: dict[str, str]) -> None:
    config = settings | {"topic": "t", "file.minimum.age.ms": "0", "batch.max.rows": "7"}
    for _ in range(2):
        for use in (lambda: run(FileSystemSourceConnector(), config), lambda: FileSystemSourceConnector().check(config)):
            with pytest.raises(ConfigException, match="There is no such folder"):
                use()
        assert opened(settings).create("a.json", b"1\n")
        assert [record.value for record in run(FileSystemSourceConnector(), config).records] == [1]
        store = opened(settings)
        assert isinstance(store, WebHdfsStore)
        store._cluster.rm(store._root, recursive=True)
