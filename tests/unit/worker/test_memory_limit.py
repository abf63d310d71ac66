"""The memory limit of this process, and the program that watches it; children are killed in this process's place."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.dag_settings import java_heap
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.plugins.validation.delivery_checks import memory_errors
from airflow_provider_connect.runtime.worker.task.memory_limit import MemoryLimit, SharedMemoryLimit
from airflow_provider_connect.runtime.worker.task.memory_watch import LIMIT, NOTE_BYTES, used_bytes, watch
from airflow_provider_connect.runtime.worker.task.stop_signal import StopConnection, StopServer
from tests.waiting import HANG_SECONDS, wait_until

LONGER_THAN_A_PAUSE_SECONDS = 1.5  # between two looks

EATS = """\
    import sys
    from airflow_provider_connect.runtime.worker.task.memory_limit import MemoryLimit, SharedMemoryLimit
    from airflow_provider_connect.runtime.worker.task.stop_signal import StopConnection

    connection = StopConnection(("127.0.0.1", int(sys.argv[1])), sys.argv[2])
    with MemoryLimit("Task c-7", 7, 1 << 40, connection=connection.descriptor) as limit:
        limit.at("t-3, offsets 5 to 9")
        limit.lower(200 << 20)
        {body}
    print("alive")
"""


def eat(body: str, switch: StopServer) -> subprocess.CompletedProcess[str]:
    program = textwrap.dedent(EATS).replace("{body}", body)
    arguments = [str(switch.address[1]), switch.token]
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=HANG_SECONDS, check=False)


@pytest.fixture
def switch() -> StopServer:
    return StopServer("127.0.0.1")


@pytest.mark.parametrize("body", ["b'x' * (20 << 30)", "[bytearray(b'x' * (1 << 20)) for _ in range(20_000)]"])
def test_a_process_at_its_limit_is_killed_with_a_name(switch: StopServer, body: str) -> None:
    ended = eat(body, switch)
    assert (ended.returncode, ended.stdout) == (-9, "")
    words = str(switch.last_report(7))
    assert "Task c-7 needs more memory than task.memory.max allows" in words
    assert "the limit is 200 MiB. It was at t-3, offsets 5 to 9." in words
    assert words in ended.stderr
    assert switch.last_report(8) is None
    held = re.search(r"it held (\d+) MiB", words)
    assert held is not None
    assert 200 <= int(held[1]) < 10_000, "MiB: half of what it asks for, on a machine however busy"


def test_a_process_below_its_limit_lives(switch: StopServer) -> None:
    ended = eat("import time; kept = b'x' * (50 << 20); time.sleep(0.3)", switch)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "alive\n", "")
    assert switch.last_report(7) is None


def test_pages_of_files_do_not_count(tmp_path: Path, switch: StopServer) -> None:
    file = tmp_path / "large"
    file.write_bytes(b"x" * (400 << 20))
    read = f"import mmap, time; file = open({str(file)!r}, 'rb'); kept = mmap.mmap(file.fileno(), 0, prot=1)"
    ended = eat(f"{read}; kept[::4096]; time.sleep(0.3)", switch)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_limit_that_is_left_leaves_no_process() -> None:
    with MemoryLimit("Task c-0", 0, 1 << 40) as limit:
        watching = limit._watching
        assert watching is not None
        assert watching.poll() is None
    assert watching.returncode == -9


def test_a_process_of_several_connectors_may_hold_what_its_tasks_may_and_names_them() -> None:
    with SharedMemoryLimit("The standalone worker", 300 << 20) as shared:

        def noted() -> tuple[int, str]:
            file = shared._of_process._file
            assert file is not None
            data = os.pread(file, NOTE_BYTES, 0)
            return LIMIT.unpack_from(data)[0] >> 20, json.loads(data[LIMIT.size :].rstrip(b"\0"))["at"]

        with shared.share("Task a-0") as first, shared.share("Task b-0") as second:
            second.lower(100 << 20)
            first.at("t-3, offsets 5 to 9")
            assert noted() == (400, "Task a-0: t-3, offsets 5 to 9; Task b-0: its start, before its first record")
        assert noted() == (300, "no task")


def test_a_process_of_several_connectors_is_killed_with_their_names() -> None:
    program = """\
    from airflow_provider_connect.runtime.worker.task.memory_limit import SharedMemoryLimit

    with SharedMemoryLimit("The standalone worker", 200 << 20) as shared, shared.share("Task a-0") as share:
        share.at("t-3, offsets 5 to 9")
        b"x" * (20 << 30)
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=HANG_SECONDS, check=False
    )
    assert ended.returncode == -9
    assert "The standalone worker needs more memory than task.memory.max allows" in ended.stderr
    assert "It was at Task a-0: t-3, offsets 5 to 9." in ended.stderr


def test_what_is_measured_is_like_what_ps_shows() -> None:
    status = os.open("/proc/self/status", os.O_RDONLY)
    try:
        own, shown = used_bytes(status, os.getpid()), used_bytes(None, os.getpid())
    finally:
        os.close(status)
    assert 10 << 20 < own < shown


def test_strange_words_are_no_words(switch: StopServer) -> None:
    connection = StopConnection(switch.address, switch.token)
    wait_until(lambda: len(switch._connections) == 1)
    assert connection.descriptor is not None
    for words in (b"nonsense\n", b'{"7": "x"}\n', b'["x", "y"]\n', b"\xff\n"):
        os.write(connection.descriptor, words)
        assert switch.last_report(7) is None
    connection.close()


@pytest.mark.parametrize(("asked", "errors"), [(None, 0), ("512m", 0), ("2g", 0), ("2049m", 1), ("nonsense", 0)])
def test_a_connector_may_lower_the_limit_and_not_raise_it(asked: str | None, errors: int) -> None:
    found = memory_errors(WorkerSettings.of({}), asked)
    assert len(found) == errors
    assert all("task.memory.max: Value must be no more than 2048m, the worker setting" in error for error in found)


@pytest.mark.parametrize(
    ("worker", "asked"),
    [({}, "4g"), ({"java.memory": "8g"}, "8g"), ({"java.memory.max": "1g"}, "1024m"), ({"java.memory.max": "64m"}, "512m")],
)
def test_the_heap_that_a_connector_may_ask_for(worker: dict[str, str], asked: str) -> None:
    assert java_heap(worker, {"airflow.java.memory": asked}) == asked
    with pytest.raises(ConfigException, match=r"airflow\.java\.memory: Value must be no more than .* java\.memory\.max"):
        java_heap(worker, {"airflow.java.memory": "9000m"})


def note_of(folder: Path, limit: int) -> Path:
    note = folder / "note"
    about = json.dumps({"title": "Task c-7", "task": "7", "at": "t-3, offsets 5 to 9", "remedy": "Buy more."})
    note.write_bytes((LIMIT.pack(limit) + about.encode()).ljust(NOTE_BYTES, b"\0"))
    return note


def test_what_is_above_its_limit_is_reported_to_the_log_and_to_the_driver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Here with signals of number 0, which end nothing, of the process that started this one."""
    note, (reading, connection) = note_of(tmp_path, 0), os.pipe()
    with note.open("rb") as file, os.fdopen(reading) as driver:
        watch(os.getppid(), file.fileno(), connection, 0, 0)
        os.close(connection)
        task, text = json.loads(driver.read())
    assert task == 7
    assert "Task c-7 needs more memory than task.memory.max allows" in text
    assert "the limit is 0 MiB. It was at t-3, offsets 5 to 9." in text
    assert text in capsys.readouterr().err


def test_a_limit_that_is_lowered_holds_from_the_next_look(tmp_path: Path) -> None:
    note, (reading, connection) = note_of(tmp_path, 1 << 40), os.pipe()
    with note.open("r+b", buffering=0) as file:
        watching = threading.Thread(target=watch, args=(os.getppid(), file.fileno(), connection, 0, 0))
        watching.start()
        watching.join(LONGER_THAN_A_PAUSE_SECONDS)
        assert watching.is_alive()
        os.pwrite(file.fileno(), LIMIT.pack(0), 0)
        watching.join()
    os.close(connection)
    with os.fdopen(reading) as driver:
        assert "the limit is 0 MiB" in driver.read()


def test_memory_is_asked_of_ps_where_there_is_no_status() -> None:
    shown = used_bytes(None, os.getpid())
    assert (1 << 20) < shown < (1 << 40)
