"""``make contract``: every recorded session against the product with real runs, and how many steps are equal.

``python -m tests.contract.rest [--profile NAME] [SCENARIO …]``; what differs is printed as it comes.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path

from airflow_provider_connect.runtime.spark.cache import cache_directory
from tests.contract.rest.profiles import PROFILES
from tests.contract.rest.replay import replay
from tests.contract.rest.scenarios import Scenario, scenarios
from tests.contract.rest.server import Server
from tests.contract.rest.stacks import product
from tests.contract.rest.to_come import IN_AIRFLOW_ONLY, TO_COME

FOLDER = Path(".dev") / "contract"
TIMEOUT_FACTOR = 4.0


def main() -> int:
    """Exit code 0 when all steps are equal, or differ as ``to_come`` says."""
    arguments = _arguments()
    chosen = [one for one in scenarios() if not arguments.scenarios or one.name in arguments.scenarios]
    equal = named = total = 0
    started = time.monotonic()
    for profile in PROFILES:
        mine = [one for one in chosen if one.profile == profile]
        if not mine or arguments.profile not in (None, profile):
            continue
        folder = (arguments.folder / profile).absolute()
        shutil.rmtree(folder, ignore_errors=True)
        with product(profile, folder, cache_directory()) as server:
            for scenario in mine:
                counted = _replayed(scenario, server)
                equal, named, total = equal + counted[0], named + counted[1], total + counted[2]
    print(f"{equal} of {total} steps equal, {named} differ for a known reason, in {time.monotonic() - started:.0f} s")
    return 0 if equal + named == total else 1


def _replayed(scenario: Scenario, server: Server) -> tuple[int, int, int]:
    """How many steps are equal, differ for a reason in to_come.py, and are there."""
    started = time.monotonic()
    outcomes = list(replay(scenario, server, timeout_factor=TIMEOUT_FACTOR))
    equal = sum(outcome.is_equal for outcome in outcomes)
    print(f"{scenario.name:26} {equal:3} of {len(outcomes):3} steps equal, in {time.monotonic() - started:5.1f} s", flush=True)
    named = 0
    for outcome in outcomes:
        if not outcome.is_equal:
            reason = {**TO_COME, **IN_AIRFLOW_ONLY}.get((outcome.scenario, outcome.step))
            named += reason is not None
            print(f"    {outcome.step}: {f'to come: {reason}' if reason else '; '.join(outcome.differences[:5])}", flush=True)
    return equal, named, len(outcomes)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make contract", description=__doc__)
    parser.add_argument("scenarios", nargs="*", help="names of scenarios; all without")
    parser.add_argument("--profile", choices=PROFILES, help="the scenarios of one worker only")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the servers live")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
