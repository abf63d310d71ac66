"""Files of which users of other connectors have lost rows or whole folders. Each names its report."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connectors.filesystem.formats.file_format import file_format
from airflow_provider_connect.connectors.filesystem.source.connector import FileSystemSourceConnector
from airflow_provider_connect.data.columns import column_of, values_of
from airflow_provider_connect.data.schema import INT64_SCHEMA, Schema, SchemaType, Struct
from airflow_provider_connect.sdk.testing import Offsets, SourceRun, run
from tests.reaching import reaching
from tests.unit.connectors.filesystem.test_formats import pieces, written


def read(folder: Path, offsets: Offsets | None = None, **more: str) -> SourceRun:
    config = {"url": str(folder), "topic": "t", "file.minimum.age.ms": "0"} | {key.replace("_", "."): value for key, value in more.items()}
    return run(FileSystemSourceConnector(), config, offsets=offsets)


def rows(done: SourceRun) -> list[dict[str, Any]]:
    return [record.value.as_dict() for record in done.records]


SONG = 'I don\'t love you\r\n\r\nlike I love, my ""dog""\n\n'


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
def test_a_csv_with_a_mark_line_ends_in_texts_and_none_at_its_end(tmp_path: Path, bom: bytes, end: str) -> None:
    """opensearch-project/data-prepper 2471 (a mark in the first name), 5503, airbytehq/airbyte 31968, 16773."""
    (tmp_path / "a.csv").write_bytes(bom + f'col1,col2\r\na,"{SONG}"\r\n"b^M\r",102{end}'.encode())
    text = SONG.replace('""', '"')
    assert rows(read(tmp_path, format="csv")) == [{"col1": "a", "col2": text}, {"col1": "b^M\r", "col2": "102"}]


def test_a_name_that_a_csv_has_twice_is_an_error_and_holds_up_no_other_file(tmp_path: Path) -> None:
    """singer-io/tap-s3-csv 30: the value of the second column was lost."""
    (tmp_path / "a.csv").write_text("id,name,name\n1,x,y\n")
    (tmp_path / "b.csv").write_text("id,name\n2,z\n")
    done = read(tmp_path, format="csv", errors_tolerance="all")
    assert rows(done) == [{"id": "2", "name": "z"}]
    [error] = done.skipped
    assert "a.csv" in str(error)
    assert "csv.header=false" in str(error)
    assert [list(row.values()) for row in rows(read(tmp_path, format="csv", csv_header="false"))][:2] == [
        ["id", "name", "name"],
        ["1", "x", "y"],
    ]


def test_new_files_of_earlier_folders_are_read(tmp_path: Path) -> None:
    """lensesio/stream-reactor 903: behind a first read only the last folder was followed."""
    for number in (0, 1, 10, 2):
        (tmp_path / f"t/{number}").mkdir(parents=True)
        (tmp_path / f"t/{number}/9.json").write_text(f"{number}\n")
    first = read(tmp_path)
    assert sorted(record.value for record in first.records) == [0, 1, 2, 10]
    (tmp_path / "t/0/10.json").write_text("100\n")
    (tmp_path / "t/1/8.json").write_text("101\n")
    assert sorted(record.value for record in read(tmp_path, first.offsets).records) == [100, 101]


@pytest.mark.parametrize("leads_to", ["folder", "file", "nothing"])
def test_a_folder_of_links_is_named(tmp_path: Path, leads_to: str, caplog: pytest.LogCaptureFixture) -> None:
    """open-telemetry/opentelemetry-collector-contrib 25839, for logs: nothing was read, without a message."""
    inside, outside = tmp_path / "in", tmp_path / "elsewhere"
    inside.mkdir()
    (outside / "data").mkdir(parents=True)
    (outside / "data/a.json").write_text("1\n")
    (inside / "link.json").symlink_to({"folder": outside / "data", "file": outside / "data/a.json", "nothing": outside / "none"}[leads_to])
    connector = reaching(FileSystemSourceConnector())
    connector.check({"url": str(inside), "topic": "t"})
    assert "'link.json' is not read: links are not followed" in str(connector.missing)
    (inside / "b.json").write_text("2\n")
    assert [record.value for record in read(inside).records] == [2]
    assert "'link.json' is not read: links are not followed" in caplog.text


def test_a_link_to_what_is_read_under_its_own_name_is_not_worth_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "2026").mkdir()
    (tmp_path / "2026/a.json").write_text("1\n")
    (tmp_path / "latest").symlink_to("2026")
    (tmp_path / "a.json").symlink_to("latest/a.json")
    assert [record.value for record in read(tmp_path).records] == [1]
    assert not caplog.records


def test_a_link_to_what_is_hidden_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As Kubernetes mounts a volume's files; ``..data`` itself is hidden."""
    (tmp_path / "..2026").mkdir()
    (tmp_path / "..2026/a.json").write_text("1\n")
    (tmp_path / "..data").symlink_to("..2026")
    (tmp_path / "a.json").symlink_to("..data/a.json")
    assert read(tmp_path).records == []
    assert "The link 'a.json' is not read: links are not followed" in caplog.text


def test_what_is_no_file_is_passed_over(tmp_path: Path) -> None:
    """A pipe, at which a reader would wait."""
    os.mkfifo(tmp_path / "a.json")
    (tmp_path / "b.json").write_text("1\n")
    assert [record.value for record in read(tmp_path).records] == [1]


@pytest.mark.parametrize("name", ["json", "csv", "parquet", "avro", "orc"])
def test_a_null_is_no_default(name: str) -> None:
    """confluentinc/kafka-connect-storage-cloud 716, 751: a null of a field that has a default was written as the default; in JSON it is so
    by Connect's converter, but where a setting of its name is false."""
    options = {"json.replace.null.with.default": "false"}
    text = Schema.of(SchemaType.STRING, optional=True, default="default_str")
    schema = Schema.struct({"id": INT64_SCHEMA, "name": text})
    data = written(
        file_format(name, None, options),
        schema,
        column_of([Struct(schema, {"id": 1, "name": None}), Struct(schema, {"id": 2, "name": "x"})], schema),
    )
    [(column, found)] = pieces(file_format(name, None, options), data)
    rows = values_of(column, found)
    assert [row.get_without_default("name") if isinstance(row, Struct) else row["name"] for row in rows] == [None, "x"]


def test_folders_of_a_field_whose_name_begins_with_an_underscore_are_read(tmp_path: Path) -> None:
    """apache/spark 14585, apache/arrow 42160: what had been written was read as nothing."""
    for folder in ("_year=2026/month=1", "_year=2027/month=2", "_temporary/month=3", ".x=1", "y=1"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.json").write_text(f'"{folder}"\n')
    assert [record.value for record in read(tmp_path).records] == ["_year=2026/month=1", "_year=2027/month=2", "y=1"]


@pytest.mark.parametrize("ending", ["._COPYING_", ".filepart"])
def test_a_file_that_another_program_is_still_copying_is_not_read(tmp_path: Path, ending: str) -> None:
    """apache/spark 16370: its rows came twice, under this name and under its own."""
    copied = tmp_path / f"a.json{ending}"
    copied.write_text("1\n")
    assert read(tmp_path).records == []
    copied.rename(tmp_path / "a.json")
    assert [record.value for record in read(tmp_path).records] == [1]


def test_a_manifest_may_begin_with_a_mark_and_have_any_line_ends(tmp_path: Path) -> None:
    """opensearch-project/data-prepper 2471: a mark became part of the first name."""
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.json").write_text(f'"{name}"\n')
    (tmp_path / "list.txt").write_bytes(b"\xef\xbb\xbfa.json\r\nb.json\r\n")
    assert [record.value for record in read(tmp_path, file_manifest="list.txt").records] == ["a", "b"]
