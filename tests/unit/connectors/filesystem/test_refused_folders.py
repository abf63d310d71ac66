"""Folders of servers that the user may not list: the others are listed, and the refusal is kept. On clients that answer from a list."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import asyncssh
import pytest

from airflow_provider_connect.connectors.filesystem.stores.sftp_store import SftpStore
from airflow_provider_connect.connectors.filesystem.stores.store import SkippedFiles
from airflow_provider_connect.connectors.filesystem.stores.web_hdfs_store import WebHdfsStore
from airflow_provider_connect.errors import ConfigException

TREE = {"": ["a", "b", "c", ".d"], "/a": ["1"], "/b": None, "/c": ["2"], "/.d": None}
"""The entries of each folder; files are numbers. None: the user may not list it."""


def sftp(monkeypatch: pytest.MonkeyPatch) -> SftpStore:
    async def readdir(path: str) -> list[Any]:
        names = TREE[path.rstrip("/")]
        if names is None:
            raise asyncssh.SFTPPermissionDenied("Permission denied")
        kinds = (asyncssh.FILEXFER_TYPE_REGULAR if name.isdecimal() else asyncssh.FILEXFER_TYPE_DIRECTORY for name in names)
        found = (SimpleNamespace(type=kind, size=1, mtime=1) for kind in kinds)
        return [SimpleNamespace(filename=name, attrs=attributes) for name, attributes in zip(names, found, strict=True)]

    def call(_: SftpStore, act: Callable[[Any], Awaitable[Any]]) -> Any:
        async def answer() -> Any:
            return await act(SimpleNamespace(readdir=readdir))

        return asyncio.run(answer())

    monkeypatch.setattr(SftpStore, "call", call)
    store = SftpStore.__new__(SftpStore)
    store._root, store._given, store._keys, store.skipped = "", "sftp://host", ("url", "password", "hosts"), SkippedFiles()
    return store


def hdfs(_: pytest.MonkeyPatch) -> WebHdfsStore:
    def ls(path: str, detail: bool) -> list[dict[str, Any]]:
        assert detail
        names = TREE[path.rstrip("/")]
        if names is None:
            raise PermissionError("Permission denied")
        return [
            {"name": f"{path}/{name}", "type": "file" if name.isdecimal() else "directory", "size": 1, "modificationTime": 1}
            for name in names
        ]

    store = WebHdfsStore.__new__(WebHdfsStore)
    store._root, store._given, store._key, store.skipped = "", "hdfs://host", "url", SkippedFiles()
    store._cluster = cast(Any, SimpleNamespace(ls=ls))
    return store


@pytest.mark.parametrize("opened", [sftp, hdfs])
def test_a_refused_folder_costs_no_other(opened: Callable[[pytest.MonkeyPatch], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    store = opened(monkeypatch)
    assert [file.path for file in store.files()] == ["a/1", "c/2"]
    assert {folder: str(error).partition(": ")[0] for folder, error in store.skipped.folders.items()} == {
        "b": f"Invalid value {store._given} for configuration url"
    }
    with pytest.raises(ConfigException, match="/b"):
        list(store.files("b"))
