"""The options of spark-submit, as plain values. With these options, a connector's application starts sooner, and Spark does not retry it.

The Airflow operator, ``connect-run`` and the demonstration use this module. It starts no process, except once to fill the cache.
"""

import os
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from airflow_provider_connect.runtime.spark.cache import cache_directory
from airflow_provider_connect.runtime.spark.class_data import FIRST_COMPILER, QUIET, ClassData, class_data_for, driver_options
from airflow_provider_connect.runtime.spark.code_archives import code_archive, plugin_archives
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime, find_java
from airflow_provider_connect.runtime.spark.spark_home import SparkHome, find_spark, is_local, starts_from_links

_PYTHON_LINK = "connect-python"
_REMOVED = ("PYTHONDONTWRITEBYTECODE", "SPARK_ENV_LOADED")


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """Options of spark-submit. ``env`` is for the process's environment (see ``environment``). The other fields are command-line options.

    ``class_data`` is passed to ``class_data.note_exit`` and ``build_in_background`` after the application has ended. None: no archive is
    used.
    """

    spark_submit: str
    env: dict[str, str]
    driver_java_options: str
    conf: dict[str, str]
    py_files: list[str] = field(default_factory=list)
    archives: list[str] = field(default_factory=list)
    class_data: ClassData | None = None

    def environment(self, inherited: Mapping[str, str] | None = None) -> dict[str, str]:
        """``inherited`` (by default the environment of this process) updated by ``env``, without variables that slow Spark down."""
        inherited = os.environ if inherited is None else inherited
        return {name: value for name, value in inherited.items() if name not in _REMOVED} | self.env

    def command(self, master: str, application: str, *arguments: str) -> list[str]:
        """The complete command line, for callers without a Spark hook."""
        command = [self.spark_submit, "--master", master, "--deploy-mode", "client"]
        for name, value in self.conf.items():
            command += ["--conf", f"{name}={value}"]
        command += ["--driver-java-options", self.driver_java_options]
        command += ["--py-files", ",".join(self.py_files)] if self.py_files else []
        command += ["--archives", ",".join(self.archives)] if self.archives else []
        return [*command, application, *arguments]


def submit_options(
    master: str,
    *,
    cache: Path | None = None,
    environ: Mapping[str, str] | None = None,
    frame: bool = False,
    python_archive: str | None = None,
    scratch: Path | None = None,
) -> SubmitOptions:
    """The options for one application on ``master``, in client mode.

    ``frame``: the JVM moves the data (DataFrames), so it may use its optimizing compiler. ``python_archive``: a packed Python environment
    (conda-pack, venv-pack) that executors on other machines unpack and run instead of this machine's path of Python. ``scratch``: a folder
    of the run for temporary files, so that a killed application leaves none elsewhere.
    """
    environ = os.environ if environ is None else environ
    cache = cache or cache_directory(environ)
    java, spark = find_java(environ, cache=cache), find_spark(master, environ, cache=cache)
    class_data = class_data_for(java, spark, environ, cache) if starts_from_links(master) else None
    archives = class_data if class_data is not None and class_data.is_built else None
    java_options = driver_options(spark, cache, frame=frame)
    if archives is not None:
        java_options.append(f"-XX:SharedArchiveFile={archives.driver}")
    if scratch is not None:
        java_options.append(f"-Djava.io.tmpdir={scratch}")  # also the default of spark.local.dir
    env = _env(java, spark, environ, archives)
    if python_archive is not None:
        env["PYSPARK_PYTHON"] = f"./{_PYTHON_LINK}/bin/python"
    if is_local(master):
        env["SPARK_LOCAL_IP"] = "127.0.0.1"
    if scratch is not None:
        env["TMPDIR"] = str(scratch)
    return SubmitOptions(
        spark_submit=str(spark.spark_submit),
        env=env,
        driver_java_options=shlex.join(java_options),
        conf=_conf(master),
        py_files=[] if is_local(master) else list(map(str, [code_archive(cache), *plugin_archives(cache)])),
        archives=[f"{python_archive}#{_PYTHON_LINK}"] if python_archive else [],
        class_data=class_data,
    )


def _env(java: JavaRuntime, spark: SparkHome, environ: Mapping[str, str], archives: ClassData | None) -> dict[str, str]:
    env = {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(spark.path),
        "PATH": f"{spark.path / 'bin'}{os.pathsep}{environ.get('PATH', os.defpath)}",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if spark.conf is not None:
        env["SPARK_CONF_DIR"] = str(spark.conf)
    if archives is not None and archives.launcher.exists() and " " not in str(archives.launcher):  # a shell splits the path at spaces
        env["SPARK_LAUNCHER_OPTS"] = " ".join([FIRST_COMPILER, *QUIET, f"-XX:SharedArchiveFile={archives.launcher}"])
    return env


def _conf(master: str) -> dict[str, str]:
    conf = {
        "spark.task.maxFailures": "1",  # Airflow is responsible for retries
        "spark.speculation": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.eventLog.enabled": "false",
    }
    if is_local(master):
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return conf
