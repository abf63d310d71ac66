"""Record the sessions anew from a real Kafka Connect: ``python -m tests.contract.rest.record [SCENARIO …] [--into FOLDER] [--compare]``.

The steps, and what deviates on purpose, stay as they are in the files; the answers are taken anew. ``--compare`` writes nothing, and
reports where a real Connect answers otherwise than it did.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from airflow_provider_connect.runtime.spark.cache import cache_directory
from tests.contract.rest.connect_worker import connect_worker
from tests.contract.rest.profiles import PROFILES
from tests.contract.rest.replay import asked, perform, placeholders_for, replay
from tests.contract.rest.scenarios import FOLDER, Scenario, emptied, filled, scenarios
from tests.contract.rest.server import Server


def main() -> int:
    """Exit code 1 when a comparison found a difference."""
    arguments = _arguments()
    chosen = [one for one in scenarios() if not arguments.scenarios or one.name in arguments.scenarios]
    differences = 0
    for profile in PROFILES:
        mine = [one for one in chosen if one.profile == profile]
        if profile == "versions" and mine:
            print("left out, for they need jars of their own:", ", ".join(one.name for one in mine))
            continue
        for scenario in mine:  # each with a fresh worker: some answers depend on what was asked before
            with (
                tempfile.TemporaryDirectory(prefix="connect-record-") as folder,
                connect_worker(profile, Path(folder), cache_directory()) as server,
            ):
                if arguments.compare:
                    differences += _compared(scenario, server)
                else:
                    _written(scenario, server, arguments.into)
    return 1 if differences else 0


def _compared(scenario: Scenario, server: Server) -> int:
    outcomes = list(replay(scenario, server, deviates=False))
    wrong = [outcome for outcome in outcomes if not outcome.is_equal]
    print(f"{scenario.name:26} {len(outcomes) - len(wrong):3} of {len(outcomes):3} steps as recorded", flush=True)
    for outcome in wrong:
        print(f"    {outcome}", flush=True)
    return len(wrong)


def _written(scenario: Scenario, server: Server, into: Path) -> None:
    """The file of the scenario with new answers."""
    source = FOLDER / f"{scenario.name}.json"
    recorded: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    placeholders = placeholders_for(server)
    for step in recorded["steps"]:
        answer, _ = perform(filled(asked(step), placeholders), server)
        if answer is not None and "answer" in step:
            step["answer"] = emptied(answer, placeholders)
    into.mkdir(parents=True, exist_ok=True)
    (into / source.name).write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{scenario.name:26} recorded", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.contract.rest.record", description=__doc__)
    parser.add_argument("scenarios", nargs="*", help="names of scenarios; all without")
    parser.add_argument("--into", type=Path, default=FOLDER, help="where the files go; over the old ones without")
    parser.add_argument("--compare", action="store_true", help="write nothing")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
