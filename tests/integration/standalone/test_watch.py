"""``connect-run --watch``: edited code and properties are run again, errors are shown, and a signal leaves no process."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from airflow_provider_connect.runtime.stores.offset_file import SETTING
from tests.integration.standalone.test_one_run import Runs
from tests.waiting import HANG_SECONDS, wait_until

ENDED = "waiting for a change"
CODE = """
from airflow_provider_connect.sdk import source

WORD = "tea"

@source(cursor="id")
def orders(count: int = 2, cursor: int = 0):
    for number in range(cursor + 1, cursor + count + 1):
        yield {"id": number, "item": WORD}
"""


class Watch:
    """A watching process, and what it has printed so far."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    @property
    def text(self) -> str:
        return "".join(self.lines)

    def wait_for_runs(self, count: int) -> str:
        """Wait for the end of ``count`` runs. What the last one printed."""
        wait_until(lambda: self.text.count(ENDED) >= count or self.process.poll() is not None)
        assert self.process.poll() is None, self.text
        return self.text.split(ENDED)[count - 1]

    def processes(self) -> list[psutil.Process]:
        return [psutil.Process(self.process.pid), *psutil.Process(self.process.pid).children(recursive=True)]


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Callable[..., Watch]]:
    """Starts watches of the source in ``shop.py``; they end with the test. Keywords are of the source, ``options`` of the command line."""
    (tmp_path / "shop.py").write_text(CODE)
    started: list[Watch] = []

    def start(*options: str, worker: dict[str, str] | None = None, **config: str) -> Watch:
        runs = Runs(tmp_path, {"plugin.path": str(tmp_path), **(worker or {SETTING: str(tmp_path / "offsets")})})
        started.append(Watch(runs.start("--watch", *options, **{"name": "c", "connector_class": "shop.orders", "topic": "t", **config})))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.terminate()
            each.process.wait(HANG_SECONDS)


def edit(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_edits_of_code_and_properties_are_run_and_errors_are_shown(watching: Callable[..., Watch], tmp_path: Path) -> None:
    watch, code = watching("--preview"), tmp_path / "shop.py"
    assert '"item": "tea"' in watch.wait_for_runs(1)
    edit(code, '"tea"', '"oil"')  # of the same size, and maybe within the same second
    assert '"item": "oil"' in watch.wait_for_runs(2)
    edit(code, '"oil"', '"oil')
    assert "unterminated string literal" in watch.wait_for_runs(3)
    edit(code, '"oil', "str(1 / 0)")
    assert "ZeroDivisionError" in watch.wait_for_runs(4)
    edit(code, "str(1 / 0)", '"salt"')
    assert watch.wait_for_runs(5).count('"item": "salt"') == 2
    edit(tmp_path / "c.properties", "topic=t", "topic=t\ncount=3")
    assert watch.wait_for_runs(6).count('"item": "salt"') == 3
    edit(tmp_path / "c.properties", "shop.orders", "shop.nothing")
    assert "Failed to find any class" in watch.wait_for_runs(7)
    edit(tmp_path / "c.properties", "shop.nothing", "shop.orders")
    assert watch.wait_for_runs(8).count('"item": "salt"') == 3


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak), signal.SIGKILL])
def test_a_signal_leaves_no_process(number: signal.Signals, watching: Callable[..., Watch]) -> None:
    watch = watching("--preview")
    watch.wait_for_runs(1)
    processes = wait_until(lambda: len(found := watch.processes()) == 2 and found)
    watch.process.send_signal(number)
    assert watch.process.wait(HANG_SECONDS) == (-number if number == signal.SIGKILL else 0)
    assert psutil.wait_procs(processes, 60)[1] == []


def test_a_change_or_a_signal_ends_a_run_that_is_under_way(watching: Callable[..., Watch], tmp_path: Path) -> None:
    code = tmp_path / "shop.py"
    edit(code, "    for number", '    import time\n    print("begun", flush=True)\n    time.sleep(600)\n    for number')
    watch = watching("--preview")
    wait_until(lambda: "begun" in watch.text)
    edit(code, "time.sleep(600)", "time.sleep(0)")
    cut_short, _, run_again = watch.wait_for_runs(1).partition("Ended by a change of code or properties after ")
    assert "begun" in cut_short
    assert '"item": "tea"' in run_again
    edit(code, "time.sleep(0)", "time.sleep(600)")
    wait_until(lambda: watch.text.count("begun") == 3)
    processes = watch.processes()
    watch.process.send_signal(signal.SIGINT)
    assert watch.process.wait(HANG_SECONDS) == 0
    assert psutil.wait_procs(processes, 60)[1] == []


def test_what_a_run_has_started_ends_with_it(watching: Callable[..., Watch], tmp_path: Path) -> None:
    starts = "    import subprocess\n    print('started', subprocess.Popen(['sleep', '600']).pid, 'now', flush=True)\n    for number"
    edit(tmp_path / "shop.py", "    for number", starts)
    watch = watching("--preview")
    pid = int(watch.wait_for_runs(1).partition("started ")[2].split()[0])
    wait_until(lambda: not psutil.pid_exists(pid))


@pytest.mark.soak  # an edit is run: the test above
@pytest.mark.parametrize("location", ["file", "topics"])
def test_each_run_continues_with_the_edited_code(
    location: str, worker_settings: Callable[..., dict[str, str]], watching: Callable[..., Watch], tmp_path: Path, unique: str
) -> None:
    worker = worker_settings()
    if location == "file":
        worker = {"bootstrap.servers": worker["bootstrap.servers"], SETTING: str(tmp_path / "offsets")}
    watch = watching(worker=worker, name=f"{unique}-in", topic=unique)
    watch.wait_for_runs(1)
    for count, (before, after) in enumerate((("tea", "oil"), ("oil", "rye")), 2):
        time.sleep(2)  # the author reads
        saved = time.monotonic()
        edit(tmp_path / "shop.py", before, after)
        assert "2 records" in watch.wait_for_runs(count)
        print(f"{location}: {time.monotonic() - saved:.2f} s from the save to the end of the run")
    sink = {"name": f"{unique}-out", "connector_class": "FileStreamSink", "file": str(tmp_path / "out.txt"), "topics": unique}
    code, output = Runs(tmp_path, worker).run(**sink)
    assert code == 0, output
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert lines == [f"Struct{{id={number + 1},item={item}}}" for number, item in enumerate(["tea", "tea", "oil", "oil", "rye", "rye"])]
