"""Archives of loaded classes, which a JVM maps instead of reading and verifying jars: one for Spark's driver, one for its launcher.

An archive is valid for one Java, one set of jars and one class path. Its folder is named by a hash of these three. If an archive is not
valid, a JVM silently ignores it, and is slow. A separate process builds the archive at set-up, or after a run that had no archive, but
never during a run. A build that was killed or took too long leaves nothing, so that a later one can succeed. A truncated archive crashes
the JVM. So sizes are recorded and compared, and an archive is deleted after a crash of a JVM that used it.
"""

import hashlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_connect.errors import RetriableException
from airflow_provider_connect.runtime.spark.cache import cache_directory, forget_old, made_once, note_use
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime, find_java
from airflow_provider_connect.runtime.spark.parent_death import dies_with_parent
from airflow_provider_connect.runtime.spark.spark_home import SparkHome, find_spark

_DRIVER, _LAUNCHER, _CONNECT, _SIZES, _FAILED = "driver.jsa", "launcher.jsa", "connect.jsa", "sizes.json", "failed.log"
_CLASS_PATH_VARIABLES = ("SPARK_DIST_CLASSPATH", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_PREPEND_CLASSES")
_CRASHES = frozenset({signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL})
_KILLS = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM})
BUILD_SECONDS = 900.0
"""The limit for a build, which takes ten seconds on a quiet host. It only ends what hangs."""
_NAME_LENGTH = 20
QUIET = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")
FIRST_COMPILER = "-XX:TieredStopAtLevel=1"
_LOG_SETTINGS = """\
# Warnings and worse; spark.log.level, if given, sets another level once Spark is up.
rootLogger.level = WARN
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = ERROR
"""


@dataclass(frozen=True, slots=True)
class ClassData:
    """The archives for one Java and one Spark, or the archive of Kafka Connect's runtime. ``folder`` need not exist."""

    folder: Path

    @property
    def driver(self) -> Path:
        return self.folder / _DRIVER

    @property
    def launcher(self) -> Path:
        return self.folder / _LAUNCHER

    @property
    def connect(self) -> Path:
        return self.folder / _CONNECT

    @property
    def is_built(self) -> bool:
        """Whether all archives exist with their recorded sizes. Damaged archives are deleted. Intact archives are marked as used today."""
        try:
            sizes = json.loads((self.folder / _SIZES).read_text())
        except (OSError, ValueError):
            return False
        if all(_size(self.folder / name) == size for name, size in sizes.items()):
            note_use(self.folder, time.time())
            return True
        self.delete()
        return False

    @property
    def has_failed(self) -> bool:
        """Whether this Java has built no archive. It is not retried for the same Java and Spark until the folder is deleted."""
        return (self.folder / _FAILED).exists()

    def delete(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def note_built(self, archives: Sequence[Path]) -> None:
        """Record the archives as built, with their current sizes."""
        (self.folder / _SIZES).write_text(json.dumps({archive.name: _size(archive) for archive in archives}))

    def note_failure(self, reason: str) -> None:
        """Record a failed build. It is not retried while the folder exists."""
        (self.folder / _FAILED).write_text(reason)


def class_data_for(java: JavaRuntime, spark: SparkHome, environ: Mapping[str, str], cache: Path) -> ClassData:
    """The location of the archives for this Java and this Spark."""
    jars = sorted((entry.name, entry.stat().st_size, entry.stat().st_mtime_ns) for entry in os.scandir(spark.jars))
    class_path = {name: environ.get(name) for name in _CLASS_PATH_VARIABLES}
    machine = [*mark_of(java), str(spark.path), spark.version, str(spark.conf)]
    known_by = json.dumps([*machine, class_path, driver_options(spark, cache), jars])
    return ClassData(cache / "class-data" / hashlib.sha256(known_by.encode()).hexdigest()[:_NAME_LENGTH])


def mark_of(java: JavaRuntime) -> list[object]:
    """Values that identify a Java. They differ for another Java, even if it is installed at the same path."""
    return [str(java.home), str(java.real_home), java.version, _size(java.real_home / "lib" / "server" / "libjvm.so")]


def ensure_archive(
    environ: Mapping[str, str] | None = None, *, cache: Path | None = None, waits: bool = True, build_seconds: float = BUILD_SECONDS
) -> ClassData:
    """Builds missing archives for local and standalone masters. This takes ten seconds. For set-up steps.

    Raises RetriableException if the build was killed, or did not end within ``build_seconds``. The next call builds again. Without
    ``waits``, raises BlockingIOError if another process builds them.
    """
    environ = os.environ if environ is None else environ
    cache = cache or cache_directory(environ)
    java, spark = find_java(environ, cache=cache), find_spark("local", environ, cache=cache)
    found = class_data_for(java, spark, environ, cache)
    if not found.is_built:
        (cache / "class-data").mkdir(exist_ok=True)
        # archives of earlier versions would fill the disk; Kafka Connect's archives stay, because no run rebuilds them
        forget_old(cache / "class-data", time.time(), pattern="[0-9a-f]" * _NAME_LENGTH)
        options = driver_options(spark, cache)
        made_once(found.folder, lambda folder: _build(folder, java, spark, environ, options, seconds=build_seconds), waits=waits)
    return found


def build_in_background(class_data: ClassData | None) -> None:
    """Starts building missing archives in a separate process, without waiting. Called after a run. That process ends at once if another
    one builds them."""
    if class_data is None or class_data.folder.exists():
        return
    subprocess.Popen(
        [sys.executable, "-m", "airflow_provider_connect.runtime.spark.class_data"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"},
    )


def note_exit(class_data: ClassData | None, return_code: int | None) -> bool:
    """Deletes the archives if a JVM that used them crashed. Returns whether the JVM crashed. ``return_code`` is from Popen or from a
    shell."""
    if class_data is None or return_code is None:
        return False
    crashed = _was_ended_by(_CRASHES, return_code)
    if crashed:
        class_data.delete()
    return crashed


def _was_ended_by(signals: Collection[signal.Signals], return_code: int) -> bool:
    return -return_code in signals or return_code - 128 in signals


def _build(
    folder: Path, java: JavaRuntime, spark: SparkHome, environ: Mapping[str, str], options: Sequence[str], *, seconds: float
) -> None:
    """Runs a small Spark application whose JVMs write their archives when they end."""
    folder.mkdir()
    environment = {name: value for name, value in environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONHOME")}
    environment |= {
        "JAVA_HOME": str(java.home),
        "SPARK_HOME": str(spark.path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if " " not in str(folder):
        environment["SPARK_LAUNCHER_OPTS"] = " ".join([FIRST_COMPILER, *QUIET, _writing(folder / _LAUNCHER)])
    job = Path(__file__).with_name("class_data_job.py")
    command = [str(spark.spark_submit), "--master", "local[1]", "--conf", "spark.ui.enabled=false"]
    command += ["--driver-java-options", shlex.join([*options, _writing(folder / _DRIVER)]), str(job)]
    output = _run(command, environment, seconds)
    archives = [folder / name for name in (_DRIVER, _LAUNCHER) if _size(folder / name)]
    if folder / _DRIVER in archives:
        ClassData(folder).note_built(archives)
    else:
        ClassData(folder).note_failure(output)


def _run(command: Sequence[str], environment: Mapping[str, str], seconds: float) -> str:
    """The output of the command. Raises RetriableException if it was killed, or did not end within ``seconds``. Then its whole process
    group is killed."""
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        preexec_fn=dies_with_parent(own_group=True),  # noqa: PLW1509 - calls the kernel only
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise RetriableException(slow_build(seconds)) from None
            raise
    if _was_ended_by(_KILLS, process.returncode):
        raise RetriableException(f"not built: the build was ended, with exit code {process.returncode}")
    return output


def slow_build(seconds: float) -> str:
    """The message for a build that did not end within ``seconds``."""
    return f"not built within {seconds:g} s: this host is slow or busy"


def _writing(archive: Path) -> str:
    return f"-XX:ArchiveClassesAtExit={archive}"


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def driver_options(spark: SparkHome, cache: Path, *, frame: bool = False) -> list[str]:
    """The driver's JVM options. ``frame``: the JVM moves the data, so its optimizing compiler stays on.

    A Spark installation with a ``conf`` folder uses the log settings there. Any other installation logs only warnings and errors.
    """
    options = ["-XX:-UsePerfData", *QUIET]
    if not frame:
        options.append(FIRST_COMPILER)
    if spark.conf is None:
        options.append(f"-Dlog4j2.configurationFile={_log_settings(cache).as_uri()}")
    return options


def _log_settings(cache: Path) -> Path:
    known_by = hashlib.sha256(_LOG_SETTINGS.encode()).hexdigest()[:12]
    return made_once(cache / "spark" / f"log4j2-{known_by}.properties", _write_log_settings)


def _write_log_settings(file: Path) -> None:
    file.write_text(_LOG_SETTINGS)


if __name__ == "__main__":
    with suppress(BlockingIOError):  # another process builds them: a slow host must not get a queue of builds
        ensure_archive(waits=False)
