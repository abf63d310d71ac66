"""Odd answers of Java plugins: what Kafka Connect's JSON may hold where a plugin's ConfigDef or validation is unusual."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_connect.runtime.java.probe.probe import _key, _value

KEY: dict[str, Any] = {
    "name": "odd",
    "type": "STRING",
    "required": False,
    "default_value": None,
    "importance": "LOW",
    "documentation": "",
    "group": None,
    "order_in_group": -1,
    "width": "NONE",
    "display_name": "odd",
    "dependents": [],
}


@pytest.mark.parametrize(
    ("about", "shown"),
    [
        (None, (None, (), ())),
        ({}, (None, (), ())),
        ({"name": None, "value": None, "recommended_values": None, "errors": None, "visible": True}, (None, (), ())),
        ({"name": "odd", "value": 5, "recommended_values": [None, 1, "x"], "errors": ["wrong", None]}, ("5", ("1", "x"), ("wrong",))),
    ],
)
def test_a_value_may_be_absent_or_hold_nulls(about: dict[str, Any] | None, shown: tuple[object, ...]) -> None:
    found = _value(about, "odd")
    assert found.name == "odd"
    assert (found.value, found.recommended_values, found.errors) == shown


@pytest.mark.parametrize("name", ["documentation", "display_name", "dependents"])
def test_a_definition_may_hold_nulls(name: str) -> None:
    assert not getattr(_key({**KEY, name: None}), name)
