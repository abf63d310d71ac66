"""``connect-new my-connector``: a package with a connector to begin with. ``airflow connect new`` is the same."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from airflow_provider_connect import __version__
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.skeleton.arguments import ABOUT, ARGUMENTS
from airflow_provider_connect.skeleton.package import Side, package_files, write_package


def main(arguments: Sequence[str] | None = None) -> None:
    """The console script; ends the process with 1 where nothing was made."""
    parser = argparse.ArgumentParser(prog="connect-new", description=ABOUT)
    for flags, rest in ARGUMENTS:
        parser.add_argument(*flags, **rest)
    new(parser.parse_args(arguments))


def new(options: argparse.Namespace) -> None:
    """Carry the command out, its arguments parsed, and print what was made."""
    asked = {side for side in Side if options.both or getattr(options, side)} or {Side.SOURCE}
    try:
        texts = package_files(options.name, asked, framework=__version__)
        target = Path(options.directory) / options.name
        write_package(target, texts)
    except ConnectException as error:
        sys.exit(error.message)
    print(f"Made {target} with")
    print("\n".join(f"  {place}" for place in texts))
    print(f"Next: cd {target}, pip install -e '.[test]', pytest; README.md tells the rest")


if __name__ == "__main__":
    main()
