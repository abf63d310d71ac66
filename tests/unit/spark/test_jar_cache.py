"""Java libraries that are fetched must be the ones that the project pins; how far a fetch is, is reported."""

import hashlib
import re
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.spark import jar_cache
from airflow_provider_connect.runtime.spark.jar_cache import (
    KAFKA,
    KAFKA_CONNECT,
    OLDEST_KAFKA,
    PAUSES,
    PINS,
    check_files,
    fetch_libraries,
)
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime, find_java
from tests import java_libraries


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "a-1.jar").write_bytes(b"a")
    (tmp_path / "jars" / "b-1.jar").write_bytes(b"b")
    return tmp_path / "jars"


def pins_of(folder: Path, **contents: bytes) -> Path:
    file = folder.with_name("pins")
    lines = [f"{hashlib.sha512(content).hexdigest()}  {name}-1.jar" for name, content in contents.items()]
    file.write_text("\n".join(["# a comment", *lines, ""]))
    return file


def test_files_as_pinned_are_taken(folder: Path) -> None:
    check_files(folder, pins_of(folder, a=b"a", b=b"b", c=b"not asked for"))


@pytest.mark.parametrize(
    ("contents", "wrong", "right"), [({"a": b"a", "b": b"other"}, "b-1.jar", "a-1.jar"), ({"b": b"b"}, "a-1.jar", "b-1.jar")]
)
def test_other_files_are_refused_by_name(folder: Path, contents: dict[str, bytes], wrong: str, right: str) -> None:
    with pytest.raises(ConnectException, match="Do not use them") as refused:
        check_files(folder, pins_of(folder, **contents))
    assert f"{wrong} has SHA-512" in str(refused.value)
    assert f"{right} has SHA-512" not in str(refused.value)


IVY = """\
import sys, time
for number in range(4):
    print("\\tfound org.example#library%d;1.0 in central" % number, flush=True)
time.sleep(float(sys.argv[1]))
print("downloading https://example.org/library0-1.0.jar ...", flush=True)
print("\\t[SUCCESSFUL ] org.example#library0;1.0!library0.jar (12ms)", flush=True)
time.sleep(float(sys.argv[1]))
sys.exit(int(sys.argv[2]))
"""
"""Prints as Ivy does, and is silent in between."""


def progress_of(monkeypatch: pytest.MonkeyPatch, *, seconds: float, code: int) -> tuple[list[str], str | None]:
    """The lines of progress, without their times and repetitions, and the failure."""
    monkeypatch.setattr(jar_cache, "PROGRESS_SECONDS", 0.05)
    progress: list[str] = []
    failure = jar_cache._run([sys.executable, "-c", IVY, str(seconds), str(code)], progress.append)[0]
    assert all(re.fullmatch(r".*\S \(\d+ s\)", line) for line in progress)
    return list(dict.fromkeys(line.rpartition(" (")[0].strip() for line in progress)), failure


def test_a_long_fetch_reports_how_far_it_is_also_while_ivy_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    progress, failure = progress_of(monkeypatch, seconds=1.0, code=0)
    assert failure is None
    assert [line for line in progress if line != "finding out what it needs"] == [
        "finding out what it needs: 4 libraries so far",
        "1 of at most 4 jars fetched",
    ]


def test_what_ivy_printed_last_is_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    _, failure = progress_of(monkeypatch, seconds=0.0, code=1)
    assert "[SUCCESSFUL ] org.example#library0" in str(failure)


@pytest.mark.parametrize("pins", [PINS, java_libraries.PINS], ids=["package", "tests"])
def test_each_pin_is_a_sum_and_a_file(pins: Path) -> None:
    lines = [line.split() for line in pins.read_text().splitlines() if not line.startswith("#")]
    assert all(len(digest) == 128 and set(digest) <= set("0123456789abcdef") for digest, _ in lines)
    assert len({name for _, name in lines}) == len(lines) > 40
    versions = (KAFKA, OLDEST_KAFKA, KAFKA_CONNECT) if pins == PINS else (KAFKA_CONNECT,)
    assert {f"kafka-clients-{version}.jar" for version in versions} <= {name for _, name in lines}


NOWHERE = """\
<ivysettings>
  <settings defaultResolver="own"/>
  <resolvers><ibiblio name="own" m2compatible="true" root="{root}"/></resolvers>
</ivysettings>
"""


@pytest.mark.process
def test_an_artifact_that_no_repository_has_is_one_line_of_the_first_attempt(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "jars").mkdir()
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(NOWHERE.format(root=(tmp_path / "empty").as_uri() + "/"))
    lines: list[str] = []
    libraries = ["org.example:orders:1.0:jar", "org.example:more:2.0"]
    with pytest.raises(ConnectException) as refused:
        fetch_libraries(tmp_path / "jars", tmp_path / "ivy", libraries, find_java(), lines.append, settings=settings)
    missing = "org.example:orders:1.0, org.example:more:2.0"
    assert refused.value.message == f"There is no {missing} in the repositories of {settings}: check group, artifact and version"
    assert not [line for line in lines if "retrying" in line]


def test_a_repository_that_does_not_answer_is_asked_again() -> None:
    found = "\t\t:: org.apache.kafka#connect-file;4.4.0: not found"
    without_file = "\t\t[NOT FOUND  ] org.example#orders;1.0!orders.jar (1ms)"
    assert jar_cache._missing(["x", found, found, without_file]) == ["org.apache.kafka:connect-file:4.4.0", "org.example:orders:1.0"]
    assert jar_cache._missing(["\t\t:: org.example#orders;1.0!orders.jar"]) == [], "a download that broke off"
    assert jar_cache._missing([found, without_file, "\tServer access error at url https://repo1.maven.org/maven2/"]) == []


OUTAGE = """\
#!/bin/sh
[ -s outages ] || exit 0
sed -i 1d outages
echo "Server access error at url https://repo1.maven.org/maven2/ (java.net.ConnectException: Connection refused)"
exit 1
"""


@pytest.mark.process
@pytest.mark.parametrize("outages", [1, 3, 4])
def test_attempts_to_fetch_have_growing_pauses(tmp_path: Path, folder: Path, outages: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "outages").write_text("x\n" * outages)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text(OUTAGE)
    (tmp_path / "bin" / "java").chmod(0o755)
    waited: list[float] = []
    java = JavaRuntime(tmp_path, "21", tmp_path)
    with nullcontext() if outages <= len(PAUSES) else pytest.raises(ConnectException, match="Connection refused"):
        fetch_libraries(folder, tmp_path / "ivy", ["org.example:a:1"], java, lambda line: None, wait=waited.append)
    assert waited == list(PAUSES)[:outages]
