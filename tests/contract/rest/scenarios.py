"""The recorded sessions of a real Kafka Connect, as golden/README.md describes them, and the placeholders in them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "golden" / "rest"

Step = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Ordered steps against one server that no other client changes in the meantime."""

    name: str
    profile: str
    steps: list[Step]

    @property
    def needs_runs(self) -> bool:
        """Whether a connector has to run, or something outside the REST API has to be there."""
        return any(step["step"] not in ("call", "sleep") and not _is_of_state_alone(step) for step in self.steps)

    @property
    def answered(self) -> int:
        """How many steps there are to compare."""
        return sum("answer" in step for step in self.steps)


def _is_of_state_alone(step: Step) -> bool:
    """A poll of a connector created STOPPED or deleted, or a file that only it would read."""
    return (step["step"] == "poll" and "RUNNING" not in json.dumps(step["until"]) and "/status" in step["path"]) or step["step"] == "write"


def scenarios(folder: Path = FOLDER) -> list[Scenario]:
    found = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*.json"))]
    return [Scenario(one["name"], one["profile"], one["steps"]) for one in found]


def filled(value: Any, placeholders: Mapping[str, str]) -> Any:
    """``value`` with what stands for each ``{name}`` in all of its texts, those of keys too."""
    return _mapped(value, [(f"{{{name}}}", text) for name, text in placeholders.items()])


def emptied(value: Any, placeholders: Mapping[str, str]) -> Any:
    """The reverse of ``filled``, longest texts first."""
    return _mapped(value, sorted(((text, f"{{{name}}}") for name, text in placeholders.items()), key=lambda pair: -len(pair[0])))


def _mapped(value: Any, pairs: list[tuple[str, str]]) -> Any:
    match value:
        case str():
            for old, new in pairs:
                value = value.replace(old, new)
            return value
        case list():
            return [_mapped(one, pairs) for one in value]
        case dict():
            return {_mapped(key, pairs): _mapped(one, pairs) for key, one in value.items()}
        case _:
            return value
