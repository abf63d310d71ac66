"""Rows that move between pages while one run reads them: seen where that is possible, counted, and read again by the next run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_connect.sdk import Incremental, NumberedPages, OffsetPages, Resource, rest_source
from airflow_provider_connect.sdk.http.moves import RowMoves
from airflow_provider_connect.sdk.http.pages import Pagination
from airflow_provider_connect.sdk.testing import partition_key, run
from tests.unit.sdk.http.api import Api, Asked

AT = Incremental("at", "since", is_sorted=False)
PARTITION = partition_key({"partition": "rows"})


class Changing:
    """Rows in their order, two a page, which ``change`` changes once, behind the first page."""

    def __init__(self, change: Callable[[list[int]], None] = lambda rows: None) -> None:
        self.rows = list(range(1, 8))
        self._change: Callable[[list[int]], None] | None = change

    def __call__(self, asked: Asked) -> Any:
        first = 2 * int(asked.params["page"]) - 2 if "page" in asked.params else int(asked.params["offset"])
        size = int(asked.params.get("limit", "2"))
        found = [{"id": number % 100, "at": number} for number in self.rows if number >= int(asked.params.get("since", "0"))]
        answer = {"rows": found[first : first + size], "total": len(found), "pages": -(-len(found) // size)}
        if self._change is not None:
            self._change(self.rows)
            self._change = None
        return answer


def updated(rows: list[int]) -> None:
    rows.append(100 + rows.pop(0))


def inserted(rows: list[int]) -> None:
    rows[:0] = [0]


STYLES: dict[str, Pagination] = {
    "number": NumberedPages(),
    "number with total": NumberedPages(total="pages"),
    "offset with total": OffsetPages(2, total="total"),
    "offset with overlap": OffsetPages(3, overlap=1),
}


def read(api: Api, pages: Pagination, offsets: dict[str, Any] | None = None, **more: Any) -> tuple[list[int], dict[str, Any]]:
    resource = Resource("rows", "/rows", records="rows", pages=pages, key="id", **more)
    done = run(rest_source("Shop", base_url=None, resources=[resource])(), {"base.url": api.url, "topic": "t"}, offsets=offsets)
    return [record.value["id"] for record in done.records], done.offsets


@pytest.mark.parametrize("pages", STYLES.values(), ids=STYLES.keys())
def test_rows_that_stay_come_once_and_nothing_is_logged(api: Api, pages: Pagination, caplog: pytest.LogCaptureFixture) -> None:
    api.answer = Changing()
    rows, offsets = read(api, pages, incremental=AT)
    assert (rows, offsets[PARTITION]) == ([1, 2, 3, 4, 5, 6, 7], {"since": 7})
    assert caplog.text == ""


@pytest.mark.parametrize("pages", STYLES.values(), ids=STYLES.keys())
def test_a_row_that_was_updated_hides_another_until_the_next_run(api: Api, pages: Pagination, caplog: pytest.LogCaptureFixture) -> None:
    api.answer = Changing(updated)
    first, offsets = read(api, pages, incremental=AT)
    assert "some may have been missed" in caplog.text
    assert offsets[PARTITION] == {"complete": True}  # the next run begins where this one did
    again, offsets = read(api, pages, offsets, incremental=AT)
    assert set(first + again) == {1, 2, 3, 4, 5, 6, 7}
    assert offsets[PARTITION] == {"since": 101}


@pytest.mark.parametrize("name", ["offset with total", "offset with overlap"])
def test_rows_that_were_deleted_hide_others_until_the_next_run(api: Api, name: str, caplog: pytest.LogCaptureFixture) -> None:
    api.answer = Changing(lambda rows: rows.__delitem__(0))
    first, offsets = read(api, STYLES[name], incremental=AT)
    assert 3 not in first or name == "offset with overlap"
    assert "rows moved between pages" in caplog.text
    again, _ = read(api, STYLES[name], offsets, incremental=AT)
    assert set(first + again) == {1, 2, 3, 4, 5, 6, 7}


@pytest.mark.parametrize("pages", STYLES.values(), ids=STYLES.keys())
def test_rows_that_were_moved_by_others_before_them_come_once(api: Api, pages: Pagination, caplog: pytest.LogCaptureFixture) -> None:
    api.answer = Changing(inserted)
    rows, offsets = read(api, pages, incremental=AT)
    assert rows == [1, 2, 3, 4, 5, 6, 7]
    assert offsets[PARTITION] == {"since": 7}
    assert "1 rows were read twice" in caplog.text


def test_a_read_of_everything_warns_too(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    api.answer = Changing(updated)
    rows, offsets = read(api, NumberedPages())
    assert (rows, offsets[PARTITION]) == ([1, 2, 4, 5, 6, 7, 1], {"complete": True})
    assert [line for line in caplog.messages if "missed: a row came again" in line]
    assert [line for line in caplog.messages if "1 rows were read twice" in line]


def test_equal_rows_without_a_key_are_two(caplog: pytest.LogCaptureFixture) -> None:
    moves = RowMoves("rows", None, 0)
    with caplog.at_level(logging.WARNING):
        assert [moves.new([{"a": 1}, {"a": 1}], None), moves.new([{"a": 1}], None)] == [[{"a": 1}, {"a": 1}], [{"a": 1}]]
        moves.end()
    assert (moves.may_have_missed, caplog.text) == (False, "")


def test_an_overlap_is_less_than_a_page() -> None:
    with pytest.raises(TypeError, match="overlap must be from 0 to less than limit"):
        OffsetPages(2, overlap=2)
