"""The tests. Before anything of the package is imported, a process of xdist begins to measure which of its lines run, if it is asked to."""

import os

LINE_COVERAGE = None

if "PYTEST_XDIST_WORKER" in os.environ and os.environ.pop("CONNECT_TEST_COVERAGE", ""):  # not in the processes that it starts
    from tests.line_coverage import LineCoverage

    LINE_COVERAGE = LineCoverage()
    LINE_COVERAGE.begin()
