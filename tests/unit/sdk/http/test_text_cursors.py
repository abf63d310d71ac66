"""Resources of an API whose cursors are numbers or times in texts."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk import ExactlyOnceSupport, rest_source
from airflow_provider_connect.sdk.http.pages import SinglePage
from airflow_provider_connect.sdk.http.resource import Incremental, Resource
from airflow_provider_connect.sdk.testing import partition_key, run
from tests.reaching import reaching
from tests.unit.sdk.functions.test_text_cursors import HALF, NUMBERS, TIMES
from tests.unit.sdk.http.api import Answered, Api, Asked


@pytest.mark.parametrize("texts", [NUMBERS, TIMES], ids=["numbers", "times"])
@pytest.mark.parametrize("is_sorted", [True, False])
def test_a_resource_of_an_api(api: Api, texts: list[str], is_sorted: bool) -> None:
    there = [texts[0]]

    def answer(_: Asked) -> Any:
        return [{"at": text} for text in (there if is_sorted else reversed(there))]

    api.answer = answer
    resource = Resource("rows", "/rows", pages=SinglePage(), incremental=Incremental("at", "since", is_sorted=is_sorted))
    connector = rest_source("Shop", base_url=api.url, resources=[resource])
    delivered, offsets, name = list[str](), None, "cursor" if is_sorted else "since"
    for count in range(1, len(texts) + 1):
        there[:] = texts[:count]
        done = run(connector(), {"topic": "t"}, offsets=offsets)
        offsets = done.offsets
        delivered += [record.value["at"] for record in done.records if is_sorted or record.value["at"] == texts[count - 1]]
        assert done.offsets[partition_key({"partition": "rows"})][name] == texts[count - 1]
    assert delivered == texts


def test_a_numbered_text_that_a_check_cannot_compare_starts_a_run_which_refuses_it(api: Api) -> None:
    there = [{"at": "INV-999"}]
    api.answer = lambda _: there
    resource = Resource("rows", "/rows", incremental=Incremental("at", "since"))
    connector = reaching(rest_source("Shop", base_url=api.url, resources=[resource])())
    config = {"topic": "t", "base.url": api.url}
    offsets = run(type(connector)(), config).offsets
    there[:] = [{"at": "INV-1000"}]
    assert connector.check_for_new_data(config, lambda partition: offsets.get(partition_key(partition))) is None
    with pytest.raises(ConnectException, match="'INV-1000' is after 'INV-999' by its number"):
        run(type(connector)(), config, offsets=offsets)


@pytest.mark.parametrize("is_sorted", [True, False])
def test_half_of_a_surrogate_pair_is_refused_with_the_name_of_its_field(api: Api, is_sorted: bool) -> None:
    api.answer = lambda _: [{"at": "a"}, {"at": HALF}]
    resource = Resource("rows", "/rows", incremental=Incremental("at", "since", is_sorted=is_sorted))
    with pytest.raises(ConnectException, match=r"(the cursor|Field) 'at'.*'2026-01-01\\ud800'"):
        run(rest_source("Shop", base_url=api.url, resources=[resource])(), {"topic": "t"})


@pytest.mark.parametrize("is_sorted", [True, False])
@pytest.mark.parametrize("nulls_first", [True, False])
@pytest.mark.parametrize("treatment", ["fail", "skip", "deliver"])
def test_rows_whose_cursor_is_null(api: Api, is_sorted: bool, nulls_first: bool, treatment: Any, caplog: pytest.LogCaptureFixture) -> None:
    """An API that sends rows without a value with each answer, and two rows below the requested value."""
    texts, nulls = ["7", "8", "9", "10", "11"], [{"id": "x", "at": None}, {"id": "y"}]

    def answer(asked: Asked) -> Any:
        at = max(texts.index(asked.params.get("since", "7")) - 2, 0)
        rows = [{"id": text, "at": text} for text in texts[at:]]
        return Answered([*nulls, *rows] if nulls_first else [*rows, *nulls])

    api.answer = answer
    cursor = Incremental("at", "since", is_sorted=is_sorted, on_null_cursor=treatment)
    connector = rest_source("Shop", base_url=api.url, resources=[Resource("rows", "/rows", pages=SinglePage(), incremental=cursor)])
    if treatment == "fail":
        with pytest.raises(ConnectException, match=r"the cursor 'at' .* set on_null_cursor to 'skip' or 'deliver'"):
            run(connector(), {"topic": "t"})
        return
    done = run(connector(), {"topic": "t"})
    delivered = [record.value["id"] for record in done.records]
    assert sorted(delivered) == sorted([*texts, *(["x", "y"] if treatment == "deliver" else [])])
    assert done.offsets[partition_key({"partition": "rows"})]["cursor" if is_sorted else "since"] == "11"
    assert ("2 rows were skipped because their cursor 'at' is null" in caplog.text) == (treatment == "skip")
    texts.append("12")
    again = [record.value["id"] for record in run(connector(), {"topic": "t"}, offsets=done.offsets).records]
    assert [each for each in again if each not in delivered] == ["12"]
    assert ("x" in again) == (treatment == "deliver")
    exact = ExactlyOnceSupport.SUPPORTED if is_sorted and treatment == "skip" else ExactlyOnceSupport.UNSUPPORTED
    assert connector().exactly_once_support({"topic": "t"}) is exact


@pytest.mark.parametrize(("treatment", "has_new"), [("skip", False), ("deliver", None)])
def test_the_check_for_new_data_regards_rows_whose_cursor_is_null(api: Api, treatment: Any, has_new: bool | None) -> None:
    api.answer = lambda _: [{"at": "5"}, {"at": None}]
    cursor = Incremental("at", "since", on_null_cursor=treatment)
    connector = rest_source("Shop", base_url=api.url, resources=[Resource("rows", "/rows", incremental=cursor)])
    assert connector().check_for_new_data({"topic": "t"}, lambda _: {"cursor": "5"}) is has_new


@pytest.mark.parametrize(("treatment", "children"), [("skip", ["b"]), ("deliver", ["a", "b"])])
def test_parents_whose_cursor_is_null(api: Api, treatment: Any, children: list[str]) -> None:
    api.answer = lambda asked: [{"id": "a"}, {"id": "b", "at": 5}] if asked.path == "/rows" else [{"of": asked.path[-1]}]
    cursor = Incremental("at", "since", is_sorted=False, on_null_cursor=treatment)
    resources = [Resource("rows", "/rows", incremental=cursor), Resource("parts", "/rows/{parent.id}", parent="rows")]
    done = run(rest_source("Shop", base_url=api.url, resources=resources)(), {"topic": "${resource}"})
    assert [record.value["of"] for record in done.records if record.topic == "parts"] == children
    assert done.offsets[partition_key({"partition": "parts"})] == {"since": 5}


def test_an_unknown_treatment_of_null_cursors_is_refused() -> None:
    cursor: Any = Incremental("at", "since", on_null_cursor="drop")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="on_null_cursor is 'drop'; it must be one of fail, skip, deliver"):
        rest_source("Shop", base_url="http://host", resources=[Resource("rows", "/rows", incremental=cursor)])
