"""What REST, metrics and the batch log report of plugins' versions while they change: by the Variable alone, and by what is installed."""

from __future__ import annotations

import json
import shutil
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_connect.rest.server import rest_server
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from airflow_provider_connect.runtime.stores.admin_connection import server_info
from tests.integration.worker.environment import RunEnvironment, make_topic, values_of
from tests.integration.worker.words import NAME, install
from tests.no_runs import NoRuns
from tests.unit.plugins.locations import tree
from tests.waiting import HANG_SECONDS, wait_until


@contextmanager
def served(settings: WorkerSettings) -> Iterator[str]:
    """The REST API over these settings; its address."""
    with (
        PluginProbe(settings) as probe,
        Herder(settings, NoRuns(), probe=probe) as herder,
        rest_server({}, herder=lambda: herder, info=lambda: server_info(settings), port=0) as server,
    ):
        yield server.url


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=HANG_SECONDS) as answer:
        return str(answer.read().decode())


def test_ranges_in_the_variable_of_airflow_move_rest_metrics_and_figures(
    words: RunEnvironment, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing changes but the Variable; each run delivers what there is, in the words of the version that it took."""
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    from airflow_provider_connect.hooks.airflow_settings import worker_settings

    make_topic(words.bootstrap, unique)
    until = tmp_path / "until"
    words.properties |= {"config.providers": "dir", "config.providers.dir.class": "DirectoryConfigProvider"}
    lines = {
        "connector.class": NAME,
        "topic": unique,
        "until": f"${{dir:{tmp_path}:until}}",
        "transforms": "r",
        "transforms.r.type": "Twice",
    }
    for version in ("1.0", "1.1"):
        twice = "from airflow_provider_connect.sdk import Transformation\n\n\nclass Twice(Transformation):\n"
        twice += "    def apply_batch(self, batch):\n        return batch\n"
        location = tmp_path / "versions" / f"twice-{version}"
        tree(location, "twice", version, {"twice.py": twice}, "transformation:org.example.Twice = twice:Twice")
    moves: list[tuple[dict[str, object], str, str]] = [
        ({NAME: "[1,2)"}, "1.5", "1.1"),
        ({NAME: ["[1,1.2]", "[2,)"], "Twice": "1.0"}, "2.1", "1.0"),
        ({words.connector: "1.5"}, "1.5", "1.1"),
    ]
    for number, (ranges, version, of_transform) in enumerate(moves, start=1):
        monkeypatch.setenv("AIRFLOW_VAR_CONNECT_WORKER_CONFIG", json.dumps({**words.properties, "version_ranges": ranges}))
        until.write_text(f"{number:04}")
        settings = worker_settings()
        result = RunEnvironment(dict(settings.originals), words.connector, tmp_path).run(lines)
        assert result.state is RunState.DONE, result.error
        assert (result.versions["connector"], result.versions["task"], result.versions["transforms.r"]) == (version, version, of_transform)
        with served(settings) as url:
            status = json.loads(get(f"{url}/connectors/{words.connector}/status"))
            page = get(f"{url}/metrics")
        assert [status["connector"]["version"], *(task["version"] for task in status["tasks"])] == [version, version]
        name = f'connector="{words.connector}"'
        for reported in (
            f'connector_metrics_connector_version{{{name},connector_version="{version}"}} 1',
            f'connector_task_metrics_task_version{{{name},task="0",task_version="{version}"}} 1',
            f'connector_task_metrics_connector_version{{{name},task="0",connector_version="{version}"}} 1',
            f'connector_transform_metrics_transform_version{{{name},task="0",transform="r",transform_version="{of_transform}"}} 1',
        ):
            assert reported in page, page
    assert values_of(words.bootstrap, unique) == ["good day 0", "hello 1", "good day 2"]


def test_plugins_that_come_and_go_are_seen_by_a_server_that_is_up(
    words: RunEnvironment, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    versions, aside = tmp_path / "versions", tmp_path / "aside"
    install(aside, "3.0", "hey")
    with served(words.settings) as url:

        def known() -> list[str]:
            return [plugin["version"] for plugin in json.loads(get(f"{url}/connector-plugins")) if plugin["class"] == NAME]

        assert known() == ["1.5", "2.1"]
        over = threading.Event()
        seen: set[tuple[str, ...]] = set()

        def ask() -> None:
            while not over.is_set():
                seen.add(tuple(known()))

        askers = [threading.Thread(target=ask) for _ in range(3)]
        for asker in askers:
            asker.start()
        (aside / "words-3.0").rename(versions / "words-3.0")
        wait_until(lambda: known() == ["1.5", "2.1", "3.0"])
        keys = [key["name"] for key in json.loads(get(f"{url}/connector-plugins/{NAME}/config?version=3.0"))]
        assert keys[:2] == ["topic", "until"]
        (versions / "cut.whl").write_bytes(b"PK")
        shutil.rmtree(versions / "words-1.5")
        wait_until(lambda: known() == ["2.1", "3.0"])
        wait_until(lambda: known() and "cut.whl cannot be used: it cannot be read: File is not a zip file" in caplog.text)
        over.set()
        for asker in askers:
            asker.join()
        assert caplog.text.count("cut.whl cannot be used") == 1
        assert seen <= {("1.5", "2.1"), ("1.5", "2.1", "3.0"), ("2.1", "3.0")}
