"""Sets of Java libraries, fetched once from Maven's central repository by PySpark's Ivy, and kept in the cache folder.

Each file must have the SHA-512 that the file ``jars.sha512``, next to this module, pins for its name. That file has one line per jar, in
the format of sha512sum.

Does not know the purpose of the libraries. Defines the versions of Kafka for all modules that fetch Kafka's jars.
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
"""The version of Apache Kafka whose brokers the demonstration and the tests start."""
OLDEST_KAFKA = "4.3.1"
"""The oldest version whose brokers are tested."""
KAFKA_CONNECT = "4.3.1"
"""The version of Kafka Connect whose runtime runs Java plugins. Plugins built for 4.3 find their own version with Kafka's
``AppInfoParser``, and 4.4.0 has moved that class. So 4.4.0 cannot load connect-file and connect-mirror 4.3.1, and version 4.4.0 of these
two is not available."""
PAUSES = (2.0, 10.0, 30.0)
"""Seconds before each further attempt to fetch, so that a short outage does not use up all attempts."""
PROGRESS_SECONDS = 3.0
_NOT_FOUND = re.compile(r"(?:::|\[NOT FOUND  \]) ([^\s#;]{1,200})#([^\s#;]{1,200});([^\s#;!]{1,200})(?:: not found|!\S+ \(\d+ms\))")
"""Ivy's line about a library that is missing, and about a file that its library does not have."""
_NO_ANSWER = ("Server access", "SERVER ERROR", "Host ", "Connection ", "timed out", "UnknownHost", "SSL", "unreachable")
PINS = Path(__file__).with_name("jars.sha512")


def announce(text: str) -> None:
    """Prints a line of progress to standard error, separately from results."""
    print(text, file=sys.stderr, flush=True)


def fetch_jars(
    cache: Path, name: str, libraries: Sequence[str], java: JavaRuntime, *, pins: Path = PINS, notify: Callable[[str], None] = announce
) -> Path:
    """A folder of the cache, named ``name`` with a hash of ``libraries``, with the jars of ``libraries`` and their runtime dependencies.

    A library is named ``organisation:module:version``. With ``:type`` or ``:type:classifier`` appended, only that file is fetched. If
    several processes call this at the same time, one process fetches, and the others wait. Files of an interrupted fetch are reused. If a
    file does not match ``pins``, raises ConnectException and keeps no file.
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
    wait: Callable[[float], None] = time.sleep,
) -> None:
    """Fill the empty ``folder`` with the files of ``libraries`` and their runtime dependencies, without the modules ``excluded``
    (``organisation:module``, with ``*`` for all). ``settings`` is a settings file of Ivy, for repositories other than Maven's central
    repository. The repository's checksums are verified. Ivy's own files are written next to ``folder``. A failure is retried after each of
    ``PAUSES``, unless the repositories do not have a file. Raises ConnectException with Ivy's report."""
    module = folder.with_name("ivy.xml")
    module.write_text(_module(libraries, excluded))
    command = [str(java.executable), f"-Duser.home={folder.parent}", "-jar", str(_ivy()), "-cache", str(ivy_cache), "-ivy", str(module)]
    command += [] if settings is None else ["-settings", str(settings)]
    command += ["-confs", "default", "-retrieve", f"{folder}/[artifact]-[revision](-[classifier]).[ext]"]
    for pause in (*PAUSES, None):
        failure, missing = _run(command, notify)
        if missing:
            names = ", ".join(missing)
            raise ConnectException(f"There is no {names} in {_repository(settings)}: check group, artifact and version")
        if failure is None and any(folder.iterdir()):
            notify(f"fetched {len(list(folder.iterdir()))} files")
            return
        if pause is not None:
            notify(f"not everything was fetched; retrying in {pause:g} s")
            wait(pause)
    raise ConnectException(f"Cannot fetch {', '.join(libraries)} from {_repository(settings)}. Ivy reports: {failure}")


def _repository(settings: Path | None) -> str:
    return "Maven's central repository" if settings is None else f"the repositories of {settings}"


def check_files(folder: Path, pins: Path = PINS) -> None:
    """Raises ConnectException, which names the files whose SHA-512 differs from the pinned SHA-512, or for which no SHA-512 is pinned."""
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
    """Runs Ivy, and reports progress every few seconds, even while Ivy prints nothing. Returns two values: None or the last lines of a
    failure, and the libraries that the repositories do not have."""
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
    """Libraries that are not in the repositories. For these, a retry would not help. Empty if a repository did not answer."""
    if any(word in line for line in lines for word in _NO_ANSWER):
        return []
    found = (_NOT_FOUND.match(line.strip()) for line in lines)
    return list(dict.fromkeys(f"{each[1]}:{each[2]}:{each[3]}" for each in found if each))


def _read(output: Iterable[str], lines: list[str]) -> None:
    for line in output:
        lines.append(line.rstrip())  # noqa: PERF401 - another thread reads the list meanwhile


def _progress(lines: Iterable[str]) -> str:
    """Ivy's progress after it has printed ``lines``. Ivy first finds all libraries, some in several versions, and then fetches their
    jars."""
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
    raise ConnectException("Java libraries are fetched by PySpark's Ivy, and PySpark is not installed. Run: pip install pyspark")
