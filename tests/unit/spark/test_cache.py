"""The cache folder, and making things once."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.spark.cache import CACHE_VARIABLE, cache_directory, forget_old, made_once, note_use

HUNDRED_DAYS_SECONDS = 100 * 86_400


def test_the_variable_names_the_folder(tmp_path: Path) -> None:
    found = cache_directory({CACHE_VARIABLE: str(tmp_path / "a" / "b"), "HOME": str(tmp_path)})
    assert found == tmp_path / "a" / "b"
    assert found.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"HOME": "{tmp}/home"}, "{tmp}/home/.cache/airflow-provider-connect"),
        ({"HOME": "{tmp}/home", "XDG_CACHE_HOME": "{tmp}/xdg"}, "{tmp}/xdg/airflow-provider-connect"),
    ],
)
def test_without_it_the_users_cache_is_taken(tmp_path: Path, environ: dict[str, str], expected: str) -> None:
    filled = {name: value.format(tmp=tmp_path) for name, value in environ.items()}
    assert cache_directory(filled) == Path(expected.format(tmp=tmp_path))


def test_a_home_that_cannot_be_written_falls_back_to_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").touch()
    assert cache_directory({"HOME": str(tmp_path / "file")}) == tmp_path / f"airflow-provider-connect-{os.getuid()}"


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(ConnectException, match=CACHE_VARIABLE):
        cache_directory({CACHE_VARIABLE: str(shared)})


def test_a_thing_is_made_once_and_what_a_failure_left_is_removed(tmp_path: Path) -> None:
    target = tmp_path / "thing"

    def write(path: Path) -> None:
        path.write_text("whole")

    def fail(path: Path) -> None:
        path.write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        made_once(target, fail)
    assert not target.exists()
    assert made_once(target, write).read_text() == "whole"
    assert made_once(target, fail).read_text() == "whole"
    assert [left.name for left in tmp_path.iterdir() if left.is_dir()] == []


def test_of_several_processes_one_makes_and_the_others_wait(tmp_path: Path) -> None:
    script = (
        "import pathlib, sys, time\n"
        "from airflow_provider_connect.runtime.spark.cache import made_once\n"
        "folder = pathlib.Path(sys.argv[1])\n"
        "def make(path):\n"
        "    with (folder / 'made').open('a') as log: log.write('x')\n"
        "    time.sleep(0.3); path.mkdir()\n"
        "print(made_once(folder / 'thing', make).is_dir())\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate()[0] for process in started] == ["True\n"] * 3
    assert (tmp_path / "made").read_text() == "x"


def test_a_process_that_does_not_wait_is_refused_while_another_one_makes(tmp_path: Path) -> None:
    def make(path: Path) -> None:
        with pytest.raises(BlockingIOError):
            made_once(tmp_path / "thing", Path.mkdir, waits=False)
        path.mkdir()

    assert made_once(tmp_path / "thing", make).is_dir()
    assert made_once(tmp_path / "thing", make, waits=False).is_dir()


def test_what_was_made_long_ago_is_forgotten(tmp_path: Path) -> None:
    for name, made in {"old": 1_000_000, "new": 2_000_000, ".hidden": 1_000_000}.items():
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (made, made))
    forget_old(tmp_path, 2_300_000, days=14)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".hidden", "new"]


def test_of_folders_that_share_one_those_that_match_are_forgotten(tmp_path: Path) -> None:
    for name in ("ab", "connect-ab"):
        (tmp_path / name).mkdir()
    now = time.time() + HUNDRED_DAYS_SECONDS
    forget_old(tmp_path, now, pattern="[0-9a-f]" * 2)
    assert [entry.name for entry in tmp_path.iterdir()] == ["connect-ab"]
    forget_old(tmp_path, now, pattern="connect-*")
    assert list(tmp_path.iterdir()) == []


def test_what_is_used_is_new_again_at_most_daily(tmp_path: Path) -> None:
    made = tmp_path.stat().st_mtime
    note_use(tmp_path, made + 3600)
    assert tmp_path.stat().st_mtime == made
    os.utime(tmp_path, (1_000_000, 1_000_000))
    note_use(tmp_path, made)
    assert tmp_path.stat().st_mtime >= made - 60
    note_use(tmp_path / "gone", made)
