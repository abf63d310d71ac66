"""What a connector waits for: something that its config names, that is not there and may still come. Its runs succeed with a warning, and
lists show a note. What a connector cannot wait for fails its run (``MissingException``); ``docs/lifecycle.md`` has both in one table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping

from airflow_provider_connect.runtime.model.config_limits import LONGEST_NOTE, cut
from airflow_provider_connect.runtime.model.ids import named_topics

log = logging.getLogger(__name__)


def missing_of(connector: object, mask: Callable[[str], str]) -> str | None:
    """What a connector has just found to be missing, without secrets; a sink's topics are not its own to find (``missing_topics``)."""
    missing = getattr(connector, "missing", None)
    return shown(mask(missing)) if isinstance(missing, str) and missing else None


def missing_topics(config: Mapping[str, str], found: Collection[str]) -> str | None:
    """Which topics of a sink's config do not exist, of those in ``found`` that do. As in Kafka Connect, the sink waits for them."""
    lacking = sorted(set(named_topics(config)).difference(found))
    if lacking:
        subject = f"topic {lacking[0]}" if len(lacking) == 1 else f"topics {', '.join(lacking)}"
        return shown(f"There is no {subject}: nothing is read from it until there is")
    if not found and config.get("topics.regex"):
        return shown(f"There is no topic that topics.regex={config['topics.regex']} matches: nothing is read until there is")
    return None


def warn_of_missing(connector: str, missing: str | None) -> None:
    """Log what a run waits for, once a run."""
    if missing:
        log.warning("Connector %s waits: %s", connector, missing)


def shown(note: str) -> str:
    """A note as lists have room for it."""
    return cut(note, LONGEST_NOTE)
