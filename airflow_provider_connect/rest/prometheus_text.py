"""Samples in Prometheus' text format (version 0.0.4). Knows nothing of connectors."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Family:
    """One metric. ``name`` is fit for Prometheus; ``kind`` is ``counter`` or ``gauge``."""

    name: str
    kind: str
    meaning: str


def text_of(samples: Iterable[tuple[Family, Mapping[str, str], float]]) -> str:
    """The page: each family once, with its samples in the order in which they come."""
    families: dict[Family, list[str]] = {}
    for family, labels, value in samples:
        families.setdefault(family, []).append(f"{family.name}{_labels(labels)} {_number(value)}")
    lines = []
    for family, shown in families.items():
        lines += [f"# HELP {family.name} {_help(family.meaning)}", f"# TYPE {family.name} {family.kind}", *shown]
    return "".join(f"{line}\n" for line in lines)


def _labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items()) + "}"


def _help(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
