"""How often to try what is cheap when it succeeds and in vain when it fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_MOST_PASSED_BY: Final = 64


@dataclass(slots=True)
class Hope:
    """After each failure twice as many chances are passed by, up to 64; after each success half as many."""

    _passes_by: int = 0
    _left: int = 0

    def takes_chance(self) -> bool:
        """Whether to try it this time."""
        if self._left:
            self._left -= 1
            return False
        return True

    def fulfilled(self) -> None:
        """It has succeeded."""
        self._passes_by //= 2

    def disappointed(self) -> None:
        """It has failed."""
        self._left = self._passes_by = min(max(1, 2 * self._passes_by), _MOST_PASSED_BY)
