"""Whether an answer is what it must be: equal to the recorded one, or what a deviation asks for (golden/README.md)."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.contract.rest.scenarios import Step, filled
from tests.contract.rest.views import comparable

_JAVA_NAME = re.compile(r"\b(java|org\.apache)\.[\w.]+|NullPointer|JsonToken")
_SHOWN = 600


def differences(step: Step, answer: Mapping[str, Any], *, profile: str, placeholders: Mapping[str, str]) -> list[str]:
    """What is wrong with ``answer``; nothing, if it is right. ``step`` is as it was recorded."""
    recorded = filled(step["answer"], placeholders)
    as_compared = {"view": step.get("view"), "profile": profile, "run": placeholders["run"], "path": step.get("path", "")}
    if deviation := step.get("deviation"):
        if deviation["body"] == "value":
            recorded = {"body": filled(step["ours"], placeholders), **deviation}
        return list(_from_deviation(filled(deviation, placeholders), recorded, answer, as_compared))
    found = list(_differs("status", recorded["status"], answer["status"]))
    if step.get("judge") == "status":
        return found
    found += _content_type(recorded, answer)
    found += _differs("location", recorded.get("location"), answer.get("location"))
    return found + list(_body(recorded, answer, as_compared))


def _differs(what: str, expected: object, found: object) -> Iterator[str]:
    if expected != found:
        yield f"{what}: expected {str(expected)[:_SHOWN]!r}, got {str(found)[:_SHOWN]!r}"


def _content_type(recorded: Mapping[str, Any], answer: Mapping[str, Any]) -> Iterator[str]:
    may_be_json = not recorded.get("content_type") and "body" in recorded
    if not (may_be_json and answer.get("content_type") == "application/json"):
        yield from _differs("content type", recorded.get("content_type", ""), answer.get("content_type", ""))


def _body(recorded: Mapping[str, Any], answer: Mapping[str, Any], as_compared: Mapping[str, Any]) -> Iterator[str]:
    if "text" in recorded:  # a page of the servlet container
        return
    if "text" in answer:
        yield f"not JSON: {answer['text'][:_SHOWN]!r}"
        return
    try:
        expected, found = (comparable(one.get("body"), **as_compared) for one in (recorded, answer))
    except (KeyError, TypeError, AttributeError) as error:
        yield f"another shape ({error!r}): {str(answer.get('body'))[:_SHOWN]}"
        return
    yield from _unequal("body", expected, found)


def _unequal(where: str, expected: Any, found: Any) -> Iterator[str]:
    """The paths within an answer that differ, so that a long answer need not be read whole."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for name in {**expected, **found}:
            if name not in expected or name not in found:
                yield f"{where}.{name}: {'missing' if name in expected else 'too many'}: {str(expected.get(name, found.get(name)))[:200]}"
            else:
                yield from _unequal(f"{where}.{name}", expected[name], found[name])
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        for number, (one, other) in enumerate(zip(expected, found, strict=True)):
            yield from _unequal(f"{where}[{number}]", one, other)
    elif expected != found or type(expected) is not type(found):
        yield from _differs(where, expected, found) if expected != found else [f"{where}: {expected!r} is not {found!r}"]


def _from_deviation(
    deviation: Mapping[str, Any], recorded: Mapping[str, Any], answer: Mapping[str, Any], as_compared: Mapping[str, Any]
) -> Iterator[str]:
    allowed = _statuses(deviation.get("status", recorded["status"]))
    if answer["status"] not in allowed:
        yield f"status: expected {deviation.get('status', recorded['status'])}, got {answer['status']} {str(answer.get('body'))[:_SHOWN]}"
    kind, pattern = deviation["body"], deviation.get("pattern", "")
    body = answer.get("body")
    if kind == "any":
        return
    if kind == "empty":
        yield from _differs("body", None, body)
        yield from _differs("content type", "", answer.get("content_type", ""))
        return
    if kind == "value":
        yield from _body(recorded, answer, as_compared)
        return
    if not isinstance(body, dict) or body.keys() != {"error_code", "message"} or body["error_code"] != answer["status"]:
        yield f"not an error of ours: {str(body or answer.get('text'))[:_SHOWN]}"
        return
    yield from _message(kind, pattern, str(body["message"]), recorded)


def _message(kind: str, pattern: str, message: str, recorded: Mapping[str, Any]) -> Iterator[str]:
    match kind:
        case "own_message":
            if not message or (not pattern and _JAVA_NAME.search(message)) or not re.search(pattern, message):
                yield f"message: expected words for people matching {pattern!r}, got {message!r}"
        case "same_message":
            yield from _differs("message", recorded["body"]["message"], message)
        case "text":
            yield from _differs("message", pattern, message)
        case "mentions":
            if pattern not in message:
                yield f"message: expected {pattern!r} in {message!r}"
        case "unknown_class":
            if not message.startswith("Failed to find any class that implements Connector"):
                yield f"message: {message!r}"
        case _:
            yield f"a deviation of unknown kind: {kind}"


def _statuses(allowed: Any) -> set[int]:
    if isinstance(allowed, str):
        first, _, last = allowed.partition(" to ")
        return set(range(int(first), int(last or first) + 1))
    return set(allowed) if isinstance(allowed, list) else {allowed}
