"""Keeps paused flags and target states in agreement, and writes the configs that DAG files define to the config topic.

Knows nothing of threads and leases. Two processes may reconcile at the same time: each change is a compare-and-set of its row, flag or
record, or is idempotent.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import Protocol

from airflow_provider_connect.api_server.dags import ConnectorDagRow, ConnectorDags, Sessions, set_paused
from airflow_provider_connect.api_server.repeated_warnings import RepeatedWarnings
from airflow_provider_connect.api_server.runs import end_paused_runs, flag_author
from airflow_provider_connect.api_server.serialized_dags import definition, request_parse
from airflow_provider_connect.runtime.config.dag_settings import DEFINED_IN
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.sql_mirror.queries import Agreement, agreement_key, agreements, drop_agreement, move_agreement

_WATCH_SECONDS = 10.0
_NAMED = 20  # connectors named in one log line

_log = logging.getLogger(__name__)


class ConnectorControl(Protocol):
    """The part of the herder that the reconciler needs. Each change is a compare-and-set on the config topic."""

    def config_state(self) -> ClusterConfigState:
        """The connectors that exist, with their target states, as of now."""
        ...

    def define_connector(self, name: str, config: Mapping[str, str], defined_in: str, version: str | None = None) -> None:
        """Create the connector or change its config. Writes nothing if the topic already has this config. Raises ConfigException if the
        config names a resource of another connector."""
        ...

    def refused_definitions(self, names: Collection[str]) -> list[str]:
        """The connectors that are FAILED because the config in their DAG file was refused."""
        ...

    def accept_definition(self, name: str) -> None:
        """The connector's DAG file has a valid config: restart the connector if it FAILED because of its DAG file."""
        ...

    def note_state(self, name: str) -> None:
        """Record the target state, to restore it when the connector's DAG file returns."""
        ...

    def release_connector(self, name: str) -> None:
        """Note that no DAG file defines the connector any more."""
        ...

    def pause(self, name: str, *, keep_failed: bool = False, author: str | None = None) -> None: ...

    def resume(self, name: str, *, author: str | None = None) -> None: ...

    def stop(self, name: str) -> None: ...


class Step(StrEnum):
    """The action that makes flag and record agree."""

    NOTHING = "nothing"
    SET_FLAG = "set the flag"
    WRITE_RECORD = "write the record"
    NOTE = "note that they agree"


def next_step(paused: bool, target: TargetState, last: Agreement | None, *, is_new: bool = False) -> Step:
    """The next step. The flag or the record has changed if it differs from the last agreement. If only one of them has changed, it wins. If
    both have changed, or there is no agreement, the record wins.

    A connector that ``is_new`` was just created from its DAG, in the state STARTED. For such a connector the flag wins, because only a user
    can have set it. If a new connector is not STARTED, another client has already paused or stopped it.
    """
    if paused == (target is not TargetState.STARTED):
        return Step.NOTHING if last == Agreement(paused, target) else Step.NOTE
    record_changed = not (is_new and target is TargetState.STARTED) if last is None else target != last.target_state
    return Step.SET_FLAG if record_changed else Step.WRITE_RECORD


def connectors_to_release(gone_since: Mapping[str, float], *, now: float, grace_seconds: float, limit: int) -> set[str]:
    """The connectors with missing DAGs that are to be stopped and released. If more than ``limit`` DAGs are missing at the same time, the
    cause is probably a late mount, a moved folder or a bundle that was not fetched. In this case no connector is released."""
    if len(gone_since) > limit:
        return set()
    return {name for name, since in gone_since.items() if now - since >= grace_seconds}


def deletion_guard_warnings(count: int, limit: int) -> list[str]:
    """The warning if more than ``limit`` connectors have lost their DAGs. It names no connector, because some users who see it may not see
    all connectors."""
    if count <= limit:
        return []
    return [
        f"The DAGs of {count} connectors are gone at once, more than airflow.missing.dag.limit ({limit}), so none of them is stopped. "
        "Bring their files back; if they are gone for good, raise the limit or stop them over REST. The API server's log names them."
    ]


class Reconciler:
    """Stops a connector when its DAG has been gone for ``grace_seconds``, unless more than ``limit`` DAGs are gone. ``now`` is in seconds
    since 1970."""

    def __init__(
        self, control: ConnectorControl, sessions: Sessions, *, now: Callable[[], float], grace_seconds: float = 600.0, limit: int = 10
    ) -> None:
        self._control = control
        self._sessions = sessions
        self._now = now
        self._dags = ConnectorDags()
        self._defined: dict[str, str] = {}
        self._accepted: set[str] = set()  # connectors with a valid definition that may still be FAILED because of an earlier one
        self._new: set[str] = set()
        self._files: dict[str, tuple[str, str]] = {}  # the bundle and file that last defined each connector
        self._warnings = RepeatedWarnings(now=now)
        self._grace_seconds = grace_seconds
        self._limit = limit
        self._gone_since: dict[str, float] = {}
        self._watch_due = float("-inf")
        self.warnings: list[str] = []
        """Warnings for an admin: too many DAGs are gone at the same time. Updated even while another process has the lease."""

    def tick(self) -> None:
        """Compare all connectors and correct differences. Called every second by the process with the lease. Raises the stores' errors, but
        not errors of single connectors (``RepeatedWarnings``)."""
        with self._sessions() as session:
            dags, last = self._dags.read(session), agreements(session)
        to_release = self._connectors_to_release(dags)
        self._accepted -= {dag.connector for dag in dags if dag.is_gone}
        for dag in dags:
            if not dag.is_gone or dag.connector in to_release:
                attempt = self._warnings.attempt_bounded if dag.is_gone else self._warnings.attempt
                attempt(dag.connector, partial(self._define, dag), "definition")
            else:
                self._defined.pop(dag.connector, None)  # written again when the file returns
        self._restart_accepted()
        state = self._control.config_state()
        for dag in dags:
            target = state.target_state(dag.connector)
            if target is not None and not dag.is_gone:
                agreed = last.get(agreement_key(dag.connector))
                self._warnings.attempt(dag.connector, partial(self._agree, dag, target, agreed), "target state")
        kept = {agreement_key(name) for name in state.connector_configs}
        self._forget(key for key in last if key not in kept)
        if any(dag.is_paused for dag in dags):
            with self._sessions() as session:
                for dag_id in end_paused_runs(session):
                    _log.info("A run of %s was ended, because the DAG is paused", dag_id)
        self._warnings.end_pass()

    def watch(self) -> None:
        """Update ``warnings``, and drop the state that another process may change. Called instead of ``tick`` while that process has the
        lease."""
        self._gone_since.clear()
        self._defined.clear()
        self._accepted.clear()
        now = self._now()
        if now < self._watch_due:
            return
        self._watch_due = now + _WATCH_SECONDS
        with self._sessions() as session:
            dags = self._dags.read(session)
        self.warnings = deletion_guard_warnings(len(self._gone(dags)), self._limit)

    def _define(self, dag: ConnectorDagRow) -> None:
        """Write the config of the newest version of the DAG. If its file no longer defines the DAG, stop and release the connector."""
        seen = "gone" if dag.is_gone else dag.version
        if self._defined.get(dag.connector) == seen:
            return
        self._defined.pop(dag.connector, None)  # after a refused version, the previous version is written again
        if dag.is_gone:
            self._files[dag.connector] = (dag.bundle, dag.file)
            self._release(dag.connector)
        else:
            self._accepted.discard(dag.connector)
            with self._sessions() as session:
                found = definition(session, dag.dag_id)
                if found is None and (file := self._files.pop(dag.connector, None)) is not None:
                    # The bundle of stored connectors has created the DAG, possibly after the file returned. The file's version is then no
                    # longer the newest, and is found only when the file is parsed again.
                    request_parse(session, *file)
            if found is not None:
                self._files[dag.connector] = (dag.bundle, dag.file)
                if self._control.config_state().connector_config(dag.connector) is None:
                    self._new.add(dag.connector)
                self._control.define_connector(dag.connector, found.config, found.file, found.version)
                self._accepted.add(dag.connector)
        self._defined[dag.connector] = seen

    def _restart_accepted(self) -> None:
        """Restart the connectors that are FAILED because of an earlier definition. These connectors are read together, because at the start
        of a process all connectors are new.

        The next tick retries failed restarts.
        """
        if not self._accepted:
            return
        self._accepted = set(self._control.refused_definitions(self._accepted))
        for name in sorted(self._accepted):
            self._warnings.attempt(name, partial(self._restart, name), "restart")

    def _restart(self, name: str) -> None:
        self._control.accept_definition(name)
        self._accepted.discard(name)

    def _connectors_to_release(self, dags: Iterable[ConnectorDagRow]) -> set[str]:
        """The connectors whose DAGs have been gone for the grace period. The period begins again in a process that takes over."""
        gone, now = self._gone(dags), self._now()
        self._gone_since = {name: self._gone_since.get(name, now) for name in gone}
        for name in sorted(name for name, since in self._gone_since.items() if since == now):
            _log.warning(
                "Connector %s: its DAG is gone from %s; unless it comes back it is stopped in %g s (airflow.missing.dag.grace)",
                name,
                gone[name],
                self._grace_seconds,
            )
        had_warnings, self.warnings = bool(self.warnings), deletion_guard_warnings(len(gone), self._limit)
        if self.warnings and not had_warnings:
            _log.error("%s Among them: %s", self.warnings[0], ", ".join(sorted(gone)[:_NAMED]))
        return connectors_to_release(self._gone_since, now=now, grace_seconds=self._grace_seconds, limit=self._limit)

    def _gone(self, dags: Iterable[ConnectorDagRow]) -> dict[str, str]:
        """The connectors whose DAGs are gone, with the files that define them."""
        gone = {dag.connector for dag in dags if dag.is_gone}
        configs = self._control.config_state().connector_configs if gone else {}
        return {name: configs[name][DEFINED_IN] for name in gone if DEFINED_IN in configs.get(name, ())}

    def _release(self, connector: str) -> None:
        """(1) Record the target state. (2) Stop. (3) Release. If the process is killed before (3), the next tick continues."""
        state = self._control.config_state()
        defined = (state.connector_config(connector) or {}).get(DEFINED_IN)
        if defined is None:
            return
        _log.info("Connector %s: its DAG is gone from %s, so it is stopped but kept", connector, defined)
        self._control.note_state(connector)
        if state.target_state(connector) is not TargetState.STOPPED:
            self._control.stop(connector)
        self._control.release_connector(connector)

    def _agree(self, dag: ConnectorDagRow, target: TargetState, last: Agreement | None) -> None:
        step = next_step(dag.is_paused, target, last, is_new=dag.connector in self._new)
        if step is Step.NOTHING:
            return
        if step is Step.WRITE_RECORD:
            # Record before row: after a crash in between, the record has changed and agrees with the flag.
            _log.info("Connector %s: %s in Airflow", dag.connector, "paused" if dag.is_paused else "resumed")
            with self._sessions() as session:
                author = flag_author(session, dag.dag_id, paused=dag.is_paused)
            if dag.is_paused:
                self._control.pause(dag.connector, keep_failed=True, author=author)  # Airflow may have paused it after too many failures
            else:
                self._control.resume(dag.connector, author=author)
            target = TargetState.PAUSED if dag.is_paused else TargetState.STARTED
        paused = target is not TargetState.STARTED
        with self._sessions() as session:
            if not move_agreement(session, dag.connector, last, Agreement(paused, target)):
                return
            if dag.is_paused != paused and not set_paused(session, dag.dag_id, paused=paused):
                session.rollback()  # the flag has changed meanwhile; the next tick compares again
                return
        self._new.discard(dag.connector)
        if dag.is_paused != paused:
            _log.info(
                "Connector %s: its DAG is %s, because its target state is %s", dag.connector, "paused" if paused else "unpaused", target
            )

    def _forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            with self._sessions() as session:
                drop_agreement(session, key)
