"""Files of 10 kB that become very much more: their readers stay within memory and time, and say what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import CHECKOUT
from tests.unit.connectors.filesystem.expansions import FILES

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


@pytest.mark.soak  # a minute of a processor; a limit of each reader by itself: test_formats, test_broken_files
@pytest.mark.parametrize("name", FILES)
def test_a_small_file_cannot_become_more_than_a_process_bears(found: dict[str, Any], name: str) -> None:
    one = found[name]
    assert "rows" in one, "its process was killed"
    assert one["size"] < MOST_FILE_BYTES
    assert one["most"] < MOST_BYTES
    assert one["seconds"] < MOST_SECONDS
    assert bool(one["faults"]) is (name not in READABLE), one["last"]
