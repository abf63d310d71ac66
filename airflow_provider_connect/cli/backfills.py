"""``airflow connect backfill|backfills``: deliver ranges of a sink's topics again, and list backfills with their progress."""

import time
from datetime import datetime
from typing import Any, cast

from airflow_provider_connect.cli.configs import given_pairs
from airflow_provider_connect.cli.connection import Verbs, connect_command
from airflow_provider_connect.cli.printing import print_rows, print_value, visible
from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.rest.secrets import Secrets
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.backfill import backfill_name
from airflow_provider_connect.runtime.model.backfill_request import AskedRange, Backfill, BackfillRequest, time_id
from airflow_provider_connect.runtime.model.view_json import to_json


@connect_command
def backfill(arguments: Any, verbs: Verbs) -> None:
    """Create the backfill. With --dry-run, only print the ranges; with --wait, follow its run."""
    request = _request(arguments)
    if arguments.dry_run:
        if arguments.wait:
            raise BadRequestException("--wait waits for a run, and --dry-run has none")
        _show([_created(verbs, arguments.name, request, dry_run=True)], arguments.output)
        return
    waiting = None
    if arguments.wait:
        from airflow_provider_connect.cli.waiting import Waiting  # loads Airflow's models

        waiting = Waiting(verbs, backfill_name(arguments.name, request.id), arguments.timeout, is_new=True)
    elif arguments.timeout is not None:
        raise BadRequestException("--timeout is for --wait")
    created = _created(verbs, arguments.name, request, dry_run=False)
    _show([created], arguments.output)
    if arguments.output == "table":
        print(visible(f"Backfill {created.name} is created: a connector, to be deleted when it is no longer needed"), flush=True)
    if waiting is not None:
        waiting.finish()


@connect_command
def backfills(arguments: Any, verbs: Verbs) -> None:
    """Print one row per backfill. JSON and YAML have all ranges."""
    found = verbs.backfills(arguments.name)
    if arguments.output != "table":
        print_value(to_json(found), arguments.output)
        return
    print_rows(
        [
            {"name": each.name, "state": "done" if each.is_done else each.state, "left": each.left, "partitions": len(each.ranges)}
            for each in found
        ],
        "table",
    )
    if not found:
        print(visible(f"Connector {arguments.name} has no backfills"))


def _created(verbs: Verbs, name: str, request: BackfillRequest, *, dry_run: bool) -> Backfill:
    if isinstance(verbs, Herder):
        return cast("Herder", verbs).create_backfill(name, request, Secrets(verbs.plugin_config).restore_patch, dry_run=dry_run)
    return verbs.create_backfill(name, request, dry_run=dry_run)


def _request(arguments: Any) -> BackfillRequest:
    first, end = _bound(arguments.first), _bound(arguments.to)
    ranges = [AskedRange(arguments.topic, partition, first, end) for partition in arguments.partition or [None]]
    changes: dict[str, str | None] = {**given_pairs(arguments.set or []), **dict.fromkeys(arguments.remove or ())}
    return BackfillRequest(ranges, changes, arguments.id or time_id(time.time()))


def _bound(text: str | None) -> int | str | None:
    """An offset or a time. A time without a zone is in this machine's zone. Raises BadRequestException."""
    if text is None:
        return None
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except (ValueError, OverflowError):
        raise BadRequestException(f"{text!r} is neither an offset nor a time such as 2026-01-31T14:00") from None


def _show(found: list[Backfill], output: str) -> None:
    if output != "table":
        print_value(to_json(found[0]), output)
        return
    rows = [
        {"name": each.name, "partition": range_.partition, "from": range_.first, "to": range_.end}
        for each in found
        for range_ in each.ranges
    ]
    print_rows(rows, "table")
