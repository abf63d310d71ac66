"""Sinks whose disk is full: the error names the path, nothing is lost or doubled, and the next run goes on when there is space."""

from __future__ import annotations

import json
import random
import resource
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from airflow_provider_connect.connectors.filesystem.sink import FileSystemSinkConnector
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.batch import Batch
from tests.integration.lake import notes, test_delta_sink, test_iceberg_sink
from tests.integration.lake.delta_tables import delta_rows
from tests.integration.lake.delta_zombies import UPSERT
from tests.integration.lake.notes import batches, note
from tests.integration.lake.tables import rows_of

BYTES = 600 << 10
ROOM = 16 << 20
COUNT = 400  # records of 4,000 bytes


@dataclass(frozen=True, slots=True)
class Disk:
    """A folder with little space. ``grow`` gives it more."""

    folder: Path
    error: str
    grow: Callable[[], object]


@pytest.fixture(params=["disk", "limit"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """A file system of its own, where this process may mount one; or a limit for the size of each file, which any process has."""
    if request.param == "limit":
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (BYTES // 2, before[1]))
        yield Disk(tmp_path, "File too large", lambda: resource.setrlimit(resource.RLIMIT_FSIZE, before))
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        return
    mount = ["mount", "-t", "tmpfs", "-o", f"size={BYTES}", "none", str(tmp_path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this process may not mount file systems")
    grow = partial(subprocess.run, ["mount", "-o", f"remount,size={ROOM}", str(tmp_path)], check=True)
    try:
        yield Disk(tmp_path, "No space left on device", grow)
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


@dataclass(frozen=True, slots=True)
class Sink:
    """How a sink is configured on a folder, how it is run, and how its rows are read."""

    config: Callable[[Path], dict[str, str]]
    deliver: Callable[..., None]
    ids: Callable[[Path], list[int]]


def lake(sink: Any, read: Callable[[Path], list[dict[str, Any]]], **more: str) -> Sink:
    return Sink(lambda folder: sink.config(folder, **more), sink.deliver, lambda folder: sorted(row["id"] for row in read(folder)))


def files(format: str) -> Sink:
    def ids(folder: Path) -> list[int]:
        found: list[int] = []
        for path in (folder / "topics" / "notes").rglob("*+*"):
            lines = path.read_text().splitlines() if format == "json" else ()
            found += [json.loads(line)["id"] for line in lines]
            found += [] if format == "json" else pyarrow.parquet.ParquetFile(path).read()["id"].to_pylist()
        return sorted(found)

    own = {"name": "sink", "topics": "notes", "format": format}
    return Sink(lambda folder: own | {"url": str(folder)}, partial(notes.deliver, FileSystemSinkConnector), ids)


ICEBERG, DELTA = partial(rows_of, name="shop.notes"), lambda folder: delta_rows(folder / "notes")
SINKS = {
    "iceberg": lake(test_iceberg_sink, ICEBERG),
    "iceberg upsert": lake(test_iceberg_sink, ICEBERG, **test_iceberg_sink.UPSERT),
    "delta": lake(test_delta_sink, DELTA),
    "delta upsert": lake(test_delta_sink, DELTA, **UPSERT),
    "json": files("json"),
    "parquet": files("parquet"),
}


def large() -> list[Batch]:
    """Records that no codec makes much smaller."""
    draw = random.Random(3)
    return batches([note(id, draw.randbytes(2000).hex()) for id in range(1, COUNT + 1)], first=1)


@pytest.mark.parametrize("name", SINKS)
def test_a_disk_that_is_full_is_named_and_the_next_run_goes_on(disk: Disk, name: str) -> None:
    sink = SINKS[name]
    settings = sink.config(disk.folder)
    sink.deliver(settings, batches([note(0, "a")]))
    with pytest.raises(ConnectException, match=disk.error) as caught:
        sink.deliver(settings, large(), claim_epoch=2)
    assert str(disk.folder) in str(caught.value)
    assert sink.ids(disk.folder) == [0]
    disk.grow()
    sink.deliver(settings, large(), claim_epoch=3)
    assert sink.ids(disk.folder) == list(range(COUNT + 1))
