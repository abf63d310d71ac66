"""APIs at which users of other connectors have lost or doubled rows, or waited without end. Each names its report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk import CursorPages, Incremental, NextUrlPages, NumberedPages, OffsetPages, Resource, rest_source
from airflow_provider_connect.sdk.http.pages import Page, Pagination, Position
from airflow_provider_connect.sdk.testing import SourceRun, run
from tests.unit.sdk.http.api import Api, Asked

ROWS = [{"id": number} for number in range(1, 7)]


def read(api: Api, resource: Resource, offsets: Any = None) -> SourceRun:
    return run(rest_source("Shop", base_url=None, resources=[resource])(), {"base.url": api.url, "topic": "t"}, offsets=offsets)


def ids(done: SourceRun) -> list[int]:
    return [record.value["id"] for record in done.records]


@pytest.mark.parametrize("key", ["id", None])
def test_a_last_page_that_comes_again_is_an_end_by_name(api: Api, key: str | None) -> None:
    """airbytehq/airbyte 28226: the last page answered to each number behind it, without end; here beside another text in each body."""

    def answer(asked: Asked) -> Any:
        number = int(asked.params["page"])
        assert number < 10
        last = min(number, 3)
        return {"rows": ROWS[2 * last - 2 : 2 * last], "request": f"r-{number}", "pages": 3}

    api.answer = answer
    pages = NumberedPages(size=2)
    with pytest.raises(ConnectException, match=r"each page after the last repeats its rows.*\(total=\)"):
        read(api, Resource("rows", "/rows", records="rows", pages=pages, key=key))
    done = read(api, Resource("rows", "/rows", records="rows", pages=NumberedPages(size=2, total="pages"), key=key))
    assert ids(done) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("pages", [NumberedPages(), OffsetPages(2), CursorPages("after", last="id")])
def test_a_page_that_is_not_full_is_no_end(api: Api, pages: Pagination) -> None:
    """airbytehq/airbyte 34883, 18135: pages of fewer rows than were asked for, and rows in the middle of a body."""
    parts = [ROWS[:2], ROWS[2:3], ROWS[3:5], ROWS[5:6], []]

    def answer(asked: Asked) -> Any:
        first = int(asked.params.get("offset", asked.params.get("after", "0")))
        number = int(asked.params["page"]) - 1 if "page" in asked.params else [0, 2, 3, 5, 6].index(first)
        return {"project": 1, "keys": parts[number]}

    api.answer = answer
    assert ids(read(api, Resource("rows", "/rows", records="keys", pages=pages, key="id"))) == [1, 2, 3, 4, 5, 6]


class PagesUpToAShortOne(NextUrlPages):
    def following(self, position: Position | None, page: Page) -> Position | None:
        return super().following(position, page) if len(page.rows) == 3 else None


def test_a_page_that_names_itself_as_the_next_is_an_error_by_name(api: Api) -> None:
    """airbytehq/airbyte 81516: several rows had the time that was asked for, so that the same page came again and again. Whether rows are
    missing is known to a style alone that knows how many a page has."""
    rows = [{"id": 1, "at": 5}, {"id": 2, "at": 7}, {"id": 3, "at": 7}]

    def answer(asked: Asked) -> Any:
        since = int(asked.params.get("since", "0"))
        found = [row for row in rows if row["at"] >= since][:3]
        return {"rows": found, "next": f"/rows?since={found[-1]['at']}"}

    api.answer = answer
    resource = Resource("rows", "/rows", records="rows", pages=NextUrlPages(), incremental=Incremental("at", "since"), key="id")
    with pytest.raises(ConnectException, match="endless pages: the position of a page is repeated"):
        read(api, resource)
    resource = replace(resource, pages=PagesUpToAShortOne())
    done = read(api, resource)
    assert ids(done) == [1, 2, 3]
    rows.append({"id": 4, "at": 9})
    assert ids(read(api, resource, done.offsets)) == [4]
