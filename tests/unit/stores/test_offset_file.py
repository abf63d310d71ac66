import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConfigException, FencedException, RetriableException
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores.config_follower import Change, ChangeKind
from airflow_provider_connect.runtime.stores.local_backing import LocalBacking
from airflow_provider_connect.runtime.stores.offset_file import FileOffsets, OffsetFile
from airflow_provider_connect.runtime.stores.transactional_producer import ProducerRecord


def _put(file: OffsetFile, connector: str, position: int | None) -> None:
    offset = None if position is None else {"position": position}
    file.put({record.key: record.value for record in FileOffsets(file).records(connector, [({"filename": "a"}, offset)])})


def _position(file: OffsetFile, connector: str) -> object:
    return (file.read(connector).get({"filename": "a"}) or {}).get("position")


def test_offsets_are_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    file = OffsetFile(path)
    _put(file, "c", 5)
    _put(file, "d", 7)
    _put(file, "d", None)
    file.close()
    again = OffsetFile(path)
    assert (_position(again, "c"), _position(again, "d"), again.read("d").partitions()) == (5, None, [])
    again.close()


def test_the_file_is_the_users_own_and_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(b"")
    path.chmod(0o644)
    old = os.open(path, os.O_RDONLY)
    file = OffsetFile(path)
    _put(file, "c", 5)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.read(old, 10) == b""
    assert sorted(os.listdir(tmp_path)) == [".offsets.lock", "offsets"]
    os.close(old)
    file.close()


def test_a_file_that_cannot_be_replaced_keeps_what_it_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OffsetFile(tmp_path / "offsets")
    _put(file, "c", 5)
    before = file.path.read_bytes()

    def no_space(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", no_space)
        with pytest.raises(RetriableException, match="No space left on device"):
            _put(file, "c", 6)
    assert (file.path.read_bytes(), _position(file, "c")) == (before, 5)
    _put(file, "c", 6)
    assert _position(file, "c") == 6
    file.close()


@pytest.mark.parametrize("content", [b"not offsets", b"\xac\xed\x00\x05sr"])
def test_a_file_that_holds_anything_else_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "offsets"
    path.write_bytes(content)
    for _ in range(2):  # the lock was let go of
        with pytest.raises(
            ConfigException, match=r"Invalid value .*offsets for configuration offset.storage.file.filename: This is not a file"
        ):
            OffsetFile(path)
    assert path.read_bytes() == content


def test_two_workers_cannot_have_one_file(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    hold = "import sys; from pathlib import Path; from airflow_provider_connect.runtime.stores.offset_file import OffsetFile\n"
    hold += "file = OffsetFile(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    other = subprocess.Popen([sys.executable, "-c", hold, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    with pytest.raises(ConfigException, match="Another worker keeps its offsets in this file"):
        OffsetFile(path)
    other.kill()
    other.communicate()
    OffsetFile(path).close()


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigException, match="The folder cannot be written to: No such file or directory"):
        OffsetFile(tmp_path / "nowhere" / "offsets")


def test_threads_lose_no_commit(tmp_path: Path) -> None:
    file = OffsetFile(tmp_path / "offsets")

    def commit(number: int) -> None:
        for position in range(20):
            _put(file, f"c{number}", position)

    threads = [threading.Thread(target=commit, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    file.close()
    again = OffsetFile(file.path)
    assert [_position(again, f"c{number}") for number in range(4)] == [19] * 4
    again.close()


def test_what_an_overdue_task_commits_after_a_newer_one_started_is_refused(tmp_path: Path) -> None:
    file = OffsetFile(tmp_path / "offsets")
    backing = LocalBacking(file)
    configs = backing.configs()
    configs.create_connector("c", {"name": "c"})
    overdue, newer = (backing.committer("c", configs.claim("c")) for _ in range(2))
    assert overdue is not None
    assert newer is not None

    def record(position: int) -> list[ProducerRecord]:
        return [ProducerRecord("", *record) for record in FileOffsets(file).records("c", [({"filename": "a"}, {"position": position})])]

    overdue.take_over()
    overdue.write(record(1))  # a newer claim alone leaves it the time to end
    newer.take_over()
    with pytest.raises(FencedException, match="is no longer the newest"):
        overdue.write(record(2))
    assert _position(file, "c") == 1
    newer.begin()
    newer.send(record(3))
    assert _position(file, "c") == 1
    newer.commit()
    assert _position(file, "c") == 3
    file.close()


def test_followers_are_notified_of_verbs_but_not_of_claims(tmp_path: Path) -> None:
    file = OffsetFile(tmp_path / "offsets")
    configs = LocalBacking(file).configs()
    configs.create_connector("c", {"name": "c"})
    with configs.follow("c", configs.claim("c")) as follower:
        configs.claim("c")
        assert follower.poll() is None
        configs.put_target_state("c", TargetState.PAUSED)
        configs.claim("c")
        assert follower.poll() == Change(ChangeKind.PAUSED)
        assert follower.poll() is None
    file.close()
