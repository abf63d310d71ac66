"""Where ours answers otherwise than Kafka Connect, and why that is right."""

from __future__ import annotations

from typing import Any

from tests.contract.transforms.cases import Json


def deviation(case: Json, wanted: Json, got: Any) -> str | None:
    """The reason of a difference; None if there is none."""
    return None
