"""One scenario against one server, step by step."""

import json
import secrets
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.contract.rest.judge import differences
from tests.contract.rest.scenarios import Scenario, Step, filled
from tests.contract.rest.server import Server
from tests.waiting import HANG_SECONDS

_POLL_SECONDS = 0.25
_AFTER_FAILURE_SECONDS = 3.0
_REBALANCE = "rebalance"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A step that has an answer: what came instead of it, if anything else did."""

    scenario: str
    step: str
    differences: list[str]
    answer: Mapping[str, Any]

    @property
    def is_equal(self) -> bool:
        return not self.differences

    def __str__(self) -> str:
        return f"{self.scenario} / {self.step}: " + ("equal" if self.is_equal else "; ".join(self.differences[:5]))


def placeholders_for(server: Server) -> dict[str, str]:
    """Those of one replay, with a token of its own."""
    return {"run": f"r{secrets.token_hex(3)}", "files": str(server.files), "url": server.url, **server.versions}


def replay(scenario: Scenario, server: Server, *, deviates: bool = True, timeout_factor: float = 1.0) -> Iterator[Outcome]:
    """The outcomes, as they come. After a wait that was in vain the others are cut short: most would be in vain too.

    ``deviates``: the product answers, which does so otherwise on purpose where a step names it; else a Kafka Connect. ``timeout_factor``:
    how many times as long as a step allows for its wait, for machines that are slow or busy.
    """
    placeholders = placeholders_for(server)
    limit: float | None = None
    for step in scenario.steps:
        answer, in_time = perform(filled(asked(step), placeholders), server, limit, timeout_factor)
        if not in_time:
            limit = _AFTER_FAILURE_SECONDS
        if answer is not None and "answer" in step:
            judged = step if deviates else {name: value for name, value in step.items() if name != "deviation"}
            wrong = differences(judged, answer, profile=scenario.profile, placeholders=placeholders)
            yield Outcome(scenario.name, str(step.get("id", step["step"])), wrong, answer)


def asked(step: Step) -> Step:
    """The step without what was answered."""
    return {name: value for name, value in step.items() if name not in ("answer", "deviation", "ours")}


def perform(step: Step, server: Server, limit: float | None = None, timeout_factor: float = 1.0) -> tuple[dict[str, Any] | None, bool]:
    """The answer of a step that has one, and whether what it waited for came. ``limit`` bounds the wait, in seconds."""
    seconds = min(timeout_factor * float(step.get("seconds", 60)), limit or float("inf"))
    match step["step"]:
        case "call":
            return _settled(step, server), True
        case "poll":
            return _polled(step, server, seconds)
        case "consume":
            answer = server.consume(step["topic"], step["count"], seconds, step.get("fields", ["key", "value"]))
            return answer, answer["status"] == "arrived"
        case "read_file":
            answer = server.read_file(step["file"], step["count"], seconds, any_order=bool(step.get("any_order")))
            return answer, answer["status"] == "arrived"
    _act(step, server)
    return None, True


def _act(step: Step, server: Server) -> None:
    match step["step"]:
        case "write" | "append":
            with (server.files / step["file"]).open("w" if step["step"] == "write" else "a", encoding="utf-8") as file:
                file.write(step["text"])
        case "remove":
            (server.files / step["file"]).unlink(missing_ok=True)
        case "create_topic":
            server.create_topic(step["topic"], step["partitions"])
        case "produce":
            server.produce(step["topic"], step["records"])
        case "sleep":
            time.sleep(step["seconds"])
        case unknown:
            raise ValueError(f"a step of unknown kind: {unknown}")


def _settled(step: Step, server: Server) -> dict[str, Any]:
    """A real Connect may have to be asked again; ours never returns this."""
    deadline = time.monotonic() + HANG_SECONDS
    while True:
        answer = server.call(step)
        body = answer.get("body")
        if not (isinstance(body, dict) and _REBALANCE in str(body.get("message")) and time.monotonic() < deadline):
            return answer
        time.sleep(_POLL_SECONDS)


def _polled(step: Step, server: Server, seconds: float) -> tuple[dict[str, Any], bool]:
    deadline = time.monotonic() + seconds
    while True:
        answer = server.call(step)
        if _holds(step["until"], answer):
            return answer, True
        if time.monotonic() > deadline:
            return answer, False
        time.sleep(_POLL_SECONDS)


def _holds(condition: Mapping[str, Any], answer: Mapping[str, Any]) -> bool:
    if "status" in condition:
        return bool(answer["status"] == condition["status"])
    if "all" in condition:
        return all(_holds(one, answer) for one in condition["all"])
    found = _at(answer.get("body"), condition["at"])
    if "has" in condition:
        return condition["has"] in (found or ())
    return _same(found, condition["is"])


def _at(value: Any, path: str) -> Any:
    """What lies at ``a.*.b``. A key may have full stops in it, as a connector's name may."""
    if not path:
        return value
    if isinstance(value, list) and path.startswith("*"):
        return [_at(one, path[2:]) for one in value]
    if isinstance(value, dict):
        for key in value:
            if path == key or path.startswith(f"{key}."):
                return _at(value[key], path[len(key) + 1 :])
    return None


def _same(found: Any, expected: Any) -> bool:
    if isinstance(found, list) and isinstance(expected, list):
        return sorted(map(_ordered, found)) == sorted(map(_ordered, expected))
    return bool(found == expected)


def _ordered(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
