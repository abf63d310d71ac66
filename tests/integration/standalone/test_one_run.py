"""``connect-run``: one bounded run, an exit code; on the internal topics, or with offsets in a file."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from airflow_provider_connect.runtime.stores.offset_file import SETTING
from tests.integration.standalone.agent import FILES_OF_ALL, STRING, WARNED, properties, without_airflow
from tests.waiting import HANG_SECONDS, wait_until

GOES_ON_SECONDS = 2.0  # after the first signal

WorkerSettings = Callable[..., dict[str, str]]


class Runs:
    """Connectors in ``folder``, run with a worker file there."""

    def __init__(self, folder: Path, worker: dict[str, str]) -> None:
        self.folder = folder
        worker = {"connectors.allowed.paths": str(folder), **worker, "key.converter": STRING, "value.converter": STRING}
        (folder / "worker.properties").write_text(properties(worker))

    def start(self, *options: str, **config: str) -> subprocess.Popen[str]:
        file = self.folder / f"{config['name']}.properties"
        file.write_text(properties({name.replace("_", "."): value for name, value in config.items()}))
        command = [sys.executable, "-m", "airflow_provider_connect.standalone.one_run", str(file)]
        return subprocess.Popen(
            [*command, "--worker", str(self.folder / "worker.properties"), *options],
            env=without_airflow(self.folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *options: str, **config: str) -> tuple[int, str]:
        """Exit code and output."""
        process = self.start(*options, **config)
        output, _ = process.communicate(timeout=HANG_SECONDS)
        return process.returncode, output


@pytest.mark.parametrize("location", ["file", "topics"])
def test_each_run_takes_what_is_new(location: str, worker_settings: WorkerSettings, tmp_path: Path, unique: str) -> None:
    worker = worker_settings()
    if location == "file":
        worker = {"bootstrap.servers": worker["bootstrap.servers"], SETTING: str(tmp_path / "offsets")}
    runs = Runs(tmp_path, worker | FILES_OF_ALL)
    source = {"name": f"{unique}-in", "connector_class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": unique}
    sink = {"name": f"{unique}-out", "connector_class": "FileStreamSink", "file": str(tmp_path / "out.txt"), "topics": unique}
    for text in ("one\ntwo\n", "three\n", ""):
        with (tmp_path / "in.txt").open("a") as file:
            file.write(text)
        for config in (source, sink):
            code, output = runs.run(**config)
            assert code == 0, output
            assert WARNED in output
    assert (tmp_path / "out.txt").read_text().splitlines() == ["one", "two", "three"]


def test_the_exit_code_names_what_to_do_next(worker_settings: WorkerSettings, tmp_path: Path, unique: str) -> None:
    runs = Runs(tmp_path, {"bootstrap.servers": worker_settings()["bootstrap.servers"], SETTING: str(tmp_path / "offsets")})
    sink = {"name": unique, "connector_class": "FileStreamSink", "file": str(tmp_path / "nowhere" / "out.txt"), "topics": unique}
    code, output = runs.run(**sink)
    assert (code, f"There is no folder {tmp_path / 'nowhere'}" in output) == (2, True), output
    away = Runs(tmp_path, {"bootstrap.servers": "127.0.0.1:1"})  # no process listens there
    code, output = away.run(**{**sink, "file": str(tmp_path / "out.txt")})
    assert (code, "127.0.0.1:1" in output) == (75, True), output


def test_a_run_that_is_asked_to_end_commits_what_it_has_done(worker_settings: WorkerSettings, tmp_path: Path, unique: str) -> None:
    runs = Runs(tmp_path, {"bootstrap.servers": worker_settings()["bootstrap.servers"], SETTING: str(tmp_path / "offsets")})
    (tmp_path / "in.txt").write_text("".join(f"line {number}\n" for number in range(3_000_000)))
    source = {"name": unique, "connector_class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": unique, "batch_size": "10"}
    process = runs.start(**source)
    with closing(Consumer({"bootstrap.servers": worker_settings()["bootstrap.servers"], "group.id": unique})) as consumer:
        wait_until(lambda: unique in consumer.list_topics(timeout=HANG_SECONDS).topics)
        wait_until(lambda: consumer.get_watermark_offsets(TopicPartition(unique, 0), timeout=HANG_SECONDS)[1] > 0)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 143, output
    assert (tmp_path / "offsets").stat().st_size > 0


def test_a_run_that_a_newer_one_takes_over_is_no_failure(worker_settings: WorkerSettings, tmp_path: Path, unique: str) -> None:
    """Nothing asked its process to end; a caller that starts it again would only take over in turn. What it has delivered counts."""
    runs = Runs(tmp_path, worker_settings())
    (tmp_path / "in.txt").write_text("".join(f"line {number}\n" for number in range(3_000_000)))
    source = {"name": unique, "connector_class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": unique, "batch_size": "10"}
    source["transaction_boundary"] = "poll"
    older = runs.start(**source)
    with closing(Consumer({"bootstrap.servers": worker_settings()["bootstrap.servers"], "group.id": unique})) as consumer:
        wait_until(lambda: unique in consumer.list_topics(timeout=HANG_SECONDS).topics)
        wait_until(lambda: consumer.get_watermark_offsets(TopicPartition(unique, 0), timeout=HANG_SECONDS)[1] > 100)
    newer = runs.start(**source)
    output, _ = older.communicate(timeout=HANG_SECONDS)
    assert older.returncode == 0, output
    assert "was ended before the end of what there is: a newer claim took over" in output.splitlines()[-1]
    counted = re.search(rf"Connector {unique} task 0: (\d+) records", output)
    assert counted is not None, output
    assert int(counted[1]) > 50
    newer.send_signal(signal.SIGTERM)
    output, _ = newer.communicate(timeout=HANG_SECONDS)
    assert (newer.returncode, output.splitlines()[-1].endswith("the application was asked to end")) == (143, True), output


def test_a_run_that_its_time_ends_is_no_failure(worker_settings: WorkerSettings, tmp_path: Path, unique: str) -> None:
    runs = Runs(tmp_path, worker_settings())
    (tmp_path / "in.txt").write_text("".join(f"line {number}\n" for number in range(3_000_000)))
    source = {"name": unique, "connector_class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": unique, "batch_size": "10"}
    code, output = runs.run(**source, batch_max_duration_ms="500")
    assert (code, output.splitlines()[-1].endswith("batch.max.duration.ms is over")) == (0, True), output


ASLEEP = """
import time
from airflow_provider_connect.sdk import source

@source
def asleep():
    print("asleep", flush=True)
    time.sleep(600)
"""


def test_a_connector_that_never_returns_is_ended_by_a_second_signal(worker_settings: WorkerSettings, tmp_path: Path, unique: str) -> None:
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "sleeper.py").write_text(ASLEEP)
    own = {SETTING: str(tmp_path / "offsets"), "plugin.path": str(tmp_path / "plugins")}
    process = Runs(tmp_path, {"bootstrap.servers": worker_settings()["bootstrap.servers"], **own}).start(
        name=unique, connector_class="asleep", topic=unique
    )
    assert process.stdout is not None
    assert any("asleep" in line for line in process.stdout)
    process.send_signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=GOES_ON_SECONDS)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=HANG_SECONDS) == 143


@pytest.mark.parametrize("location", ["file", pytest.param("topics", marks=pytest.mark.soak)])
def test_a_preview_shows_what_the_next_run_moves_and_writes_nothing(
    location: str, worker_settings: WorkerSettings, tmp_path: Path, unique: str
) -> None:
    worker = worker_settings()
    if location == "file":
        worker = {"bootstrap.servers": worker["bootstrap.servers"], SETTING: str(tmp_path / "offsets")}
    runs = Runs(tmp_path, worker)
    source = {"name": f"{unique}-in", "connector_class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": unique}
    sink = {"name": f"{unique}-out", "connector_class": "FileStreamSink", "file": str(tmp_path / "out.txt"), "topics": unique}
    (tmp_path / "in.txt").write_text("one\ntwo\nthree\n")
    for _ in range(2):
        code, output = runs.run("--preview", "2", **source)
        assert (code, shown(output)) == (0, ["one", "two"]), output
    code, output = runs.run(**source)
    assert code == 0, output
    code, output = runs.run("--preview", **source)
    assert (code, shown(output)) == (0, []), output
    for _ in range(2):
        code, output = runs.run("--preview", **sink)
        assert (code, shown(output)) == (0, ["one", "two", "three"]), output
        assert [record["offset"] for record in records_of(output)] == [0, 1, 2]
    assert not (tmp_path / "out.txt").exists()
    code, output = runs.run(**sink)
    assert code == 0, output
    assert (tmp_path / "out.txt").read_text().splitlines() == ["one", "two", "three"]


def test_a_preview_that_fails_ends_with_the_cause_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("from airflow_provider_connect.sdk import source\n\n@source\ndef rows():\n    yield [1 / 0]\n")
    runs = Runs(tmp_path, {SETTING: str(tmp_path / "offsets"), "plugin.path": str(tmp_path)})
    code, output = runs.run("--preview", name="c", connector_class="broken.rows", topic="t")
    assert (code, len(output.splitlines())) == (1, 1), output
    assert f"ZeroDivisionError: division by zero ({tmp_path / 'broken.py'}, line 5)" in output
    (tmp_path / "gone.py").write_text(
        "import os\nfrom airflow_provider_connect.sdk import source\n\n@source\ndef rows():\n    os._exit(0)\n"
    )
    code, output = runs.run("--preview", name="c", connector_class="gone.rows", topic="t")
    assert (code, output) == (1, f"FAILED: The plugin's code called os._exit(0) ({tmp_path / 'gone.py'}, line 6)\n")
    code, output = runs.run("--preview", name="c", connector_class="broken.rows", topik="t")
    assert (code, len(output.splitlines())) == (2, 1), output
    assert 'Missing required configuration "topic"' in output
    assert output.endswith("Unknown setting 'topik': did you mean 'topic'?\n")


def test_a_preview_hides_secrets_in_what_the_connector_prints(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from typing import Annotated\nfrom airflow_provider_connect.sdk import Password, source\n\n\ndef check(name, value):\n"
        "    print('checks', value.value)\n\n\n"
        "@source\ndef rows(token: Annotated[Password, check]):\n    print('reads by', token.value)\n    yield {'id': token.value}\n"
    )
    runs = Runs(tmp_path, {SETTING: str(tmp_path / "offsets"), "plugin.path": str(tmp_path), **FILES_OF_ALL})
    code, output = runs.run("--preview", name="c", connector_class="shop.rows", topic="t", token="hunter2-of-the-shop")
    assert (code, [record["value"] for record in records_of(output)]) == (0, [{"id": "[hidden]"}]), output
    assert "checks [hidden]" in output
    assert "reads by [hidden]" in output
    assert WARNED in output
    assert "hunter2" not in output


def records_of(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def shown(output: str) -> list[str]:
    return [record["value"] for record in records_of(output)]


def test_settings_of_transformations_and_converters_are_refused_before_the_run(tmp_path: Path) -> None:
    """With the keys below which they stand, all at once; without a broker, for nothing is written."""
    runs = Runs(tmp_path, {"bootstrap.servers": "127.0.0.1:1"})
    (tmp_path / "input").write_text("a\n")
    hoist, keyed = "org.apache.kafka.connect.transforms.HoistField$Value", "org.apache.kafka.connect.transforms.InsertHeader"
    config = {
        "name": "c",
        "connector.class": "FileStreamSource",
        "file": str(tmp_path / "input"),
        "topic": "t",
        "transforms": "hoist,header",
        "transforms.hoist.type": hoist,
        "transforms.hoist.fielt": "line",
        "transforms.header.type": keyed,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "maybe",
    }
    code, output = runs.run(**config)
    assert code == 2
    assert "\nvalue.converter: Invalid value maybe for configuration schemas.enable: Expected value to be either true or false\n" in output
    assert '\ntransforms.hoist: Missing required configuration "field" which has no default value.\n' in output
    assert '\ntransforms.header: Missing required configuration "header" which has no default value.\n' in output
    assert "Unknown setting 'transforms.hoist.fielt': did you mean 'transforms.hoist.field'?" in output
