"""Connectors that a client changes over HTTP while servers die, and what may be true of them after that."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.states import TargetState

COUNT_KEY = "client.count"
NOT_SENT = 0
_GONE = TargetState.STOPPED  # of a connector that does not exist; no client asks
_VERBS = {"pause": TargetState.PAUSED, "resume": TargetState.STARTED, "stop": TargetState.STOPPED}
_INITIAL = {"RUNNING": TargetState.STARTED, "PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}


@dataclass(slots=True)
class Possible:
    """What a connector may be like: one thing after an answer, several after a request that got none."""

    exists: set[bool] = field(default_factory=lambda: {False})
    targets: set[TargetState] = field(default_factory=lambda: {_GONE})
    counts: set[int] = field(default_factory=lambda: {0})


@dataclass(slots=True)
class Bystanders:
    """``config`` makes the config of a connector; verbs come in the order that ``chance`` gives."""

    client: httpx.Client
    config: Callable[[str], dict[str, str]]
    names: list[str]
    chance: random.Random
    possible: dict[str, Possible] = field(default_factory=dict)
    asked: int = 0
    unanswered: int = 0

    def one_verb(self) -> None:
        """The next verb, on one of the connectors."""
        name = self.chance.choice(self.names)
        known = self.possible.setdefault(name, Possible())
        if True not in known.exists:
            self._create(name, known)
            return
        verb = self.chance.choice(["patch", "patch", "pause", "resume", "stop", "delete"])
        path = f"/connect/connectors/{name}"
        if verb == "delete":
            self._note(self._ask("DELETE", path), known.exists, False)
        elif verb == "patch":
            count = max(known.counts) + 1
            self._note(self._ask("PATCH", f"{path}/config", json={COUNT_KEY: str(count)}), known.counts, count)
        else:
            self._note(self._ask("PUT", f"{path}/{verb}"), known.targets, _VERBS[verb])

    def _create(self, name: str, known: Possible) -> None:
        initial = self.chance.choice([*_INITIAL])
        answer = self._ask("POST", "/connect/connectors", json={"name": name, "config": self.config(name), "initial_state": initial})
        known.targets, known.counts = {_INITIAL[initial]}, {0}
        self._note(answer, known.exists, True)

    def _ask(self, method: str, path: str, **arguments: object) -> int | None:
        """The answer's status; None: a request that was sent got none."""
        try:
            self.asked += 1
            return self.client.request(method, path, **arguments).status_code  # type: ignore[arg-type]
        except httpx.ConnectError:
            self.asked -= 1
            time.sleep(0.05)
            return NOT_SENT
        except httpx.TransportError:
            self.unanswered += 1
            return None

    @staticmethod
    def _note(answer: int | None, values: set, value: object) -> None:  # type: ignore[type-arg]
        """Refused, or not sent: as before. Anything but success and refusal leaves open what became of it."""
        if answer == NOT_SENT or (answer is not None and 400 <= answer < 500):
            return
        if answer is not None and answer < 300:
            values.clear()
        values.add(value)

    def impossible(self, state: ClusterConfigState) -> list[str]:
        """What the config topic holds that cannot be; from now on its content is taken as correct."""
        found = []
        for name, known in self.possible.items():
            config, target = state.connector_config(name), state.target_state(name)
            if (config is not None) not in known.exists:
                found.append(f"{name} {'exists' if config is not None else 'does not exist'}")
            known.exists = {config is not None}
            if config is None or target is None:
                continue
            count = int(config.get(COUNT_KEY, "0"))
            if target not in known.targets:
                found.append(f"{name} is {target}, and not one of {sorted(known.targets)}")
            if count not in known.counts:
                found.append(f"{name} counts {count}, and not one of {sorted(known.counts)}")
            known.targets, known.counts = {target}, {count}
        return found
