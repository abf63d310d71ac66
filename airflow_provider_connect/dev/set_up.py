"""Sets up everything that development, tests and the demonstration need, from a checkout and a Python that runs this file.

Needs only the standard library. Each step reports its work and is skipped if it is complete. Fetched files are kept in ``.dev/cache``.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
CACHE = CHECKOUT / ".dev" / "cache"
VENV = CHECKOUT / ".venv"
PYTHON = VENV / "bin" / "python"
RETRIES = {"UV_HTTP_RETRIES": "6", "PIP_RETRIES": "8"}
"""Variables of the installers. Their growing pauses bridge half a minute of outage."""
EXTRAS = "airflow,jdbc,mysql,mssql,oracle,filesystem,sftp,lake,registry,sql,dev,test"


def main() -> None:
    """Run all steps in order."""
    if sys.version_info < (3, 11):  # noqa: UP036 - an older Python may well be the one that runs this
        sys.exit(f"Python 3.11 or later is needed, and {sys.executable} is {sys.version.split()[0]}. Try: make setup PYTHON=python3.12")
    CACHE.mkdir(mode=0o700, parents=True, exist_ok=True)
    CACHE.chmod(0o700)
    CACHE.joinpath(".gitignore").write_text("*\n")
    environment = _environment()
    constraints = CHECKOUT / "constraints.txt"
    packaging = _digest(constraints, CHECKOUT / "setup.cfg", CHECKOUT / "pyproject.toml")
    _step("environment", _digest(), _make_venv)
    _step("installer", _digest(constraints), lambda: _run([PYTHON, "-m", "pip", "install", "-q", "-c", constraints, "uv"], environment))
    _step("packages", packaging, lambda: _install(constraints, environment))
    _run([PYTHON, "-m", "airflow_provider_connect.runtime.spark.prepare"], environment)
    _run([PYTHON, "-m", "airflow_provider_connect.dev.kafka_server"], environment)
    _run([PYTHON, "-m", "airflow_provider_connect.runtime.java.prepare"], environment)


def _environment() -> dict[str, str]:
    ours = {
        "AIRFLOW_PROVIDER_CONNECT_CACHE": str(CACHE),
        "PIP_CACHE_DIR": str(CACHE / "pip"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "UV_CACHE_DIR": str(CACHE / "uv"),
        "VIRTUAL_ENV": str(VENV),
    }
    left_out = ("PYTHONHOME", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "UV_PYTHON", "UV_PROJECT_ENVIRONMENT")
    return RETRIES | {name: value for name, value in os.environ.items() if name not in left_out} | ours


def _digest(*files: Path) -> str:
    digest = hashlib.sha256(f"{CHECKOUT} {sys.version}".encode())
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _step(name: str, state: str, act: Callable[[], None]) -> None:
    """Act, unless the step is already complete for this ``state``."""
    stamp = VENV / f".connect-{name}"
    if stamp.exists() and stamp.read_text() == state:
        return
    print(f"{name}: setting up", file=sys.stderr, flush=True)
    started = time.monotonic()
    act()
    stamp.write_text(state)
    print(f"{name}: done ({time.monotonic() - started:.1f} s)", file=sys.stderr, flush=True)


def _make_venv() -> None:
    if PYTHON.exists() and subprocess.run([PYTHON, "-c", "import pip"], capture_output=True, check=False).returncode == 0:
        return
    shutil.rmtree(VENV, ignore_errors=True)
    made = subprocess.run([sys.executable, "-m", "venv", VENV], check=False)
    if made.returncode:
        sys.exit(f"{sys.executable} -m venv failed. On Debian and Ubuntu its package is python3-venv; any other Python ≥ 3.11 will do too.")


def _install(constraints: Path, environment: dict[str, str]) -> None:
    """Install the package from the working tree, so that changes apply immediately, and its requirements at the pinned versions."""
    wanted = ["-c", str(constraints), "-e", f"{CHECKOUT}[{EXTRAS}]"]
    with_uv = subprocess.run([VENV / "bin" / "uv", "pip", "install", *wanted], env=environment, check=False)
    if with_uv.returncode:
        print("packages: uv failed, trying pip", file=sys.stderr, flush=True)
        _run([PYTHON, "-m", "pip", "install", *wanted], environment)
    for left_over in CHECKOUT.glob("*.egg-info"):  # with such a folder Airflow finds two distributions and loads the plugin twice
        shutil.rmtree(left_over)


def _run(command: list[str | Path], environment: dict[str, str]) -> None:
    done = subprocess.run(command, env=environment, cwd=CHECKOUT, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} ended with exit code {done.returncode}")


if __name__ == "__main__":
    main()
