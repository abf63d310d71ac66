"""``airflow connect dev``: a whole stack on this machine."""

import sys
from typing import Any

from airflow_provider_connect.dev import stack


def up(arguments: Any) -> None:
    """``airflow connect dev up``."""
    sys.exit(stack.up(worker=arguments.worker))


def status(arguments: Any) -> None:
    """``airflow connect dev status``."""
    sys.exit(stack.status(output=arguments.output))


def down(arguments: Any) -> None:
    """``airflow connect dev down``."""
    sys.exit(stack.down())
