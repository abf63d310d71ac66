"""``python -m tests.benchmark``: races this package against Kafka Connect and writes down how it went."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.benchmark import agent_work, rest_work, staying_work
from tests.benchmark.lake_works import LAKE_WORKS
from tests.benchmark.report import update_document
from tests.benchmark.session import CONTESTANTS, Plan, Session
from tests.benchmark.start_works import WORK
from tests.benchmark.table_works import TABLE_WORKS
from tests.benchmark.works import WORKS

CHECKOUT = Path(__file__).parents[2]
ALL_WORKS = (*WORKS, *TABLE_WORKS, *LAKE_WORKS, agent_work.WORK, WORK, rest_work.WORK, staying_work.WORK)


def main() -> None:
    """Runs what the command line asks for; prints the tables and puts them into the document."""
    arguments = _arguments()
    plan = Plan(arguments.work, arguments.contestants, arguments.records, arguments.rows, arguments.runs, arguments.out)
    session = Session(CHECKOUT / ".dev", plan)
    tables = session.run()
    for heading, table in tables.items():
        print(f"\n{heading}\n\n{table}", flush=True)
    update_document(arguments.document, {heading: f"{session.measured_on()}\n\n{table}" for heading, table in tables.items()})
    print(f"{arguments.document} and {arguments.out} are written.")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmark", description="Races this package against a real Kafka Connect.")
    parser.add_argument("--work", type=_some_of(ALL_WORKS), default=list(ALL_WORKS), help=f"some of {','.join(ALL_WORKS)}")
    parser.add_argument("--contestants", type=_some_of(CONTESTANTS), default=list(CONTESTANTS), help=f"some of {','.join(CONTESTANTS)}")
    parser.add_argument("--records", type=_numbers, default=[5_000_000, 20_000_000], help="numbers of records, separated by commas")
    parser.add_argument("--rows", type=_numbers, default=[], help="numbers of rows of tables and lakes; by default those that have an aim")
    parser.add_argument("--runs", type=int, default=3, help="runs of each contestant")
    parser.add_argument("--out", type=Path, default=CHECKOUT / ".dev" / "bench.json", help="where the raw runs go")
    parser.add_argument("--document", type=Path, default=CHECKOUT / "docs" / "benchmarks.md", help="whose sections are replaced")
    return parser.parse_args()


def _some_of(names: Sequence[str]) -> Callable[[str], list[str]]:
    def chosen(text: str) -> list[str]:
        unknown = set(text.split(",")) - set(names)
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))} is none of {', '.join(names)}")
        return [name for name in names if name in text.split(",")]

    return chosen


def _numbers(text: str) -> list[int]:
    return [int(part.replace("_", "")) for part in text.split(",")]


if __name__ == "__main__":
    main()
