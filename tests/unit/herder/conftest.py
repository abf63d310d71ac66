"""A herder over memory stores that hold no batch log, a launcher that notes what it is asked for, and plugins with errors of the test."""

from collections.abc import Callable, Mapping, Sequence

import pytest

from airflow_provider_connect.errors import PluginNotFoundException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.run import Claim
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.status import ConnectorStatus, StatusState, TaskStatus
from airflow_provider_connect.runtime.model.views import ConfigKeyView, ConfigValueView, PluginView, ValidatedKey, Validation
from airflow_provider_connect.runtime.stores.backing import TopicBacking
from airflow_provider_connect.runtime.stores.memory import MemoryConfigStore, MemoryStatusStore

CONFIG = {"connector.class": "FileStreamSource", "tasks.max": "1", "file": "/tmp/in.txt", "topic": "lines"}
SINK = {"connector.class": "FileStreamSink", "tasks.max": "1", "file": "/tmp/out.txt", "topics": "a,b"}

CAUSE = "org.example.LoginException: nobody is let in"


class MemoryBacking(TopicBacking):
    """Every process of the group sees the same stores. Offsets are of no concern here, so nothing has to be settled on a broker."""

    exactly_once = False

    def __init__(self, settings: WorkerSettings) -> None:
        super().__init__(settings)
        self.config_store = MemoryConfigStore()
        self.status_store = MemoryStatusStore()

    def configs(self) -> MemoryConfigStore:
        return self.config_store

    def statuses(self) -> MemoryStatusStore:
        return self.status_store

    def status_notes(self, claim: Claim | None = None) -> MemoryStatusStore:
        return self.status_store


class NotedRuns:
    """A Launcher: ``alive`` are the connectors with an application, ``done`` what was asked for, in order. ``end`` works at once, but
    for the ``stubborn``; ``in_the_way`` is why nothing ever starts."""

    def __init__(self) -> None:
        self.alive: set[str] = set()
        self.stubborn: set[str] = set()
        self.in_the_way: str | None = None
        self.done: list[tuple[object, ...]] = []

    def is_running(self, connector: str) -> bool:
        return connector in self.alive

    def running(self) -> dict[str, Sequence[str]]:
        return dict.fromkeys(sorted(self.alive), ())

    def end(self, connector: str) -> None:
        self.done.append(("end", connector))
        self.alive -= {connector} - self.stubborn

    def trigger(self, connector: str, tasks: Sequence[int] | None = None) -> None:
        self.done.append(("trigger", connector, tasks))

    def obstacle(self, connector: str | None = None) -> str | None:
        return self.in_the_way

    def forget(self, connector: str) -> None:
        self.done.append(("forget", connector))

    def taken(self) -> list[tuple[object, ...]]:
        """What was asked for since the last call."""
        done, self.done = self.done, []
        return done


class GivenErrors:
    """A Probe: a config is wrong by its ``errors``, and of the classes in ``unknown`` nothing is known."""

    def __init__(self) -> None:
        self.errors: dict[str, list[str]] = {}
        self.unknown: set[str] = set()
        self.asked: list[dict[str, str | None]] = []

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Validation:
        if plugin in self.unknown:
            raise PluginNotFoundException(f"Failed to find any class that implements Connector and which name matches {plugin}")
        self.asked.append(dict(config))
        values = [ValidatedKey(None, ConfigValueView(key, None, [], errors, True)) for key, errors in self.errors.items()]
        return Validation.counted(plugin, [], values)

    def config_keys(self, plugin: str, version: str | None = None, location: str | None = None) -> list[ConfigKeyView]:
        return []

    def plugins(self, connectors_only: bool = True) -> list[PluginView]:
        return []

    def alter_offsets(self, connector: str, config: Mapping[str, str], offsets: object) -> bool:
        return True


class RunEnvironment:
    """One worker group."""

    def __init__(self) -> None:
        self.settings = WorkerSettings.of({"task.shutdown.graceful.timeout.ms": "200"})
        self.backing = MemoryBacking(self.settings)
        self.runs = NotedRuns()
        self.probe = GivenErrors()
        self.while_waiting: Callable[[], None] = lambda: None
        """Called instead of sleeping."""
        self.herder = self.another_herder()

    def another_herder(self) -> Herder:
        return Herder(
            self.settings,
            self.runs,
            probe=self.probe,
            backing=self.backing,
            worker_id="api:0",
            sleep=lambda _: self.while_waiting(),
            task_metrics=dict,
        )

    @property
    def configs(self) -> MemoryConfigStore:
        return self.backing.config_store

    @property
    def statuses(self) -> StatusState:
        return self.backing.status_store.read()

    def run(self, name: str, *states: State, connector: State = State.RUNNING) -> Claim:
        """What a run of the connector writes: its claim, its task set, its statuses; without ``states`` its claim alone."""
        claim = self.configs.claim(name)
        if states:
            self.configs.put_tasks(name, [{"task": str(number)} for number in range(len(states))], claim)
            why = f"{CAUSE}\n  at its start" if connector is State.FAILED else None
            self.backing.status_store.put_connector(ConnectorStatus(name, connector, "worker:1", trace=why, version="1", claim=claim))
        for number, state in enumerate(states):
            trace = "it broke" if state is State.FAILED else None
            self.backing.status_store.put_task(TaskStatus(name, number, state, "worker:1", trace=trace, version="1", claim=claim))
        self.runs.taken()
        return claim

    def states(self, name: str) -> tuple[str | None, list[str]]:
        """The connector's state and its tasks'."""
        connector = self.statuses.connector(name)
        return None if connector is None else str(connector.state), [str(task.state) for task in self.statuses.tasks_of(name)]


@pytest.fixture
def environment() -> RunEnvironment:
    return RunEnvironment()
