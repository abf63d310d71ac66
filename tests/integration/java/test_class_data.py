"""The archive of Kafka Connect's classes: which JVMs map it, and what happens to one that is not whole."""

import os
import shutil
from pathlib import Path

import psutil
import pytest

from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.java import prepare
from airflow_provider_connect.runtime.java.jvm.class_data import connect_class_data
from airflow_provider_connect.runtime.java.jvm.jvm import Jvm
from airflow_provider_connect.runtime.java.jvm.runtime_jars import runtime_jars
from airflow_provider_connect.runtime.java.prepare import ensure_archive
from airflow_provider_connect.runtime.spark.class_data import ClassData
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from tests.conftest import CACHE
from tests.integration.java.conftest import JavaRuns
from tests.integration.java.processes import jvm_of
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def built() -> ClassData:
    """Set-up has built it as a rule; else this does."""
    made = ensure_archive(CACHE, find_java(cache=CACHE))
    assert made.is_built
    return made


def has_mapped(process: psutil.Process | None, archive: Path) -> bool:
    try:
        return process is not None and any(each.path == str(archive) for each in process.memory_maps())
    except psutil.Error:
        return False


def test_a_run_maps_the_archive(java_runs: JavaRuns, built: ClassData, unique: str) -> None:
    java_runs.input.write_text("one\n")
    process = java_runs.start(java_runs.source(unique, unique))
    wait_until(lambda: has_mapped(jvm_of(process), built.connect))
    code, output = java_runs.ended(process)
    assert code == 0, output
    assert java_runs.records(unique) == ["one"]


def test_an_archive_that_is_not_whole_is_neither_mapped_nor_kept(built: ClassData, tmp_path: Path) -> None:
    java = find_java(cache=CACHE)
    jars = runtime_jars(CACHE, java)
    assert connect_class_data(CACHE, java, jars) == built
    broken = ClassData(tmp_path / "broken")
    shutil.copytree(built.folder, broken.folder)
    broken.connect.chmod(0o600)
    os.truncate(broken.connect, broken.connect.stat().st_size // 2)
    jvm = Jvm(java, jars, heap="64m", hide=str, class_data=broken)
    try:
        with jvm.calls():
            assert str(jvm.java.java.lang.String.valueOf(7)) == "7"
        assert not has_mapped(psutil.Process(jvm.pid), broken.connect)
    finally:
        jvm.close()
    assert not broken.folder.exists()
    assert connect_class_data(CACHE, java, jars[:-1]) != built


class SlowJvm(Jvm):
    """One that is still writing its archive when its time is over."""

    def close(self, seconds: float = 0.0) -> bool:
        return super().close(0.0)


def test_an_archive_that_takes_too_long_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = find_java(cache=CACHE)
    jars = runtime_jars(CACHE, java)
    monkeypatch.setattr(prepare, "runtime_jars", lambda cache, java: jars)
    monkeypatch.setattr(prepare, "Jvm", SlowJvm)
    with pytest.raises(RetriableException, match="not built within 900 s: this host is slow or busy"):
        ensure_archive(tmp_path, java)
    assert [entry for entry in (tmp_path / "class-data").iterdir() if entry.is_dir()] == []
