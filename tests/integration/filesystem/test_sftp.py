"""Files on a real SFTP server: zombies, only one creates a file, whole files, whom the client trusts, what it takes of the host. On two
servers where OpenSSH's can be had."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import cast

import asyncssh
import pytest

from airflow_provider_connect.connectors.filesystem.commit_chain import CommitChain
from airflow_provider_connect.connectors.filesystem.sink import FileSystemSinkConnector
from airflow_provider_connect.connectors.filesystem.source.connector import FileSystemSourceConnector
from airflow_provider_connect.connectors.filesystem.stores.location import STORE_KEYS, open_store
from airflow_provider_connect.connectors.filesystem.stores.sftp_store import SftpStore
from airflow_provider_connect.connectors.filesystem.stores.store import Store
from airflow_provider_connect.errors import ConfigException, FencedException, RetriableException
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED
from airflow_provider_connect.sdk.config_def import ConfigDef
from airflow_provider_connect.sdk.offset_row import OffsetRow
from airflow_provider_connect.sdk.testing import run
from tests.integration.filesystem.chains import check_moves_replace_nothing, opened, taken, written
from tests.sftp_server import PASSPHRASE, OpenSshServer, SftpServer, openssh
from tests.waiting import HANG_SECONDS


@pytest.fixture(scope="module", params=["asyncssh", pytest.param("openssh", marks=pytest.mark.soak)])
def server(request: pytest.FixtureRequest) -> Iterator[SftpServer]:
    if request.param == "openssh" and openssh() is None:
        pytest.skip("there is no OpenSSH, and no package of it")
    with SftpServer() if request.param == "asyncssh" else OpenSshServer() as server:
        yield server


@pytest.fixture
def settings(server: SftpServer) -> dict[str, str]:
    return server.settings(uuid.uuid4().hex)


@pytest.fixture
def store(settings: dict[str, str]) -> Iterator[Store]:
    store = opened(settings)
    yield store
    store.close()


def published(store: Store) -> dict[str, bytes]:
    return {file.path: store.read(file.path) for file in store.files("out")}


def test_zombies_write_nothing(store: Store, settings: dict[str, str]) -> None:
    """One slept before its commit, the other between its commit and the moves."""
    others = [opened(settings), opened(settings)]
    first = taken(store, 1)
    late = [(written(store, first, "late"), "out/late")]
    second = taken(others[0], 2)
    own = [(written(store, second, "a"), "out/a")]
    second._publish = lambda link: None  # type: ignore[method-assign]  # it sleeps here
    second.commit(2, own)
    assert published(store) == {}
    third = taken(others[1], 3)
    third.commit(5, [(written(store, third, "c"), "out/c")])
    for zombie in (first, second):
        with pytest.raises(FencedException):
            zombie.commit(9, late)
    assert not store.move(*own[0])
    assert published(store) == {"out/a": b"a", "out/c": b"c"}
    assert [file.path for file in store.files("state/files")] == []
    assert CommitChain(store, "state").take("t-0", OffsetRow(None, "topic:4", 4)).next_offset == 5
    for each in others:
        each.close()


def test_only_one_of_many_creates_a_file(settings: dict[str, str]) -> None:
    stores = [opened(settings) for _ in range(5)]
    together, created = threading.Barrier(len(stores)), []

    def create(number: int) -> None:
        together.wait(HANG_SECONDS)
        created.append(stores[number].create("link", str(number).encode()) and number)

    threads = [threading.Thread(target=create, args=(number,)) for number in range(len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [winner] = [each for each in created if each is not False]
    assert {file.path: stores[0].read(file.path) for file in stores[0].files()} == {"link": str(winner).encode()}
    for store in stores:
        store.close()


def test_a_large_file_replaces_another_and_is_read_anywhere(store: Store) -> None:
    assert store.create("out/k=ä b%2F", b"old")
    file = store.new_file("large")
    for number in range(3):
        file.stream.write(bytes([number]) * (9 << 20))
    file.close()
    assert store.move("large", "out/k=ä b%2F")
    assert [(each.path, each.size) for each in store.files()] == [("out/k=ä b%2F", 27 << 20)]
    with store.open("out/k=ä b%2F") as read:
        assert read.seek(-(9 << 20) - 1, 2) == (18 << 20) - 1
        assert read.read(3) == b"\1\2\2"
        assert len(read.read()) == (9 << 20) - 2
    abandoned = store.new_file("abandoned")
    abandoned.stream.write(b"x")
    abandoned.discard()
    assert [each.path for each in store.files()] == ["out/k=ä b%2F"]


def test_listings_leave_links_out_and_go_on_behind_a_path(store: Store, server: SftpServer, settings: dict[str, str]) -> None:
    folder = server.data / settings["url"].rpartition("/")[2]
    for name in ("a/1", "a.txt", "b/1", "b/2"):
        assert store.create(name, name.encode())
    (folder / "link").symlink_to(folder / "a.txt")
    (folder / "folder-link").symlink_to(folder / "a")
    assert [file.path for file in store.files()] == ["a.txt", "a/1", "b/1", "b/2"]
    assert store.skipped.text == ""
    (folder / "b/out").symlink_to(server.data.parent)
    assert [file.path for file in store.files("b", after="b/1")] == ["b/2"]
    assert "The link 'b/out' is not read: links are not followed" in store.skipped.text
    assert list(store.files("none")) == []
    with pytest.raises(FileNotFoundError):
        store.read("c")


def test_a_login_by_key_to_a_server_known_by_its_fingerprint(server: SftpServer, settings: dict[str, str]) -> None:
    keys = {"sftp.private.key": server.user_key, "sftp.private.key.passphrase": PASSPHRASE, "sftp.known.hosts": server.fingerprint}
    store = opened({key: value for key, value in settings.items() if key != "sftp.password"} | keys)
    assert store.create("a", b"x")
    store.close()


OTHER = asyncssh.generate_private_key("ssh-ed25519")
OTHER_KEY = OTHER.export_private_key(passphrase="a", rounds=50).decode()
OTHER_HOST = OTHER.export_public_key().decode()


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"sftp.known.hosts": OTHER.get_fingerprint("sha256")}, "sftp.known.hosts"),
        ({"sftp.known.hosts": f"* {OTHER_HOST}"}, "sftp.known.hosts"),
        ({"sftp.known.hosts": f"elsewhere {OTHER_HOST}"}, "sftp.known.hosts"),
        ({"sftp.password": "wrong secret"}, "sftp.password"),
        ({"sftp.username": "eve"}, "sftp.username"),
    ],
    ids=["another fingerprint", "another key", "another key of another host", "a wrong password", "an unknown user"],
)
def test_a_wrong_server_or_login_is_refused_by_name(settings: dict[str, str], changes: dict[str, str], key: str) -> None:
    store = opened(settings | changes)
    with pytest.raises(ConfigException, match=key) as raised:
        store.read("x")
    assert key in raised.value.keys
    assert "secret" not in str(raised.value)
    store.close()


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"sftp.known.hosts": "one-word-secret"}, "sftp.known.hosts"),
        ({"sftp.private.key": "-----BEGIN secret"}, "sftp.private.key"),
        ({"sftp.private.key": OTHER_KEY}, "sftp.private.key"),
        (
            {"sftp.private.key": OTHER_KEY, "sftp.private.key.passphrase": "secret"},
            "sftp.private.key.passphrase",
        ),
        ({"sftp.private.key": "/etc/hostname"}, "sftp.private.key"),
        ({"sftp.known.hosts": ""}, "sftp.known.hosts"),
        ({"sftp.username": ""}, "sftp.username"),
        ({"url": "sftp://ada:secret@host/x"}, "url"),
        ({"url": "sftp://host/x?secret=1"}, "url"),
        ({"url": "sftp://host/../x"}, "url"),
    ],
    ids=["known hosts", "no key", "no passphrase", "wrong passphrase", "path", "no hosts", "no user", "user in url", "query", "dots"],
)
def test_a_wrong_setting_is_named_and_no_secret_shown(changes: dict[str, str], key: str) -> None:
    login = {"url": "sftp://host/x", "sftp.username": "ada", "sftp.password": "p", "sftp.known.hosts": f"host {OTHER_HOST}"}
    with pytest.raises(ConfigException) as raised:
        open_store(ConfigDef(*STORE_KEYS).parse(login | changes), ALL_ALLOWED)
    assert key in raised.value.keys
    assert "secret" not in str(raised.value)


def test_nothing_of_the_host_is_used(server: SftpServer, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither its known hosts, nor its keys, nor its configuration."""
    ssh = tmp_path / ".ssh"
    ssh.mkdir()
    (ssh / "known_hosts").write_text(server.known_hosts)
    (ssh / "id_ed25519").write_bytes(asyncssh.import_private_key(server.user_key, PASSPHRASE).export_private_key())
    (ssh / "id_ed25519").chmod(0o600)
    (ssh / "config").write_text(f"Host *\n  User ada\n  Port 9\n  IdentityFile {ssh / 'id_ed25519'}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    for changes, key in (
        ({"sftp.known.hosts": f"elsewhere {OTHER_HOST}"}, "sftp.known.hosts"),
        ({"sftp.known.hosts": "# nothing"}, "sftp.known.hosts"),
        ({"sftp.password": "wrong"}, "sftp.password"),
    ):
        store = opened(settings | changes)
        with pytest.raises(ConfigException, match=key):
            store.read("x")
        store.close()
    store = opened(settings)
    assert store.create("a", b"by the settings alone")
    store.close()


def test_a_folder_that_is_gone_is_named_and_not_created(server: SftpServer, settings: dict[str, str]) -> None:
    folder = server.data / settings["url"].rpartition("/")[2]
    folder.rmdir()
    store = opened(settings)
    for use in (lambda: store.create("a/b", b"x"), lambda: store.read("a"), lambda: store.move("a", "b"), lambda: list(store.files())):
        with pytest.raises(ConfigException, match="url: There is no such folder"):
            use()
    assert not folder.exists()
    store.close()


def test_a_server_that_is_away_is_retriable_and_found_again() -> None:
    with SftpServer() as server:
        store = opened(server.settings("x"))
        assert store.create("a", b"x")
        file = store.new_file("b")
        server.die()
        with pytest.raises(RetriableException, match="/x/a cannot be used now"):
            store.read("a")
        file.discard()
        server.again()
        assert store.read("a") == b"x"
        store.close()


def test_lines_are_read_once_archived_and_written_again(server: SftpServer) -> None:
    """The source, then the sink, by their own suites' runner."""
    folder = uuid.uuid4().hex
    config = server.settings(folder) | {"topic": "t", "file.minimum.age.ms": "0", "cleanup.policy": "archive"}
    (server.data / folder / "in").mkdir()
    for number in range(3):
        lines = "".join(json.dumps({"n": number * 10 + row}) + "\n" for row in range(10))
        (server.data / folder / "in" / f"{number}.json").write_text(lines)
    connector = FileSystemSourceConnector()
    connector.check(config)
    first = run(connector, config, tasks=2)
    assert sorted(record.value["n"] for record in first.records) == list(range(30))
    assert run(FileSystemSourceConnector(), config, offsets=first.offsets).records == []
    assert sorted(server.files(folder)) == [f"finished/in/{number}.json" for number in range(3)]
    assert FileSystemSinkConnector().validate(config | {"name": "s"})


def test_an_archive_replaces_no_file(settings: dict[str, str]) -> None:
    check_moves_replace_nothing(opened(settings), lambda: opened(settings))


def test_a_stream_left_open_does_not_stop_its_connection(settings: dict[str, str]) -> None:
    """The garbage collector may close it in the connection's own thread, which cannot wait for itself."""
    with closing(cast("SftpStore", opened(settings))) as store:
        assert store.create("out/a", b"a")
        left, discarded, closed = store.new_file("out/left"), store.new_file("out/discarded"), threading.Event()
        for file in (left, discarded):
            file.stream.write(b"rest")
        discarded.discard()
        assert discarded.stream.closed
        loop = store._connection._loop
        assert loop is not None

        def close() -> None:
            with suppress(OSError):
                left.stream.close()
            closed.set()

        loop.call_soon_threadsafe(close)
        assert closed.wait(HANG_SECONDS)
        assert store.create("out/b", b"b")
        assert [file.path for file in store.files("out")] == ["out/a", "out/b", "out/left"]
