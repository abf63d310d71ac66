"""The tests. A process that runs tests for ``tests.suite`` measures which lines run, from before the package's first import."""

import os

LINE_COVERAGE = None

_name = os.environ.get("PYTEST_XDIST_WORKER") or os.environ.get("TEST_TURN")
if _name and os.environ.pop("CONNECT_TEST_COVERAGE", ""):  # not in the processes that it starts
    from tests.line_coverage import LineCoverage

    LINE_COVERAGE = LineCoverage(_name)
    LINE_COVERAGE.begin()
