"""The files that create the DAGs of connectors without a DAG file of their own: which file has which connector, and its text.

One more file creates the DAGs of shared applications. Knows nothing of Airflow or the files' folder. A file has the names of connectors and
the keys that define their DAGs, but no config. The writer of the files and the sender of a parse request both compute the file's name here.
The number of files doubles as connectors are added, and no file disappears, so a queued task always finds its file.
"""

import ast
import dataclasses
import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.dag_settings import (
    APPLICATION,
    DEFINED_IN,
    PREFIX,
    RELEASED,
    SCHEDULE,
    TASKS_PER_APPLICATION,
    DagCheck,
    application_of,
    application_settings,
)
from airflow_provider_connect.runtime.model.ids import check_name

PER_FILE = 50
FILES = "connectors_*.py"
APPLICATIONS_FILE = "applications.py"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HEAD = '''"""DAGs of connectors that the config topic alone defines. Written by ConnectorsBundle, which overwrites any change."""

from airflow_provider_connect.dag_files.connector_dag import stored_connector_dags

stored_connector_dags(
    __file__,
'''


def stored_connectors(configs: Mapping[str, Mapping[str, str]], worker_schedule: str | None, check: DagCheck) -> dict[str, dict[str, str]]:
    """The DAG's keys of each connector that no DAG file defines, by connector. Leaves out connectors whose keys ``check`` refuses."""
    names = (name for name in sorted(configs) if DEFINED_IN not in configs[name] and not refusals(name, configs[name], check))
    return {name: steering_keys(configs[name], worker_schedule) for name in names}


def refusals(connector: str, config: Mapping[str, str], check: DagCheck) -> list[str]:
    """The reasons why no DAG can be generated for a stored connector, if any. Another worker may have accepted the config."""
    try:
        check_name(connector)
    except ConfigException as error:
        return error.errors
    if not connector.strip() or _CONTROL.search(connector):
        return [f"Invalid value {connector!r} for configuration name: a connector needs a name without control characters"]
    return [error for errors in check(connector, steering_keys(config, None)).values() for error in errors]


def steering_keys(config: Mapping[str, str], worker_schedule: str | None) -> dict[str, str]:
    """The keys that define the connector's DAG, with the worker's schedule if the config has none."""
    keys = {key: value for key, value in sorted(config.items()) if _steers(key)}
    if worker_schedule is not None and APPLICATION not in keys:
        keys.setdefault(SCHEDULE, worker_schedule)
    return keys


def _steers(key: str) -> bool:
    return key == TASKS_PER_APPLICATION or (key.startswith(PREFIX) and key not in (DEFINED_IN, RELEASED))


def file_for(connector: str, connectors: int) -> str:
    """The file that creates the DAG of ``connector``. ``connectors`` is the number of connectors."""
    files = 1
    while files * PER_FILE < connectors:
        files *= 2
    return _file_name(int.from_bytes(hashlib.sha256(connector.encode()).digest()[:4]) % files)


def _file_name(number: int) -> str:
    return f"connectors_{number:03d}.py"


def file_texts(connectors: Mapping[str, Mapping[str, str]], paused: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """The name and text of each file. The first file always exists. ``connectors`` has the DAG's keys of each connector. DAGs of ``paused``
    are paused when Airflow first sees them."""
    files: dict[str, list[str]] = {_file_name(0): []}
    for name in sorted(connectors):
        files.setdefault(file_for(name, len(connectors)), []).append(name)
    for file, names in files.items():
        yield file, file_text({name: connectors[name] for name in names}, [name for name in names if name in paused])


def file_text(connectors: Mapping[str, Mapping[str, str]], paused: Collection[str] = ()) -> str:
    """One file: Python that creates the DAGs. The same connectors result in the same text."""
    lines = [f"        {name!r}: {mark_of(keys)!r},\n" for name, keys in sorted(connectors.items())]
    return f"{_HEAD}    {{\n{''.join(lines)}    }},\n    paused={sorted(paused)!r},\n)\n"


_APPLICATIONS = '''"""DAGs of shared applications. Written by ConnectorsBundle, which overwrites any change."""

from airflow_provider_connect.dag_files.application_dag import application_dags

application_dags(
    __file__,
'''


def application_marks(configs: Mapping[str, Mapping[str, str]], worker: Mapping[str, str], check: DagCheck) -> dict[str, str]:
    """The mark of each shared application that a connector's config names, by application. ``worker`` are the worker's settings. Leaves out
    connectors whose keys ``check`` refuses, and applications with wrong settings."""
    names = {
        name
        for connector, config in configs.items()
        if (name := application_of(config)) is not None and (DEFINED_IN in config or not refusals(connector, config, check))
    }
    found: dict[str, str] = {}
    for name in sorted(names):
        with suppress(ConfigException):  # the server's health names it
            found[name] = json.dumps(dataclasses.asdict(application_settings(name, worker)), sort_keys=True)
    return found


def applications_text(marks: Mapping[str, str]) -> str:
    """The file of shared applications: Python that creates their DAGs."""
    lines = [f"        {name!r}: {mark!r},\n" for name, mark in sorted(marks.items())]
    return f"{_APPLICATIONS}    {{\n{''.join(lines)}    }},\n)\n"


def names_in(text: str) -> list[str]:
    """The connectors whose DAGs the file with this ``text`` creates."""
    (call,) = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return list(ast.literal_eval(call.args[1]))


def mark_of(keys: Mapping[str, str]) -> str:
    """A DAG's keys as one text, which is the same for the same keys. It is in the file, and is the DAG's mark."""
    return json.dumps(dict(keys), sort_keys=True)
