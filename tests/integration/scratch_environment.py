"""An environment to install packages into: it sees the libraries of the one that runs the tests, and changes nothing there."""

from __future__ import annotations

import configparser
import os
import sys
import sysconfig
import venv
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
_MODULES = {"airflow": "airflow", "pip": "pip", "pytest": "pytest"}


def scratch_environment(home: Path) -> dict[str, str]:
    """The variables of a shell that works in a new environment at ``home``; ``pip install`` takes nothing from the network."""
    venv.create(home, with_pip=False, symlinks=True)
    libraries = next(home.glob("lib/python*/site-packages"))
    (libraries / "outer.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    for command, module in (_MODULES | _scripts()).items():
        script = home / "bin" / command
        script.write_text(f'#!/bin/sh\nexec {home}/bin/python -W ignore -m {module} "$@"\n')
        script.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_", "_AIRFLOW", "PYTHON", "PYTEST", "PIP_"))}
    kept |= {name: value for name, value in os.environ.items() if name == "AIRFLOW_PROVIDER_CONNECT_CACHE"}
    return kept | {
        "PATH": os.pathsep.join([str(home / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "VIRTUAL_ENV": str(home),
        "PIP_NO_DEPS": "1",
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's spelling of "no isolation": what builds is in the environment
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def _scripts() -> dict[str, str]:
    """The modules of this package's console scripts."""
    setup = configparser.ConfigParser()
    setup.read(CHECKOUT / "setup.cfg")
    lines = setup["options.entry_points"]["console_scripts"].strip().splitlines()
    return {name.strip(): target.strip().partition(":")[0] for name, _, target in (line.partition("=") for line in lines)}
