"""``python -m tests.contract.provider_info`` writes ``get_provider_info.py`` from ``provider.yaml``, as Airflow's own providers do."""

from __future__ import annotations

import pprint
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
MODULE = ROOT / "airflow_provider_connect" / "get_provider_info.py"
_HEAD = '''"""The metadata for Airflow's provider discovery, generated from provider.yaml by ``python -m tests.contract.provider_info``.

Imports nothing of this package: it runs in every Airflow process, before Airflow is ready.
"""

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata. Airflow calls this through the entry point ``apache_airflow_provider``."""
    return '''


def module_text() -> str:
    """The module, as ``ruff format`` writes it."""
    info = yaml.safe_load((ROOT / "provider.yaml").read_text(encoding="utf-8"))
    literal = pprint.pformat(info, width=10_000, sort_dicts=False, underscore_numbers=False)
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(MODULE), "-"]
    return subprocess.run(command, input=f"{_HEAD}{literal}\n", capture_output=True, check=True, text=True, cwd=ROOT).stdout


if __name__ == "__main__":
    MODULE.write_text(module_text(), encoding="utf-8")
