"""Plans without Spark, in a separate process, for runs whose tasks have applications of their own (``tasks.per.application``)."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from airflow_provider_connect.errors import (
    ConfigException,
    ConnectException,
    FencedException,
    RetriableException,
    is_transient,
    message_of,
    trace_of,
)
from airflow_provider_connect.runtime.config.masking import Mask, mask_output, secret_values
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.config_snapshot import received_snapshot
from airflow_provider_connect.runtime.model.log_levels import apply_levels
from airflow_provider_connect.runtime.model.log_lines import LineReader, write_logs
from airflow_provider_connect.runtime.model.run import RESULT_FILE, RUN_FILE, Claim, RunSpec
from airflow_provider_connect.runtime.model.status import FailedStatuses
from airflow_provider_connect.runtime.spark.run_directory import write_private
from airflow_provider_connect.runtime.stores.backing import TopicBacking
from airflow_provider_connect.runtime.stores.transactional_producer import Fence
from airflow_provider_connect.runtime.worker.application.failure_report import plugin_version, report_failed
from airflow_provider_connect.runtime.worker.application.planner import NoPlan, Planner
from airflow_provider_connect.runtime.worker.application.upgrade_trial import UpgradeTrial, preview_in_subprocess


@dataclass(frozen=True, slots=True)
class SharedPlan:
    """The tasks to run, and the claim under which all of them run. ``claim`` None: there is no task to run, because of ``reason``."""

    tasks: list[int]
    claim: Claim | None
    reason: str = ""


def plan_in_subprocess(directory: Path, *, timeout_seconds: float, before_exec: Callable[[], None] | None = None) -> SharedPlan:
    """Plan the run whose ``run.json`` is in ``directory``. The plugin's code runs in a process that is limited to ``timeout_seconds``.

    That process gets none of Airflow's environment. Raises ConfigException or ConnectException with the planner's message,
    RetriableException after the timeout.
    """
    environment = {name: value for name, value in os.environ.items() if not name.lstrip("_").startswith("AIRFLOW_")}
    command = [sys.executable, "-m", "airflow_provider_connect.runtime.worker.application.plan_process", str(directory)]
    try:
        ended = subprocess.run(
            command,
            env=environment,
            timeout=timeout_seconds,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            preexec_fn=before_exec,
        )
    except subprocess.TimeoutExpired as error:
        raise RetriableException(f"The connector did not plan its tasks within {timeout_seconds:g} s") from error
    reader = LineReader()
    for line in ended.stderr.splitlines():
        reader.read(line)
    path = directory / RESULT_FILE
    if not path.exists():
        tail = "\n".join(ended.stderr.splitlines()[-5:])
        raise RetriableException(f"The planning process ended with exit code {ended.returncode} and without a plan: {tail}")
    answer = json.loads(path.read_text())
    if "error" in answer:
        kind = RetriableException if answer["retriable"] else ConfigException if answer["config"] else ConnectException
        raise kind(answer["error"])
    if "skipped" in answer:
        return SharedPlan([], None, answer["skipped"])
    return SharedPlan(answer["tasks"], Claim.parse(answer["claim"]))


def main(directory: Path) -> None:
    """The work of the subprocess: claim, plan, and write the answer to the directory."""
    write_logs()
    spec = RunSpec.from_json((directory / RUN_FILE).read_text())
    mask = Mask(spec.secrets.values())
    mask_output(mask)
    if (known := received_snapshot(spec)) is not None:
        apply_levels(known.log_levels().values())
    try:
        answer = _answer(spec, mask)
    except ConnectException as error:
        answer = {"error": mask(str(error)), "retriable": error.retriable, "config": isinstance(error, ConfigException)}
    except Exception as error:  # (the connector's own code may raise anything)
        answer = {"error": mask(f"{type(error).__name__}: {message_of(error)}"), "retriable": is_transient(error), "config": False}
    write_private(directory / RESULT_FILE, json.dumps(answer))


def _answer(spec: RunSpec, mask: Mask) -> dict[str, object]:
    settings = WorkerSettings.of(spec.settings, spec.secrets)
    mask.add(secret_values(settings.originals, settings.config_providers(), spec.secrets))
    backing = TopicBacking(settings, known=received_snapshot(spec), only=spec.connector)
    backing.ensure()
    store = backing.configs()
    planner = Planner(settings, backing, store, Fence(settings), hide=mask.add, owner=secrets.token_hex(8))
    claim = planner.claim(spec)
    if isinstance(claim, NoPlan):
        return {"skipped": claim.reason}
    state = store.read()
    apply_levels(state.log_levels.values())
    trial = UpgradeTrial(spec.connector, claim, store, partial(preview_in_subprocess, settings, spec.secrets), state=state)
    try:
        mask.add(planner.secrets(spec, state))
        trial.before_plan(is_whole=True)
        plan = planner.plan(spec, claim)
    except FencedException as error:
        return {"skipped": str(error)}
    except Exception as error:
        worker_id = f"{socket.gethostname()}:{os.getpid()}"
        version = plugin_version(settings, spec.connector, state)
        failed = FailedStatuses(spec.connector, worker_id, version, claim)
        report_failed(backing, failed, mask(trace_of(error)), error, state.tasks(spec.connector))
        trial.failed(mask(message_of(error)))
        raise
    return {"tasks": list(plan.tasks), "claim": str(claim)}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # the process need not wait for the threads of clients
