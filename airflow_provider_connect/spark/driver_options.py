"""Options of the Spark driver's JVM, but for archives of classes: how to compile, and what to log."""

import hashlib
from pathlib import Path

from airflow_provider_connect.spark.cache import made_once
from airflow_provider_connect.spark.spark_home import SparkHome

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


def driver_options(spark: SparkHome, cache: Path, *, frame: bool = False) -> list[str]:
    """The options; ``frame``: the JVM moves the data, so it keeps its optimising compiler.

    An installation with a ``conf`` folder logs by its settings; any other logs warnings only.
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
