"""The files that make DAGs of the connectors that no DAG file defines: which file holds which connector, and its text.

Knows nothing of Airflow and of where the files lie. A file holds connectors' names and the keys that steer their DAGs, never a config.
The writer of the files and the sender of a parse request both compute its name here. The number of files doubles as connectors become more,
so a file that there was once stays, and a task that was queued under its name finds it.
"""

import ast
import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.dag_settings import DEFINED_IN, PREFIX, RELEASED, SCHEDULE, TASKS_PER_APPLICATION, DagCheck
from airflow_provider_connect.runtime.model.ids import check_name

PER_FILE = 50
FILES = "connectors_*.py"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_HEAD = '''"""DAGs of connectors that the config topic alone defines. Written by ConnectorsBundle, which overwrites any change."""

from airflow_provider_connect.dag_files.connector_dag import stored_connector_dags

stored_connector_dags(
    __file__,
'''


def stored_connectors(configs: Mapping[str, Mapping[str, str]], worker_schedule: str | None, check: DagCheck) -> dict[str, dict[str, str]]:
    """Of all ``configs``, by connector, those that no DAG file defines and of which ``check`` takes the keys, each with its keys."""
    names = (name for name in sorted(configs) if DEFINED_IN not in configs[name] and not refusals(name, configs[name], check))
    return {name: steering_keys(configs[name], worker_schedule) for name in names}


def refusals(connector: str, config: Mapping[str, str], check: DagCheck) -> list[str]:
    """The reasons why no DAG can be generated for a stored connector; empty if one can. Another worker may have accepted the config."""
    try:
        check_name(connector)
    except ConfigException as error:
        return error.errors
    if not connector.strip() or _CONTROL.search(connector):
        return [f"Invalid value {connector!r} for configuration name: a connector needs a name without control characters"]
    return [error for errors in check(connector, steering_keys(config, None)).values() for error in errors]


def steering_keys(config: Mapping[str, str], worker_schedule: str | None) -> dict[str, str]:
    """The keys that decide what the connector's DAG is, with the worker's schedule where the config names none."""
    keys = {key: value for key, value in sorted(config.items()) if _steers(key)}
    if worker_schedule is not None:
        keys.setdefault(SCHEDULE, worker_schedule)
    return keys


def _steers(key: str) -> bool:
    return key == TASKS_PER_APPLICATION or (key.startswith(PREFIX) and key not in (DEFINED_IN, RELEASED))


def file_for(connector: str, connectors: int) -> str:
    """The file that makes the DAG of ``connector`` where there are so many ``connectors``."""
    files = 1
    while files * PER_FILE < connectors:
        files *= 2
    return _file_name(int.from_bytes(hashlib.sha256(connector.encode()).digest()[:4]) % files)


def _file_name(number: int) -> str:
    return f"connectors_{number:03d}.py"


def file_texts(connectors: Mapping[str, Mapping[str, str]], paused: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """All files, name and text; the first is there always. ``connectors`` holds the steering keys of each, ``paused`` names those whose
    DAGs are to be paused when Airflow first sees them."""
    files: dict[str, list[str]] = {_file_name(0): []}
    for name in sorted(connectors):
        files.setdefault(file_for(name, len(connectors)), []).append(name)
    for file, names in files.items():
        yield file, file_text({name: connectors[name] for name in names}, [name for name in names if name in paused])


def file_text(connectors: Mapping[str, Mapping[str, str]], paused: Collection[str] = ()) -> str:
    """One file: Python that makes the DAGs, the same text for the same connectors."""
    lines = [f"        {name!r}: {mark_of(keys)!r},\n" for name, keys in sorted(connectors.items())]
    return f"{_HEAD}    {{\n{''.join(lines)}    }},\n    paused={sorted(paused)!r},\n)\n"


def names_in(text: str) -> list[str]:
    """The connectors of which ``text``, a file, makes DAGs."""
    (call,) = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return list(ast.literal_eval(call.args[1]))


def mark_of(keys: Mapping[str, str]) -> str:
    """Steering keys as one text, the same for the same keys. Files hold them so, and the DAG carries it as its mark."""
    return json.dumps(dict(keys), sort_keys=True)
