"""Sinks whose destinations others change between runs, beside kills, topics that are created anew and Connect clusters that change."""

from __future__ import annotations

import random
import re
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from airflow_provider_connect.runtime.model.run import RunState
from tests.conftest import worker_properties
from tests.e2e.chaos.deck import Deck
from tests.e2e.chaos.destination_changes import DESTINATIONS, Destination, Files, Held
from tests.e2e.chaos.tally import Kill, Tally
from tests.e2e.faults.oracle import Verdict
from tests.e2e.faults.process_runs import ProcessRuns
from tests.e2e.faults.runs import Fault
from tests.e2e.faults.steps import STEPS
from tests.integration.worker.destinations import config, in_another_cluster, make_again, reason, run
from tests.integration.worker.environment import RunEnvironment, make_topic, send
from tests.integration.worker.note_runs import notes

GUARANTEE = "exactly_once"
PARTITIONS = 3
ROUNDS = 6  # with one destination
ADDED = 5  # to each partition
REFUSALS = 3 + PARTITIONS  # of one run, each with its remedy
STEP_KINDS = {"file": "sink", "files": "local sink", "delta": "delta sink", "iceberg": "iceberg sink", "table": "engine sink"}
MAY_NOT_FOLLOW = {"was_expired", "was_vacuumed", "went_back_and_expired"}  # another change at once, which they would hide


class DestinationStorm:
    """``changes`` in all, a few to each destination, one kind after another."""

    def __init__(self, folder: Path, bootstrap: str, tally: Tally, chance: random.Random) -> None:
        folder.mkdir(parents=True)
        self._folder, self._bootstrap, self._tally, self._chance = folder, bootstrap, tally, chance
        self._kinds = Deck(DESTINATIONS, chance)
        self._made: Counter[tuple[str, str]] = Counter()

    def run(self, rounds: int) -> None:
        done = number = 0
        while done < rounds and not self._tally.is_over:
            number += 1
            kind, wanted = self._kinds.draw(), min(ROUNDS, rounds - done)
            sink = ChangedSink(self._folder / str(number), self._bootstrap, kind, tally=self._tally, chance=self._chance, made=self._made)
            try:
                for _ in range(wanted):
                    sink.round()
            except Exception as error:  # (one that cannot be played to its end is a violation too, and the others go on)
                self._tally.broken(f"{kind.name}, {', '.join(sink.story)}: {error!r}")
            done += wanted


class ChangedSink:
    """A sink, its topic and its destination. ``story`` says in order what has happened to them, ``made`` how often each change was made to
    destinations of each kind."""

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        kind: type[Destination],
        *,
        tally: Tally,
        chance: random.Random,
        made: Counter[tuple[str, str]],
    ) -> None:
        self.destination = kind(folder, chance)
        self.story: list[str] = []
        self._tally, self._chance, self._folder, self._made = tally, chance, folder, made
        name = f"c-{uuid.uuid4().hex[:8]}"
        self._environment = RunEnvironment(worker_properties(bootstrap, name), name, self.destination.folder)
        self._topic = make_topic(bootstrap, f"topic-{name}", PARTITIONS)
        self._topics = self._clusters = self._ids = 0
        self._sent: dict[tuple[int, int], list[int]] = {}
        self._may_be_there: frozenset[int] = frozenset()
        self._remedies: dict[str, str] = {}
        self._went_back = False

    def round(self) -> None:
        """Changes, new records, perhaps a kill with a change behind it, then runs until one is done; and what is there is counted."""
        self._change()
        if self._chance.random() < 0.3:
            self._change(alone=False)
        self._send()
        if self._chance.random() < 0.4:
            self._kill()
            if self._chance.random() < 0.5:
                self._change(alone=False)
                self._send()
        self._until_done()
        self._judge()

    def _change(self, *, alone: bool = True) -> None:
        own = [change for change in self.destination.changes() if alone or change.__name__ not in MAY_NOT_FOLLOW]
        change = self._least_made([*own, self.topic_was_created_anew, self.cluster_is_another])
        before = self.destination.held
        change()
        self.story.append(change.__name__.replace("_", " "))
        if not before.taken.items() <= self.destination.held.taken.items():
            self._may_be_there, self._went_back = frozenset(), True

    def _least_made(self, changes: list[Callable[[], None]]) -> Callable[[], None]:
        self._chance.shuffle(changes)
        found = min(changes, key=lambda change: self._made[self.destination.name, change.__name__])
        self._made[self.destination.name, found.__name__] += 1
        return found

    def topic_was_created_anew(self) -> None:
        make_again(self._environment, self._topic, PARTITIONS)
        self._topics += 1

    def cluster_is_another(self) -> None:
        self._clusters += 1
        self._environment = in_another_cluster(self._environment, f"{self._clusters}-{self._environment.connector}")

    def _send(self) -> None:
        for partition in range(PARTITIONS):
            sent = self._sent.setdefault((self._topics, partition), [])
            new = range(self._ids, self._ids + ADDED)
            self._ids += ADDED
            sent += new
        first = self._ids - ADDED * PARTITIONS
        texts = [notes(1, first + ADDED * (number % PARTITIONS) + number // PARTITIONS)[0] for number in range(ADDED * PARTITIONS)]
        send(self._environment.bootstrap, self._topic, texts, partitions=PARTITIONS)

    def _config(self) -> dict[str, str]:
        return config(self._environment, self.destination.kind, self._topic) | self._remedies

    def _kill(self) -> None:
        """A process that is killed at a step of its commit, where it comes so far."""
        steps = STEPS[STEP_KINDS[self.destination.name]][GUARANTEE]
        fault = Fault(self._chance.choice(steps), self._chance.choice(["before", "after"]), self._chance.choice([1, 1, 2]))
        runs = ProcessRuns(self._folder, self._environment.connector, self._environment.properties, self._config())
        self._environment.runs += 1
        submission = runs.submit(fault)
        result = submission.wait()
        shown = f"{fault.when} {fault.step.rpartition(':')[2]}, call {fault.nth}"
        self._may_be_there |= self._expected() - self.destination.held.ids
        if submission.struck:
            self.story.append(f"killed {shown}")
            self._tally.killed(Kill("process", f"{self.destination.name} that changes", GUARANTEE, shown))
        else:
            self.story.append("ran" if result is not None and result.state is RunState.DONE else "was refused")
            self._tally.missed(f"{self.destination.name}: {fault}")

    def _until_done(self) -> None:
        """Runs, with the remedy that each refusal names."""
        for _ in range(REFUSALS):
            result = run(self._environment, self._config())
            if result.state is RunState.DONE:
                self._remedies.pop("destination.rollback", None)
                return
            self._remedies |= self._remedy(reason(result))
        raise AssertionError(f"refused again and again: {reason(result)[:2000]}")

    def _remedy(self, text: str) -> dict[str, str]:
        if adopted := re.search(r"destination\.adopt=([^\s:;,]+)", text):
            found = {"destination.adopt": adopted[1]}
        elif "Set destination.rollback=redeliver" in text:
            found = {"destination.rollback": "redeliver"}
        elif "Set topics.dir to another folder" in text and not self._went_back:
            found = {"topics.dir": f"topics-{self._topics}-{self._clusters}"}
        elif isinstance(self.destination, Files) and (
            owner := re.search(r"; or move the files of (\S+)-(\d+) elsewhere, and remove (\S+)", text)
        ):
            self.destination.move_away(f"{owner[1]}+{owner[2]}+", owner[3])
            found = {}
        else:
            raise AssertionError(f"no refusal with a remedy: {text[:2000]}")
        self.story.append(f"refused, {found or 'files moved away'}")
        return found

    def _expected(self) -> frozenset[int]:
        held = self.destination.held
        new = (ids[held.taken.get(key, 0) :] for key, ids in self._sent.items() if key[0] == self._topics)
        return held.ids.union(*new)

    def _judge(self) -> None:
        expected, found = self._expected(), Counter(self.destination.kind.ids(self.destination.folder))
        lost = expected - found.keys()
        doubled = sum(found.values()) - len(found) + len(found.keys() - expected - self._may_be_there)
        story = f"{self.destination.name}: {', '.join(self.story)}"
        self._tally.judged(story, GUARANTEE, Verdict(len(expected), len(lost), doubled))
        if lost or doubled:
            raise AssertionError(f"lost {sorted(lost)}, there {sorted(found.elements())}")
        taken = {key: len(ids) for key, ids in self._sent.items() if key[0] == self._topics}
        self.destination.save(Held(frozenset(found), {**self.destination.held.taken, **taken}))
        self._may_be_there, self._went_back = frozenset(), False
        self.story.append("done")
