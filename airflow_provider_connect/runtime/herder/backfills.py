"""Creates backfills as connectors, and reports their progress.

The live connector is never changed. A backfill is checked, written and started like any other connector, under its own name.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import closing

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import BadRequestException, ConfigException, ConnectException
from airflow_provider_connect.runtime.config.client_settings import refused_overrides
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.connectors import ConnectorConfigs, RestoreSecrets
from airflow_provider_connect.runtime.herder.offsets import OffsetKeeper
from airflow_provider_connect.runtime.herder.snapshot import Topics, config_of
from airflow_provider_connect.runtime.model.backfill import (
    MOST_RANGES,
    OF,
    RANGES,
    TOPIC_IDS,
    Ranges,
    backfill_name,
    changed_config,
    is_backfill_of,
    known_ranges,
    ranges_text,
    topic_ids_text,
)
from airflow_provider_connect.runtime.model.backfill_request import (
    AskedRange,
    Backfill,
    BackfillRange,
    BackfillRequest,
    bounded_range,
    chosen_partitions,
)
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.ids import consumer_group
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.plugins.validation.delivery_checks import GROUP
from airflow_provider_connect.runtime.stores.admin_connection import AdminConnection
from airflow_provider_connect.runtime.stores.offset_location import sink_admin_overrides
from airflow_provider_connect.runtime.stores.sink_lag import committed_positions, topics_of_sink
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin

MOST_SHOWN = 100
"""The maximum number of backfills listed per connector, because the offsets of each are read from Kafka."""
_ANSWER_SECONDS = 10.0
_log = logging.getLogger(__name__)
_VERSION = "connector.plugin.version"


class Backfills:
    """See the module."""

    def __init__(self, settings: WorkerSettings, topics: Topics, connectors: ConnectorConfigs, offsets: OffsetKeeper) -> None:
        self._settings = settings
        self._reader = topics.reader
        self._connectors = connectors
        self._offsets = offsets

    def create(
        self, connector: str, request: BackfillRequest, restore: RestoreSecrets, *, dry_run: bool = False, author: str | None = None
    ) -> Backfill:
        """Steps: 1 derive the config from the connector's, with clients limited by the override policy; 2 resolve its ranges to offsets; 3
        check it; 4 write it, which starts a run. A dry run ends before step 4.

        ``restore`` puts secrets into the changes and refuses changes that would send a secret elsewhere. Raises NotFoundException,
        BadRequestException for ranges that cannot be delivered, AlreadyExistsException for an existing id, ConfigException for an invalid
        config.
        """
        state = self._reader.configs()
        name = backfill_name(connector, request.id)
        raw = config_of(state, connector)
        config = self._config(state, name, connector, request, restore)  # 1
        self._refuse_overrides(config)
        read = {**config, **{key: text for key, text in raw.items() if key in ("topics", "topics.regex")}}
        ranges, ids = self._ranges(name, read, request.ranges)  # 2
        if ranges:
            topics = sorted({at.topic for at in ranges})
            noted = topic_ids_text({topic: ids[topic] for topic in topics if topic in ids})
            config |= {RANGES: ranges_text(ranges), TOPIC_IDS: noted, "topics": ",".join(topics)}
        if dry_run:
            self._connectors.check(name, config)  # 3
        else:
            self._connectors.create(name, config, None, author)  # 3, 4
        return _view(name, connector, State.UNASSIGNED, ranges, {})

    def list_for(self, connector: str) -> list[Backfill]:
        """The last ``MOST_SHOWN`` existing backfills of the connector, by name. Raises NotFoundException if neither the connector nor any
        backfill of it exists."""
        state = self._reader.configs()
        names = sorted(name for name, config in state.connector_configs.items() if is_backfill_of(connector, name, config))
        if not names:
            config_of(state, connector)
        return [self._read(name, connector, state.connector_configs[name]) for name in names[-MOST_SHOWN:]]

    def _config(
        self, state: ClusterConfigState, name: str, connector: str, request: BackfillRequest, restore: RestoreSecrets
    ) -> dict[str, str]:
        """The config as it will be stored, but without its ranges. The plugin's version is the one that runs now."""
        raw = config_of(state, connector)
        config = changed_config(name, connector, raw, restore(request.changes, raw) if request.changes else {})
        version = state.version_in_force(connector)
        if version is not None and _VERSION not in request.changes:
            config[_VERSION] = version
        if GROUP not in config and self._settings.values.get("consumer.group.id"):
            config[GROUP] = consumer_group(name)  # all sinks of the worker share its group
        return config

    def _refuse_overrides(self, config: Mapping[str, str]) -> None:
        """Called before a client is created, because the server that an override names would receive the values of the config's
        variables."""
        refused = [f"{key}: {text}" for key, text in refused_overrides(self._settings, config).items()]
        if refused:
            raise ConfigException("\n".join(refused), errors=refused)

    def _ranges(self, name: str, config: Mapping[str, str], asked: Sequence[AskedRange]) -> tuple[Ranges, Mapping[str, str]]:
        """The requested ranges as offsets that the brokers now hold, and the topics' ids. Empty for a source, because its own settings are
        the bounds."""
        resolved = self._offsets.sink_config(name, config)
        if resolved is None and any(each != AskedRange() for each in asked):
            raise BadRequestException(
                f"Connector {config[OF]} is a source, and only a sink has ranges of topics: bound the backfill by settings of the source, "
                "such as rows.from and rows.to of JdbcSource. Of a source without such settings, stop it and change its offsets"
            )
        if resolved is None:
            return {}, {}
        if not asked:
            raise BadRequestException("Give at least one range: of a sink that reads one topic, an empty range means the whole topic")
        connection = AdminConnection.of(self._settings, sink_admin_overrides(resolved), _ANSWER_SECONDS)
        with closing(connection):
            admin = TopicAdmin(self._settings, connection=connection)
            counts, found = topics_of_sink(resolved, admin), dict[TopicPartition, tuple[int, int]]()
            if counts is None:
                raise BadRequestException(f"Connector {config[OF]} names neither topics nor topics.regex")
            ids = admin.topic_ids(counts)  # before the offsets
            for each in asked:
                for at, range_ in _bounded(each, counts, admin).items():
                    if at in found:
                        raise BadRequestException(f"Give one range of {at}, not several: a backfill each")
                    found[at] = range_
        if not found:
            raise BadRequestException("There are no records in these ranges")
        if len(found) > MOST_RANGES:
            raise BadRequestException(f"These are ranges of {len(found)} partitions, and a backfill takes {MOST_RANGES} at the most")
        return found, ids

    def _read(self, name: str, connector: str, config: Mapping[str, str]) -> Backfill:
        ranges = known_ranges(config)
        positions = self._positions(name) if ranges else {}
        statuses = self._reader.read().statuses
        known = statuses.connector(name)
        states = [*(task.state for task in statuses.tasks_of(name)), *([known.state] if known else [])]
        state = State.FAILED if State.FAILED in states else known.state if known else State.UNASSIGNED
        return _view(name, connector, state, ranges, positions)

    def _positions(self, name: str) -> dict[TopicPartition, int]:
        """The positions that a backfill has committed. Empty if its group cannot be read, so that the other backfills are still listed."""
        try:
            return committed_positions(self._offsets.offsets(name))
        except ConnectException as error:
            _log.warning("The progress of backfill %s is unknown: %s", name, error.message)
            return {}


def _view(name: str, connector: str, state: State, ranges: Ranges, positions: Mapping[TopicPartition, int]) -> Backfill:
    if not ranges:
        return Backfill(name, connector, str(state), None, None, [])
    shown, left = [], 0
    for at, (first, end) in sorted(ranges.items()):
        committed = positions.get(at, first)
        position = committed if first <= committed <= end else first  # a task starts in the same way
        left += end - position
        shown.append(BackfillRange.of_sink(at, first, end, position))
    return Backfill(name, connector, str(state), left == 0, left, shown)


def _bounded(asked: AskedRange, counts: Mapping[str, int], admin: TopicAdmin) -> dict[TopicPartition, tuple[int, int]]:
    partitions = chosen_partitions(asked, counts)
    beginnings, ends = admin.beginning_offsets(partitions), admin.end_offsets(partitions)
    instants = {ms: admin.offsets_from(partitions, ms) for ms in set(asked.instants())}
    found = {}
    for at in partitions:
        offsets_at = {ms: min(offsets.get(at, ends[at]), ends[at]) for ms, offsets in instants.items()}
        range_ = bounded_range(at, asked, (beginnings[at], ends[at]), offsets_at)
        if range_ is not None:
            found[at] = range_
    return found
