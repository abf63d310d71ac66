"""The arguments of ``connect-new`` and of ``airflow connect new``: flags, and the rest as ``argparse`` takes it. Loads nothing."""

from typing import Any, Final

ABOUT: Final = "Make a package with a connector to begin with: entry points, tests, an example DAG"
ARGUMENTS: Final[tuple[tuple[tuple[str, ...], dict[str, Any]], ...]] = (
    (("name",), {"help": "What the package is to be called, such as my-connector"}),
    (("--source",), {"action": "store_true", "help": "With a source connector; so it is when nothing is said"}),
    (("--sink",), {"action": "store_true", "help": "With a sink connector"}),
    (("--both",), {"action": "store_true", "help": "With one of each"}),
    (("--directory",), {"default": ".", "metavar": "DIR", "help": "Make the package's directory in DIR; else in the current directory"}),
)
