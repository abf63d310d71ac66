"""How long to wait between attempts. Knows nothing of clocks or Kafka."""

import random as _random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """``min(initial × multiplier^n, max)`` plus or minus a random share of it, up to ``jitter`` (KIP-1278)."""

    initial_ms: float
    max_ms: float
    multiplier: float = 2.0
    jitter: float = 0.0

    def delay_ms(self, attempt: int, random: _random.Random) -> float:
        """The wait after failed attempt ``attempt``, counted from 0. Never above ``max_ms`` × (1 + jitter)."""
        try:
            delay = min(self.initial_ms * self.multiplier**attempt, self.max_ms)
        except OverflowError:
            delay = self.max_ms
        return float(delay * (1 + self.jitter * random.uniform(-1, 1)))
