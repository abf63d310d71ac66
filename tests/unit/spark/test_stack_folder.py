"""Which folder ``airflow connect dev status`` and ``down`` are about."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_connect.dev import stack


def made(directory: Path) -> Path:
    """A folder with the state of a stack."""
    directory.mkdir(parents=True)
    (directory / "stack.json").write_text("{}")
    return directory


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "package" / "src"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.delenv("AIRFLOW_HOME", raising=False)
    return folder


def test_the_stack_of_the_working_directory_or_of_one_above_it(tmp_path: Path, elsewhere: Path) -> None:
    above = made(tmp_path / ".dev")
    assert stack.directory_in_use() == above
    here = made(elsewhere / ".dev")
    assert stack.directory_in_use() == here


def test_else_the_stack_of_the_shells_airflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    far = made(tmp_path / "checkout" / ".dev")
    monkeypatch.setenv("AIRFLOW_HOME", str(far / "stack" / "airflow"))
    assert stack.directory_in_use() == far


def test_without_a_stack_nothing_is_created_and_the_folder_is_named(elsewhere: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert stack.status() == 1
    assert stack.down() == 0
    printed = capsys.readouterr()
    remedy = "Run the command in the folder of airflow connect dev up or below it, or source the stack's environment.sh first"
    assert printed.out == f"down: no stack in {elsewhere / '.dev'} or a .dev of the folders above; 0 processes. {remedy}\n"
    assert f"was down: no stack in {elsewhere / '.dev'} or a .dev of the folders above. {remedy}\n" in printed.err
    assert list(elsewhere.iterdir()) == []
