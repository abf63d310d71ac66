"""Creates, changes and deletes connectors: their configs on the config topic, and the effects of a change.

The first step of each verb, a compare-and-set of the config topic, decides. The reconciler completes the steps that a killed process left
undone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping

from airflow_provider_connect.data.java_text import BLANKS
from airflow_provider_connect.errors import AlreadyExistsException, ConflictException
from airflow_provider_connect.runtime.config.dag_settings import DEFINED_IN, RELEASED, DagCheck
from airflow_provider_connect.runtime.herder import checks
from airflow_provider_connect.runtime.herder.lifecycle import Lifecycle
from airflow_provider_connect.runtime.herder.ports import Probe
from airflow_provider_connect.runtime.herder.snapshot import Topics, config_of
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.contradictions import unconsumed_topics
from airflow_provider_connect.runtime.model.records import (
    ConfigRecord,
    ConnectorRecord,
    NoteKind,
    NoteRecord,
    TargetStateRecord,
    UpgradeRecord,
)
from airflow_provider_connect.runtime.model.states import TargetState

RestoreSecrets = Callable[[checks.Given, Mapping[str, str]], checks.Given]
"""Inserts secrets into a patch, given the stored config. Raises ConfigException if a secret may not be used there."""

_PATCH_SECONDS = 60.0

_log = logging.getLogger(__name__)


class ConnectorConfigs:
    """See the module. ``with_topics`` resolves the variables in a config's topics. ``now`` is a monotonic clock, in seconds."""

    def __init__(
        self,
        topics: Topics,
        lifecycle: Lifecycle,
        probe: Probe | None,
        dag_check: DagCheck,
        *,
        with_topics: checks.WithTopics = lambda _, config: config,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._configs, self._reader = topics
        self._lifecycle = lifecycle
        self._probe = probe
        self._dag_check = dag_check
        self._with_topics = with_topics
        self._now = now

    def create(
        self, name: str, config: checks.Given, initial_state: TargetState | None = None, author: str | None = None
    ) -> checks.AcceptedConfig:
        """Returns the stored config. ``author``, here and below, is the user.

        Raises AlreadyExistsException, and for an invalid config the exceptions of ``checks``.
        """
        name = name.strip(BLANKS)
        others = self._reader.configs().connector_configs
        new = self._check(name, checks.with_name(name, config), others)
        self._configs.create_connector(name, new.config, initial_state, author=author)
        self._lifecycle.created(name)
        return new

    def _check(self, name: str, config: checks.Given, others: Mapping[str, Mapping[str, str]]) -> checks.AcceptedConfig:
        return checks.check_config(name, config, self._probe, self._dag_check, others, with_topics=self._with_topics)

    def check(self, name: str, config: checks.Given) -> None:
        """Raise the exceptions of ``create`` without writing."""
        state = self._reader.configs()
        self._check(name, checks.with_name(name, config), state.connector_configs)
        if name in state:
            raise AlreadyExistsException(f"Connector {name} already exists")

    def put(
        self,
        name: str,
        config: checks.Given,
        author: str | None = None,
        *,
        require: Callable[[Mapping[str, str] | None], None] = lambda _: None,
    ) -> tuple[checks.AcceptedConfig, bool]:
        """Returns the stored config, and whether the connector is new. Target state and ``airflow.*`` keys are kept.

        Raises ConflictException for a connector that a DAG file defines. ``require`` is called with the replaced config, and its exceptions
        are raised.
        """
        state = self._reader.configs()
        known, others = state.connector_config(name), state.connector_configs
        checks.require_own(name, known)
        new = self._check(name, checks.with_own_keys(checks.with_name(name, config), known), others)
        old = self._write(name, new.config, author, require)
        self._follow(name, old, new.config)
        return new, old is None

    def patch(self, name: str, patch: checks.Given, restore: RestoreSecrets, author: str | None = None) -> checks.AcceptedConfig:
        """Merge ``patch`` into the config. A concurrent change is merged, not overwritten. Returns the stored config.

        ``restore`` is called again for each config into which ``patch`` is merged. A secret of one config must not enter another config,
        which may have another address.
        """
        deadline = self._now() + _PATCH_SECONDS
        while True:
            state = self._reader.configs()
            known, others = config_of(state, name), state.connector_configs
            checks.require_own(name, known)
            checks.require_name_kept(patch)
            merged = checks.merge_patch(known, restore(patch, known))
            new = self._check(name, checks.with_name(name, merged), others)
            try:
                self._configs.put_connector(name, new.config, expected=known, author=author)
            except ConflictException:
                if self._now() > deadline:
                    raise
                continue
            self._follow(name, known, new.config)
            return new

    def define(self, name: str, config: Mapping[str, str], defined_in: str, version: str | None = None) -> None:
        """Create or change the connector that a DAG file defines. Writes nothing if the config is unchanged. Starts no run: the connector's
        schedule decides when one starts. The author is the file, with the ``version`` of its bundle if there is one.

        Raises ConfigException for a config that names a resource of another connector. The connector then keeps its config.
        """

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            checks.refuse_foreign(name, config, state, self._with_topics)
            return [ConnectorRecord(name, dict(config), author=author)]

        author = None if version is None else f"{defined_in}@{version}"
        state = self._reader.configs()
        known = state.connector_config(name)
        if known == dict(config):
            return
        checks.refuse_foreign(name, config, state, self._with_topics)
        if known is not None and (before := _state_before(known, config)) is not None:
            self._give_back(name, config, before, author)
            return
        owner = None if known is None else known.get(DEFINED_IN)
        if owner is not None and owner != defined_in:
            _log.info("Connector %s moves from %s to %s", name, owner, defined_in)
        self._configs.change(decide)
        if known is None:
            self._lifecycle.reach(name)
        else:
            self._forget_topics(name, config)

    def _give_back(self, name: str, config: Mapping[str, str], before: TargetState, author: str | None) -> None:
        """Called when the same definition has returned: restore the target state, unless another target state was requested since the
        connector was stopped."""

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            was_stopped = state.target_state(name) is TargetState.STOPPED
            states = [TargetStateRecord(name, before, author=author)] if was_stopped else []
            return [ConnectorRecord(name, dict(config), author=author), *states]

        self._configs.change(decide)
        _log.info("Connector %s: its DAG is back in %s, and it is %s again", name, config.get(DEFINED_IN), before)
        self._lifecycle.created(name)

    def note_state(self, name: str) -> None:
        """Called when the connector's DAG file was removed. Record the target state before the connector is stopped. The state is restored
        when the file returns."""

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            known, target = state.connector_config(name) or {}, state.target_state(name)
            if DEFINED_IN not in known or RELEASED in known or target is None:
                return []
            return [ConnectorRecord(name, {**known, RELEASED: str(target)})]

        self._configs.change(decide)

    def release(self, name: str) -> None:
        """Called when the connector's DAG file was removed. From now on REST may change its config."""

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            known = state.connector_config(name) or {}
            if DEFINED_IN not in known:
                return []
            return [ConnectorRecord(name, {key: value for key, value in known.items() if key != DEFINED_IN})]

        self._configs.change(decide)

    def delete(self, name: str, author: str | None = None) -> None:
        """Raises NotFoundException, and ConflictException for a connector that a DAG file defines."""

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            checks.require_own(name, config_of(state, name))
            forgotten: list[ConfigRecord] = [UpgradeRecord(name, None, author=author)] if name in state.upgrades else []
            forgotten += [NoteRecord(name, None, kind) for kind in NoteKind if name in state.notes_of(kind)]
            return [
                self._lifecycle.claim_record(state, name),
                ConnectorRecord(name, None, author=author),
                TargetStateRecord(name, None, author=author),
                *forgotten,
            ]

        self._configs.change(decide)
        self._lifecycle.deleted(name)

    def _write(
        self, name: str, config: Mapping[str, str], author: str | None, require: Callable[[Mapping[str, str] | None], None]
    ) -> dict[str, str] | None:
        """Returns the replaced config. None: the connector is new."""
        old: list[dict[str, str] | None] = []

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            known = state.connector_config(name)
            checks.require_own(name, known)
            require(known)
            old[:] = [known]
            return [ConnectorRecord(name, dict(config), author=author)]

        self._configs.change(decide)
        return old[0]

    def _follow(self, name: str, old: Mapping[str, str] | None, new: Mapping[str, str]) -> None:
        """Carry out the effects of a written config."""
        if old is None:
            self._lifecycle.created(name)
            return
        self._lifecycle.reconfigured(name, is_changed=dict(old) != dict(new))
        self._forget_topics(name, new)

    def _forget_topics(self, name: str, config: Mapping[str, str]) -> None:
        self._lifecycle.forget_topics(name, unconsumed_topics(self._reader.read().statuses.topics_of(name), config))


def _state_before(known: Mapping[str, str], config: Mapping[str, str]) -> TargetState | None:
    """The target state that was recorded when the DAG file was removed. None: no state was recorded, or the definition has changed."""

    def defined(values: Mapping[str, str]) -> dict[str, str]:
        return {key: value for key, value in values.items() if key not in (DEFINED_IN, RELEASED)}

    noted = known.get(RELEASED, "")
    return TargetState(noted) if noted in TargetState.__members__ and defined(known) == defined(config) else None
