"""Resources of an API whose cursors are numbers or times in texts."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_connect.sdk import rest_source
from airflow_provider_connect.sdk.http.pages import SinglePage
from airflow_provider_connect.sdk.http.resource import Incremental, Resource
from airflow_provider_connect.sdk.testing import partition_key, run
from tests.unit.sdk.functions.test_text_cursors import NUMBERS, TIMES
from tests.unit.sdk.http.api import Api, Asked


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
