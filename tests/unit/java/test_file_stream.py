"""Whether Kafka's own file source has anything to do, by the size of its file."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.java.bounded.file_stream import FileStream
from airflow_provider_connect.runtime.worker.bounded_call import within


@pytest.mark.parametrize(
    ("offset", "answer"),
    [({"position": 3}, True), ({"position": 4}, False), ({"position": 5}, None), (None, None), ({}, None), ({"position": "4"}, None)],
)
def test_what_lies_behind_the_committed_position_is_new(tmp_path: Path, offset: "dict[str, object] | None", answer: bool | None) -> None:
    file = tmp_path / "in.txt"
    file.write_text("one\n")

    def offsets(partition: "Mapping[str, object]") -> "Mapping[str, object] | None":
        assert partition == {"filename": str(file)}
        return offset

    assert FileStream().has_new_data({"file": str(file)}, offsets, within) is answer


def test_a_run_finds_out_where_there_is_no_file_to_measure(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in ("", str(tmp_path / "none"), str(tmp_path), str(tmp_path / "pipe"), "a\0b", str(tmp_path / ("x" * 300))):
        assert FileStream().has_new_data({"file": path}, lambda _: {"position": 0}, within) is None
