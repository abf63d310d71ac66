"""The changes of the config topic, each a compare-and-set on the newest state.

Each verb passes a rule to ``change``: a function of the newest state that returns the records to write. The rule runs again if another
writer was faster, so it must depend only on the state.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

from airflow_provider_connect.errors import AlreadyExistsException, ConflictException, FencedException, NotFoundException
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.config_snapshot import ConfigSnapshot
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.records import (
    CommitRecord,
    ConfigRecord,
    ConnectorRecord,
    FencingRecord,
    NoteKind,
    NoteRecord,
    RestartRecord,
    TargetStateRecord,
    TaskRecord,
    UpgradeRecord,
)
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores.config_follower import ConfigFollower
from airflow_provider_connect.runtime.stores.log_consumer import Closing

Decide = Callable[[ClusterConfigState], Sequence[ConfigRecord]]


class ConfigChanges(Closing):
    """Implements the verbs by ``change``. Also reads the state."""

    @abstractmethod
    def read(self, timeout_seconds: float | None = None) -> ClusterConfigState:
        """The state with all records that were committed before the call."""

    def snapshot(self) -> ConfigSnapshot | None:
        """The state as read so far, from which another process can continue. None: nothing was read yet. Does not read."""
        return None

    @abstractmethod
    def follow(self, connector: str, claim: Claim) -> ConfigFollower:
        """Returns a follower of the connector's changes since ``claim``. It is for a task body, which closes it."""

    @abstractmethod
    def change(self, decide: Decide) -> list[int]:
        """Writes all records that ``decide`` returns for the newest state, or none. Returns their offsets. Empty: there was nothing to
        write."""

    @abstractmethod
    def topic_id(self) -> str:
        """The id of the config topic, which is part of each claim."""

    def create_connector(
        self, name: str, config: Mapping[str, str], initial_state: TargetState | None = None, *, author: str | None = None
    ) -> None:
        """Raises AlreadyExistsException."""

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            if name in state:
                raise AlreadyExistsException(f"Connector {name} already exists")
            return _with_state(name, config, initial_state, author)

        self.change(decide)

    def put_connector(
        self, name: str, config: Mapping[str, str], *, expected: Mapping[str, str] | None = None, author: str | None = None
    ) -> None:
        """Creates the connector or replaces its config, and keeps its target state.

        ``expected`` is the config on which the new one is based. Raises ConflictException if the connector now has another config.
        """

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            if expected is not None and state.connector_config(name) != dict(expected):
                raise ConflictException(f"The config of connector {name} was changed by another client meanwhile; read it and retry")
            return [ConnectorRecord(name, dict(config), author=author)]

        self.change(decide)

    def put_target_state(self, connector: str, target: TargetState, *, author: str | None = None) -> None:
        """Writes the target state. For STOPPED, also writes an empty task set. Skips values that are set already. Raises
        NotFoundException."""

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            _require(state, connector)
            records: list[ConfigRecord] = []
            if state.target_state(connector) is not target:
                records.append(TargetStateRecord(connector, target, author=author))
            if target is TargetState.STOPPED and (state.tasks(connector) or connector in state.inconsistent):
                records.append(CommitRecord(connector, 0))
            return records

        self.change(decide)

    def put_tasks(
        self, connector: str, configs: Sequence[Mapping[str, str]], claim: Claim, *, planned_from: Mapping[str, str] | None = None
    ) -> bool:
        """Publishes the task set that the holder of ``claim`` planned. False: the task set was already published, and it came from the same
        config.

        ``planned_from`` is the config from which the tasks were planned. Raises FencedException, and writes nothing, for an older claim, or
        if the connector was stopped, deleted or reconfigured meanwhile.
        """

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            _require_claim(state, connector, claim)
            if state.connector_config(connector) is None:
                raise FencedException(f"Connector {connector} was deleted while its tasks were planned")
            if state.target_state(connector) is TargetState.STOPPED:
                raise FencedException(f"Connector {connector} was stopped while its tasks were planned")
            if planned_from is not None and state.connector_config(connector) != dict(planned_from):
                raise FencedException(f"The config of connector {connector} was changed while its tasks were planned")
            if _published(state, connector, configs):
                return []
            tasks = [TaskRecord(ConnectorTaskId(connector, number), dict(config)) for number, config in enumerate(configs)]
            return [*tasks, CommitRecord(connector, len(configs))]  # commit record last: a reader must never apply half a set

        return bool(self.change(decide))

    def claim(self, connector: str, *, owner: str | None = None, again: bool = False) -> Claim:
        """Claims the connector. The claim fences every earlier claim. Raises NotFoundException.

        ``owner`` identifies the run that makes the claim. None: a verb makes it. ``again``: the run has claimed the connector before. Then
        raises FencedException, and claims nothing, if another run has claimed the connector since. A verb's claim does not count.
        """

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            _require(state, connector)
            newest = state.owners.get(connector)
            if again and newest is not None and newest != owner:
                raise FencedException(f"claim {state.claims[connector]} of connector {connector} is a newer run's")
            return [FencingRecord(connector, state.ids_alive(connector), owner=owner)]

        return Claim(self.change(decide)[0], self.topic_id())

    def put_successor(self, connector: str, successor: str | None, claim: Claim) -> None:
        """The holder of ``claim`` offers the connector to the next run (empty), or withdraws the offer (None). Raises FencedException."""

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            _require_claim(state, connector, claim)
            owner = state.owners.get(connector)
            return [FencingRecord(connector, state.ids_alive(connector), claim, owner=owner, successor=successor)]

        self.change(decide)

    def request_handover(self, connector: str, owner: str) -> bool:
        """The run ``owner``, which is ready to take over, asks the connector's run to hand it over. False: that run does not offer it, or
        the connector is not STARTED."""

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            if connector not in state.successors or state.target_state(connector) is not TargetState.STARTED:
                return []
            count, claim = state.ids_alive(connector), state.claims[connector]
            return [FencingRecord(connector, count, claim, owner=state.owners.get(connector), successor=owner)]

        return bool(self.change(decide))

    def hand_over(self, connector: str, claim: Claim) -> bool:
        """Claims the connector for the run that has asked for it. The holder of ``claim`` calls it when its tasks have ended. False: no run
        has asked, or the connector is not STARTED. Raises FencedException."""

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            _require_claim(state, connector, claim)
            successor = state.successors.get(connector)
            if not successor or state.target_state(connector) is not TargetState.STARTED:
                return []
            return [FencingRecord(connector, state.ids_alive(connector), owner=successor)]

        return bool(self.change(decide))

    def put_fencing_count(self, connector: str, count: int, claim: Claim) -> None:
        """Writes how many task ids may be alive, after the holder of ``claim`` has fenced the others. Raises FencedException."""

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            _require_claim(state, connector, claim)
            if state.fencing_counts.get(connector) == count and connector not in state.pending_fencing:
                return []
            owner, successor = state.owners.get(connector), state.successors.get(connector)
            return [FencingRecord(connector, count, claim, owner=owner, successor=successor)]

        self.change(decide)

    def delete_connector(self, connector: str) -> None:
        """Removes config and target state. Records of tasks and claims remain, as in Connect. Raises NotFoundException."""

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            _require(state, connector)
            forgotten = [UpgradeRecord(connector, None)] if connector in state.upgrades else []
            return [ConnectorRecord(connector, None), TargetStateRecord(connector, None), *forgotten]

        self.change(decide)

    def put_note(
        self,
        connector: str,
        note: str | None,
        kind: NoteKind = NoteKind.MISSING,
        *,
        of: Mapping[str, str],
        instead_of: str | None = None,
    ) -> None:
        """Writes a note about why the connector with the raw config ``of`` delivers nothing. None: not for this ``kind`` of reason. Does
        nothing if the same note is set, or the config has changed. ``instead_of``: also does nothing unless this note is set."""

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            known = state.notes_of(kind).get(connector)
            is_current = state.connector_config(connector) == dict(of) and instead_of in (None, known)
            return [NoteRecord(connector, note, kind)] if is_current and known != note else []

        self.change(decide)

    def put_restart(self, request: RestartRecord) -> None:
        """Writes a restart request, for real workers on the same topics. Raises NotFoundException."""

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            _require(state, request.connector)
            return [request]

        self.change(decide)


def _with_state(name: str, config: Mapping[str, str], initial_state: TargetState | None, author: str | None) -> list[ConfigRecord]:
    record = ConnectorRecord(name, dict(config), author=author)
    return [record] if initial_state is None else [TargetStateRecord(name, initial_state, author=author), record]


def _require(state: ClusterConfigState, connector: str) -> None:
    if connector not in state:
        raise NotFoundException(f"Connector {connector} not found")


def _require_claim(state: ClusterConfigState, connector: str, claim: Claim) -> None:
    newest = state.claims.get(connector)
    if newest != claim:
        raise FencedException(f"Claim {claim} of connector {connector} is not the newest, {newest} is")


def _published(state: ClusterConfigState, connector: str, configs: Sequence[Mapping[str, str]]) -> bool:
    """Whether the committed tasks are exactly ``configs``, and were planned from the connector's current config."""
    if connector in state.inconsistent or state.applied_configs.get(connector) != state.connector_config(connector):
        return False
    tasks = [state.task_config(connector, task) for task in state.tasks(connector)]
    return tasks == [dict(config) for config in configs]
