"""Small files that become very much more: their readers stay within memory and time, and say what is wrong."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.connectors.filesystem.formats import avro, orc, parquet
from airflow_provider_connect.connectors.filesystem.formats.file_format import file_format
from airflow_provider_connect.data import expansion
from airflow_provider_connect.errors import DataException
from tests.conftest import CHECKOUT
from tests.unit.connectors.filesystem.expansions import (
    FILES,
    LONG_ENUM,
    avro_file,
    lying_parquet,
    one_list,
    orc_file,
    parquet_file,
    same,
    zipped,
)

MOST_FILE_BYTES = 20_000
MOST_BYTES = 640 << 20  # of a process that reads one; it begins with 60 MiB
MOST_SECONDS = 30.0  # of a processor, on a machine with others on it
READABLE = {
    *("CSV of empty rows", "JSON of empty lines", "bytes of empty lines", "Avro of records of a byte"),
    *("ORC of zeros", "ORC of nulls"),
    *("Parquet of nulls", "Parquet of copies in lists", "Parquet of texts that begin alike"),
}


@pytest.fixture(scope="module")
def found() -> Any:
    command = [sys.executable, "-m", "tests.unit.connectors.filesystem.expansions"]
    return json.loads(subprocess.run(command, cwd=CHECKOUT, check=True, capture_output=True, text=True).stdout)


@pytest.mark.soak  # a minute of a processor; each limit by itself: below
@pytest.mark.parametrize("name", FILES)
def test_a_small_file_cannot_become_more_than_a_process_bears(found: dict[str, Any], name: str) -> None:
    one = found[name]
    assert "rows" in one, "its process was killed"
    assert one["size"] < MOST_FILE_BYTES
    assert one["most"] < MOST_BYTES
    assert one["seconds"] < MOST_SECONDS
    assert bool(one["faults"]) is (name not in READABLE), one["last"]


LOW_BYTES, LOW_TIMES = 10_000, 10
EXPANDED = f"expand to more than {LOW_TIMES} times as many"
UNPACKED = (expansion.check_unpacked, "__defaults__", (LOW_BYTES,))
LIMITS: Mapping[str, tuple[str, str | None, Callable[[], bytes], tuple[object, str, object], str]] = {
    "unpacked bytes of a text": ("csv", "gzip", lambda: zipped(b"a,b\n" + b"1,2\n" * 10_000), UNPACKED, EXPANDED),
    "unpacked pages of Parquet": ("parquet", None, lambda: lying_parquet(100_000), UNPACKED, EXPANDED),
    "rows of Parquet": (
        "parquet",
        None,
        lambda: parquet_file(pa.table({"a": same("x" * 1000, pa.string(), 100)})),
        (parquet, "MOST_MADE", LOW_BYTES),
        EXPANDED,
    ),
    "lists of Parquet": ("parquet", None, lambda: parquet_file(one_list(5000)), (parquet, "MOST_BYTES", LOW_BYTES), "Its lists may need"),
    "rows of ORC": ("orc", None, lambda: orc_file(pa.table({"a": ["x" * 1000] * 100})), (orc, "MOST_MADE", LOW_BYTES), EXPANDED),
    "values of Avro": ("avro", None, lambda: avro_file(LONG_ENUM, 100, bytes(100)), (avro, "MOST_BYTES", LOW_BYTES), EXPANDED),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_file_that_expands_beyond_a_limit_is_read_no_further(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    format, codec, data, limit, message = LIMITS[name]
    monkeypatch.setattr(expansion, "_MOST_TIMES", LOW_TIMES)
    monkeypatch.setattr(*limit)
    *_, last = file_format(format, codec, {}).read(io.BytesIO(data()), None)
    assert isinstance(last, DataException)
    assert message in last.message
