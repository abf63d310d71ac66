"""Spark as ``docker-compose.yaml`` starts it, with the settings of its first step: an application without the secret is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from airflow_provider_connect.dev.own_server import LOOPBACK, free_ports, is_listening
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent
from airflow_provider_connect.runtime.spark.spark_home import find_spark
from tests.conftest import CACHE
from tests.unit.test_compose import COMPOSE, PINNED, SECRETS, init, stand_ins
from tests.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.soak  # the texts of the file: unit/test_compose
JOB = "from pyspark import SparkContext; sc = SparkContext(); print('sum', sc.parallelize(range(10), 2).sum()); sc.stop()"
REFUSED = "Failed to connect to master"  # Spark tries three times, 20 s apart, before it gives up


def command(service: str, **replaced: str) -> list[str]:
    """What the container would run, with this machine's addresses."""
    found = COMPOSE["services"][service]
    text = " ".join(found["command"]).replace("$$", "$")
    for theirs, ours in replaced.items():
        text = text.replace(theirs.replace("_", "-"), ours)
    return [*found["entrypoint"], text]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """The master's address, and the folder of settings that master and worker read."""
    folder = tmp_path_factory.mktemp("compose")
    stand_ins(folder)
    assert init(folder, IMAGES=PINNED, **SECRETS).returncode == 0
    conf = folder / "opt" / "spark-conf"
    port, ui, other_ui = free_ports(3)
    spark = find_spark("local", cache=CACHE)
    ours = {
        "JAVA_HOME": str(find_java(cache=CACHE).home),
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_NO_DAEMONIZE": "1",
    }
    ours |= {"SPARK_HOME": str(spark.real), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "SPARK_WORKER_DIR": str(folder)}
    at = f"{LOOPBACK} --port {port} --webui-port {ui}"
    master = command("spark-master", spark_master=at)
    worker = command("spark-worker-1", **{"spark://spark_master:7077": f"spark://{LOOPBACK}:{port}", "8080": str(other_ui)})
    processes = []
    try:
        for name, words in (("master", master), ("worker", worker)):
            with (folder / name).open("wb") as log:
                processes.append(
                    subprocess.Popen(words, stdout=log, stderr=log, cwd=folder, env={**os.environ, **ours}, preexec_fn=dies_with_parent())  # noqa: PLW1509 - calls the kernel only
                )
            until(lambda: is_listening(port), folder / name)
        until(lambda: "Registering worker" in (folder / "master").read_text(), folder / "worker")
        yield f"spark://{LOOPBACK}:{port}", conf
    finally:
        for process in processes:
            process.terminate()
            process.wait(HANG_SECONDS)


def until(is_so: Callable[[], bool], log: Path) -> None:
    wait_until(is_so, lambda: log.read_text(errors="replace")[-3000:])


def submit(master: str, conf: Path, folder: Path) -> subprocess.Popen[str]:
    """Its output is in ``folder``."""
    job = folder / "job.py"
    job.write_text(JOB)
    spark = find_spark(master, cache=CACHE)
    environment = {**os.environ, "JAVA_HOME": str(find_java(cache=CACHE).home), "SPARK_CONF_DIR": str(conf), "SPARK_HOME": str(spark.path)}
    environment |= {"SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": sys.executable}
    words = [str(spark.spark_submit), "--master", master, "--conf", f"spark.driver.host={LOOPBACK}", str(job)]
    with (folder / "output").open("w") as output:
        return subprocess.Popen(words, env=environment, cwd=folder, stdout=output, stderr=subprocess.STDOUT, text=True)


def test_an_application_with_the_secret_runs(cluster: tuple[str, Path], tmp_path: Path) -> None:
    submit(*cluster, tmp_path).wait(HANG_SECONDS)
    output = (tmp_path / "output").read_text()
    assert "sum 45" in output, output[-3000:]


@pytest.mark.parametrize(
    "lines",
    [
        "",
        "spark.authenticate true\nspark.authenticate.secret other\nspark.network.crypto.enabled true\n",
    ],
    ids=["no secret", "another secret"],
)
def test_an_application_without_the_secret_is_refused(cluster: tuple[str, Path], tmp_path: Path, lines: str) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(lines)
    application, output = submit(cluster[0], tmp_path / "conf", tmp_path), tmp_path / "output"
    try:
        until(lambda: REFUSED in output.read_text() or application.poll() is not None, output)
    finally:
        application.terminate()
        application.wait(HANG_SECONDS)
    text = output.read_text()
    assert REFUSED in text, text[-3000:]
    assert "sum 45" not in text


def test_the_secret_is_on_no_command_line(cluster: tuple[str, Path]) -> None:
    secret = SECRETS["SPARK_AUTH_SECRET"].encode()
    seen = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended meanwhile
            seen.append(file.read_bytes())
    assert any(b"org.apache.spark.deploy.worker.Worker" in line for line in seen)
    assert [line for line in seen if secret in line and b"spark" in line] == []
