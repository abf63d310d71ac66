"""What a REST source sends and refuses: credentials, hostile answers, errors that pass, and messages without secrets."""

from __future__ import annotations

import base64
import contextlib
import gzip
import logging
import socket
import sys
import threading
import time
import traceback
import tracemalloc
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException
from airflow_provider_connect.sdk import (
    ApiKeyAuth,
    BasicAuth,
    BearerAuth,
    ClientCredentialsAuth,
    CursorPages,
    LinkedPages,
    NextUrlPages,
    NumberedPages,
    OffsetPages,
    Password,
    Resource,
    rest_source,
)
from airflow_provider_connect.sdk.http import rest_client
from airflow_provider_connect.sdk.http.credentials import Authentication, Credentials, TokenCredentials
from airflow_provider_connect.sdk.http.pages import Pagination, SinglePage
from airflow_provider_connect.sdk.http.resource import ResourceReader
from airflow_provider_connect.sdk.http.rest_client import RestClient, retry_after_seconds
from airflow_provider_connect.sdk.task import CommitStep
from airflow_provider_connect.sdk.testing import Fault, MemoryConnectorContext, MemorySourceContext, SourceRun, partition_key, run
from tests.unit.sdk.http.api import Answered, Api, Asked, running
from tests.waiting import HANG_SECONDS

SECRET = 'p+ss/w"rd-of-mine'
ENCODED = base64.b64encode(f"me:{SECRET}".encode()).decode()
Auth = tuple[Authentication, dict[str, str], dict[str, str], dict[str, str]]
"""With the settings, and the headers and parameters that requests have."""
AUTHS: dict[str, Auth] = {
    "basic": (BasicAuth(), {"username": "me", "password": SECRET}, {"authorization": f"Basic {ENCODED}"}, {}),
    "bearer": (BearerAuth(), {"token": SECRET}, {"authorization": f"Bearer {SECRET}"}, {}),
    "key in a header": (ApiKeyAuth(), {"api.key": SECRET}, {"x-api-key": SECRET}, {}),
    "key in the query": (ApiKeyAuth("key", "query"), {"api.key": SECRET}, {}, {"key": SECRET}),
}


def connector(auth: Authentication | None = None, pages: Pagination | None = None, **more: Any) -> Any:
    return rest_source("Shop", base_url=None, resources=[Resource("rows", "/rows", pages=pages or SinglePage())], auth=auth, **more)()


def read(api: Api, auth: Authentication | None = None, pages: Pagination | None = None, **config: str) -> SourceRun:
    return run(connector(auth, pages), {"base.url": api.url, "topic": "t", **config})


def task_of(api: Api, auth: Authentication | None = None, pages: Pagination | None = None, **config: str) -> Any:
    """A task, started."""
    source = connector(auth, pages)
    source.initialize(MemoryConnectorContext())
    config = {"base.url": api.url, "topic": "t", **config}
    source.start(source.config_def.parse(config))
    [task_config] = source.task_configs(1)
    task = source.task_class()
    task.initialize(MemorySourceContext(task_config))
    task.start(source.task_config(task_config))
    return task


def answers_of(answered: Any) -> Any:
    return lambda asked: answered


def read_whole(task: Any) -> None:
    while task.poll() is not None:
        pass


@pytest.mark.parametrize("declared", AUTHS.values(), ids=AUTHS.keys())
class TestCredentials:
    def test_each_request_has_them(self, api: Api, declared: Auth) -> None:
        """Also that of a next URL, and of a redirect within the host. A next URL may repeat the key."""
        auth, config, headers, params = declared

        def answer(asked: Asked) -> Any:
            if asked.path == "/rows":
                return Answered(b"", 307, {"Location": "/moved"})
            links = {} if "page" in asked.params else {"Link": f'</moved?page=2&key={asked.params.get("key", "")}>; rel="next"'}
            return Answered([{"id": 1}], headers=links)

        api.answer = answer
        done = read(api, auth, LinkedPages(), **config)
        assert len(done.records) == 2
        assert [asked.path for asked in api.asked] == ["/rows", "/moved", "/moved"]
        for asked in api.asked:
            assert headers.items() <= asked.headers.items()
            assert params.items() <= asked.params.items()

    def test_no_offset_has_them(self, api: Api, declared: Auth) -> None:
        """Also if a next URL repeats the key."""
        auth, config, _, _ = declared

        def answer(asked: Asked) -> Any:
            number = int(asked.params.get("page", "1"))
            again = f"{asked.path}?page={number + 1}&key={asked.params.get('key', '')}&size=1"
            return Answered([{"id": number}], headers={"Link": f'<{again}>; rel="next"'} if number < 4 else {})

        api.answer = answer
        killed = run(
            connector(auth, LinkedPages()), {"base.url": api.url, "topic": "t", **config}, fault=Fault(CommitStep.COMMIT_TRANSACTION)
        )
        page = killed.offsets[partition_key({"partition": "rows"})]["page"]
        assert page.startswith("/rows?page=2&")
        assert SECRET not in str(killed.offsets)

    def test_no_message_and_no_log_shows_them(self, api: Api, declared: Auth, caplog: pytest.LogCaptureFixture) -> None:
        auth, config, _, _ = declared

        def answer(asked: Asked) -> Any:
            if "page" in asked.params:
                return Answered(f"no, {asked.headers}, {asked.params}, {asked}".encode(), 403)
            return Answered([{"id": 1}], headers={"Link": f'<{asked}{"&" if asked.params else "?"}page=2>; rel="next"'})

        api.answer = answer
        caplog.set_level(logging.DEBUG)
        caplog.set_level(logging.DEBUG, "httpx")  # Airflow, where a test before this one has loaded it, asks for warnings alone
        task = task_of(api, auth, LinkedPages(), **config)
        with pytest.raises(ConnectException) as caught:
            read_whole(task)
        shown = "".join(traceback.format_exception(caught.value)) + caplog.text
        assert "status 403: no, " in shown
        assert "HTTP Request: GET" in shown
        assert SECRET not in shown
        assert ENCODED not in shown
        assert "ss%2Fw" not in shown
        assert not [line for line in caplog.text.splitlines() if "HTTP Request" in line and "?" in line]

    def test_a_host_elsewhere_gets_no_request(self, api: Api, declared: Auth) -> None:
        auth, config, _, _ = declared
        with running() as other:
            for elsewhere in (other.url, other.url.replace("127.0.0.1", "localhost"), f"//{other.url[7:]}/", "http://me@10.0.0.1"):
                redirect = Answered(b"", 302, {"Location": elsewhere})
                for answered in (redirect, Answered([{"id": 1}], headers={"Link": f'<{elsewhere}>; rel="next"'})):
                    api.answer = answers_of(answered)
                    with pytest.raises(ConnectException, match=r"leads to another host, [\w.:]+, which is not followed"):
                        read(api, auth, LinkedPages(), **config)
            assert other.asked == []


def token_api(api: Api, *, lasts: int = 3600, refused: int = 0) -> ClientCredentialsAuth:
    """Tokens are numbered; the first ``refused`` ones are refused by the API."""
    issued: list[Asked] = []

    def answer(asked: Asked) -> Any:
        if asked.path == "/token":
            issued.append(asked)
            return {"access_token": f"token-{len(issued)}", "expires_in": lasts, "token_type": "Bearer"}
        if asked.headers["authorization"] != f"Bearer token-{len(issued)}" or len(issued) <= refused:
            return Answered({"error": asked.headers["authorization"]}, 401)
        number = int(asked.params["page"])
        return [{"id": number}] if number < 4 else []

    api.answer = answer
    return ClientCredentialsAuth(f"{api.url}/token", scope="read")


CLIENT = {"client.id": "me", "client.secret": SECRET}


def test_one_token_serves_all_pages(api: Api) -> None:
    assert len(read(api, token_api(api), NumberedPages(), **CLIENT).records) == 3
    [asked] = [asked for asked in api.asked if asked.path == "/token"]
    assert asked.form == {"grant_type": "client_credentials", "scope": "read"}
    assert base64.b64decode(asked.headers["authorization"].removeprefix("Basic ")).decode() == "me:p%2Bss%2Fw%22rd-of-mine"


def test_credentials_of_a_client_may_go_into_the_form(api: Api) -> None:
    token_api(api)
    assert len(read(api, ClientCredentialsAuth(f"{api.url}/token", in_body=True), NumberedPages(), **CLIENT).records) == 3
    assert api.asked[0].form == {"grant_type": "client_credentials", "client_id": "me", "client_secret": SECRET}
    assert "authorization" not in api.asked[0].headers


def test_a_refused_token_is_renewed_once(api: Api) -> None:
    assert len(read(api, token_api(api, refused=1), NumberedPages(), **CLIENT).records) == 3
    with pytest.raises(ConnectException, match=r'status 401: \{"error": "Bearer \[hidden\]"\}'):
        read(api, token_api(api, refused=9), NumberedPages(), **CLIENT)


@pytest.mark.parametrize(
    ("expires_in", "seconds"), [(3600, 3570), ("3600", 3570), (40, 20), (None, 3570), pytest.param(10**400, 1e9 - 30, id="endless")]
)
def test_a_token_is_renewed_before_its_end(expires_in: object, seconds: float) -> None:
    now, issued = 0.0, 0

    def request_token(url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> Any:
        nonlocal issued
        issued += 1
        return {"access_token": f"token-{issued}", "expires_in": expires_in}

    credentials = TokenCredentials(ClientCredentialsAuth("https://x/token"), "me", Password(SECRET), now=lambda: now)
    for at, token in ((0.0, 1), (seconds - 1, 1), (seconds, 2), (2 * seconds - 1, 2)):
        now = at
        assert credentials.headers(request_token) == {"Authorization": f"Bearer token-{token}"}


def test_one_token_serves_all_resources_of_a_task_and_outlives_errors(api: Api) -> None:
    auth, failures = token_api(api), [503]
    with_token = api.answer
    api.answer = lambda asked: Answered("busy", failures.pop()) if failures and asked.path == "/b" else with_token(asked)
    resources = [Resource(name, f"/{name}", pages=NumberedPages()) for name in ("a", "b", "c")]
    source = rest_source("Shop", base_url=api.url, resources=resources, auth=auth)()
    assert len(run(source, {"topic": "${resource}", **CLIENT}).records) == 9
    assert len([asked for asked in api.asked if asked.path == "/token"]) == 1


def test_the_secrets_of_a_long_task_do_not_grow() -> None:
    tokens = iter(f"token-{number}" for number in range(1000))
    credentials = TokenCredentials(ClientCredentialsAuth("https://x/token"), "me", Password(SECRET))
    for _ in range(1000):
        credentials.headers(lambda *_: {"access_token": next(tokens)})
        credentials.renew()
    assert credentials.secrets[0] == SECRET
    assert credentials.secrets[2:] == ("token-998", "token-999")
    assert credentials.mask(f"{SECRET} token-999 token-998") == "[hidden] [hidden] [hidden]"


@pytest.mark.parametrize(
    "answered",
    [{}, [], {"access_token": 5}, {"access_token": "a\r\nb"}, Answered({"secret": SECRET}, 400), Answered(b"", 302, {"Location": "/x"})],
)
def test_a_token_url_without_a_token_is_an_error(api: Api, answered: Any) -> None:
    api.answer = lambda asked: answered
    with pytest.raises(ConnectException) as caught:
        read(api, ClientCredentialsAuth(f"{api.url}/token"), None, **CLIENT)
    assert SECRET not in str(caught.value)
    assert [asked.path for asked in api.asked] == ["/token"]


@pytest.mark.parametrize("token", ["line\nbreak", "blank space", "ümlaut"])
def test_a_token_that_no_header_can_hold_is_named_and_not_shown(api: Api, token: str) -> None:
    with pytest.raises(ConfigException, match="configuration token: a header value must be") as caught:
        read(api, BearerAuth(), token=token)
    assert token not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("status", [403, 408, 425, 429, 500, 502, 503, 504])
def test_errors_that_pass_are_retriable(api: Api, status: int) -> None:
    answers = [Answered([{"id": 2}]), Answered({"error": "later"}, status, {"Retry-After": "7"})]
    api.answer = lambda asked: answers.pop() if answers else []
    task = task_of(api)
    with pytest.raises(RetriableException, match=rf"GET {api.url}/rows: status {status}: .*later") as caught:
        task.poll()
    assert caught.value.retry_after_ms == 7000
    assert sum(len(batch) for batch in task.poll()) == 1
    assert task.poll() is None


def test_pages_before_an_error_are_not_read_again(api: Api) -> None:
    fails = True

    def answer(asked: Asked) -> Any:
        nonlocal fails
        if asked.params["page"] == "4" and fails:
            fails = False
            return Answered(b"", 503)
        return [{"id": int(asked.params["page"])}] if int(asked.params["page"]) < 6 else []

    api.answer = answer
    done = read(api, None, NumberedPages())
    assert [record.value["id"] for record in done.records] == [1, 2, 3, 4, 5]
    assert done.retries == 1
    assert [asked.params["page"] for asked in api.asked] == ["1", "2", "3", "4", "3", "4", "5", "6"]  # the third waited for the fourth


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 501, 304, 600])
def test_other_errors_end_the_task(api: Api, status: int) -> None:
    api.answer = lambda asked: Answered(b"", status)
    with pytest.raises(ConnectException, match=f"status {status}") as caught:
        read(api)
    assert not isinstance(caught.value, RetriableException)


def test_a_line_break_in_a_path_stays_encoded(api: Api) -> None:
    api.answer = lambda asked: [{"id": "a\nb"}] if asked.path == "/v%2F1/parents" else Answered(b"", 400)
    resources = [Resource("parents", "/parents"), Resource("rows", "/rows/{parent.id}", parent="parents")]
    source = rest_source("Shop", base_url=f"{api.url}/v%2F1", resources=resources)()
    with pytest.raises(ConnectException) as caught:
        run(source, {"topic": "${resource}"})
    assert str(caught.value) == f"GET {api.url}/v%2F1/rows/a%0Ab: status 400"


def test_a_lost_connection_is_retriable() -> None:
    with running() as api:
        url = api.url
    with pytest.raises(RetriableException, match=f"GET {url}/rows: ConnectError"):
        task_of(Api(url, lambda asked: None)).poll()


def test_a_silent_server_is_retriable(api: Api) -> None:
    api.answer = lambda asked: time.sleep(0.3)
    with pytest.raises(RetriableException, match="ReadTimeout"):
        task_of(api, None, None, **{"request.timeout.ms": "50"}).poll()


@contextlib.contextmanager
def repeating(begin: bytes, piece: bytes) -> Iterator[str]:
    """The address of a server that answers with ``begin``, and with ``piece`` again and again; and on the next connection as it should."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with contextlib.suppress(OSError), listening.accept()[0] as connection:
                connection.sendall(begin)
                while True:
                    connection.sendall(piece)
                    time.sleep(0.001)
            with listening.accept()[0] as connection:
                connection.recv(1000)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")

        server = threading.Thread(target=answer, daemon=True)
        server.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.join(HANG_SECONDS)


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nX: ", b"x"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 900000000\r\n\r\n", b" "),
    ],
    ids=["answers before the answer", "a header", "a body"],
)
def test_an_answer_without_end_is_retriable_and_the_next_request_is_sent(
    begin: bytes, piece: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_client, "REQUEST_SECONDS", 0.2)
    with repeating(begin, piece) as url, RestClient(url, Credentials()) as client:
        with pytest.raises(RetriableException, match="the response has not arrived within"):
            client.get("/rows", {})
        monkeypatch.setattr(rest_client, "REQUEST_SECONDS", 60.0)
        assert client.get("/rows", {}).body == []


HTTP_DATE = "Wed, 21 Oct 2026 07:28:10 GMT"


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("99999999999999999999999999", 3600.0),
        (HTTP_DATE, 10.0),
        ("Wed, 21 Oct 2020 07:28:10 GMT", 0.0),
        ("Wed, 21 Oct 2099 07:28:10 GMT", 3600.0),
        (None, None),
        ("", None),
        ("-5", None),
        ("soon", None),
        ("1e99", None),
        (f"Wed, 21 Oct {'9' * 40} 07:28:10 GMT", None),
        (f"Wed, 21 Oct 2026 07:28:10 +{'9' * 40}", None),
        ("٣", None),
    ],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    assert retry_after_seconds(header, datetime(2026, 10, 21, 7, 28, 0, tzinfo=UTC)) == seconds


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html>login</html>", "is not JSON"),
        (b'[{"id": NaN}]', "is not JSON"),
        (b'[{"id": ' + b"9" * 5000 + b"}]", "is not JSON"),
        (b"\xff\xfe\xff", "is not JSON"),
        (b"[" * 100_000, "is not JSON|levels"),
        (b"[" * 300 + b"]" * 300, "more than 200 levels"),
        (b'"text"', "the rows at '' must be a list of objects, got str"),
        (b"[1]", "row 0 must be an object, got int"),
    ],
)
def test_a_body_without_rows_is_an_error(api: Api, body: bytes, reason: str) -> None:
    api.answer = lambda asked: Answered(body)
    with pytest.raises(ConnectException, match=reason):
        read(api)


def test_a_path_without_rows_names_what_there_is(api: Api) -> None:
    api.answer = lambda asked: {"error": "quota", "code": 5}
    source = rest_source("Shop", base_url=api.url, resources=[Resource("rows", "/rows", records="data.rows")])()
    with pytest.raises(ConnectException, match=r"no 'data' for the path 'data\.rows'; it has: error, code"):
        run(source, {"topic": "t"})
    source = rest_source("Shop", base_url=api.url, resources=[Resource("rows", "/rows", records="data.rows?")])()
    assert run(source, {"topic": "t"}).records == []


@pytest.mark.parametrize(
    ("encoding", "body", "message"),
    [
        ("gzip, gzip", gzip.compress(gzip.compress(b" " * 200_000)), "compressed as 'gzip, gzip'; only gzip was requested"),
        ("zstd", b"(\xb5/\xfd", "compressed as 'zstd'"),
        ("gzip", b"{}", "is not valid gzip"),
        ("gzip", gzip.compress(b"[]")[:-1], "is incomplete"),
    ],
    ids=["packed twice", "zstd", "not packed", "cut"],
)
def test_a_body_is_unpacked_once_and_as_it_was_asked_for(encoding: str, body: bytes, message: str, api: Api) -> None:
    api.answer = lambda asked: Answered(body, headers={"Content-Encoding": encoding})
    with RestClient(api.url, Credentials()) as client, pytest.raises(ConnectException, match=message):
        client.get("/rows", {})
    assert api.asked[0].headers["accept-encoding"] == "gzip"


def test_an_error_that_passes_does_so_however_its_body_is_packed(api: Api) -> None:
    api.answer = lambda asked: Answered(b"later", 503, headers={"Content-Encoding": "br"})
    with RestClient(api.url, Credentials()) as client, pytest.raises(RetriableException, match="status 503: later"):
        client.get("/rows", {})


def test_a_packed_body_is_read(api: Api) -> None:
    api.answer = lambda asked: Answered(gzip.compress(b'[{"a": 1}]'), headers={"Content-Encoding": "GZIP"})
    with RestClient(api.url, Credentials()) as client:
        assert client.get("/rows", {}).body == [{"a": 1}]


def test_what_follows_a_packed_body_is_neither_kept_nor_endless(api: Api) -> None:
    """zlib would keep it, and copy all of it for each piece."""
    body = gzip.compress(b"[]") + b"x" * 16 * 1024 * 1024
    api.answer = lambda asked: Answered(body, headers={"Content-Encoding": "gzip"})
    with RestClient(api.url, Credentials()) as client:
        tracemalloc.start()
        try:
            assert client.get("/rows", {}).body == []
            assert tracemalloc.get_traced_memory()[1] < len(body) // 2
        finally:
            tracemalloc.stop()
    with RestClient(api.url, Credentials(), most_bytes=100_000) as client, pytest.raises(ConnectException, match="100000 bytes follow"):
        client.get("/rows", {})


@pytest.mark.parametrize("position", ["\ud800", "x" * 70_000])
def test_a_position_that_no_url_can_hold_is_named(api: Api, position: str) -> None:
    api.answer = lambda asked: {"id": 1, "next": position}
    with pytest.raises(ConnectException, match="GET '/rows': the position of the page is not valid in a URL") as caught:
        read(api, None, CursorPages("cursor", cursor="next"))
    assert len(str(caught.value)) < 300


def test_a_token_that_a_next_url_repeats_is_in_no_offset(api: Api) -> None:
    """Graph APIs put it there, although it came in a header."""
    api.answer = lambda asked: {"rows": [{"id": 1}], "next": None if "page" in asked.params else "/rows?access_token=canary-token&page=2"}
    with RestClient(api.url, BearerAuth().credentials({"token": Password("canary-token")})) as client:  # type: ignore[arg-type]
        reader = ResourceReader(client, Resource("rows", "/rows", records="rows", pages=NextUrlPages("next")), None, {})
        assert [pair[1] for pair in reader.rows(None) if pair] == [{"page": "/rows?page=2"}, {"complete": True}]
    assert [asked.headers["authorization"] for asked in api.asked] == ["Bearer canary-token"] * 2


def test_a_body_is_bounded_also_when_it_is_packed(api: Api) -> None:
    api.answer = lambda asked: Answered(gzip.compress(b" " * 200_000), headers={"Content-Encoding": "gzip"})
    with (
        RestClient(api.url, Credentials(), most_bytes=100_000) as client,
        pytest.raises(ConnectException, match="larger than 100000 bytes"),
    ):
        client.get("/rows", {})


def _page_after(asked: Asked, name: str) -> int:
    return int(asked.params.get(name, "0")) + 1


ENDLESS: dict[str, tuple[Pagination, Any, str]] = {
    "the same cursor": (CursorPages("c", cursor="c"), lambda asked: {"id": _page_after(asked, "n"), "c": "x"}, "is repeated"),
    "cursors in a circle": (
        CursorPages("c", cursor="c"),
        lambda asked: {"c": {"a": "b", "b": "c", "c": "a"}[asked.params.get("c", "a")]},
        "position of a page is repeated",
    ),
    "an unknown parameter": (OffsetPages(), lambda asked: [{"id": 1}], "the same rows are repeated"),
    "the same URL": (NextUrlPages(), lambda asked: {"next": "/rows?page=2", "id": asked.params.get("page")}, "is repeated"),
    "redirects": (SinglePage(), lambda asked: Answered(b"", 302, {"Location": "/rows"}), "more than 5 redirects"),
}


@pytest.mark.parametrize(("pages", "answer", "reason"), ENDLESS.values(), ids=ENDLESS.keys())
def test_pages_without_end_are_an_error(api: Api, pages: Pagination, answer: Any, reason: str) -> None:
    api.answer = answer
    with pytest.raises(ConnectException, match=reason):
        read(api, None, pages)
    assert len(api.asked) < 10


def test_empty_pages_without_end_are_an_error(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("airflow_provider_connect.sdk.http.resource.MOST_EMPTY_PAGES", 20)
    api.answer = lambda asked: {"c": str(_page_after(asked, "c")), "rows": []}
    source = rest_source(
        "Shop", base_url=api.url, resources=[Resource("rows", "/rows", records="rows", pages=CursorPages("c", cursor="c"))]
    )()
    with pytest.raises(ConnectException, match="too many are empty"):
        run(source, {"topic": "t"})
    assert len(api.asked) == 21


@pytest.mark.parametrize("page", ["http://10.0.0.1/x", "10.0.0.1", "@10.0.0.1/", ":80@10.0.0.1/", ""])
def test_an_offset_leads_nowhere_else(api: Api, page: str) -> None:
    """Offsets can be altered over REST."""
    api.answer = lambda asked: [{"id": 1}]
    with pytest.raises(ConnectException, match="must be a path"):
        run(
            connector(None, LinkedPages()),
            {"base.url": api.url, "topic": "t"},
            offsets={partition_key({"partition": "rows"}): {"page": page}},
        )
    assert api.asked == []


def test_requests_keep_their_rate(api: Api) -> None:
    api.answer = lambda asked: [{"id": int(asked.params["page"])}] if int(asked.params["page"]) < 5 else []
    began = time.monotonic()
    assert len(run(connector(None, NumberedPages(), requests_per_second=20), {"base.url": api.url, "topic": "t"}).records) == 4
    assert time.monotonic() - began >= 4 / 20


def test_the_rate_holds_for_all_resources_of_a_task_and_over_errors(api: Api) -> None:
    times, failures = [], [503, 503]

    def answer(asked: Asked) -> Any:
        times.append(time.monotonic())
        return Answered("busy", failures.pop()) if failures and asked.path == "/b" else [{"id": 1}]

    api.answer = answer
    resources = [Resource(name, f"/{name}") for name in ("a", "b", "c", "d")]
    source = rest_source("Shop", base_url=api.url, resources=resources, requests_per_second=5)()
    assert len(run(source, {"topic": "${resource}"}).records) == 4
    assert len(times) == 6
    assert times[-1] - times[0] >= 4.5 / 5  # five gaps; the first request may take longer to arrive than the last


def test_a_wait_for_the_rate_ends_with_the_run(api: Api) -> None:
    api.answer = lambda asked: [{"id": int(asked.params["page"])}]
    source = connector(None, NumberedPages(), requests_per_second=0.001)
    source.initialize(MemoryConnectorContext())
    source.start(source.config_def.parse({"base.url": api.url, "topic": "t"}))
    [config] = source.task_configs(1)
    task, context = source.task_class(), MemorySourceContext(config)
    context.stopping = lambda: len(api.asked) > 0  # type: ignore[method-assign]
    task.initialize(context)
    task.start(source.task_config(config))
    began = time.monotonic()
    for _ in range(5):
        assert not task.poll()
    assert time.monotonic() - began < HANG_SECONDS  # at its rate the second request comes after 1,000 s
    assert len(api.asked) == 1
    task.stop()
    assert task.poll() is None


def test_tasks_share_the_rate() -> None:
    resources = [Resource(name, f"/{name}") for name in ("a", "b", "c")]
    source = rest_source("Shop", base_url="http://127.0.0.1:1", resources=resources, requests_per_second=6)()
    source.initialize(MemoryConnectorContext())
    source.start(source.config_def.parse({"topic": "${resource}"}))
    assert [config["task.count"] for config in source.task_configs(2)] == ["2", "2"]


def test_without_httpx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    source = connector()
    source.initialize(MemoryConnectorContext())
    with pytest.raises(ConnectException, match=r"pip install 'airflow-provider-connect\[http\]'"):
        source.start(source.config_def.parse({"topic": "t", "base.url": "http://127.0.0.1:1"}))
