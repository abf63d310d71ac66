"""Where ours answers otherwise than Kafka Connect, and why that is right."""

from __future__ import annotations

import json
import struct
from typing import Any, Final

from tests.contract.transforms.cases import Json

_INSIDES: Final = ("java.lang.", "Cannot invoke", "InsertionSpec@", "fromIndex", "Unclosed group")


def deviation(case: Json, wanted: Any, got: Any) -> str | None:
    """The reason of a difference; None if there is none."""
    return _of_definition(case["class"], wanted, got) if isinstance(wanted, list) else _of_answer(case, wanted, got)


def _of_definition(name: str, wanted: list[Json], got: list[Json]) -> str | None:
    is_newer = name == "ValueToKey" and got[:-1] == wanted and got[-1]["name"] == "field.syntax.version"
    return "Kafka 4.4 has paths here, and 4.3.1 was recorded" if is_newer else None


def _of_answer(case: Json, wanted: Json, got: Json) -> str | None:
    name = case["class"].partition("$")[0]
    if "-0.0" in json.dumps(case) and json.dumps(got).replace("-0.0", "0.0") == json.dumps(wanted):
        return "-0.0 keeps its sign; Connect's JsonConverter, which read the case, loses it"
    expected = str(wanted.get("message", wanted.get("errors")))
    ours = str(got.get("message", got.get("errors")))
    if expected == ours and "failed" in wanted and "failed" in got:
        return "equal; what fails is always a DataException here"
    if any(word in expected for word in _INSIDES) and wanted.keys() == got.keys():
        return "refused as by Connect, whose text names its internals or is its parser's"
    if any("unwritable" in (wanted.get(side) or ()) for side in ("key", "value")):
        return "nothing that Connect's converter could write"
    if "refused" in got and ours.endswith("values must not be duplicated."):
        return "refused by Connect's validation too, so no task ever sees it"
    return _of_class(name, case, wanted, got)


def _of_class(name: str, case: Json, wanted: Json, got: Json) -> str | None:
    expected = str(wanted.get("message"))
    if name == "SetSchemaMetadata" and expected == "Cannot list fields on non-struct type" and "value" in got:
        return "Connect can name structs only, against its documentation"
    if name == "ExtractField" and "fromIndex" in expected and case["config"]["field"] == "":
        return "Connect falls over an empty path"
    if name == "TimestampRouter" and expected.startswith(("Timestamp missing on record: ", "Illegal pattern")):
        return "a record is not shown in a message; patterns are refused when they are given"
    if name == "RegexRouter" and case["config"].get("replacement") == "$3" and "refused" in got:
        return "a group that does not exist is refused when it is given"
    if name == "TimestampConverter" and case["config"]["target.type"] == "Date" and "out of the range of dates" in str(got):
        return "a day that does not fit into 32 bits; Connect's wraps"
    return "the same 32-bit number; Java 17 writes more digits than are needed" if _singles(wanted) == _singles(got) else None


def _singles(node: Any) -> Any:
    """JSON with each number as the nearest of 32 bits."""
    if isinstance(node, dict):
        return {key: _singles(value) for key, value in node.items()}
    if isinstance(node, list):
        return [_singles(value) for value in node]
    return struct.pack("f", node) if isinstance(node, float) and abs(node) < 3e38 else node
