"""Where class-data archives lie, and when they are trusted."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.spark import prepare
from airflow_provider_connect.runtime.spark.cache import forget_old
from airflow_provider_connect.runtime.spark.class_data import ClassData, class_data_for, ensure_archive, note_exit
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime
from airflow_provider_connect.runtime.spark.spark_home import TESTED_PAIR, SparkHome
from tests.waiting import wait_until


@pytest.fixture
def java(tmp_path: Path) -> JavaRuntime:
    return JavaRuntime(tmp_path / "java", "17.0.9", tmp_path / "java")


@pytest.fixture
def spark(tmp_path: Path) -> SparkHome:
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "a.jar").write_text("a")
    return SparkHome(tmp_path / "spark", tmp_path / "spark", "4.2.0", None)


def _built(folder: Path) -> ClassData:
    folder.mkdir(exist_ok=True)
    (folder / "driver.jsa").write_bytes(b"x" * 100)
    (folder / "launcher.jsa").write_bytes(b"x" * 10)
    (folder / "sizes.json").write_text(json.dumps({"driver.jsa": 100, "launcher.jsa": 10}))
    return ClassData(folder)


def test_whatever_changes_the_class_path_changes_the_folder(tmp_path: Path, java: JavaRuntime, spark: SparkHome) -> None:
    first = class_data_for(java, spark, {}, tmp_path)
    assert class_data_for(java, spark, {"HOME": "/elsewhere"}, tmp_path) == first
    others = [
        class_data_for(JavaRuntime(java.home, "17.0.10", java.home), spark, {}, tmp_path),
        class_data_for(java, SparkHome(spark.path, spark.real, "4.2.0", tmp_path), {}, tmp_path),
        class_data_for(java, spark, {"HADOOP_CONF_DIR": "/etc/hadoop"}, tmp_path),
    ]
    os.utime(spark.jars / "a.jar", ns=(0, 0))
    others.append(class_data_for(java, spark, {}, tmp_path))
    assert len({str(one.folder) for one in [first, *others]}) == 5


def test_an_archive_of_another_size_than_was_written_is_deleted(tmp_path: Path) -> None:
    archives = _built(tmp_path / "archives")
    assert archives.is_built
    os.truncate(archives.driver, 99)
    assert not archives.is_built
    assert not archives.folder.exists()


def test_archives_in_use_outlive_those_of_former_versions(tmp_path: Path) -> None:
    for name in ("used", "unused"):
        os.utime(_built(tmp_path / name).folder, (1_000_000, 1_000_000))
    assert ClassData(tmp_path / "used").is_built
    forget_old(tmp_path, time.time())
    assert [entry.name for entry in tmp_path.iterdir()] == ["used"]


@pytest.mark.parametrize(
    ("return_code", "is_crash"),
    [
        (0, False),
        (1, False),
        (-signal.SIGKILL, False),
        (143, False),
        (-signal.SIGABRT, True),
        (134, True),
        (-signal.SIGSEGV, True),
        (135, True),
    ],
)
def test_a_crashed_jvm_takes_its_archives_with_it(tmp_path: Path, return_code: int, is_crash: bool) -> None:
    archives = _built(tmp_path / "archives")
    assert note_exit(archives, return_code) is is_crash
    assert archives.folder.exists() is not is_crash


def test_no_archives_and_no_exit_code_are_fine(tmp_path: Path) -> None:
    assert not note_exit(None, -6)
    assert not note_exit(_built(tmp_path / "archives"), None)


SPARK_SUBMIT = """\
#!/bin/sh
case $(cat "$STATE/host") in
slow) sleep 10000 & echo $! > "$STATE/child.new"; mv "$STATE/child.new" "$STATE/child"; wait ;;
killed) kill -9 $$ ;;
incapable) echo "Unable to map"; exit 1 ;;
esac
archive=${*#*ArchiveClassesAtExit=}
echo classes > "${archive%% *}"
"""
"""A spark-submit whose JVM writes its archive, or does as the file ``host`` has it."""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of a Java and a Spark that are scripts."""
    for folder in ("java/bin", "java/lib/server", "own-spark/bin", "own-spark/jars", "state"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="21.0.2"\n')
    (tmp_path / "java" / "lib" / "server" / "classes.jsa").touch()
    (tmp_path / "own-spark" / "jars" / f"spark-core_2.13-{TESTED_PAIR[0].rpartition('=')[2]}.jar").touch()
    for program, text in {"java/bin/java": "#!/bin/sh\n", "own-spark/bin/spark-submit": SPARK_SUBMIT}.items():
        (tmp_path / program).write_text(text)
        (tmp_path / program).chmod(0o755)
    state = tmp_path / "state"
    return {"PATH": os.environ["PATH"], "JAVA_HOME": str(tmp_path / "java"), "SPARK_HOME": str(tmp_path / "own-spark"), "STATE": str(state)}


def _host_is(environ: dict[str, str], how: str) -> None:
    Path(environ["STATE"], "host").write_text(how)


def _timed_out(environ: dict[str, str], cache: Path) -> int:
    """The process id of a child of a build that took too long."""
    _host_is(environ, "slow")
    child, seconds = Path(environ["STATE"], "child"), 0.5
    while not child.exists():
        with pytest.raises(RetriableException, match=f"^not built within {seconds:g} s: this host is slow or busy$"):
            ensure_archive(environ, cache=cache, build_seconds=seconds)
        seconds *= 2
    return int(child.read_text())


def _is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


@pytest.mark.process
def test_a_build_that_takes_too_long_ends_with_its_processes_and_the_next_one_succeeds(environ: dict[str, str], tmp_path: Path) -> None:
    child = _timed_out(environ, tmp_path / "cache")
    assert [entry for entry in (tmp_path / "cache" / "class-data").iterdir() if entry.is_dir()] == []
    wait_until(lambda: not _is_alive(child))
    _host_is(environ, "quick")
    assert ensure_archive(environ, cache=tmp_path / "cache").is_built


@pytest.mark.process
def test_a_build_that_was_killed_is_no_answer_and_one_without_an_archive_is(environ: dict[str, str], tmp_path: Path) -> None:
    _host_is(environ, "killed")
    with pytest.raises(RetriableException, match="not built: the build was ended, with exit code -9"):
        ensure_archive(environ, cache=tmp_path / "cache")
    _host_is(environ, "incapable")
    found = ensure_archive(environ, cache=tmp_path / "cache")
    assert (found.is_built, found.has_failed) == (False, True)
    assert "Unable to map" in (found.folder / "failed.log").read_text()
    _host_is(environ, "quick")
    assert ensure_archive(environ, cache=tmp_path / "cache").has_failed


@pytest.mark.process
def test_while_archives_are_built_no_second_build_waits_for_its_turn(environ: dict[str, str], tmp_path: Path) -> None:
    _host_is(environ, "slow")
    script = "import sys, pathlib; from airflow_provider_connect.runtime.spark.class_data import ensure_archive as build; "
    building = subprocess.Popen([sys.executable, "-c", f"{script} build(cache=pathlib.Path(sys.argv[1]))", tmp_path / "cache"], env=environ)
    try:
        wait_until(Path(environ["STATE"], "child").exists)
        with pytest.raises(BlockingIOError):
            ensure_archive(environ, cache=tmp_path / "cache", waits=False)
    finally:
        for process in (*psutil.Process(building.pid).children(recursive=True), building):
            process.kill()
        building.wait()


def test_a_slow_build_does_not_fail_the_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_slow(*, cache: Path) -> ClassData:
        raise RetriableException(f"slow in {cache.name}")

    lines: list[str] = []
    monkeypatch.setattr(prepare, "ensure_archive", is_slow)
    monkeypatch.setattr(prepare, "compile_packages", lambda: "up to date")
    prepare.prepare(lines.append, cache=tmp_path)
    reason, outcome = f"slow in {tmp_path.name}", "The next run builds them in the background; until then, runs start more slowly"
    assert lines[-1].startswith(f"class-data archives: {reason}. {outcome} (")
