"""The offsets of connectors as users read and change them (KIP-875). They can be read in any state, but altered and reset only for STOPPED
connectors.

A change has these steps. A process that dies before the last step has changed nothing.

1. The connector is STOPPED, has no tasks, and none of its applications is alive.
2. Every transactional id that may be alive is fenced.
3. A claim with the count 0 is written, by compare-and-set on the state of step 1: from then on, no process commits for the connector's
   tasks.
4. The connector's own ``alter_offsets`` is called. For a Python sink, it is called after step 5.
5. The new offsets are written in one transaction. Just before its commit, steps 1 and 3 are checked again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeVar

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import (
    BadRequestException,
    ConflictException,
    ConnectException,
    FencedException,
    NotFoundException,
    RetriableException,
    StoreTimeoutException,
)
from airflow_provider_connect.runtime.config import config_providers
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.lifecycle import wait_until
from airflow_provider_connect.runtime.herder.plugin_facts import PluginFacts
from airflow_provider_connect.runtime.herder.ports import Launcher, Pair, Probe
from airflow_provider_connect.runtime.herder.sink_offsets import SinkOffsetChanges
from airflow_provider_connect.runtime.herder.snapshot import Topics, config_of
from airflow_provider_connect.runtime.herder.source_offsets import SourceOffsetChanges
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.ids import consumer_group
from airflow_provider_connect.runtime.model.offsets import ALTERED, ALTERED_INSIDE, NONE_GIVEN, NOT_STOPPED, RESET, RESET_INSIDE
from airflow_provider_connect.runtime.model.records import ConfigRecord, FencingRecord
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.views import OffsetView
from airflow_provider_connect.runtime.plugins.validation.delivery_checks import TOPIC_SETTINGS
from airflow_provider_connect.runtime.stores.backing import Backing
from airflow_provider_connect.runtime.stores.group_offsets import GroupOffsets
from airflow_provider_connect.runtime.stores.offset_location import is_elsewhere, sink_overrides
from airflow_provider_connect.runtime.stores.transactional_producer import Fence

_END_SECONDS = 10.0
_ATTEMPTS = 5

log = logging.getLogger(__name__)

_Text = TypeVar("_Text", str, str | None)
Kinds = SourceOffsetChanges | SinkOffsetChanges
Resolve = Callable[[Mapping[str, str]], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class OffsetsNow:
    """The current offsets and their topics. A source's offsets are on ``topics``; the last topic takes precedence. A sink's offsets are in
    its group and in the batch log."""

    offsets: list[OffsetView]
    topics: list[str]
    is_sink: bool

    @classmethod
    def of(cls, kind: Kinds, settings: WorkerSettings) -> Self:
        if isinstance(kind, SinkOffsetChanges):
            return cls(kind.read(), [settings.batch_topic], True)
        return cls(kind.read(), list(dict.fromkeys([settings.offset_topic, kind.topic])), False)

    @property
    def topic(self) -> str:
        """The topic that takes precedence."""
        return self.topics[-1]


class OffsetKeeper:
    """See the module. Safe to share between threads. Concurrent changes of a connector are serialized.

    ``facts_of`` returns the facts of a config's plugin. ``resolve`` replaces the variables of a config that has its ``name``. None: the
    worker's config providers do. ``probe`` None: connectors are not asked, because their code is not available.
    """

    def __init__(
        self,
        settings: WorkerSettings,
        backing: Backing,
        topics: Topics,
        launcher: Launcher,
        *,
        probe: Probe | None,
        facts_of: Callable[[Mapping[str, str]], PluginFacts],
        resolve: Resolve | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._backing = backing
        self._configs, self._reader = topics
        self._facts_of = facts_of
        self._launcher = launcher
        self._probe = probe
        self._resolve = resolve or (lambda raw: config_providers.resolve(raw, settings.config_providers(raw["name"])))
        self._sleep = sleep
        self._lock = threading.Lock()
        self._changing: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def offsets(self, name: str) -> list[OffsetView]:
        """The offsets that the connector's tasks have committed. Raises NotFoundException, ConnectException with Connect's texts."""
        config = config_of(self._reader.configs(), name)
        with closing(self._kind(name, config)) as kind:
            return kind.read()

    def sink_positions(self, configs: Mapping[str, Mapping[str, str]]) -> dict[str, dict[TopicPartition, int]]:
        """The positions of the sinks among ``configs`` in their groups. Empty positions: the group has no offset. Sinks whose group cannot
        be read now, or that read another cluster than the worker's, are left out."""
        groups: dict[str, str] = {}
        for name, config in configs.items():
            with suppress(ConnectException):  # a variable without a value, or a forbidden override
                if self._is_sink(self._resolved(name, config, _is_of_type)):
                    clients = self._resolved(name, config, _is_of_group)
                    if not is_elsewhere(self._settings, sink_overrides(clients)):
                        groups[name] = consumer_group(name, clients, self._settings.values)
        if not groups:
            return {}
        with closing(GroupOffsets(self._settings)) as reader:
            found = reader.committed_now(set(groups.values()))
        return {name: {at: each.offset for at, each in found[group].items()} for name, group in groups.items() if group in found}

    def reads_elsewhere(self, name: str, config: Mapping[str, str]) -> bool:
        """Whether the sink's consumers use another cluster than the worker. Resolves no secret of its config."""
        return is_elsewhere(self._settings, sink_overrides(self._resolved(name, config, _is_of_group)))

    def sink_config(self, name: str, config: Mapping[str, str]) -> Mapping[str, str] | None:
        """The settings that decide which topics of which cluster a sink reads, with their variables resolved. None: it is a source."""
        resolved = self._resolved(name, config, lambda key: _is_of_type(key) or ".override." in key)
        return resolved if self._is_sink(resolved) else None

    def with_topics(self, name: str, config: Mapping[str, _Text]) -> Mapping[str, _Text]:
        """``config`` with the variables in its topic names resolved. Topic names are not secret. Unchanged if the variables cannot be
        resolved."""
        named = {key: text for key in TOPIC_SETTINGS if (text := config.get(key)) and config_providers.variables({key: text})}
        if named:
            with suppress(ConnectException):
                return {**config, **self._resolve({"name": name, **named})}
        return config

    def values_of(self, name: str, variables: Sequence[str]) -> list[str]:
        """The values of the variables for connector ``name``, in order. A variable of an unknown provider is left unchanged. Raises
        ConfigException."""
        found = self._resolve({"name": name} | {str(number): text for number, text in enumerate(variables)})
        return [found[str(number)] for number in range(len(variables))]

    def now(self, name: str) -> OffsetsNow:
        """The offsets, as ``offsets`` returns them, with their topics."""
        config = config_of(self._reader.configs(), name)
        with closing(self._kind(name, config)) as kind:
            return OffsetsNow.of(kind, self._settings)

    def alter(self, name: str, offsets: Sequence[OffsetView], author: str | None = None) -> str:
        """Set these offsets, and keep the offsets of other partitions. None removes an offset. Returns the message for the user. ``author``
        is the user, for the history.

        Raises BadRequestException (invalid offsets, or the connector is not STOPPED), NotFoundException, ConflictException (a concurrent
        change), ConnectException.
        """
        if not offsets:
            raise BadRequestException(NONE_GIVEN)
        return ALTERED if self._change(name, lambda kind: kind.request_alteration(offsets), author) else ALTERED_INSIDE

    def alter_by(self, name: str, decide: Callable[[OffsetsNow], Sequence[OffsetView]], author: str | None = None) -> str | None:
        """As ``alter``, with the offsets that ``decide`` returns. ``decide`` gets the current offsets, after every task is fenced. If it
        returns no offsets, nothing is changed and the message is None. If it raises, nothing is changed."""
        with self._lock:
            changing = self._changing[name]
        with changing:
            config = self._require_ended(name)
            with closing(self._kind(name, config, author)) as kind:
                claim = self._claim(name, kind)
                offsets = decide(OffsetsNow.of(kind, self._settings))
                if not offsets:
                    return None
                kind.request_alteration(offsets)
                return ALTERED if self._written(name, kind, claim) else ALTERED_INSIDE

    def reset(self, name: str, author: str | None = None) -> str:
        """Remove every offset. Returns and raises as ``alter`` does."""
        return RESET if self._change(name, lambda kind: kind.request_reset(), author) else RESET_INSIDE

    def repair(self, name: str) -> None:
        """After a stop: end the transactions that tasks left open, and overwrite a source's aborted offsets with the committed ones.
        Readers that do not distinguish aborted from committed offsets (a real worker without exactly-once support) need this. Does nothing
        unless the connector is STOPPED.

        Raises StoreTimeoutException, and ConflictException after a concurrent change.
        """
        state = self._reader.configs()
        config = state.connector_config(name)
        if config is None or state.target_state(name) is not TargetState.STOPPED:
            return
        claim = state.claims.get(name)
        if claim is None or not self._backing.exactly_once:
            return
        with closing(self._kind(name, config)) as kind:
            self._fence(name, state.ids_alive(name), kind)
            kind.repair(lambda: self._check(name, claim))

    def _change(self, name: str, want: Callable[[Kinds], None], author: str | None) -> bool:
        with self._lock:
            changing = self._changing[name]
        with changing:
            config = self._require_ended(name)  # 1
            with closing(self._kind(name, config, author)) as kind:
                want(kind)
                claim = self._claim(name, kind)  # 2, 3
                return self._written(name, kind, claim)  # 4, 5

    def _written(self, name: str, kind: Kinds, claim: Claim) -> bool:
        try:
            agreed = kind.write(claim, lambda: self._check(name, claim))
        except FencedException as error:
            text = f"The offsets of connector {name} were being changed by another process at the same time"
            raise ConflictException(text) from error
        if kind.note is not None:
            self._configs.put_note(name, kind.note, of=config_of(self._reader.configs(), name))
        return agreed

    # ── 1 ──

    def _require_ended(self, name: str) -> Mapping[str, str]:
        """The config of a connector that is STOPPED. Waits for the end of its last application."""
        config = _require_stopped(self._read(), name)
        limit = self._settings.task_shutdown_graceful_timeout_ms / 1000 + _END_SECONDS
        if wait_until(lambda: not self._launcher.is_running(name), limit, self._sleep):
            return config
        raise ConflictException(
            f"Connector {name} is stopped, but its run has not ended yet; try again, or stop it again to have the run ended"
        )

    def _read(self) -> ClusterConfigState:
        try:
            return self._reader.configs()
        except StoreTimeoutException as error:
            raise StoreTimeoutException(f"Failed to read to end of config topic before modifying connector offsets: {error}") from error

    # ── 2, 3 ──

    def _claim(self, name: str, kind: Kinds) -> Claim:
        """Write the claim of this change. If there is a concurrent claim, everything is checked again, because that claim has started tasks
        or changed offsets."""
        for _ in range(_ATTEMPTS):
            state = self._read()
            _require_stopped(state, name)
            self._fence(name, state.ids_alive(name), kind)
            claim = self._claim_no_tasks(name, state.claims.get(name))
            if claim is not None:
                return claim
        raise ConflictException(f"Connector {name} is being changed by other processes all the time; retry later")

    def _fence(self, name: str, alive: int, kind: Kinds) -> None:
        if not kind.has_transactional_ids:
            return
        try:
            Fence(self._settings).fence(name, range(alive), kind.transaction_overrides)
        except RetriableException as error:
            text = f"Failed to perform zombie fencing for {kind.word} connector prior to modifying offsets"
            raise StoreTimeoutException(f"{text}: {error}", stage="fencing") from error

    def _claim_no_tasks(self, name: str, seen: Claim | None) -> Claim | None:
        """Write that no task id is alive. None: the claim is no longer the one that was ``seen``."""
        was_seen = False

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            nonlocal was_seen
            _require_stopped(state, name)
            was_seen = state.claims.get(name) == seen
            return [FencingRecord(name, 0)] if was_seen else []

        offsets = self._configs.change(decide)
        return Claim(offsets[0], self._configs.topic_id()) if was_seen and offsets else None

    # ── 4, 5 ──

    def _check(self, name: str, claim: Claim) -> None:
        """Raise unless the connector is still STOPPED and no other process has claimed it."""
        state = self._read()
        _require_stopped(state, name)
        if state.claims.get(name) != claim:
            raise ConflictException(
                f"Connector {name} was claimed by another process while its offsets were being changed; nothing was changed"
            )

    def _kind(self, name: str, config: Mapping[str, str], author: str | None = None) -> Kinds:
        resolved = self._resolve({**config, "name": name})
        ask = partial(ask_connector, self._probe, name, config)
        if self._is_sink(resolved):
            asks_first = self._facts_of(resolved).is_java
            return SinkOffsetChanges(self._settings, self._backing, name, resolved, ask=ask, asks_first=asks_first, author=author)
        return SourceOffsetChanges(self._settings, self._backing, name, resolved, ask=ask, author=author)

    def _resolved(self, name: str, config: Mapping[str, str], is_needed: Callable[[str], bool]) -> Mapping[str, str]:
        """The required settings with their variables resolved. Calls no provider if these settings have no variables."""
        needed = {key: text for key, text in config.items() if is_needed(key)} | {"name": name}
        return self._resolve(needed) if config_providers.variables(needed) else needed

    def _is_sink(self, resolved: Mapping[str, str]) -> bool:
        known = self._facts_of(resolved).type
        return known == "sink" or (known != "source" and ("topics" in resolved or "topics.regex" in resolved))


def _is_of_type(key: str) -> bool:
    """Whether the setting decides if the connector is a sink."""
    return key.startswith("connector.") or key in ("topics", "topics.regex")


def _is_of_group(key: str) -> bool:
    """Whether the setting decides in which group, and on which cluster, a sink commits."""
    return key.endswith((".override.group.id", ".override.bootstrap.servers"))


def _require_stopped(state: ClusterConfigState, name: str) -> Mapping[str, str]:
    config = config_of(state, name)
    if state.target_state(name) is not TargetState.STOPPED or state.task_counts.get(name, 0):
        raise BadRequestException(NOT_STOPPED.format(name))
    return config


def ask_connector(probe: Probe | None, name: str, config: Mapping[str, str], word: str, offsets: Sequence[Pair]) -> bool:
    """Call ``alter_offsets`` of connector ``name``. Returns whether the connector confirmed that it has also changed the offsets that it
    keeps itself. False without a probe.

    ``word`` is source or sink. Raises BadRequestException, with the connector's own text, for offsets that it refuses. Raises
    ConnectException if it accepts no offsets at all, or failed.
    """
    if probe is None:
        return False
    try:
        return probe.alter_offsets(name, config, offsets)
    except NotImplementedError as error:
        text = f"Failed to modify offsets for connector {name} because it doesn't support external modification of offsets"
        raise ConnectException(text) from error
    except RetriableException as error:
        raise StoreTimeoutException(f"Timed out while calling the 'alterOffsets' method for {word} connector {name}: {error}") from error
    except NotFoundException:
        raise
    except ConnectException as error:
        raise BadRequestException(error.message) from error
    except Exception as error:
        raise ConnectException(f"Failed to modify offsets for {word} connector {name}") from error
