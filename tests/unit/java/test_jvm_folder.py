"""The folders of JVMs: what the next start removes, and what it never touches."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.java.jvm.folder import JvmFolder
from tests.waiting import HANG_SECONDS

OWNER = """
from airflow_provider_connect.runtime.java.jvm.folder import JvmFolder
print(JvmFolder().path, flush=True)
input()
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The temporary directory of the test, which it may share with strangers."""
    made = tmp_path / "tmp"
    made.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(made))
    monkeypatch.setenv("TMPDIR", str(made))
    return made


@pytest.fixture
def owner() -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen([sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        yield process
        process.kill()


def test_a_folder_lives_as_long_as_its_owner(owner: "subprocess.Popen[str]", directory: Path) -> None:
    assert owner.stdout is not None
    theirs = Path(owner.stdout.readline().strip())
    (theirs / "plugins").mkdir()
    (theirs / "plugins" / "linked").symlink_to(directory.parent)
    own = JvmFolder()
    assert (theirs.parent, own.path.parent) == (directory, directory)
    assert theirs.exists(), "its owner lives"
    owner.kill()
    owner.wait(HANG_SECONDS)
    other = JvmFolder()
    assert not theirs.exists()
    assert sorted(directory.iterdir()) == sorted([own.path, other.path])
    for folder in (own, other, own):
        folder.remove()
    assert list(directory.iterdir()) == []
    assert directory.exists(), "what a link in a folder names stays"


def test_what_a_stranger_plants_is_not_touched(directory: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("mine")
    (directory / "connect-java-link.locked").symlink_to(kept)
    (directory / "connect-java-file.locked").write_text("")
    os.mkfifo(directory / "connect-java-pipe.locked")
    (directory / "another-folder").mkdir()
    if os.geteuid() == 0:
        (directory / "connect-java-theirs.locked").mkdir()
        os.chown(directory / "connect-java-theirs.locked", 12345, 12345)
    before = sorted(directory.iterdir())
    JvmFolder().remove()
    assert sorted(directory.iterdir()) == before
    assert (kept / "file").read_text() == "mine"


def test_a_folder_of_a_former_version_whose_owner_may_live_stays(directory: Path) -> None:
    """Its owner holds no lock, so that nothing shows whether it lives."""
    (directory / "connect-java-without-lock").mkdir()
    (directory / "connect-java-left.locked").mkdir()
    JvmFolder().remove()
    assert [entry.name for entry in directory.iterdir()] == ["connect-java-without-lock"]


def test_folders_that_are_made_at_once_are_not_taken_for_left_ones(directory: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: JvmFolder(), range(200)))
    assert len({folder.path for folder in made}) == 200
    assert all(folder.path.is_dir() for folder in made)
    for folder in made:
        folder.remove()
    assert list(directory.iterdir()) == []
