"""Keeps paused flags and target states in agreement, and writes the configs that DAG files define to the config topic.

Knows nothing of threads and leases. Should two processes work at once, each change is a compare-and-set of its row, flag or record, or
does no harm when it is repeated.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import StrEnum
from functools import partial
from typing import Protocol

from airflow_provider_connect.api_server.dags import ConnectorDagRow, ConnectorDags, Sessions, set_paused
from airflow_provider_connect.api_server.repeated_warnings import RepeatedWarnings
from airflow_provider_connect.api_server.runs import end_paused_runs, flag_set_by
from airflow_provider_connect.api_server.serialized_dags import definition, request_parse
from airflow_provider_connect.runtime.config.dag_settings import DEFINED_IN
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.sql_mirror.queries import Agreement, agreement_key, agreements, drop_agreement, move_agreement

_WATCH_SECONDS = 10.0
_NAMED = 20  # connectors in a line of the log

_log = logging.getLogger(__name__)


class ConnectorControl(Protocol):
    """What the reconciler asks of the herder. Each change is a compare-and-set on the config topic."""

    def config_state(self) -> ClusterConfigState:
        """The connectors that exist, with their target states, as of now."""
        ...

    def define_connector(self, name: str, config: Mapping[str, str], defined_in: str, version: str | None = None) -> None:
        """Create the connector or change its config; nothing is written when the topic has it. Raises ConfigException for one that names
        what is another connector's."""
        ...

    def refused_definitions(self, names: Collection[str]) -> list[str]:
        """Those of the connectors that are FAILED because a config of their DAG files was refused."""
        ...

    def accept_definition(self, name: str) -> None:
        """The connector's DAG file has a config that can be used: a connector that is FAILED for its DAG file restarts."""
        ...

    def note_state(self, name: str) -> None:
        """Note the target state, so that the connector has it again when its DAG file returns."""
        ...

    def release_connector(self, name: str) -> None:
        """No DAG file defines the connector any more."""
        ...

    def pause(self, name: str, *, keep_failed: bool = False, author: str | None = None) -> None: ...

    def resume(self, name: str, *, author: str | None = None) -> None: ...

    def stop(self, name: str) -> None: ...


class Step(StrEnum):
    """What makes a flag and a record agree."""

    NOTHING = "nothing"
    SET_FLAG = "set the flag"
    WRITE_RECORD = "write the record"
    NOTE = "note that they agree"


def next_step(paused: bool, target: TargetState, last: Agreement | None, *, is_new: bool = False) -> Step:
    """The rule: the side that differs from the last agreement has changed; if both have, or at first sight, the record wins.

    Of a connector that ``is_new``, just created from its DAG and STARTED by that, only the user who set the flag has asked for anything:
    the flag wins. A new one that is not STARTED was paused or stopped by another client already.
    """
    if paused == (target is not TargetState.STARTED):
        return Step.NOTHING if last == Agreement(paused, target) else Step.NOTE
    record_changed = not (is_new and target is TargetState.STARTED) if last is None else target != last.target_state
    return Step.SET_FLAG if record_changed else Step.WRITE_RECORD


def to_give_up(gone_since: Mapping[str, float], *, now: float, grace_seconds: float, limit: int) -> set[str]:
    """The rule: which of the connectors whose DAGs are gone are stopped and released. More than ``limit`` at once are a mount that is
    late, a folder that was moved, a bundle that was not fetched: then none is."""
    if len(gone_since) > limit:
        return set()
    return {name for name, since in gone_since.items() if now - since >= grace_seconds}


def deletion_guard_warnings(count: int, limit: int) -> list[str]:
    """The warning about so many connectors whose DAGs are gone, if they are more than ``limit``; else nothing. It names none of them: not
    every user who sees it may know of all connectors."""
    if count <= limit:
        return []
    return [
        f"The DAGs of {count} connectors are gone at once, more than airflow.missing.dag.limit ({limit}), so none of them is stopped. "
        "Bring their files back; if they are gone for good, raise the limit or stop them over REST. The API server's log names them."
    ]


class Reconciler:
    """Stops a connector when its DAG has been gone for ``grace_seconds``, and none while more than ``limit`` are gone. ``now`` is in
    seconds since 1970."""

    def __init__(
        self, control: ConnectorControl, sessions: Sessions, *, now: Callable[[], float], grace_seconds: float = 600.0, limit: int = 10
    ) -> None:
        self._control = control
        self._sessions = sessions
        self._now = now
        self._dags = ConnectorDags()
        self._defined: dict[str, str] = {}
        self._accepted: set[str] = set()  # connectors that may be FAILED for an earlier definition, and have a valid one now
        self._new: set[str] = set()
        self._files: dict[str, tuple[str, str]] = {}  # bundle and file that defined each connector last
        self._warnings = RepeatedWarnings(now=now)
        self._grace_seconds = grace_seconds
        self._limit = limit
        self._gone_since: dict[str, float] = {}
        self._watch_due = float("-inf")
        self.warnings: list[str] = []
        """What an admin has to know: too many DAGs are gone at once. Also where another process has the lease."""

    def tick(self) -> None:
        """Called every second by the process with the lease: compare everything once and change what differs. Raises what the stores
        raise, but not for one connector (``RepeatedWarnings``)."""
        with self._sessions() as session:
            dags, last = self._dags.look(session), agreements(session)
        given_up = self._given_up(dags)
        self._accepted -= {dag.connector for dag in dags if dag.is_gone}
        for dag in dags:
            if not dag.is_gone or dag.connector in given_up:
                attempt = self._warnings.attempt_bounded if dag.is_gone else self._warnings.attempt
                attempt(dag.connector, partial(self._define, dag), "definition")
            else:
                self._defined.pop(dag.connector, None)  # when it returns it is written again
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
                    _log.info("A run of %s is over, for it is paused", dag_id)
        self._warnings.end_pass()

    def watch(self) -> None:
        """Called instead of ``tick`` while another process has the lease: keep ``warnings`` right, and forget what that process may
        change."""
        self._gone_since.clear()
        self._defined.clear()
        self._accepted.clear()
        now = self._now()
        if now < self._watch_due:
            return
        self._watch_due = now + _WATCH_SECONDS
        with self._sessions() as session:
            dags = self._dags.look(session)
        self.warnings = deletion_guard_warnings(len(self._gone(dags)), self._limit)

    def _define(self, dag: ConnectorDagRow) -> None:
        """Take the config from the newest version of the DAG; when its file no longer has it, stop and release the connector."""
        seen = "gone" if dag.is_gone else dag.version
        if self._defined.get(dag.connector) == seen:
            return
        self._defined.pop(dag.connector, None)  # after a refused version the one before it is written again
        if dag.is_gone:
            self._files[dag.connector] = (dag.bundle, dag.file)
            self._release(dag.connector)
        else:
            self._accepted.discard(dag.connector)
            with self._sessions() as session:
                found = definition(session, dag.dag_id)
                if found is None and (file := self._files.pop(dag.connector, None)) is not None:
                    # The bundle of stored connectors has created the DAG, maybe just after the file returned: then the file's version is
                    # no longer the newest, and is seen only when the file is parsed again.
                    request_parse(session, *file)
            if found is not None:
                self._files[dag.connector] = (dag.bundle, dag.file)
                if self._control.config_state().connector_config(dag.connector) is None:
                    self._new.add(dag.connector)
                self._control.define_connector(dag.connector, found.config, found.file, found.version)
                self._accepted.add(dag.connector)
        self._defined[dag.connector] = seen

    def _restart_accepted(self) -> None:
        """Restart the connectors that are FAILED for an earlier definition. One read for all: at the start of a process, all are new to it.

        The next tick retries a restart that failed.
        """
        if not self._accepted:
            return
        self._accepted = set(self._control.refused_definitions(self._accepted))
        for name in sorted(self._accepted):
            self._warnings.attempt(name, partial(self._restart, name), "restart")

    def _restart(self, name: str) -> None:
        self._control.accept_definition(name)
        self._accepted.discard(name)

    def _given_up(self, dags: Iterable[ConnectorDagRow]) -> set[str]:
        """The connectors whose DAG files are gone for good, as far as is known. The time begins anew in a process that takes over."""
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
        return to_give_up(self._gone_since, now=now, grace_seconds=self._grace_seconds, limit=self._limit)

    def _gone(self, dags: Iterable[ConnectorDagRow]) -> dict[str, str]:
        """The connectors whose DAGs are gone, with the files that define them."""
        gone = {dag.connector for dag in dags if dag.is_gone}
        configs = self._control.config_state().connector_configs if gone else {}
        return {name: configs[name][DEFINED_IN] for name in gone if DEFINED_IN in configs.get(name, ())}

    def _release(self, connector: str) -> None:
        """1 note the target state 2 stop 3 release: killed in between, the next tick does what is left."""
        state = self._control.config_state()
        defined = (state.connector_config(connector) or {}).get(DEFINED_IN)
        if defined is None:
            return
        _log.info("Connector %s: its DAG is gone from %s, so it is stopped and kept", connector, defined)
        self._control.note_state(connector)
        if state.target_state(connector) is not TargetState.STOPPED:
            self._control.stop(connector)
        self._control.release_connector(connector)

    def _agree(self, dag: ConnectorDagRow, target: TargetState, last: Agreement | None) -> None:
        step = next_step(dag.is_paused, target, last, is_new=dag.connector in self._new)
        if step is Step.NOTHING:
            return
        if step is Step.WRITE_RECORD:
            # The record first, the row after: a crash in between is seen as a record that changed and agrees with the flag.
            _log.info("Connector %s: %s in Airflow", dag.connector, "paused" if dag.is_paused else "resumed")
            with self._sessions() as session:
                author = flag_set_by(session, dag.dag_id, paused=dag.is_paused)
            if dag.is_paused:
                self._control.pause(dag.connector, keep_failed=True, author=author)  # it may have been Airflow, after too many failures
            else:
                self._control.resume(dag.connector, author=author)
            target = TargetState.PAUSED if dag.is_paused else TargetState.STARTED
        paused = target is not TargetState.STARTED
        with self._sessions() as session:
            if not move_agreement(session, dag.connector, last, Agreement(paused, target)):
                return
            if dag.is_paused != paused and not set_paused(session, dag.dag_id, paused=paused):
                session.rollback()  # the flag was changed meanwhile; the next tick compares again
                return
        self._new.discard(dag.connector)
        if dag.is_paused != paused:
            _log.info("Connector %s: its DAG is %s, for its target state is %s", dag.connector, "paused" if paused else "unpaused", target)

    def _forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            with self._sessions() as session:
                drop_agreement(session, key)
