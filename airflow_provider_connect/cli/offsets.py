"""``airflow connect offsets get|alter|reset``."""

import json
import sys
from pathlib import Path
from typing import Any

from airflow_provider_connect.cli.connection import Verbs, speaks_to_connect
from airflow_provider_connect.cli.printing import print_rows
from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.model.offsets import requested_offsets
from airflow_provider_connect.model.view_json import to_json
from airflow_provider_connect.model.views import OffsetView


@speaks_to_connect
def get(arguments: Any, verbs: Verbs) -> None:
    print_rows(to_json(verbs.offsets(arguments.name)), arguments.output)


@speaks_to_connect
def alter(arguments: Any, verbs: Verbs) -> None:
    """From ``--file``, as ``get -o json`` prints it or as Connect's PATCH takes it, or one ``--partition`` with its ``--offset``."""
    print(verbs.alter_offsets(arguments.name, _wanted(arguments)))


@speaks_to_connect
def reset(arguments: Any, verbs: Verbs) -> None:
    print(verbs.reset_offsets(arguments.name))


def _wanted(arguments: Any) -> list[OffsetView]:
    if (arguments.file is None) == (arguments.partition is None):
        raise BadRequestException("Give --file FILE, or --partition JSON with --offset JSON")
    if arguments.file is None:
        entries: object = [{"partition": _json(arguments.partition, "--partition"), "offset": _json(arguments.offset, "--offset")}]
    else:
        entries = _json(_text(arguments.file), arguments.file)
    pairs = requested_offsets(entries if isinstance(entries, dict) else {"offsets": entries})
    return [OffsetView(_object(partition), _object(offset)) for partition, offset in pairs]


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequestException(f"{file} cannot be read: {error}") from error


def _json(text: str, where: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadRequestException(f"{where} is not JSON: {error}") from error


def _object(value: object) -> dict[str, object] | None:
    if value is None or isinstance(value, dict):
        return value
    raise BadRequestException(f"A partition or offset is a JSON object or null, not {json.dumps(value)}")
