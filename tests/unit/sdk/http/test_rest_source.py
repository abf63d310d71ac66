"""REST sources against a server on loopback: each style of paging, cursors, children, and a read that is killed."""

from __future__ import annotations

import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import ANY

import pytest

from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException
from airflow_provider_connect.sdk import (
    BearerAuth,
    ConfigKey,
    CursorPages,
    ExactlyOnceSupport,
    Incremental,
    LinkedPages,
    NextUrlPages,
    NumberedPages,
    OffsetPages,
    Resource,
    SinglePage,
    SourceConnector,
    Type,
    pa,
    rest_source,
)
from airflow_provider_connect.sdk.config_def import class_name_of
from airflow_provider_connect.sdk.http.credentials import Credentials
from airflow_provider_connect.sdk.http.pages import Pagination
from airflow_provider_connect.sdk.http.resource import ResourceReader
from airflow_provider_connect.sdk.http.rest_client import Answer, RestClient
from airflow_provider_connect.sdk.task import CommitStep
from airflow_provider_connect.sdk.testing import Fault, SourceConnectorSuite, SourceRun, partition_key, run
from tests.unit.sdk.http.api import Answered, Api, Asked, running
from tests.waiting import HANG_SECONDS

ROWS = [{"id": number, "name": f"row {number}"} for number in range(1, 8)]
"""Seven rows: three pages of three, the last one of one row."""


def connector_of(*resources: Resource, **more: Any) -> SourceConnector:
    return rest_source("Shop", base_url=None, resources=resources, **more)()


def values(done: SourceRun) -> list[Any]:
    return [record.value["id"] for record in done.records]


def read(api: Api, *resources: Resource, offsets: Any = None, fault: Fault | None = None, **config: str) -> SourceRun:
    topic = "t" if len(resources) == 1 else "t.${resource}"
    return run(connector_of(*resources), {"base.url": api.url, "topic": topic, **config}, offsets=offsets, fault=fault)


def by_cursor(asked: Asked) -> Any:
    first = int(asked.params.get("cursor", "0"))
    following = str(first + 3) if first + 3 < len(ROWS) else None
    return {"data": {"rows": ROWS[first : first + 3]}, "meta": {"next": following}}


def by_last(asked: Asked) -> Any:
    after = int(asked.params.get("starting_after", "0"))
    return {"data": ROWS[after : after + 3], "has_more": after + 3 < len(ROWS)}


def by_offset(asked: Asked) -> Any:
    first, limit = int(asked.params["offset"]), min(int(asked.params["limit"]), 2)  # the server has a limit of its own
    return {"items": ROWS[first : first + limit], "total": len(ROWS)}


def by_number(asked: Asked) -> Any:
    number, size = int(asked.params["page"]), int(asked.params["per_page"])
    return {"rows": ROWS[(number - 1) * size : number * size], "pages": 3}


def by_link(asked: Asked) -> Any:
    number = int(asked.params.get("page", "1"))
    link = {"Link": f'<{asked.path}?page={number + 1}>; rel="next", </rows?page=1>; rel="first"'} if number < 3 else {}
    return Answered(ROWS[number * 3 - 3 : number * 3], headers=link)


def by_relations(asked: Asked) -> Any:
    number = int(asked.params.get("page", "1"))
    link = {"Link": f'<{asked.path}?page={number + 1}>; title="p, q"; rel="prefetch Next", </rows>; rel=first'} if number < 3 else {}
    return Answered(ROWS[number * 3 - 3 : number * 3], headers=link)


def by_next_url(asked: Asked) -> Any:
    number = int(asked.params.get("page", "1"))
    url = f"http://{asked.headers['host']}/rows?page={number + 1}" if number < 3 else ""
    return {"rows": ROWS[number * 3 - 3 : number * 3], "paging": {"next": url}}


Style = tuple[Callable[[Asked], Any], str, Pagination, int]
"""What the API answers, the path to its rows, its paging, and how many requests read all."""
STYLES: dict[str, Style] = {
    "one page": (lambda asked: ROWS, "", SinglePage(), 1),
    "cursor in the body": (by_cursor, "data.rows", CursorPages("cursor", cursor="meta.next"), 3),
    "cursor from the last row": (by_last, "data", CursorPages("starting_after", last="id", more="has_more"), 3),
    "offset": (by_offset, "items", OffsetPages(limit=3), 5),
    "offset with total": (by_offset, "items", OffsetPages(limit=3, total="total"), 4),
    "offset with total in quotes": (lambda asked: {**by_offset(asked), "total": "7"}, "items", OffsetPages(limit=3, total="total"), 4),
    "number": (by_number, "rows", NumberedPages(size=3), 4),
    "number with total": (by_number, "rows", NumberedPages(size=3, total="pages"), 3),
    "link": (by_link, "", LinkedPages(), 3),
    "link with several relations": (by_relations, "", LinkedPages(), 3),
    "next URL": (by_next_url, "rows", NextUrlPages("paging.next"), 3),
}


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES.keys())
class TestStyles:
    def test_every_row_comes_once(self, api: Api, style: Style) -> None:
        api.answer, records, pages, requests = style
        done = read(api, Resource("rows", "/rows", records=records, pages=pages, key="id"))
        assert values(done) == [1, 2, 3, 4, 5, 6, 7]
        assert [record.key for record in done.records] == values(done)
        assert len(api.asked) == requests
        assert done.offsets[partition_key({"partition": "rows"})] == {"complete": True}

    @pytest.mark.parametrize(("step", "nth"), [(CommitStep.WRITE_RECORDS, 2), (CommitStep.COMMIT_TRANSACTION, 1)])
    def test_a_killed_read_goes_on_from_its_page(self, api: Api, style: Style, step: CommitStep, nth: int) -> None:
        api.answer, records, pages, _ = style
        resource = Resource("rows", "/rows", records=records, pages=pages)
        killed = read(api, resource, fault=Fault(step, nth=nth))
        rest = read(api, resource, offsets=killed.offsets)
        if killed.offsets.get(partition_key({"partition": "rows"})) == {"complete": True}:  # the next run reads everything again
            assert [values(killed), values(rest)] == [[1, 2, 3, 4, 5, 6, 7]] * 2
        else:
            assert values(killed) + values(rest) == [1, 2, 3, 4, 5, 6, 7]


def sorted_since(asked: Asked) -> Any:
    since, first = int(asked.params.get("since", "0")), int(asked.params["offset"])
    return ROWS[max(since, 1) - 1 :][first:][: int(asked.params["limit"])]


SORTED = Resource("rows", "/rows", pages=OffsetPages(2), incremental=Incremental("id", "since"), key="id")


class EndlessPages(RestClient):
    """Each page has a position of 50,000 characters, and leads to the next one; no server is asked."""

    count = 0

    def get(self, target: str, params: Mapping[str, Any]) -> Answer:
        self.count += 1
        following = f"{self.count:050000d}" if self.count < 400 else None
        return Answer({"rows": [{"id": self.count}], "next": following}, {}, "")


def test_positions_of_pages_that_never_end_fill_no_memory() -> None:
    """What is kept to know a position again is no longer than a digest."""
    with EndlessPages("http://localhost", Credentials()) as client:
        pages = ResourceReader(client, Resource("rows", "/rows", records="rows", pages=CursorPages("c", cursor="next")), None, {}).rows(
            None
        )
        tracemalloc.start()
        try:
            rows = [row for given in pages if given for row in given[0]]
            most = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert len(rows) == client.count == 400
    assert most < 5_000_000  # of twenty million


def test_sorted_rows_resume_from_their_cursor(api: Api) -> None:
    api.answer = sorted_since
    killed = read(api, SORTED, fault=Fault(CommitStep.COMMIT_TRANSACTION, nth=3))
    assert killed.offsets[partition_key({"partition": "rows"})] == {"cursor": values(killed)[-1]}
    rest = read(api, SORTED, offsets=killed.offsets)
    assert values(killed) + values(rest) == [1, 2, 3, 4, 5, 6, 7]
    assert rest.offsets[partition_key({"partition": "rows"})] == {"cursor": 7}
    api.asked.clear()
    assert read(api, SORTED, offsets=rest.offsets).records == []
    assert api.targets() == ["/rows?since=7&limit=2&offset=0", "/rows?since=7&limit=2&offset=1"]


def test_sorted_rows_that_come_late_within_the_overlap_arrive_once(api: Api) -> None:
    rows: list[dict[str, Any]] = [{"id": n, "name": f"row {n}"} for n in (10, 20, 30, 40)]

    def answer(asked: Asked) -> Any:
        since, first = int(asked.params.get("since", "0")), int(asked.params["offset"])
        found = sorted((row for row in rows if row["id"] >= since), key=lambda row: row["id"])
        return found[first:][: int(asked.params["limit"])]

    api.answer = answer
    resource = Resource("rows", "/rows", pages=OffsetPages(2), incremental=Incremental("id", "since", overlap=15), key="id")
    done = read(api, resource)
    assert values(done) == [10, 20, 30, 40]
    rows += [{"id": 29, "name": "late"}, {"id": 12, "name": "too late"}, {"id": 41, "name": "new"}]
    api.asked.clear()
    rest = read(api, resource, offsets=done.offsets)
    assert values(rest) == [29, 41]
    assert api.targets()[0] == "/rows?since=25&limit=2&offset=0"
    assert values(read(api, resource, offsets=rest.offsets)) == []


def asked_for_new_data(api: Api, *resources: Resource, reached: Any) -> bool | None:
    connector, config = connector_of(*resources), {"base.url": api.url, "topic": "${resource}"}
    api.asked.clear()
    return connector.check_for_new_data(config, lambda partition: reached)


@pytest.mark.parametrize(
    ("reached", "answer", "requests"),
    [
        ({"cursor": 5}, True, 1),
        ({"cursor": 7}, False, 2),  # an empty page behind the row that was read
        ({"cursor": 9}, False, 1),
        ({"cursor": "2026-01-01"}, None, 1),  # not comparable with the numbers of the rows
        (None, None, 0),
    ],
)
def test_the_first_rows_behind_a_cursor_decide_whether_a_run_starts(api: Api, reached: Any, answer: bool | None, requests: int) -> None:
    api.answer = lambda asked: sorted_since(asked) if asked.params.get("since", "").isdigit() else ROWS
    resource = Resource("rows", "/rows", pages=OffsetPages(3), incremental=Incremental("id", "since"))
    assert asked_for_new_data(api, resource, reached=reached) is answer
    assert len(api.asked) == requests


def test_many_rows_of_one_value_start_a_run_rather_than_a_long_check(api: Api) -> None:
    api.answer = lambda asked: [{"id": 7, "n": int(asked.params["offset"])}]
    assert asked_for_new_data(api, SORTED, reached={"cursor": 7}) is None
    assert len(api.asked) == 3


def test_a_check_asks_each_resource_until_one_has_new_rows_and_nothing_where_it_cannot_deny_them(api: Api) -> None:
    others = [replace(SORTED, name=name, path=f"/{name}") for name in ("a", "b", "c")]
    api.answer = lambda asked: ROWS if asked.path == "/b" and asked.params["offset"] == "0" else []
    assert asked_for_new_data(api, *others, reached={"cursor": 5}) is True
    assert [asked.path for asked in api.asked] == ["/a", "/b"]
    assert asked_for_new_data(api, others[0], others[2], reached={"cursor": 5}) is False
    for unsorted in (Resource("all", "/all"), BY_NUMBER):
        assert asked_for_new_data(api, others[0], unsorted, reached={"cursor": 5}) is None
        assert api.asked == []
    texts = replace(SORTED, schema=pa.schema([("id", pa.string())]))
    assert asked_for_new_data(api, texts, reached={"cursor": "5"}) is None
    assert api.asked == []


def test_a_check_of_an_api_that_is_not_available_raises_and_does_not_deny_new_rows(api: Api) -> None:
    api.answer = lambda asked: Answered("busy", 503)
    with pytest.raises(RetriableException, match="status 503"):
        asked_for_new_data(api, SORTED, reached={"cursor": 5})


def test_a_check_ends_although_the_answer_does_not(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_connect.sdk.http.rest_source.CHECK_SECONDS", 0.3)
    over = threading.Event()
    api.answer = lambda asked: over.wait(HANG_SECONDS) and []
    with pytest.raises(RetriableException):
        asked_for_new_data(api, SORTED, reached={"cursor": 5})
    over.set()


def test_a_check_for_new_data_loads_no_pyarrow(api: Api) -> None:
    api.answer = lambda asked: []
    code = (
        "import sys\nfrom airflow_provider_connect.sdk import Incremental, Resource, rest_source\n"
        "rows = Resource('rows', '/rows', incremental=Incremental('id', 'since'))\n"
        f"source = rest_source('Rows', base_url='{api.url}', topic='t', resources=[rows])\n"
        "assert source().check_for_new_data({}, lambda _: {'cursor': 5}) is False\n"
        "print({'pyarrow', 'numpy'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


class TestSortedRows(SourceConnectorSuite):
    connector_class = rest_source("Sorted", base_url=None, resources=[SORTED])

    @pytest.fixture(autouse=True)
    def served(self) -> Any:
        self.count = 0
        with running() as api:
            api.answer = lambda asked: [{"id": number} for number in range(max(1, int(asked.params.get("since", "1"))), self.count + 1)][
                int(asked.params["offset"]) :
            ][: int(asked.params["limit"])]
            self.api = api
            yield

    def config(self) -> dict[str, str]:
        return {"topic": "t", "base.url": self.api.url}

    def write_to_source(self, count: int) -> None:
        self.count += count


def test_rows_that_are_not_sorted_begin_at_the_greatest_value(api: Api) -> None:
    api.answer = lambda asked: list(reversed(sorted_since(asked)))
    resource = Resource("rows", "/rows", pages=OffsetPages(3), incremental=Incremental("id", "since", start=2, is_sorted=False))
    first = read(api, resource)
    assert sorted(values(first)) == [2, 3, 4, 5, 6, 7]
    assert first.offsets[partition_key({"partition": "rows"})] == {"since": 7}
    killed = read(api, resource, fault=Fault(CommitStep.COMMIT_TRANSACTION))
    assert killed.offsets[partition_key({"partition": "rows"})] == {"last": ANY, "highest": 4}
    rest = read(api, resource, offsets=killed.offsets)
    assert sorted(values(killed) + values(rest)) == [2, 3, 4, 5, 6, 7]
    assert rest.offsets[partition_key({"partition": "rows"})] == {"since": 7}


class Changing:
    """Rows of an API that changes while it is read, sorted by ``at``, two a page."""

    def __init__(self) -> None:
        self.rows = {number: number for number in range(1, 8)}
        self.newest_first = False

    def __call__(self, asked: Asked) -> Any:
        first = 2 * int(asked.params["page"]) - 2
        found = [{"id": n, "at": at} for n, at in self.rows.items() if at >= int(asked.params.get("since", "0"))]
        return sorted(found, key=lambda row: row["at"], reverse=self.newest_first)[first : first + 2]


def updated(*numbers: int) -> Callable[[Changing], None]:
    def move(changing: Changing) -> None:
        changing.rows.update({number: 100 + number for number in numbers})

    return move


def deleted(*numbers: int) -> Callable[[Changing], None]:
    def move(changing: Changing) -> None:
        for number in numbers:
            changing.rows.pop(number)

    return move


BY_NUMBER = Resource("rows", "/rows", pages=NumberedPages(), incremental=Incremental("at", "since", is_sorted=False))
CHANGES = {
    "none": updated(),
    "an update of a row that was read": updated(1),
    "updates of more rows than a page has": updated(1, 2, 3),
    "an update of the last row that was read": updated(2),
    "a row that is gone": deleted(1),
    "more rows gone than a page has": deleted(1, 2, 3),
}


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_read_that_another_run_continues_misses_no_row_that_has_moved(
    api: Api, change: Callable[[Changing], None], nth: int, newest_first: bool
) -> None:
    api.answer = changing = Changing()
    changing.newest_first = newest_first
    killed = read(api, BY_NUMBER, fault=Fault(CommitStep.COMMIT_TRANSACTION, nth=nth))
    seen, offsets = set(values(killed)), killed.offsets
    assert 0 < len(seen) < 7
    change(changing)
    for _ in range(3):
        done = read(api, BY_NUMBER, offsets=offsets)
        seen, offsets = seen | set(values(done)), done.offsets
    assert seen >= changing.rows.keys()
    api.asked.clear()
    read(api, BY_NUMBER, offsets=offsets)
    assert api.targets()[0] == f"/rows?since={max(changing.rows.values())}&page=1"  # and it has ended


def test_a_read_that_goes_on_in_an_unchanged_api_repeats_nothing(api: Api) -> None:
    for nth in (1, 2, 3):
        api.answer = Changing()
        killed = read(api, BY_NUMBER, fault=Fault(CommitStep.COMMIT_TRANSACTION, nth=nth))
        rest = read(api, BY_NUMBER, offsets=killed.offsets)
        assert values(killed) + values(rest) == [1, 2, 3, 4, 5, 6, 7]
        assert rest.offsets[partition_key({"partition": "rows"})] == {"since": 7}


def test_a_read_that_may_have_missed_rows_is_repeated_after_another_kill_too(api: Api) -> None:
    api.answer = changing = Changing()
    killed = read(api, BY_NUMBER, fault=Fault(CommitStep.COMMIT_TRANSACTION, nth=2))
    updated(1, 2, 3, 4)(changing)
    again = read(api, BY_NUMBER, offsets=killed.offsets, fault=Fault(CommitStep.COMMIT_TRANSACTION, nth=1))
    assert again.offsets[partition_key({"partition": "rows"})]["repeats"] is True
    done = read(api, BY_NUMBER, offsets=again.offsets)
    assert done.offsets[partition_key({"partition": "rows"})] == {"complete": True}
    assert set(values(read(api, BY_NUMBER, offsets=done.offsets))) == {1, 2, 3, 4, 5, 6, 7}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("page", [2, 3, 4])
def test_rows_that_move_while_sorted_rows_are_read_hide_no_other_row(api: Api, page: int, change: Callable[[Changing], None]) -> None:
    """Rows of one run, without a kill."""
    resource = Resource("rows", "/rows", pages=NumberedPages(), incremental=Incremental("at", "since"))
    requests = 0

    def answer(asked: Asked) -> Any:
        nonlocal requests
        requests += 1
        if requests == page:
            change(changing)
        return changing(asked)

    changing, api.answer = Changing(), answer
    done = read(api, resource)
    assert {record.value["id"] for record in done.records} >= changing.rows.keys()
    versions = [(record.value["id"], record.value["at"]) for record in done.records]
    assert len(versions) == len(set(versions))


def test_more_rows_of_one_value_than_a_page_has_come_once_each(api: Api) -> None:
    api.answer = changing = Changing()
    changing.rows = {1: 1, 2: 5, 3: 5, 4: 5, 5: 5, 6: 5, 7: 6, 8: 7, 9: 8}
    done = read(api, Resource("rows", "/rows", pages=NumberedPages(), incremental=Incremental("at", "since")))
    assert values(done) == [1, 2, 3, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("rounded_to", [3, 100])
def test_an_api_that_rounds_or_ignores_the_value_asked_for_repeats_nothing(api: Api, rounded_to: int) -> None:
    def answer(asked: Asked) -> Any:
        since = int(asked.params.get("since", "0")) // rounded_to * rounded_to
        return changing(Asked(asked.path, {**asked.params, "since": str(since)}, {}, {}))

    changing, api.answer = Changing(), answer
    done = read(api, Resource("rows", "/rows", pages=NumberedPages(), incremental=Incremental("at", "since")))
    assert values(done) == [1, 2, 3, 4, 5, 6, 7]


def test_texts_that_a_schema_makes_numbers_are_read_page_by_page(api: Api) -> None:
    rows = [{"id": number, "at": str(number)} for number in range(8, 13)]
    api.answer = lambda asked: rows[2 * int(asked.params["page"]) - 2 :][:2]
    schema = pa.schema([("id", pa.int64()), ("at", pa.int64())])
    done = read(api, Resource("rows", "/rows", pages=NumberedPages(), incremental=Incremental("at", "since"), schema=schema))
    assert values(done) == [8, 9, 10, 11, 12]


def test_a_page_that_the_api_no_longer_knows_is_not_waited_for(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    api.answer = lambda asked: Answered({"error": "expired"}, 410) if "cursor" in asked.params else by_cursor(asked) | {"meta": {}}
    offsets = {partition_key({"partition": "rows"}): {"page": "3"}}
    done = read(api, Resource("rows", "/rows", records="data.rows", pages=CursorPages("cursor", cursor="meta.next")), offsets=offsets)
    assert values(done) == [1, 2, 3]
    assert "the page of the last run no longer exists" in caplog.text


def test_a_read_whose_rest_is_gone_is_followed_by_the_next_one(api: Api) -> None:
    api.answer = by_offset
    offsets = {partition_key({"partition": "rows"}): {"page": 50}}
    assert values(read(api, Resource("rows", "/rows", records="items", pages=OffsetPages()), offsets=offsets)) == [1, 2, 3, 4, 5, 6, 7]


ORDERS = {1: 3, 2: 0, 3: 1, "a/b?": 2}
"""The items of each order."""


def shop(asked: Asked) -> Any:
    if asked.path == "/v1/accounts/ab%2Fc/orders":
        first = int(asked.params["offset"])
        return [{"id": order} for order in list(map(str, ORDERS))[first : first + 2]]
    order = asked.path.split("/")[3]
    count = ORDERS[int(order) if order.isdigit() else "a/b?"]
    number = int(asked.params["page"])
    return {"items": [{"id": f"{order}-{number}"}] if number <= count else [], "pages": count}


ITEMS = Resource(
    "items",
    "/orders/{parent.id}/items",
    records="items",
    pages=NumberedPages(total="pages"),
    parent="orders",
    parent_fields={"order_id": "id"},
    key=("order_id", "id"),
)
SHOP = (Resource("orders", "/accounts/{account.id}/orders", pages=OffsetPages(2)), ITEMS)
CHILDREN = ["1-1", "1-2", "1-3", "3-1", "a%2Fb%3F-1", "a%2Fb%3F-2"]


def read_shop(api: Api, **more: Any) -> SourceRun:
    api.answer = shop
    config = {"base.url": f"{api.url}/v1/", "topic": "t.${resource}", "account.id": "ab/c"}
    return run(connector_of(*SHOP, settings=[ConfigKey("account.id")]), config, **more)


def of_topic(done: SourceRun, topic: str) -> list[Any]:
    return [record.value["id"] for record in done.records if record.topic == topic]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_children_of_no_parent_are_missed_when_another_run_goes_on(api: Api, change: Callable[[Changing], None]) -> None:
    """Four parents of two pages, three pages of children each."""

    def answer(asked: Asked) -> Any:
        if asked.path == "/orders":
            return changing(asked)
        number = int(asked.params["page"])
        return [{"id": f"{asked.path.split('/')[2]}-{number}"}] if number <= 3 else []

    orders = Resource("orders", "/orders", pages=NumberedPages(), incremental=Incremental("at", "since", is_sorted=False))
    items = Resource("items", "/orders/{parent.id}/items", pages=NumberedPages(), parent="orders")
    for nth in (4, 8, 11):
        api.answer, changing = answer, Changing()
        changing.rows = {1: 1, 2: 2, 3: 3, 4: 4}
        killed = read(api, orders, items, fault=Fault(CommitStep.COMMIT_TRANSACTION, nth=nth))
        change(changing)
        seen, offsets = set(of_topic(killed, "t.items")), killed.offsets
        for _ in range(3):
            done = read(api, orders, items, offsets=offsets)
            seen, offsets = seen | set(of_topic(done, "t.items")), done.offsets
        assert seen >= {f"{order}-{number}" for order in changing.rows for number in (1, 2, 3)}, nth
        assert offsets[partition_key({"partition": "items"})] == {"since": max(changing.rows.values())}


def test_children_that_have_moved_are_read_again(api: Api) -> None:
    children = list(range(1, 8))

    def answer(asked: Asked) -> Any:
        if asked.path == "/orders":
            return [{"id": 1}]
        return [{"id": child} for child in children][2 * int(asked.params["page"]) - 2 :][:2]

    items = Resource("items", "/orders/{parent.id}/items", pages=NumberedPages(), parent="orders")
    api.answer = answer
    killed = read(api, Resource("orders", "/orders"), items, fault=Fault(CommitStep.COMMIT_TRANSACTION, nth=4))
    assert of_topic(killed, "t.items") == [1, 2, 3, 4, 5, 6]
    children[:4] = []
    assert 7 in of_topic(read(api, Resource("orders", "/orders"), items, offsets=killed.offsets), "t.items")


@pytest.mark.parametrize("tasks", [1, 3])
def test_children_are_read_for_each_parent(api: Api, tasks: int) -> None:
    done = read_shop(api, tasks=tasks)
    assert of_topic(done, "t.orders") == ["1", "2", "3", "a/b?"]
    assert of_topic(done, "t.items") == CHILDREN
    assert [r.key["order_id"] for r in done.records if r.topic == "t.items"] == ["1", "1", "1", "3", "a/b?", "a/b?"]
    assert len(done.task_configs) == min(tasks, 2)


def test_children_resume_at_their_parent_and_page(api: Api) -> None:
    for nth in range(3, 8):
        killed = read_shop(api, fault=Fault(CommitStep.COMMIT_TRANSACTION, nth=nth))
        rest = read_shop(api, offsets=killed.offsets)
        assert of_topic(killed, "t.items") + of_topic(rest, "t.items") == CHILDREN, nth


def test_children_follow_the_cursor_of_their_parents(api: Api) -> None:
    updated = {1: 10, 2: 20, 3: 30}

    def answer(asked: Asked) -> Any:
        if asked.path == "/orders":
            found = [{"id": order, "at": at} for order, at in updated.items() if at >= int(asked.params.get("since", "0"))]
            return sorted(found, key=lambda row: row["at"])
        return [{"id": asked.path}]

    api.answer = answer
    orders = Resource("orders", "/orders", incremental=Incremental("at", "since"))
    items = Resource("items", "/orders/{parent.id}/items", parent="orders")
    first = read(api, orders, items)
    assert first.offsets[partition_key({"partition": "items"})] == {"since": 30}
    updated[1] = 40
    again = read(api, orders, items, offsets=first.offsets)
    assert of_topic(again, "t.orders") == [1]
    assert of_topic(again, "t.items") == ["/orders/3/items", "/orders/1/items"]  # that of the greatest value comes again


@pytest.mark.parametrize("value", ["..", ".", "", None, {"a": 1}])
def test_a_parent_cannot_name_another_path(api: Api, value: Any) -> None:
    api.answer = lambda asked: [{"id": value, "name": "x"}]
    with pytest.raises(ConnectException, match="cannot be filled"):
        read(api, Resource("orders", "/orders"), ITEMS)


def test_schemas_may_be_given(api: Api) -> None:
    api.answer = lambda asked: ROWS
    done = read(api, Resource("rows", "/rows", schema=pa.schema([("name", pa.string())])))
    assert [str(record.value) for record in done.records] == [f"Struct{{name={row['name']!r}}}" for row in ROWS]


def test_the_class_belongs_to_the_module_that_declares_it() -> None:
    found = rest_source("Found", base_url="https://api.example.com", resources=[SORTED], auth=BearerAuth(), topic="rows")
    assert class_name_of(found) == f"{__name__}.Found"
    assert found.task_class.__module__ == __name__
    assert [key.name for key in found.config_def.keys.values()] == ["topic", "base.url", "token", "request.timeout.ms"]
    assert found().exactly_once_support({}) is ExactlyOnceSupport.SUPPORTED
    assert connector_of(*SHOP, settings=[ConfigKey("account.id")]).exactly_once_support({}) is ExactlyOnceSupport.UNSUPPORTED


@pytest.mark.parametrize(
    ("resources", "reason"),
    [
        ([], "resources must have different names"),
        ([SORTED, SORTED], "resources must have different names"),
        ([ITEMS], "its parent 'orders' is not a resource without a parent"),
        ([Resource("a", "/{account}")], r"nothing fills \{account\}"),
        ([Resource("a", "/{parent.id}")], r"nothing fills \{parent.id\}"),
        ([Resource("a", "/a", parent_fields={"b": "c"})], "parent_fields needs a parent"),
        ([Resource("a", "/a"), Resource("b", "/b", parent="a", incremental=Incremental("id", "since"))], "set incremental on the parent"),
    ],
)
def test_contradictions_are_refused(resources: list[Resource], reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        rest_source("Shop", base_url=None, resources=resources)


@pytest.mark.parametrize(
    "changed",
    [
        {"base.url": "https://me:secret@api.example.com"},
        {"base.url": "ftp://api.example.com"},
        {"base.url": "https://api.example.com?key=secret"},
        {"base.url": "https://"},
        {"base.url": "https://api:secret"},
        {"request.timeout.ms": "9223372036854775807"},  # more than a socket takes
        {"topic": "t"},
    ],
)
def test_settings_are_checked(changed: Mapping[str, str]) -> None:
    connector = connector_of(*SHOP, settings=[ConfigKey("account.id")])
    with pytest.raises(ConfigException) as caught:
        connector.config_def.parse({"base.url": "https://api.example.com", "topic": "${resource}", "account.id": "1", **changed})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("partition", "offset", "is_right"),
    [
        ({"partition": "rows"}, {"cursor": 5}, True),
        ({"partition": "rows"}, {"page": 5}, False),
        ({"partition": "other"}, {"cursor": 5}, False),
        ({"partition": "all"}, {"page": 5, "since": 3}, True),
        ({"partition": "all"}, {"cursor": 5}, False),
        ({"partition": "all"}, None, True),
        ({"schema": "all"}, {"fields": "…"}, True),
        ({"schema": "all"}, {"page": 1}, False),
    ],
)
def test_offsets_of_another_form_are_refused(partition: dict[str, str], offset: dict[str, Any] | None, is_right: bool) -> None:
    connector = connector_of(SORTED, Resource("all", "/all"))
    if is_right:
        assert connector.alter_offsets({}, [(partition, offset)])
    else:
        with pytest.raises(ConnectException, match=r"source partition is|may have the keys"):
            connector.alter_offsets({}, [(partition, offset)])


def test_a_secret_cannot_stand_in_a_path() -> None:
    secret = ConfigKey("bot.token", Type.PASSWORD)
    with pytest.raises(TypeError, match=r"nothing fills \{bot\.token\}; a secret cannot"):
        rest_source("Bot", base_url=None, settings=[secret], resources=[Resource("updates", "/bot{bot.token}/updates")])
