"""SqlTransform on texts that grow: refused by name, or made within bounds of time and memory, each statement in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final

import pytest

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.transforms import sql as sql_transform
from tests.unit.transforms.test_sql import after, made, rows
from tests.waiting import HANG_SECONDS

MOST_MIB: Final = 700
MOST_SECONDS: Final = 20.0
PROGRAM: Final = """\
import json, resource, sys, time
import pyarrow as pa
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.data.schema import Schema, STRING_SCHEMA
from airflow_provider_connect.transforms.sql import SqlTransform

statement, text, count = json.load(sys.stdin)
values = pa.StructArray.from_arrays([pa.array([text] * count)], ["text"])
batch = Batch("t", values, value_schema=Schema.struct({"text": STRING_SCHEMA}))
made = SqlTransform()
began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    made.configure(SqlTransform.config_def.parse({"sql": statement}))
    made.apply_batch(batch)
    ended = ""
except ConnectException as error:
    ended = f"{type(error).__name__}: {error}"
held = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
print(json.dumps([time.process_time() - began, held, ended]))
"""


def nested(function: str, times: int) -> str:
    return f"SELECT {f'{function}(' * times}text{')' * times} AS x FROM batch"


_REPLACED: Final = ", 'x', 'xxxxxxxx')"
HOSTILE: Final = [
    (nested("hex", 12), "x" * 2000, 1000, "hex at character"),
    (nested("hex", 10), "x" * 2000, 5000, "Out of Memory"),
    (nested("hex", 10), "x" * 1_000_000, 2, "the columns of a record have 1000012 bytes"),
    (nested("hex(greatest", 12).replace("text" + ")" * 12, "text" + ")" * 24), "x" * 2000, 1000, "hex at character"),
    (nested("regexp_escape", 14), "." * 1000, 200, "could make texts more than 1024 times as long"),
    (nested("url_encode", 9), "%" * 1000, 200, "could make texts more than 1024 times as long"),
    ("SELECT to_json(CAST(to_json(CAST(to_json(CAST(to_json(text) AS VARCHAR)) AS VARCHAR)) AS VARCHAR)) AS x FROM batch", '"', 10, "1024"),
    ("SELECT to_json(to_json(string_split(text, ''))) AS x FROM batch", "x" * 100_000, 100, ""),
    (f"SELECT {', '.join(f'''lpad(text, 1000, 'x') AS x{number}''' for number in range(250))} FROM batch", "", 20_000, "creates more than"),
    ("SELECT concat(" + ", ".join(["text"] * 1500) + ") AS x FROM batch", "x" * 1000, 2000, "Out of Memory"),
    (f"SELECT {'replace(' * 2}text{_REPLACED * 2} AS x FROM batch", "x" * 1000, 20_000, "Out of Memory"),
    ("SELECT hex(concat(hex(text), hex(text), hex(hex(text)))) AS x FROM batch", "x" * 100_000, 500, "Out of Memory"),
]


@pytest.mark.parametrize(("statement", "text", "count", "expected"), HOSTILE)
def test_what_grows_stays_within_time_and_memory(statement: str, text: str, count: int, expected: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([statement, text, count]),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=True,
    )
    answer: list[Any] = json.loads(done.stdout.splitlines()[-1])
    seconds, held, ended = answer
    assert expected in ended, ended
    assert bool(expected) == bool(ended), ended
    assert (held < MOST_MIB, seconds < MOST_SECONDS) == (True, True), (held, seconds)


@pytest.mark.parametrize(
    "expression",
    [
        "CAST(CAST(strftime(CAST(text AS TIMESTAMP), '%Y') AS INTEGER) + 1 AS VARCHAR)",
        "upper(trim(lower(replace(split_part(text, '-', 1), 'x', 'yy'))))",
        "to_json(json_object('a', hex(encode(text)), 'b', to_json(text)))",
        "md5(hex(hex(hex(hex(hex(text))))))",
        "length(hex(hex(hex(hex(hex(hex(text)))))))",
    ],
)
def test_ordinary_statements_are_accepted(expression: str) -> None:
    assert rows(after(f"SELECT {expression} AS x FROM batch", Batch.of("t", [{"text": "2024-02-29"}])))


def test_a_batch_that_may_grow_is_computed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is the same, records that WHERE drops and nulls included."""
    texts = [None if number % 7 == 0 else {"text": f"{number}" * 20} for number in range(500)]
    statement = "SELECT hex(text) AS x FROM batch WHERE ascii(text) <> 51"
    whole = after_parts(statement, texts)
    monkeypatch.setattr(sql_transform, "MOST_BYTES", 100_000)
    assert after_parts(statement, texts) == whole


def after_parts(statement: str, texts: list[dict[str, str] | None]) -> list[Any]:
    changed = made(statement).apply_batch(Batch.of("t", texts))
    return [part.value.to_pylist() for part in (changed if isinstance(changed, list) else [changed]) if part.value is not None]


def test_a_record_that_may_grow_too_much_is_a_bad_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_transform, "MOST_BYTES", 1000)
    with pytest.raises(DataException, match=r"have .* bytes, from which the statement may create .*; the limit is 1000"):
        after("SELECT hex(text) AS x FROM batch", Batch.of("t", [{"text": "x" * 900}]))
