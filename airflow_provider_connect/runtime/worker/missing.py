"""Missing things for which a connector waits: its config names them, but they do not exist yet. The connector's runs succeed with a
warning, and lists show a note. If a connector cannot wait for a missing thing, its run fails (``MissingException``). A table in
``docs/lifecycle.md`` lists both kinds."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.model.config_limits import LONGEST_NOTE, cut
from airflow_provider_connect.runtime.model.ids import named_topics
from airflow_provider_connect.runtime.model.records import NoteKind
from airflow_provider_connect.runtime.stores.config_changes import ConfigChanges

log = logging.getLogger(__name__)


def missing_of(connector: object, mask: Callable[[str], str]) -> str | None:
    """What a connector has just found to be missing, without secrets. A sink does not check its topics: see ``missing_topics``."""
    missing = getattr(connector, "missing", None)
    return shortened_note(mask(missing)) if isinstance(missing, str) and missing else None


def missing_topics(config: Mapping[str, str], found: Collection[str]) -> str | None:
    """A note on the topics of a sink's config that are not in ``found``, the existing topics. A sink waits for them, as in Connect."""
    lacking = sorted(set(named_topics(config)).difference(found))
    if lacking:
        subject = f"topic {lacking[0]}" if len(lacking) == 1 else f"topics {', '.join(lacking)}"
        return shortened_note(f"There is no {subject}: nothing is read from it until there is")
    if not found and config.get("topics.regex"):
        return shortened_note(f"There is no topic that topics.regex={config['topics.regex']} matches: nothing is read until there is")
    return None


def warn_missing(connector: str, missing: str | None) -> None:
    """Log what a connector waits for. Called once per run."""
    if missing:
        log.warning("Connector %s waits: %s", connector, missing)


def note_missing(open_store: Callable[[], ConfigChanges], connector: str, missing: str | None, *, of: Mapping[str, str]) -> None:
    """Write a note about what the connector with the raw config ``of`` waits for to the config topic. None: nothing is missing. Lists show
    the note. Never fails a run."""
    _put(open_store, connector, missing, NoteKind.MISSING, of=of)


def note_call(
    open_store: Callable[[], ConfigChanges], connector: str, call: str | None, *, of: Mapping[str, str], instead_of: str | None = None
) -> None:
    """As ``note_missing``, about a call that has not returned. ``instead_of``: see ``ConfigChanges.put_note``."""
    _put(open_store, connector, call, NoteKind.LONG_CALL, of=of, instead_of=instead_of)


def _put(
    open_store: Callable[[], ConfigChanges],
    connector: str,
    note: str | None,
    kind: NoteKind,
    *,
    of: Mapping[str, str],
    instead_of: str | None = None,
) -> None:
    try:
        with open_store() as store:
            store.put_note(connector, note, kind, of=of, instead_of=instead_of)
    except ConnectException as error:
        log.warning("Connector %s: its note (%s) could not be written: %s", connector, note or "none", error.message)


def shortened_note(note: str) -> str:
    """The note, shortened so that lists have room for it."""
    return cut(note, LONGEST_NOTE)
