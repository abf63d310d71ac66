"""Sixteen clients who change fifty connectors over HTTP at once, through all servers, each noting the answers."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx

from tests.e2e.control.agreement import Server

CLIENTS, CONNECTORS = 16, 50
CONFIG = {"connector.class": "FileStreamSource", "file": "/nonexistent/in.txt", "topic": "lines", "airflow.schedule": "none"}


@dataclass(slots=True)
class Crowd:
    """A client counts up in a key of its own of every connector, reads it from another server at once, pauses, stops and resumes
    connectors, and makes and deletes one that belongs to it alone. ``reported`` is the last count acknowledged, by connector and client."""

    servers: Sequence[Server]
    prefix: str
    seed: int
    reported: dict[tuple[str, str], int] = field(default_factory=dict)
    own: dict[int, bool] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def names(self) -> list[str]:
        return [f"{self.prefix}-{number}" for number in range(CONNECTORS)]

    def create(self) -> None:
        """The connectors, some PAUSED and some STOPPED at first."""
        states = ("RUNNING", "PAUSED", "STOPPED")

        def made(number: int, name: str) -> None:
            new = {"name": name, "config": CONFIG, "initial_state": states[number % len(states)]}
            self.servers[number % len(self.servers)].client.post("/connect/connectors", json=new).raise_for_status()

        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(made, range(CONNECTORS), self.names))

    def change(self, seconds: float) -> None:
        """All clients at once, for so long. Raises what a client was not prepared for, such as an answer 500."""
        deadline = time.monotonic() + seconds
        with ThreadPoolExecutor(CLIENTS) as pool:
            for done in [pool.submit(self._client, number, deadline) for number in range(CLIENTS)]:
                done.result()

    def _client(self, number: int, deadline: float) -> None:
        chance, key, counts = random.Random(self.seed * CLIENTS + number), f"client.{number}", Counter[str]()
        while time.monotonic() < deadline:
            name = chance.choice(self.names)
            one, other = chance.sample(range(len(self.servers)), 2)
            counts[name] += 1
            path = f"/connect/connectors/{name}/config"
            if self._asked(one, "PATCH", path, json={key: str(counts[name])}) == 200:
                with self._lock:
                    self.reported[name, key] = counts[name]
                found = self.servers[other].client.get(path).raise_for_status().json().get(key)
                if found != str(counts[name]):
                    self._notify(f"{key} of {name}: {found} after {counts[name]} was acknowledged")
            match chance.randrange(8):
                case 0 | 1 as verb:
                    self._asked(other, "PUT", f"/connect/connectors/{name}/{'pause' if verb else 'resume'}")
                case 2:
                    self._asked(other, "PUT", f"/connect/connectors/{name}/stop")
                case 3:
                    self._own(number, one, other)
                case 4:
                    self._asked(other, "GET", "/connect/connectors?expand=info&expand=status")

    def _own(self, number: int, one: int, other: int) -> None:
        """Make the client's own connector through one server, or delete it: the other knows at once."""
        name, is_there = f"{self.prefix}-own-{number}", self.own.get(number, False)
        if is_there:
            answer = self._asked(one, "DELETE", f"/connect/connectors/{name}")
        else:
            answer = self._asked(one, "POST", "/connect/connectors", json={"name": name, "config": CONFIG, "initial_state": "PAUSED"})
        if answer not in (201, 204):
            return
        self.own[number] = not is_there
        if (self._asked(other, "GET", f"/connect/connectors/{name}") == 200) is is_there:
            self._notify(f"{name} was {'deleted' if is_there else 'made'}, and the other server does not know")

    def _asked(self, server: int, method: str, path: str, **arguments: object) -> int:
        answer: httpx.Response = self.servers[server].client.request(method, path, **arguments)  # type: ignore[arg-type]
        with self._lock:
            self.answers[f"{method} {answer.status_code}"] += 1
        if answer.status_code >= 500:
            self._notify(f"{method} {path}: {answer.status_code} {answer.text[:300]}")
        return answer.status_code

    def _notify(self, text: str) -> None:
        with self._lock:
            self.lost.append(text)

    def lost_updates(self) -> list[str]:
        """What was acknowledged and is not so, as each server reports; and what went wrong on the way."""
        found = list(self.lost)
        mine = {f"{self.prefix}-own-{number}" for number, is_there in self.own.items() if is_there}
        for server in self.servers:
            infos = server.client.get("/connect/connectors?expand=info").raise_for_status().json()
            wanted = {*self.names, *mine}
            if set(infos) != wanted:
                found.append(f"connectors: {sorted(set(infos) ^ wanted)}")
            for (name, key), count in self.reported.items():
                value = infos.get(name, {}).get("info", {}).get("config", {}).get(key)
                if value != str(count):
                    found.append(f"{key} of {name} is {value}, acknowledged was {count}")
        return found

    def __str__(self) -> str:
        answers = ", ".join(f"{answer} × {count}" for answer, count in sorted(self.answers.items()))
        return f"seed {self.seed}: {len(self.reported)} keys of {CONNECTORS} connectors by {CLIENTS} clients; {answers}"
