"""Cases of a parametrized test of which some run with every test, and all with ``make soak``."""

from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet


def sample(cases: Iterable[object], *kept: int) -> list[ParameterSet]:
    """All cases; those whose index is not among ``kept`` are marked ``soak``."""
    return [pytest.param(case, marks=[] if index in kept else [pytest.mark.soak]) for index, case in enumerate(cases)]
