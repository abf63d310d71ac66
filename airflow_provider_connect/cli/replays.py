"""``airflow connect dlq replay``: a run of the connector ``«sink»-replay`` writes a sink's dead-letter records back."""

import json
import sys
from pathlib import Path
from typing import Any, cast

from airflow_provider_connect.cli.configs import given_pairs
from airflow_provider_connect.cli.connection import Verbs, connect_command
from airflow_provider_connect.cli.printing import print_value, visible
from airflow_provider_connect.cli.upgrades import print_preview
from airflow_provider_connect.client.conditions import ReplayEnds
from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.rest.secrets import Secrets
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.replays import Edits, Replay, ReplayRequest
from airflow_provider_connect.runtime.model.view_json import to_json


@connect_command
def replay(arguments: Any, verbs: Verbs) -> None:
    """Request a replay. With --dry-run, print its first records; with --status, print the progress of the last replay. With --wait, the
    exit code is 0 if all records are written."""
    if arguments.status:
        _show(arguments, verbs.dead_letter_replay(arguments.name))
        return
    if arguments.wait:
        from airflow_provider_connect.cli.waiting import FollowedReplay, Waiting, check_timeout  # loads Airflow's models

        check_timeout(arguments.timeout)
    asked = ReplayRequest(
        arguments.offsets or (),
        arguments.from_topic or (),
        arguments.exception or (),
        arguments.to_topic,
        _edits(arguments.edits),
        given_pairs(arguments.set or []),
    )
    dry_run, records = arguments.dry_run, arguments.records
    if isinstance(verbs, Herder):
        shown = Secrets(verbs.plugin_config).redacted
        found = cast("Herder", verbs).replay_dead_letters(arguments.name, asked, dry_run=dry_run, records=records, redact=shown)
    else:
        found = verbs.replay_dead_letters(arguments.name, asked, dry_run=dry_run, records=records)
    if arguments.wait and not arguments.dry_run:
        followed = FollowedReplay(verbs, arguments.name, found.replay)
        Waiting(verbs, found.connector, arguments.timeout, is_new=True, followed=followed).follow()
        found = verbs.dead_letter_replay(arguments.name)
    _show(arguments, found)


def _edits(file: str | None) -> Edits:
    """The edits in a file. The server checks them."""
    if file is None:
        return {}
    try:
        edits = json.loads(sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise BadRequestException(f"--edits {file} cannot be read as JSON: {error}") from None
    if not isinstance(edits, dict) or not all(isinstance(edit, dict) for edit in edits.values()):
        raise BadRequestException(f'--edits {file} must be a JSON object such as {{"0:15": {{"value": "…"}}}}')
    return edits


def _show(arguments: Any, found: Replay) -> None:
    if arguments.output != "table":
        print_value(to_json(found), arguments.output)
    elif found.preview is not None:
        print_preview(found.preview)
    else:
        print(visible(ReplayEnds(arguments.name, found.replay).evaluate(found).text))
