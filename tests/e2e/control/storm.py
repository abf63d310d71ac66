"""Kills of those who control connectors: parts of Airflow while clients make changes, and the process of a verb at each of its steps."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import httpx
from confluent_kafka import KafkaException

from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from tests.e2e.chaos.deck import Deck
from tests.e2e.chaos.tally import Kill, Tally
from tests.e2e.control.agreement import Oracle
from tests.e2e.control.altered import Altered
from tests.e2e.control.bystanders import Bystanders
from tests.e2e.control.killable import PARTS, KillableAirflow
from tests.e2e.control.steps import STEPS, Step
from tests.e2e.faults.environments import lines, make_topic
from tests.e2e.faults.oracle import Verdict, file_records, judge, topic_records

AFTER_KILL_SECONDS = 0.2

PATCH_SOURCE, PATCH_SINK, DELETE = STEPS
ACTS = (*PARTS, *STEPS)
ADDED = 500
LONG_INPUT = 1_000_000
QUIET = {"airflow.schedule": "none", "airflow.retries": "6", "airflow.retry.delay": "1 s"}


class ControlStorm:
    """One kill after another in one Airflow. ``with_runs``: connectors are also deleted while they run, and a sink reads what flows."""

    def __init__(self, airflow: KillableAirflow, tally: Tally, chance: random.Random, *, with_runs: bool = True) -> None:
        self._airflow, self._tally, self._chance, self._with_runs = airflow, tally, chance, with_runs
        self._steps = {verb: Deck(steps, chance) for verb, steps in STEPS.items()}
        self._client = airflow.client
        self._input = airflow.folder / "flowing.txt"
        self._output = airflow.folder / "flowed.txt"
        self._empty = airflow.folder / "empty.txt"
        self._sent: list[bytes] = []
        self._doomed = 0

    def run(self, acts: Iterable[str]) -> None:
        """Each of ``acts`` names one kill; then the records are counted. What goes wrong is a violation, and the others go on."""
        with self._attempting("the environment of control"):
            self._prepare_environment()
            for act in acts:
                if self._tally.is_over:
                    return
                with self._attempting(f"control, {act}"):
                    self._add_lines()
                    if act in PARTS:
                        self._kill_part(act)
                    else:
                        self._kill_verb(act)
            self._judge()

    def _prepare_environment(self) -> None:
        airflow, client, bootstrap = self._airflow, self._client, self._airflow.bootstrap_servers
        self._empty.touch()
        self._input.touch()
        make_topic(bootstrap, "flowing")
        source = {"connector.class": "FileStreamSource", "file": str(self._input), "topic": "flowing", "airflow.schedule": "10s"}
        self._create("flowing", {**QUIET, **source, "delivery.guarantee": "exactly_once"})
        if self._with_runs:
            sink = {"connector.class": "FileStreamSink", "file": str(self._output), "topics": "flowing", "airflow.schedule": "10s"}
            self._create("flowed", {**QUIET, **sink, "delivery.guarantee": "exactly_once"})
        self._altered = {
            PATCH_SOURCE: Altered.make(client, "altered-source", bootstrap, airflow.folder, is_sink=False),
            PATCH_SINK: Altered.make(client, "altered-sink", bootstrap, airflow.folder, is_sink=True),
        }
        names = [f"bystander-{number}" for number in range(4)]
        self._bystanders = Bystanders(client, self._bystander_config, names, random.Random(self._chance.random()))
        self._oracle = Oracle(airflow.settings(), airflow.database(), [airflow], sources=["altered-source"])

    def _bystander_config(self, name: str) -> dict[str, str]:
        return {"connector.class": "FileStreamSource", "file": str(self._empty), "topic": f"topic-{name}", **QUIET}

    def _create(self, name: str, config: dict[str, str], initial_state: str = "RUNNING") -> None:
        new = {"name": name, "config": config, "initial_state": initial_state}
        answer = self._client.post("/connect/connectors", json=new)
        assert answer.is_success, answer.text

    def _add_lines(self) -> None:
        new = lines(ADDED)
        with self._input.open("ab") as file:
            file.write(b"".join(line + b"\n" for line in new))
        self._sent += new

    # ── kills ──

    def _kill_part(self, part: str) -> None:
        """While a client makes one change after another."""
        over = threading.Event()

        def changes() -> None:
            while not over.is_set():
                self._bystanders.one_verb()

        client = threading.Thread(target=changes)
        before = self._bystanders.asked
        client.start()
        try:
            over.wait(self._chance.uniform(0.2, 2.0))
            self._airflow.kill(part)
            over.wait(AFTER_KILL_SECONDS)
        finally:
            over.set()
            client.join()
        self._tally.killed(Kill(part, "control", "control", f"during {self._bystanders.asked - before} verbs"))
        self._airflow.restart(part)
        self._check(part)

    def _kill_verb(self, verb: str) -> None:
        """At one of the verb's steps; one that it does not reach is left out."""
        while True:
            step = self._steps[verb].draw()
            if self._strike_delete(step) if verb == DELETE else self._strike_patch(self._altered[verb], step):
                self._tally.killed(Kill("api-server", "control", "control", f"{verb}, {step}"))
                break
            self._tally.missed(f"{verb}: {step}")
        self._airflow.restart("api-server")
        self._check(f"{verb}, {step}")
        if verb == DELETE:
            self._finish_delete()
        else:
            self._tally.notify(f"{verb}, {step}: {self._altered[verb].outcome()}")

    def _strike_patch(self, altered: Altered, step: Step) -> bool:
        to = altered.next()
        if self._strikes(step, lambda: altered.alter(to)):
            return True
        assert altered.is_at(to), f"{altered.name} was reported as altered"
        return False

    def _strike_delete(self, step: Step) -> bool:
        self._doomed += 1
        name = self._doomed_name
        initial = self._chance.choice(["RUNNING", "PAUSED"]) if self._with_runs else "PAUSED"
        file = self._long_input() if initial == "RUNNING" else self._empty
        self._create(name, {**self._bystander_config(name), "file": str(file)}, initial)
        if initial == "RUNNING":
            self._airflow.wait_until(lambda: self._airflow.has_run(name), f"{name} runs")
        return self._strikes(step, lambda: self._client.delete(f"/connect/connectors/{name}"))

    def _strikes(self, step: Step, ask: Callable[[], httpx.Response]) -> bool:
        """Whether the process died of it; else the verb has been carried out."""
        token = self._airflow.arm(step)
        try:
            answer = ask()
        except httpx.TransportError:
            if token.exists():
                return True
            raise
        finally:
            self._airflow.disarm()
        assert answer.is_success, answer.text
        return False

    def _finish_delete(self) -> None:
        """Deleted wholly, or not at all: then another request does it."""
        name = self._doomed_name
        answer = self._client.delete(f"/connect/connectors/{name}")
        assert answer.status_code in (204, 404), answer.text
        self._tally.notify(f"{name} {'was deleted' if answer.status_code == 404 else 'had been left alone'}")
        self._airflow.wait_until(lambda: not self._airflow.has_run(name), f"nothing of {name} runs")

    @property
    def _doomed_name(self) -> str:
        return f"doomed-{self._doomed}"

    # ── verdicts ──

    def _check(self, after: str) -> None:
        seconds = self._oracle.wait_for_agreement()
        with ConfigStore(self._oracle.settings) as configs:
            impossible = self._bystanders.impossible(configs.read())
        assert not impossible, impossible
        self._tally.notify(f"in agreement {seconds:.1f} s after everything served again ({after})")

    def _judge(self) -> None:
        """Everything that is to run does so once more; then each record must be there once."""
        asked = self._bystanders
        self._tally.notify(f"{asked.asked} verbs of bystanders, {asked.unanswered} without an answer")
        bootstrap, verdicts = self._airflow.bootstrap_servers, dict[str, Callable[[], Verdict]]()
        verdicts["flowing"] = lambda: judge(self._sent, topic_records(bootstrap, "flowing"))
        if self._with_runs:
            verdicts["flowed"] = lambda: judge(self._sent, file_records(self._output))
        resumed = [altered for altered in self._altered.values() if self._with_runs or not altered.is_sink]
        for altered in resumed:
            self._client.put(f"/connect/connectors/{altered.name}/resume").raise_for_status()
            verdicts[altered.name] = altered.verdict
        for name, verdict in verdicts.items():
            with self._attempting(f"control, records of {name}"):
                self._airflow.wait_until(lambda verdict=verdict: _is_whole(verdict), f"all records of {name} arrive")  # type: ignore[misc]
        self._oracle.wait_for_agreement()  # nothing is on its way any more
        for name, verdict in verdicts.items():
            self._tally.judged(f"control, {name}", "exactly_once", verdict())
        self._oracle.engine.dispose()

    def _long_input(self) -> object:
        file = self._airflow.folder / "long.txt"
        if not file.exists():
            with file.open("w") as output:
                output.writelines(f"{number:090d}\n" for number in range(LONG_INPUT))
        return file

    @contextmanager
    def _attempting(self, what: str) -> Iterator[None]:
        try:
            yield
        except (AssertionError, httpx.HTTPError, KafkaException, OSError) as error:
            self._tally.broken(f"{what}: {error!r}")


def _is_whole(verdict: Callable[[], Verdict]) -> bool:
    try:
        return verdict().lost == 0
    except KafkaException:
        return False
