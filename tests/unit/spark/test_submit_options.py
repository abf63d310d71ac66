"""What spark-submit is given for which master, with the installed Spark and Java; nothing is started."""

import sys
import zipfile
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.spark.submit_options import SubmitOptions, submit_options


def _options(master: str, cache: Path, **more: object) -> SubmitOptions:
    return submit_options(master, cache=cache, environ={"PATH": "/usr/bin:/bin"}, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With an archive of this package, once for the tests here that need one."""
    return tmp_path_factory.mktemp("cache")


def test_a_local_application_stays_on_the_loopback_interface(tmp_path: Path) -> None:
    options = _options("local[2]", tmp_path)
    assert options.conf["spark.driver.host"] == options.conf["spark.driver.bindAddress"] == options.env["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert options.py_files == []
    assert options.env["PYSPARK_PYTHON"] == options.env["PYSPARK_DRIVER_PYTHON"] == sys.executable


@pytest.mark.parametrize("master", ["local[1]", "spark://one:7077", "yarn"])
def test_spark_never_tries_a_task_twice(cache: Path, master: str) -> None:
    conf = _options(master, cache).conf
    assert (conf["spark.task.maxFailures"], conf["spark.speculation"], conf["spark.ui.enabled"]) == ("1", "false", "false")


def test_other_machines_get_this_package(cache: Path) -> None:
    options = _options("spark://one:7077", cache)
    assert "spark.driver.host" not in options.conf
    [archive] = options.py_files
    names = zipfile.ZipFile(archive).namelist()
    assert {"airflow_provider_connect/errors.py", "airflow_provider_connect/errors.pyc"} <= set(names)
    assert not [name for name in names if "__pycache__" in name]
    assert len(_options("yarn", cache).py_files) == 1


def test_a_packed_python_environment_goes_to_executors_alone(cache: Path) -> None:
    options = _options("yarn", cache, python_archive="/envs/connect.tar.gz")
    assert options.archives == ["/envs/connect.tar.gz#connect-python"]
    assert options.env["PYSPARK_PYTHON"] == "./connect-python/bin/python"
    assert options.env["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_frames_keep_the_optimising_compiler(tmp_path: Path) -> None:
    assert "-XX:TieredStopAtLevel=1" in _options("local[1]", tmp_path).driver_java_options
    assert "-XX:TieredStopAtLevel=1" not in _options("local[1]", tmp_path, frame=True).driver_java_options


def test_an_archive_that_is_not_built_is_not_named(tmp_path: Path) -> None:
    options = _options("local[1]", tmp_path)
    assert options.class_data is not None
    assert "SharedArchiveFile" not in options.driver_java_options
    options.class_data.folder.mkdir(parents=True)
    options.class_data.driver.write_bytes(b"x")
    (options.class_data.folder / "sizes.json").write_text('{"driver.jsa": 1}')
    assert f"-XX:SharedArchiveFile={options.class_data.driver}" in _options("local[1]", tmp_path).driver_java_options


def test_temporary_files_go_where_the_run_asks(tmp_path: Path) -> None:
    options = _options("local[1]", tmp_path, scratch=Path("/run/one two"))
    assert options.env["TMPDIR"] == "/run/one two"
    assert "'-Djava.io.tmpdir=/run/one two'" in options.driver_java_options


def test_the_environment_lacks_what_slows_spark_down(tmp_path: Path) -> None:
    environment = _options("local[1]", tmp_path).environment({"PYTHONDONTWRITEBYTECODE": "1", "LANG": "C"})
    assert "PYTHONDONTWRITEBYTECODE" not in environment
    assert environment["LANG"] == "C"
    assert environment["PATH"].startswith(environment["SPARK_HOME"])
