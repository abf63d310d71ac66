"""``airflow connect config history|diff|rollback`` and ``airflow connect offsets history|undo``: a connector's past, and restoring it."""

import sys
from datetime import datetime
from typing import Any, cast

from airflow_provider_connect.cli.connection import Verbs, connect_command
from airflow_provider_connect.cli.printing import print_rows, print_value, print_warnings, visible
from airflow_provider_connect.errors import BadRequestException, ConnectException, NotFoundException
from airflow_provider_connect.rest.secrets import Secrets
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.history import ConfigRevision, KeyChange, OffsetUndo, key_changes
from airflow_provider_connect.runtime.model.view_json import to_json

_STOPPED, _PAUSED = "STOPPED", "PAUSED"


@connect_command
def config_history(arguments: Any, verbs: Verbs) -> None:
    """Print one row per revision, newest first. JSON and YAML have whole configs."""
    found = verbs.config_history(arguments.name, limit=arguments.limit, before=arguments.before)
    if arguments.output != "table":
        print_value(to_json(found), arguments.output)
        return
    rows = [
        {"revision": each.revision, "when": _when(each.at_ms), "who": each.who, "changed": _changed(each), "note": each.note}
        for each in found.revisions
    ]
    print_rows(rows, "table")
    _point_to_older(found.next_before)


@connect_command
def config_diff(arguments: Any, verbs: Verbs) -> None:
    """Print the differences between a revision and the current config, or without a revision, the last change."""
    last = _revision(verbs, arguments.name, None)
    if arguments.revision is None:
        changes: list[KeyChange] = list(last.changes)
    else:
        changes = key_changes(_revision(verbs, arguments.name, arguments.revision).config or {}, last.config or {})
    print_rows([{"key": each.key, "old": each.old, "new": each.new} for each in changes], arguments.output)


@connect_command
def rollback(arguments: Any, verbs: Verbs) -> None:
    if isinstance(verbs, Herder):
        info = cast("Herder", verbs).rollback_config(arguments.name, arguments.revision, Secrets(verbs.plugin_config).restore_patch)
    else:
        info = verbs.rollback_config(arguments.name, arguments.revision)
    print(f"Connector {arguments.name} has the config of revision {arguments.revision}")
    print_warnings(info.warnings)


@connect_command
def offsets_history(arguments: Any, verbs: Verbs) -> None:
    """Print one row per change and partition, newest first."""
    found = verbs.offsets_history(arguments.name, limit=arguments.limit, before=arguments.before)
    if arguments.output != "table":
        print_value(to_json(found), arguments.output)
        return
    rows = [
        {
            "entry": change.entry,
            "when": _when(change.to_ms),
            "by": change.run or change.who,
            "partition": move.partition,
            "old": move.old,
            "new": move.new,
        }
        for change in found.changes
        for move in change.moves
    ]
    print_rows(rows, "table")
    _point_to_older(found.next_before)


@connect_command
def undo(arguments: Any, verbs: Verbs) -> None:
    """(1) Print the changes. (2) Ask for confirmation. (3) With --stop, stop the connector. (4) Undo. (5) With --stop, restore its state.

    If (4) is refused, nothing has changed, and (5) still follows. After another failure, the connector stays STOPPED.
    """
    to = None if arguments.to is None else _instant(arguments.to)
    planned = verbs.undo_offsets(arguments.name, to=to, entry=arguments.entry, dry_run=True)
    _show(planned, arguments.output)  # 1
    if arguments.dry_run or not planned.returns:
        return
    if not arguments.yes:
        _confirm(f"Set the offsets of connector {arguments.name} so?")  # 2
    state = _wanted(verbs, arguments.name) if arguments.stop else _STOPPED
    if state != _STOPPED:
        verbs.stop(arguments.name)  # 3
    try:
        message = verbs.undo_offsets(arguments.name, to=planned.to_ms, dry_run=False).message  # 4
    except ConnectException as error:
        if state != _STOPPED and error.status_code < 500:
            _give_back(verbs, arguments.name, state)
        elif state != _STOPPED:
            print(f"Connector {arguments.name} stays STOPPED", file=sys.stderr)
        raise
    print(visible(message), file=sys.stderr if arguments.output != "table" else sys.stdout)
    _give_back(verbs, arguments.name, state)  # 5


def _wanted(verbs: Verbs, name: str) -> str:
    """The target state. A foreign server returns only the status, which follows the target state."""
    target = cast("Herder", verbs).config_state().target_state(name) if isinstance(verbs, Herder) else None
    return verbs.connector_status(name).connector.state if target is None else str(target)


def _point_to_older(next_before: int | None) -> None:
    if next_before is not None:
        print(f"For older entries: --before {next_before}", file=sys.stderr)


def _give_back(verbs: Verbs, name: str, state: str) -> None:
    if state == _PAUSED:
        verbs.pause(name)
    elif state != _STOPPED:
        verbs.resume(name)


def _show(planned: OffsetUndo, output: str) -> None:
    if output != "table":
        print_value(to_json(planned), output)
        return
    rows = [
        {"partition": each.partition, "now": each.now, "then": each.then, "effect": each.effect, "records": each.records}
        for each in planned.returns
    ]
    print_rows(rows, "table")
    if planned.left_out:
        print(f"… and {planned.left_out} more partitions")
    if not rows:
        print("The offsets are those of that instant already")


def _confirm(question: str) -> None:
    """Raise BadRequestException unless the user answers yes at a terminal."""
    if not sys.stdin.isatty():
        raise BadRequestException("Nothing was changed: repeat the command with --yes, or at a terminal")
    if input(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
        raise BadRequestException("Nothing was changed")


def _revision(verbs: Verbs, name: str, revision: int | None) -> ConfigRevision:
    """One revision, or by default the newest. Raises NotFoundException."""
    found = verbs.config_history(name, limit=1, before=None if revision is None else revision + 1).revisions
    if not found or revision not in (None, found[0].revision):
        which = "yet" if revision is None else f"{revision}; airflow connect config history {name} lists them"
        raise NotFoundException(f"Connector {name} has no revision {which}")
    return found[0]


def _changed(revision: ConfigRevision) -> list[str] | str:
    return "deleted" if revision.config is None else [change.key for change in revision.changes]


def _when(at_ms: int) -> str:
    """The instant in this machine's time zone."""
    return datetime.fromtimestamp(at_ms / 1000).astimezone().isoformat(sep=" ", timespec="seconds")


def _instant(text: str) -> str:
    """The time in ISO 8601. A time without a zone is in this machine's zone."""
    if text.isdecimal():
        return text
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except (ValueError, OverflowError):
        raise BadRequestException(f"{text!r} is not a time: give it as 2026-01-31T14:00, or as milliseconds since 1970") from None
