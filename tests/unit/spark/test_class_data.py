"""Where class-data archives lie, and when they are trusted."""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.spark.cache import forget_old
from airflow_provider_connect.runtime.spark.class_data import ClassData, class_data_for, note_exit
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime
from airflow_provider_connect.runtime.spark.spark_home import SparkHome


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
