"""What a connector of files, lakes or logs does when its store fails in the middle of a run: a disk that is full, a folder or a
bucket that vanishes. The error names the setting, and the run after the repair loses and doubles nothing."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.model.run import RunResult, RunState
from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep, StepHook
from airflow_provider_connect.standalone.one_run import FAILED, LATER
from tests.conftest import CHECKOUT, WorkerSettings
from tests.e2e.faults.file_environments import (
    GUARANTEE,
    HOIST,
    DeltaSinkEnvironment,
    FileSystemSinkEnvironment,
    FileSystemSourceEnvironment,
    IcebergSinkEnvironment,
    Location,
    PairEnvironment,
)
from tests.e2e.faults.process_runs import ProcessRuns
from tests.integration.lake.tables import catalog_of
from tests.integration.worker.environment import RunEnvironment, make_topic, send
from tests.s3_servers import MotoServer, S3Server, VersityServer, gateway
from tests.samples import sample

WRONG = "a-wrong-secret"
MAKERS: dict[str, tuple[Callable[[Path, Mapping[str, str]], PairEnvironment], CommitStep, str]] = {
    "files": (FileSystemSinkEnvironment.make, CommitStep.PUT, "url"),
    "iceberg": (IcebergSinkEnvironment.make, CommitStep.PRE_COMMIT, "iceberg.catalog"),
    "delta": (DeltaSinkEnvironment.make, CommitStep.PRE_COMMIT, "delta.table.path"),
    "incoming": (FileSystemSourceEnvironment.make, CommitStep.WRITE_RECORDS, "url"),
}


def once(step: CommitStep, act: Callable[[], object]) -> StepHook:
    """Calls ``act`` before the first such step."""
    left = [act]

    @contextmanager
    def around(found: CommitStep) -> Iterator[None]:
        if found is step and left:
            left.pop()()
        yield

    return around


def run(environment: PairEnvironment, step: StepHook | None = None) -> RunResult:
    here = RunEnvironment(dict(environment.runs.settings), environment.runs.connector, environment.runs.folder)
    if step is not None:
        here.step = step
    return here.run(environment.runs.config)


def is_whole(environment: PairEnvironment) -> None:
    """Also after the next run."""
    for _ in range(2):
        result = run(environment)
        assert (result.state, result.error) == (RunState.DONE, None)
        environment.verdict().expect(GUARANTEE)
        environment.add(300)


@pytest.mark.parametrize("kind", sample(MAKERS, 0))
def test_a_folder_that_vanishes_in_a_run_is_named_and_nothing_is_lost(kind: str, tmp_path: Path, worker_settings: WorkerSettings) -> None:
    make, step, key = MAKERS[kind]
    environment = make(tmp_path, worker_settings())
    away = environment.folder.with_name("away")
    result = run(environment, once(step, lambda: environment.folder.rename(away)))
    assert result.state is RunState.FAILED
    assert key in (result.error or "")
    assert not environment.folder.exists()
    away.rename(environment.folder)
    is_whole(environment)


def output_on_full_disk(environment: PairEnvironment, most_bytes: int) -> str:
    """Of a run that fails, as no file of its process may grow beyond so many bytes."""
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    command = ProcessRuns.of(environment.runs).command(environment.runs.folder)
    run = subprocess.run(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=limit, check=False)
    assert run.returncode in (FAILED, LATER), run.stdout
    return run.stdout.strip().splitlines()[-1]


@pytest.mark.parametrize("kind", sample(["files", "iceberg", "delta"], 0))
def test_a_full_disk_is_named_and_nothing_is_lost(kind: str, tmp_path: Path, worker_settings: WorkerSettings) -> None:
    make, _, key = MAKERS[kind]
    environment = make(tmp_path, worker_settings())
    last = output_on_full_disk(environment, 1000)
    assert key in last or f"{environment.folder}/topics/_connect" in last
    is_whole(environment)


def test_a_bucket_that_vanishes_in_a_run_is_named_and_nothing_is_lost(tmp_path: Path, worker_settings: WorkerSettings) -> None:
    with MotoServer() as server:
        environment = FileSystemSinkEnvironment.make(tmp_path, worker_settings(), partial(Location.on, server))
        environment.runs.config = {**environment.runs.config, "tasks.max": "1"}  # no task writes while the bucket is emptied
        client = server.client()

        def remove() -> None:
            for each in client.list_objects_v2(Bucket=server.bucket).get("Contents", ()):
                client.delete_object(Bucket=server.bucket, Key=each["Key"])
            client.delete_bucket(Bucket=server.bucket)

        result = run(environment, once(CommitStep.PUT, remove))
        assert result.state is RunState.FAILED
        assert f"Invalid value {environment.location.settings['url']} for configuration url: There is no such bucket." in (
            result.error or ""
        )
        client.create_bucket(Bucket=server.bucket)
        is_whole(environment)


def on_server(kind: str, server: S3Server, folder: Path) -> tuple[dict[str, str], str]:
    """A config whose secret is wrong, and the setting that it is the value of."""
    if kind == "iceberg":
        secret, options = "iceberg.catalog.s3.secret-access-key", {"s3.endpoint": server.endpoint, "s3.access-key-id": server.access_key}
        own = {f"iceberg.catalog.{key}": value for key, value in options.items()}
        own |= {**catalog_of(folder), "iceberg.catalog.warehouse": f"s3://{server.bucket}/lake", "iceberg.tables": "shop.lines"}
        return {**own, "topics": "lines", "iceberg.tables.auto-create-enabled": "true", secret: WRONG}, secret
    secret = "aws.secret.access.key"
    return {**server.settings("in"), "topics" if kind == "files" else "topic": "lines", secret: WRONG}, secret


@pytest.mark.soak
@pytest.mark.parametrize(("kind", "name"), [("files", "FileSystemSink"), ("incoming", "FileSystemSource"), ("iceberg", "IcebergSink")])
def test_wrong_credentials_are_named_and_not_shown(kind: str, name: str, environment: RunEnvironment, tmp_path: Path) -> None:
    if gateway() is None:
        pytest.skip("there is no Go to build Versity's gateway, or no module of it")
    with VersityServer() as server:
        own, secret = on_server(kind, server, tmp_path)
        config = {"name": environment.connector, "connector.class": name, **own}
        topic = make_topic(environment.bootstrap, f"topic-{environment.connector}")
        send(environment.bootstrap, topic, ["line"])
        config |= {key: topic for key in ("topics", "topic") if key in config} | HOIST
        result = environment.run(config)
    assert result.state is RunState.FAILED
    assert secret in (result.error or "")
    assert WRONG not in str(result)
