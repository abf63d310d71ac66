"""``make chaos`` takes long, so it is not part of the tests; that it can begin is."""

import subprocess
import sys

from tests.conftest import CHECKOUT


def test_it_knows_what_may_be_asked_of_it() -> None:
    command = [sys.executable, "-m", "tests.e2e.chaos", "--help"]
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=60, check=True)
    assert "--writer-seconds" in done.stdout
