"""``airflow connect logs``: the log of a connector's run in Airflow, with a heading for each try of each task.

Airflow and the run's processes hide secrets when they log. This command also hides the secrets of the current config.
"""

import os
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.session import create_session

from airflow_provider_connect.api_server.run_logs import Attempt, Record, RunLog, last_run, last_unskipped_run, named_run
from airflow_provider_connect.cli.configs import secrets_of
from airflow_provider_connect.cli.own_connect import airflow_herder
from airflow_provider_connect.cli.printing import print_errors, visible
from airflow_provider_connect.errors import BadRequestException, NotFoundException
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.herder.herder import Herder

_PAUSE_SECONDS = 1.0  # Airflow's own pause between two reads of a log
_INDENT = "    "
_NO_FACTS = {"timestamp", "event", "level", "logger", "error_detail", "exception", "filename", "lineno"}


@suppress_logs_and_warning  # type: ignore[untyped-decorator]  # Airflow is not typed for us
def logs(arguments: Any) -> None:
    """Print the oldest line first. With ``--follow``, print new lines until the run has ended."""
    with print_errors():
        if arguments.lines is not None and arguments.lines < 1:
            raise BadRequestException(f"--lines is a number from 1 on, not {arguments.lines}")
        with airflow_herder() as verbs:
            mask = _mask(verbs, arguments.name, arguments.task)
        with create_session() as session:
            if arguments.run is not None:
                run_id = newest = named_run(session, arguments.name, arguments.run)
            else:
                newest = last_run(session, arguments.name, or_queued=arguments.follow)
                run_id = newest if arguments.follow else last_unskipped_run(session, arguments.name) or newest
        log = RunLog(create_session, arguments.name, run_id, task=arguments.task)
        try:
            later = "" if run_id == newest else f" (later runs were skipped, the last one is {newest})"
            print(visible(f"Run {run_id}{later}"))
            _print_log(log, mask, arguments.lines, follow=arguments.follow)
        except BrokenPipeError:  # the pipe's reader has closed it
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except KeyboardInterrupt:
            sys.exit(130)


def _mask(verbs: Herder, name: str, task: int | None) -> Mask:
    config = verbs.connector_config(name)
    if task is not None and task not in (known := [each.id.task for each in verbs.task_infos(name)]):
        numbers = ", ".join(map(str, known)) or "none yet"
        raise NotFoundException(f"Connector {name} has no task {task}; its tasks: {numbers}")
    return Mask(secrets_of(verbs, name, config, verbs.settings))


def _print_log(log: RunLog, mask: Mask, most: int | None, *, follow: bool) -> None:
    heads = Heads()
    is_ended = log.is_ended()  # before reading, because an ended run logs no more
    lines = lines_of(log.read(), mask)
    for line in heads.put(lines if most is None else deque(lines, most)):
        print(line)
    while follow and not is_ended:
        sys.stdout.flush()
        time.sleep(_PAUSE_SECONDS)
        is_ended = log.is_ended()
        for line in heads.put(lines_of(log.read(), mask)):
            print(line)
    if heads.last is None:
        print("Nothing is logged" if is_ended else "Nothing is logged yet")
    sys.stdout.flush()


class Heads:
    """Puts a heading before the first of consecutive lines of an attempt."""

    def __init__(self) -> None:
        self.last: Attempt | None = None

    def put(self, lines: Iterable[tuple[Attempt, str]]) -> Iterator[str]:
        for attempt, line in lines:
            if attempt != self.last:
                self.last = attempt
                yield visible(f"\n==> {head_of(attempt)} <==")
            yield line


def head_of(attempt: Attempt) -> str:
    """Airflow's task, the part of the connector that it runs, and the number of the try."""
    name = attempt.task if attempt.map_index < 0 else f"{attempt.task}[{attempt.map_index}] {attempt.label}".rstrip()
    return f"{name}, try {attempt.number}"


def lines_of(records: Iterable[tuple[Attempt, Record]], mask: Mask) -> Iterator[tuple[Attempt, str]]:
    """Lines for a terminal. All lines of a record except the first are indented, so no text looks like a heading or another record."""
    for attempt, record in records:
        first, *others = visible(mask(_text(record))).splitlines() or [""]
        yield attempt, first
        yield from ((attempt, f"{_INDENT}{line}") for line in others)


def _text(record: Record) -> str:
    """``time LEVEL logger: text fact=value``, and the trace of an error below."""
    at, level, logger = record.get("timestamp"), record.get("level"), record.get("logger")
    when = at.astimezone().isoformat(sep=" ", timespec="milliseconds") if isinstance(at, datetime) else "-"
    head = " ".join(each for each in (when, str(level or "").upper(), str(logger or "")) if each)
    facts = "".join(f" {key}={value}" for key, value in record.items() if key not in _NO_FACTS)
    trace = [*_traces(record.get("error_detail")), *filter(None, [record.get("exception")])]
    return "\n".join([f"{head}: {record.get('event', '')}{facts}", *map(str, trace)])


def _traces(errors: object) -> Iterator[str]:
    """The exceptions of a log record: a list, with the last one raised first."""
    for error in errors if isinstance(errors, list) else []:
        if not isinstance(error, Mapping):
            continue
        for frame in error.get("frames") or []:
            yield f'File "{frame.get("filename")}", line {frame.get("lineno")}, in {frame.get("name")}'
        yield f"{error.get('exc_type')}: {error.get('exc_value')}"
        yield from map(str, error.get("exc_notes") or [])
