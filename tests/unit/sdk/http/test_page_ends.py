"""Where the pages of public APIs end: three pages in the documented form of each API, read by the paging that docs/rest-source-examples.md
names for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect import sdk
from airflow_provider_connect.errors import ConnectException, DataException
from airflow_provider_connect.sdk import CursorPages, LinkedPages, NextUrlPages, NumberedPages, OffsetPages, Resource, rest_source
from airflow_provider_connect.sdk.http.pages import Page, Pagination, Position, value_at
from airflow_provider_connect.sdk.testing import SourceRun, partition_key, run
from tests.unit.sdk.http.api import Answered, Api, Asked

EXAMPLES = Path(__file__).resolve().parents[4] / "docs/rest-source-examples.md"
ROWS = [{"id": f"r{number}"} for number in range(1, 6)]
PAGES = [ROWS[:2], ROWS[2:4], ROWS[4:]]


def documented() -> dict[str, tuple[str, str]]:
    """``records`` and ``pages`` by API, from the table of the page."""
    found = re.findall(r'^\| ([^|`]+) \| `"(.*)"` \| `(\w+Pages\(.*\))` \|', EXAMPLES.read_text(encoding="utf-8"), re.MULTILINE)
    return {api: (records, pages) for apis, records, pages in found for api in apis.split(", ")}


def read(api: Api, records: str, pages: Pagination) -> SourceRun:
    resource = Resource("rows", "/api/rows", records=records, pages=pages, key="id")
    return run(rest_source("Shop", base_url=None, resources=[resource])(), {"base.url": api.url, "topic": "t"})


def number_of(asked: Asked, *names: str) -> int:
    """The index of the page that a parameter requests: ``p1`` and ``p2`` are cursors."""
    return next((int(asked.params[name].removeprefix("p")) for name in names if name in asked.params), 0)


def linked(more: str, last: str) -> Callable[[Asked], Any]:
    def answer(asked: Asked) -> Any:
        number = number_of(asked, "page_info")
        host = f"http://{asked.headers['host']}"
        link = (more if number < 2 else last).format(host=host, path=asked.path, following=number + 1, before=number - 1)
        return Answered(PAGES[number], headers={"Link": link} if link else {})

    return answer


def by_cursor(param: str, last: Any, body: Callable[[list[Any], Any], Any]) -> Callable[[Asked], Any]:
    """``last`` is the cursor of the last page; ``body`` builds a body of its rows and its next cursor."""

    def answer(asked: Asked) -> Any:
        number = number_of(asked, param)
        return body(PAGES[number], f"p{number + 1}" if number < 2 else last)

    return answer


def by_url(url: str, body: Callable[[list[Any], Any, str], Any]) -> Callable[[Asked], Any]:
    """``body`` builds a body of its rows, the URL of the next page (None after the last), and the URL of the host."""

    def answer(asked: Asked) -> Any:
        assert asked.path.endswith("/rows"), asked.path
        number, host = number_of(asked, "p"), f"http://{asked.headers['host']}"
        return body(PAGES[number], url.format(host=host, path=asked.path, following=number + 1) if number < 2 else None, host)

    return answer


def woocommerce(asked: Asked) -> Any:
    number = int(asked.params["page"])
    if number > 3:
        return Answered({"code": "rest_post_invalid_page_number"}, 400)
    return Answered(PAGES[number - 1], headers={"X-WP-Total": "5", "X-WP-TotalPages": "3"})


def stripe(asked: Asked) -> Any:
    after = asked.params.get("starting_after")
    first = 0 if after is None else [row["id"] for row in ROWS].index(after) + 1
    return {"object": "list", "has_more": first + 2 < len(ROWS), "data": ROWS[first : first + 2]}


def jira_list(asked: Asked) -> Any:
    first = int(asked.params["startAt"])
    rows = ROWS[first:][: min(2, int(asked.params["maxResults"]))]
    assert rows
    return {"maxResults": 2, "startAt": first, "isLast": first + 2 >= len(ROWS), "values": rows}


def elasticsearch(asked: Asked) -> Any:
    first = int(asked.params["from"])
    assert first < len(ROWS)
    return {"hits": {"total": {"value": 5, "relation": "eq"}, "hits": ROWS[first:][: min(2, int(asked.params["size"]))]}}


def zoho(asked: Asked) -> Any:
    number = int(asked.params["page"])
    return (
        {"data": PAGES[number - 1], "info": {"more_records": number < 3, "count": 2, "page": number}} if number < 4 else Answered(b"", 204)
    )


def spring(asked: Asked) -> Any:
    number = int(asked.params["page"])
    return {"content": PAGES[number], "last": number == 2, "totalPages": 3, "number": number}


def without(name: str, value: Any, body: dict[str, Any]) -> dict[str, Any]:
    """``body`` with a field that is omitted if it is None."""
    return body if value is None else {**body, name: value}


APIS: dict[str, Callable[[Asked], Any]] = {
    "GitHub": linked(
        '<{host}{path}?page_info={following}>; rel="next", <{host}{path}?page_info=2>; rel="last"', '<{host}{path}>; rel="first"'
    ),
    "GitLab": linked(
        '<{host}{path}?id=1&page_info={following}&per_page=2>; rel="next", <{host}{path}?page_info=0>; rel="first"',
        '<{host}{path}?page_info={before}>; rel="prev", <{host}{path}?page_info=0>; rel="first"',
    ),
    "Shopify": linked(
        '<{host}{path}?page_info={before}>; rel="previous", <{host}{path}?page_info={following}>; rel="next"',
        '<{host}{path}?page_info={before}>; rel="previous"',
    ),
    "Sentry": linked(
        '<{host}{path}?page_info={before}>; rel="previous"; results="false"; cursor="0:0:1", '
        '<{host}{path}?page_info={following}>; rel="next"; results="true"; cursor="0:100:0"',
        '<{host}{path}?page_info={before}>; rel="previous"; results="true"; cursor="0:0:1", '
        '<{host}{path}?page_info={following}>; rel="next"; results="false"; cursor="0:300:0"',
    ),
    "WordPress": linked('<{host}{path}?page_info={following}>; rel="next"', ""),
    "WooCommerce": woocommerce,
    "Stripe": stripe,
    "HubSpot": by_cursor("after", None, lambda rows, at: without("paging", at and {"next": {"after": at}}, {"results": rows})),
    "Salesforce": by_url(
        "{path}?p={following}", lambda rows, url, _: without("nextRecordsUrl", url, {"totalSize": 5, "done": url is None, "records": rows})
    ),
    "Slack": by_cursor("cursor", "", lambda rows, at: {"ok": True, "members": rows, "response_metadata": {"next_cursor": at}}),
    "Notion": by_cursor("start_cursor", None, lambda rows, at: {"results": rows, "next_cursor": at, "has_more": at is not None}),
    "Zendesk": by_url(
        "{host}{path}?page[size]=2&p={following}",
        lambda rows, url, host: {
            "tickets": rows,
            "meta": {"has_more": url is not None, "after_cursor": "x"},
            "links": {"next": url or f"{host}/api/rows?page[after]=x", "prev": f"{host}/api/rows?page[before]=x"},
        },
    ),
    "Zendesk exports": by_cursor(
        "cursor", "p2", lambda rows, at: {"tickets": rows, "after_cursor": at, "end_of_stream": rows == PAGES[-1]}
    ),
    "Jira searches": by_cursor(
        "nextPageToken", None, lambda rows, at: without("nextPageToken", at, {"issues": rows, "isLast": at is None})
    ),
    "Jira": jira_list,
    "Confluence v1": by_url(
        "/rows?cursor=x&p={following}",
        lambda rows, url, host: {"results": rows, "_links": without("next", url, {"base": f"{host}/api", "context": "/api"})},
    ),
    "Confluence v2": by_url(
        "{path}?cursor=x&p={following}",
        lambda rows, url, host: {"results": rows, "_links": without("next", url, {"base": f"{host}/api"})},
    ),
    "Elasticsearch": elasticsearch,
    "Google": by_cursor("pageToken", None, lambda rows, at: without("nextPageToken", at, {"kind": "list", "items": rows})),
    "Microsoft Graph": by_url(
        "{host}{path}?$skiptoken=x&p={following}",
        lambda rows, url, _: without("@odata.nextLink", url, {"@odata.context": "x", "value": rows}),
    ),
    "HAL": by_url(
        "{host}{path}?p={following}",
        lambda rows, url, _: {"_links": without("next", url and {"href": url}, {"self": {"href": "/"}}), "_embedded": {"orders": rows}},
    ),
    "JSON:API": by_url("{host}{path}?p={following}", lambda rows, url, _: {"data": rows, "links": {"self": "/", "next": url}}),
    "X": by_cursor("pagination_token", None, lambda rows, at: {"data": rows, "meta": without("next_token", at, {"result_count": 2})}),
    "Twilio": by_url("{path}?PageToken=x&p={following}", lambda rows, url, _: {"messages": rows, "next_page_uri": url}),
    "Airtable": by_cursor("offset", None, lambda rows, at: without("offset", at, {"records": rows})),
    "Zoho CRM": zoho,
    "Spring Data": spring,
}


def test_the_page_names_the_paging_of_each_api() -> None:
    assert documented().keys() == APIS.keys()


@pytest.mark.parametrize("name", APIS)
def test_three_pages_of_an_api_are_read_to_their_end(api: Api, name: str) -> None:
    api.answer = APIS[name]
    records, pages = documented()[name]
    done = read(api, records, eval(pages, {(kind := pages.partition("(")[0]): getattr(sdk, kind)}))
    assert [record.value["id"] for record in done.records] == ["r1", "r2", "r3", "r4", "r5"]
    assert len(api.asked) == 3
    assert done.offsets[partition_key({"partition": "rows"})] == {"complete": True}


@pytest.mark.parametrize(
    "pages",
    [
        NumberedPages(),
        NumberedPages(total="pages"),
        OffsetPages(2, total="total"),
        CursorPages("page", cursor="next", more="more"),
        CursorPages("page", last="id"),
        NextUrlPages("next", done="done"),
        LinkedPages(),
    ],
)
@pytest.mark.parametrize("empty", [Answered(b""), Answered(b" \n"), Answered(b"", 204)], ids=["empty", "blank", "no content"])
def test_a_response_without_a_body_is_the_end(api: Api, pages: Pagination, empty: Answered) -> None:
    def answer(asked: Asked) -> Any:
        if len(api.asked) > 1:
            return empty
        body = {"rows": ROWS[:2], "pages": 9, "total": 99, "next": "2", "more": True, "done": False}
        return Answered(body, headers={"Link": "<?page=2>; rel=next"})

    api.answer = answer
    assert len(read(api, "rows", pages).records) == 2
    assert len(api.asked) == 2


def test_an_accepted_request_without_a_body_is_not_the_end(api: Api) -> None:
    """Status 202: the rows are not there yet."""
    api.answer = lambda asked: Answered(b"", 202)
    with pytest.raises(ConnectException, match="is not JSON"):
        read(api, "", NumberedPages())


def test_an_empty_page_that_leads_to_itself_is_the_end(api: Api) -> None:
    api.answer = lambda asked: {"events": ROWS[:2] if not asked.params else [], "forward": "f/1"}
    assert len(read(api, "events", CursorPages("token", cursor="forward")).records) == 2
    assert len(api.asked) == 2


URL = "/rows?page=2"
ENDS: dict[str, tuple[Pagination, dict[str, Any], Position | None]] = {
    "cursor null": (CursorPages("c", cursor="next"), {"next": None}, None),
    "cursor false": (CursorPages("c", cursor="next"), {"next": False}, None),
    "cursor 0": (CursorPages("c", cursor="next"), {"next": 0}, None),
    "cursor 0 in quotes": (CursorPages("c", cursor="next"), {"next": "0"}, None),
    "cursor -1": (CursorPages("c", cursor="next"), {"next": -1}, None),
    "cursor of a null object": (CursorPages("c", cursor="paging.next"), {"paging": None}, None),
    "cursor in a header": (CursorPages("c", cursor="header:x-Next"), {}, "n1"),
    "no header": (CursorPages("c", cursor="header:X-Other"), {}, None),
    "last row with the id 0": (CursorPages("c", last="id"), {"rows": [{"id": 0}]}, 0),
    "last row, nested": (CursorPages("c", last="sort.0"), {"rows": [{"sort": [7]}]}, 7),
    "more in quotes": (CursorPages("c", last="id", more="more"), {"more": "false", "rows": [{"id": 1}]}, None),
    "more in quotes, true": (CursorPages("c", last="id", more="more"), {"more": "True", "rows": [{"id": 1}]}, 1),
    "more 0": (CursorPages("c", last="id", more="more"), {"more": 0, "rows": [{"id": 1}]}, None),
    "more omitted": (CursorPages("c", last="id", more="more?"), {"rows": [{"id": 1}]}, None),
    "done omitted": (CursorPages("c", last="id", done="done?"), {"rows": [{"id": 1}]}, 1),
    "URL false": (NextUrlPages("next"), {"next": False}, None),
    "URL in an object": (NextUrlPages("links.next"), {"links": {"next": {"href": URL, "meta": {}}}}, URL),
    "URL below another": (NextUrlPages("next", base="base"), {"next": URL, "base": "https://h/wiki"}, "https://h/wiki/rows?page=2"),
    "whole URL": (NextUrlPages("next", base="base"), {"next": f"https://h{URL}", "base": "https://h/wiki"}, f"https://h{URL}"),
    "name with dots": (NextUrlPages("d.@odata.nextLink"), {"d": {"@odata.nextLink": URL}}, URL),
    "total unknown": (OffsetPages(1, total="total"), {"total": -1, "rows": [{}]}, 1),
    "total null": (NumberedPages(total="total"), {"total": None, "rows": [{}]}, 2),
    "total omitted": (NumberedPages(total="total?"), {"rows": [{}]}, 2),
    "total as a float": (NumberedPages(total="total"), {"total": 1.0, "rows": [{}]}, None),
    "total in a range": (OffsetPages(2, total="header:Content-Range"), {"rows": [{}, {}]}, None),
    "offset, done": (OffsetPages(2, done="done"), {"done": True, "rows": [{}, {}]}, None),
    "number, more after an empty page": (NumberedPages(more="more"), {"more": True, "rows": []}, 2),
}


@pytest.mark.parametrize(("pages", "body", "following"), ENDS.values(), ids=ENDS.keys())
def test_the_page_after_a_page(pages: Pagination, body: dict[str, Any], following: Position | None) -> None:
    page = Page(body, body.get("rows", []), {}, {"x-next": "n1", "content-range": "items 0-1/2"})
    assert pages.following(None, page) == following


NO_ENDS: dict[str, tuple[Pagination, dict[str, Any], str]] = {
    "no cursor": (CursorPages("c", cursor="next", more="more"), {"more": True}, "no cursor at 'next', but is not the last page by 'more'"),
    "no row": (CursorPages("c", last="id", done="done"), {"done": False}, "no row, but is not the last page by 'done'"),
    "no offset": (OffsetPages(1, more="more"), {"more": True}, "no new row, but is not the last page"),
    "no URL": (NextUrlPages("next", more="more"), {"more": True}, "no URL at 'next', but is not the last page"),
    "no field in the last row": (CursorPages("c", last="Id"), {"rows": [{"id": 1}]}, "the last row has no 'Id'"),
    "null in the last row": (CursorPages("c", last="id"), {"rows": [{"id": None}]}, "must be a string or an integer, got NoneType"),
    "no mark": (CursorPages("c", last="id", more="more"), {"rows": [{"id": 1}]}, "the body has no 'more'"),
    "a mark of another kind": (NumberedPages(done="done"), {"done": "maybe"}, "the value at 'done' must be true or false"),
    "no total in a header": (NumberedPages(total="header:X-Pages"), {}, "the response has no 'x-pages'"),
}


@pytest.mark.parametrize(("pages", "body", "reason"), NO_ENDS.values(), ids=NO_ENDS.keys())
def test_a_page_that_contradicts_its_paging_is_an_error_and_not_the_end(pages: Pagination, body: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConnectException, match=reason):
        pages.following(None, Page(body, body.get("rows", []), {}))


def test_the_longest_name_of_a_path_is_used() -> None:
    assert value_at({"a.b": {"c": 1}, "a": {"b": {"c": 2}}}, "a.b.c") == 1
    assert value_at({"a": {"b": {"c": 2}}}, "a.b.c") == 2
    with pytest.raises(DataException, match=r"has no 'x' for the path 'a\.x\.c'; it has: b"):
        value_at({"a": {"b": 1}}, "a.x.c")
