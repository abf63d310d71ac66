"""Lags and dead-letter records of sinks."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from airflow_provider_connect.codecs.dead_letters import OffsetRanges
from airflow_provider_connect.data.records import Distance
from airflow_provider_connect.errors import BadRequestException, ConnectException, NotFoundException
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.dead_letters import (
    Part,
    SecretsOf,
    dead_letter_topic,
    has_context_headers,
    is_of,
    is_shown_whole,
    row_of,
)
from airflow_provider_connect.runtime.herder.metrics import BatchLogMetrics, sink_lags
from airflow_provider_connect.runtime.herder.offsets import OffsetKeeper
from airflow_provider_connect.runtime.herder.snapshot import Topics, config_of
from airflow_provider_connect.runtime.model.history import Redact
from airflow_provider_connect.runtime.model.page import ConnectorLag, DeadLetters, total_lag
from airflow_provider_connect.runtime.plugins.validation.delivery_checks import DEAD_LETTERS
from airflow_provider_connect.runtime.stores.last_records import RecordSearch
from airflow_provider_connect.runtime.stores.sink_lag import committed_positions, partition_lags

MOST_PARTITIONS: Final = 500
MOST_DEAD_LETTERS: Final = 100
MOST_BYTES: Final = 1024 * 1024
"""Bytes of JSON in a response with dead-letter records."""
SECONDS: Final = 10.0
_MOST_OFFSETS: Final = 20_000
_log = logging.getLogger(__name__)
_PART: Final = Part(text=2000, name=100, headers=25)


class Sinks:
    """See the module. ``replayed`` returns, by partition of a dead letter queue, the records that were replayed for a connector."""

    def __init__(
        self,
        settings: WorkerSettings,
        topics: Topics,
        offsets: OffsetKeeper,
        batch_log: BatchLogMetrics,
        *,
        secrets: SecretsOf,
        replayed: Callable[[str, str], Mapping[int, OffsetRanges]],
    ) -> None:
        self._settings = settings
        self._reader = topics.reader
        self._offsets = offsets
        self._batch_log = batch_log
        self._secrets = secrets
        self._replayed = replayed

    def lags(self, names: Collection[str]) -> dict[str, dict[str, float]]:
        """The lags of the sinks among ``names``, by Connect's metric names, from the same positions as ``partition_lags``. See
        ``metrics.sink_lags``."""
        known = self._reader.configs().connector_configs
        configs = {name: self._offsets.with_topics(name, known[name]) for name in names if name in known}
        positions, logged = self._offsets.sink_positions(configs), self._batch_log.sink_positions()
        for name in [name for name, found in positions.items() if not found and logged.get(name)]:  # the group may have lost its offsets
            try:
                positions[name] = committed_positions(self._offsets.offsets(name))
            except ConnectException as error:
                _log.warning("The lag of %s is not known: %s", name, error.message)
                del positions[name]
        return sink_lags(self._settings, positions, configs)

    def distances(self, names: Collection[str], lags: Mapping[str, Mapping[str, float]] | None = None) -> dict[str, Distance]:
        """The distances of the connectors ``names`` from their ends: of sinks from ``lags``, by default the current ones, of sources from
        their last batch log entries."""
        sources = {name: found for name, found in self._batch_log.source_distances().items() if name in names}
        known = self.lags(names) if lags is None else lags
        return {name: Distance(int(found["records-lag"])) for name, found in known.items()} | sources

    def partition_lags(self, name: str) -> ConnectorLag:
        """The sink's current lag, from its group's committed offsets.

        Raises NotFoundException. Raises BadRequestException for a source, and for a sink that reads another cluster than the worker's.
        """
        config = self._offsets.with_topics(name, config_of(self._reader.configs(), name))
        if self._offsets.reads_elsewhere(name, config):
            raise BadRequestException(f"Connector {name} reads another cluster than the worker's, so its lag is unknown here")
        found = partition_lags(self._settings, config, self._offsets.offsets(name))
        furthest = sorted(found, key=lambda each: -math.inf if each.lag is None else -each.lag)[:MOST_PARTITIONS]
        shown = sorted(furthest, key=lambda each: (each.topic, each.partition))
        return ConnectorLag(shown, total_lag(each.lag for each in found), len(found) - len(shown))

    def dead_letters(self, name: str, *, limit: int, redact: Redact) -> DeadLetters:
        """The newest ``limit`` records of the sink's dead letter queue that name this connector as their writer. Other connectors may use
        the same topic, and every user who may read the connector sees the records. ``redact`` hides the secrets of a config.

        Reads for at most ``SECONDS``. Raises NotFoundException. Raises BadRequestException for a queue that may not be shown, and if a
        secret could not be hidden.
        """
        if not 1 <= limit <= MOST_DEAD_LETTERS:
            raise BadRequestException(f"limit is a number from 1 to {MOST_DEAD_LETTERS}, not {limit}")
        config = self._offsets.with_topics(name, config_of(self._reader.configs(), name))
        has_headers = has_context_headers(config)
        if not config.get(DEAD_LETTERS, "").strip():
            return DeadLetters(None, has_headers, [], True, 0)
        topic = dead_letter_topic(name, config, self._settings)
        mask = Mask(self._secrets(name, config, redact))
        search = RecordSearch(
            limit,
            lambda record: is_of(name, record, without_headers=False),
            lambda record: {**row_of(record, mask, _PART), "is_whole": is_shown_whole(record, mask, _PART)},
            most_offsets=_MOST_OFFSETS,
        )
        try:
            found = search.run(self._settings, topic, SECONDS)
        except NotFoundException:  # no record has failed yet
            return DeadLetters(topic, has_headers, [], True, 0)
        replayed = self._replayed(name, topic)
        for row in found.kept:
            row["is_replayed"] = row["offset"] in replayed.get(row["partition"], ())
        rows = fitting(list(reversed(found.kept)), MOST_BYTES)
        return DeadLetters(topic, has_headers, rows, found.is_whole, len(found.kept) - len(rows))


def fitting(rows: Sequence[Mapping[str, Any]], most_bytes: int) -> list[Mapping[str, Any]]:
    """The first of ``rows`` that fit into ``most_bytes`` of JSON."""
    fit, left = list[Mapping[str, Any]](), most_bytes
    for row in rows:
        left -= len(json.dumps(row))
        if left < 0:
            break
        fit.append(row)
    return fit
