"""Sets of Java libraries, fetched once from Maven's central repository by the Ivy that PySpark ships, and kept in the cache folder.

Each file must have the SHA-512 that the project pins for its name: ``jars.sha512`` beside this module, a line a
file, as sha512sum writes it.

Knows nothing of what the libraries are for, but has the table of Kafka's versions that all who fetch Kafka share.
"""

import hashlib
import importlib.util
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import quoteattr

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.spark.cache import made_once
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime

KAFKA = "4.4.0"
"""Apache Kafka of which brokers are started here: the demonstration's and the tests'."""
OLDEST_KAFKA = "4.3.1"
"""The oldest whose brokers are tested."""
KAFKA_CONNECT = "4.3.1"
"""Kafka Connect whose runtime runs Java plugins. 4.4.0 has moved Kafka's ``AppInfoParser``, by which plugins built for 4.3 find their own
version: connect-file and connect-mirror 4.3.1 cannot be loaded by it, and theirs of 4.4.0 cannot be had."""
ATTEMPTS = 3
PROGRESS_SECONDS = 3.0
_NOT_FOUND = re.compile(r":: ([^\s#;]{1,200})#([^\s#;]{1,200});([^\s#;]{1,200}): not found")
_NO_ANSWER = ("Server access", "SERVER ERROR", "Host ", "Connection ", "timed out", "UnknownHost", "SSL", "unreachable")
PINS = Path(__file__).with_name("jars.sha512")


def announce(text: str) -> None:
    """Prints a line of progress on standard error, where it mixes with no result."""
    print(text, file=sys.stderr, flush=True)


def fetch_jars(
    cache: Path, name: str, libraries: Sequence[str], java: JavaRuntime, *, pins: Path = PINS, notify: Callable[[str], None] = announce
) -> Path:
    """A folder of the cache, ``name`` and a mark of ``libraries``, with the jars of ``libraries`` and all that they need at run time.

    A library is named ``organisation:module:version``; with ``:type`` or ``:type:classifier`` behind it, only that file of it is fetched.
    Asked for by several processes at once, one fetches and the others wait. The files of an interrupted fetch are not fetched again. Raises
    ConnectException, and keeps nothing, where a file is not the one that ``pins`` names.
    """
    folder = cache / "jars" / f"{name}-{hashlib.sha256(' '.join(libraries).encode()).hexdigest()[:8]}"
    if not folder.exists():
        notify(f"fetching {name} (once; kept in {folder})")

    def fetch(scratch: Path) -> None:
        fetch_libraries(scratch, cache / "ivy", libraries, java, notify)
        check_files(scratch, pins)

    return made_once(folder, fetch)


def fetch_libraries(
    folder: Path,
    ivy_cache: Path,
    libraries: Sequence[str],
    java: JavaRuntime,
    notify: Callable[[str], None],
    *,
    excluded: Sequence[str] = (),
    settings: Path | None = None,
) -> None:
    """Fill the empty ``folder`` with the files of ``libraries`` and of what they need at run time, but for the modules ``excluded``
    (``organisation:module``, with ``*`` for all). ``settings`` of Ivy name other repositories than Maven's central one. The sums that the
    repository publishes are checked. Files are kept beside ``folder``. Raises ConnectException with what Ivy reports."""
    module = folder.with_name("ivy.xml")
    module.write_text(_module(libraries, excluded))
    command = [str(java.executable), f"-Duser.home={folder.parent}", "-jar", str(_ivy()), "-cache", str(ivy_cache), "-ivy", str(module)]
    command += [] if settings is None else ["-settings", str(settings)]
    command += ["-confs", "default", "-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"]
    for attempt in range(1, ATTEMPTS + 1):
        failure, missing = _run(command, notify)
        if missing:
            names = ", ".join(missing)
            raise ConnectException(f"There is no {names} in {_repository(settings)}: check group, artifact and version")
        if failure is None and any(folder.iterdir()):
            notify(f"fetched {len(list(folder.iterdir()))} files")
            return
        notify(f"attempt {attempt} of {ATTEMPTS} did not get everything")
    raise ConnectException(f"Cannot fetch {', '.join(libraries)} from {_repository(settings)}. Ivy reports: {failure}")


def _repository(settings: Path | None) -> str:
    return "Maven's central repository" if settings is None else f"the repositories of {settings}"


def check_files(folder: Path, pins: Path = PINS) -> None:
    """Raises ConnectException that names the files whose SHA-512 is another than the pinned one, or that have none."""
    lines = (line.split() for line in pins.read_text(encoding="utf-8").splitlines() if not line.startswith("#"))
    pinned = {name: digest for digest, name in lines}
    found = {file.name: hashlib.sha512(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}
    wrong = [
        f"{name} has SHA-512 {digest}, and {pinned.get(name, 'none')} is pinned"
        for name, digest in found.items()
        if pinned.get(name) != digest
    ]
    if wrong:
        raise ConnectException(
            f"Files that were fetched are not those that {pins} pins: {'; '.join(wrong)}. Do not use them. After a change of "
            "version, compare the new files with what their project publishes, and write their sums there"
        )


def _run(command: Sequence[str], notify: Callable[[str], None]) -> tuple[str | None, list[str]]:
    """Runs Ivy, reporting every few seconds how far it got, also while Ivy prints nothing. None, or the last lines of a failure; and
    what its repositories lack."""
    lines: list[str] = []
    started = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as ivy:
        assert ivy.stdout is not None
        reading = threading.Thread(target=_read, args=(ivy.stdout, lines), daemon=True)
        reading.start()
        reading.join(PROGRESS_SECONDS)
        while reading.is_alive():
            notify(f"  {_progress(list(lines))} ({time.monotonic() - started:.0f} s)")
            reading.join(PROGRESS_SECONDS)
    if ivy.returncode == 0 and not any("UNRESOLVED DEPENDENCIES" in line or "FAILED DOWNLOADS" in line for line in lines):
        return None, []
    return " / ".join(lines[-12:]), _missing(lines)


def _missing(lines: Sequence[str]) -> list[str]:
    """Libraries that are not in the repositories: another attempt would bring none. Empty where a repository did not answer."""
    if any(word in line for line in lines for word in _NO_ANSWER):
        return []
    found = (_NOT_FOUND.match(line.strip()) for line in lines)
    return list(dict.fromkeys(f"{each[1]}:{each[2]}:{each[3]}" for each in found if each))


def _read(output: Iterable[str], lines: list[str]) -> None:
    for line in output:
        lines.append(line.rstrip())  # noqa: PERF401 - another thread counts them meanwhile


def _progress(lines: Iterable[str]) -> str:
    """How far Ivy is after it has printed ``lines``: it finds all libraries first, some in several versions, then fetches their jars."""
    words = [line.split(maxsplit=1)[0] for line in lines if line.strip()]
    found, fetched = words.count("found"), words.count("[SUCCESSFUL")
    if fetched:
        return f"{fetched} of at most {found} jars fetched"
    return f"finding out what it needs: {found} libraries so far" if found else "finding out what it needs"


def _module(libraries: Sequence[str], excluded: Sequence[str]) -> str:
    dependencies = []
    for library in libraries:
        organisation, module, version, *file = library.split(":")
        head = f'<dependency org={quoteattr(organisation)} name={quoteattr(module)} rev={quoteattr(version)} conf="default->default"'
        if file:
            kind, *classified = map(quoteattr, file)
            of_class = "".join(f" m:classifier={classifier}" for classifier in classified)
            only = f"<artifact name={quoteattr(module)} type={kind} ext={kind}{of_class}/>"
            dependencies.append(f'{head} transitive="false">{only}</dependency>')
        else:
            dependencies.append(f"{head}/>")
    for organisation, _, name in (each.partition(":") for each in excluded):
        dependencies.append(f"<exclude org={quoteattr(organisation)} module={quoteattr(name)}/>")
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="local" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(dependencies)}</dependencies></ivy-module>"
    )


def _ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        found = sorted(Path(folder).glob("jars/ivy-*.jar"), key=lambda jar: [int(number) for number in re.findall(r"\d+", jar.name)])
        if found:
            return found[-1]
    raise ConnectException("Java libraries are fetched by the Ivy inside PySpark, and PySpark is not installed. Run: pip install pyspark")
