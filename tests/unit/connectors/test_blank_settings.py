"""Settings whose value may be white space reach the readers as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connectors.filesystem.source.connector import FileSystemSourceConnector
from airflow_provider_connect.connectors.logs.source import LogSourceConnector
from airflow_provider_connect.sdk import ConfigDef, ConfigKey
from airflow_provider_connect.sdk.testing import run


def values(connector: Any, **config: str) -> list[Any]:
    records = run(connector, {key.replace("_", "."): text for key, text in config.items()}).records
    return [record.value if isinstance(record.value, str | bytes) else record.value.as_dict() for record in records]


@pytest.mark.parametrize("blank", [" ", "\t", "\\t"])
def test_a_blank_separates_the_columns_of_csv(tmp_path: Path, blank: str) -> None:
    space = blank.replace("\\t", "\t")
    (tmp_path / "a.csv").write_text(f"x{space}y\n1{space}2\n")
    found = values(FileSystemSourceConnector(), url=str(tmp_path), topic="t", format="csv", csv_delimiter=blank, file_minimum_age_ms="0")
    assert found == [{"x": "1", "y": "2"}]


@pytest.mark.parametrize("blank", [" ", "\t", "\n", " \n"])
def test_a_blank_separates_records_of_bytes(tmp_path: Path, blank: str) -> None:
    (tmp_path / "a.bin").write_text(f"a{blank}b{blank}")
    config = {"url": str(tmp_path), "topic": "t", "format": "bytes", "format.bytearray.separator": blank, "file.minimum.age.ms": "0"}
    assert [record.value for record in run(FileSystemSourceConnector(), config).records] == [b"a", b"b"]


@pytest.mark.parametrize("blank", [" ", "\t"])
def test_a_blank_separates_the_fields_of_log_lines(tmp_path: Path, blank: str) -> None:
    (tmp_path / "a.log").write_text(f'1{blank}"2 3"\n')
    paths = f"{tmp_path}/*.log"
    found = values(LogSourceConnector(), paths=paths, topic="t", line_format="csv", csv_fields="x,y", csv_delimiter=blank)
    assert [(each["x"], each["y"]) for each in found] == [("1", "2 3")]


def test_other_texts_are_without_blanks_at_their_ends_as_in_kafka() -> None:
    keys = ConfigDef(ConfigKey("a", default=""), ConfigKey("b", default=" ", keeps_blanks=True))
    assert dict(keys.parse({"a": " x ", "b": " x "})) == {"a": "x", "b": " x "}
    assert dict(keys.parse({})) == {"a": "", "b": " "}
