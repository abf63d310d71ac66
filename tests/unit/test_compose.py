"""``docker-compose.yaml`` and ``.dockerignore``: a whole deployment without defaults for secrets, whose image holds the sources alone.

The shell commands in the file are run here, in a folder of the test, with stand-ins for the programs that need root.
"""

import json
import os
import re
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from airflow_provider_connect.hooks.airflow_settings import BUNDLE

ROOT = Path(__file__).resolve().parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yaml").read_text())


def test_the_compose_file_has_the_whole_stack() -> None:
    airflow_parts = {f"airflow-{part}" for part in ("init", "api-server", "scheduler", "dag-processor", "triggerer")}
    assert COMPOSE["services"].keys() == {"kafka", "postgres", "spark-master", "spark-worker-1", "spark-worker-2", *airflow_parts}


@pytest.mark.parametrize("name", sorted(COMPOSE["services"]))
def test_every_service_has_a_healthcheck_but_the_one_that_ends(name: str) -> None:
    check = COMPOSE["services"][name]["healthcheck"]
    assert check == {"disable": True} if name == "airflow-init" else check["test"]


def texts(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for name, part in value.items():
            yield from texts(part, str(name))
    elif isinstance(value, list):
        for part in value:
            yield from texts(part, key)
    else:
        yield key, str(value)


def test_no_secret_of_the_compose_file_has_a_default() -> None:
    secrets = [(key, text) for key, text in texts(COMPOSE) if key.endswith(("PASSWORD", "SECRET", "FERNET_KEY", "SQL_ALCHEMY_CONN"))]
    assert len(secrets) >= 4
    assert [key for key, text in secrets if "${" not in text or ":?" not in text or ":-" in text] == []


def test_ports_of_the_compose_file_are_this_machines_alone() -> None:
    ports = [port for service in COMPOSE["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def airflow_environment() -> Mapping[str, str]:
    found: Mapping[str, str] = COMPOSE["services"]["airflow-scheduler"]["environment"]
    return found


def test_connectors_created_over_rest_get_dags() -> None:
    bundles = json.loads(airflow_environment()["AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"])
    assert [bundle["classpath"] for bundle in bundles] == ["airflow.dag_processing.bundles.local.LocalDagBundle", BUNDLE]
    assert {bundle["name"] for bundle in bundles} == {"dags-folder", "connectors"}
    storage = airflow_environment()["AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_STORAGE_PATH"]
    for name, service in COMPOSE["services"].items():
        if name.startswith("airflow-"):
            assert service["environment"].items() >= airflow_environment().items() or name == "airflow-init"
            assert f"bundles:{storage}" in service["volumes"]


def test_connectors_may_open_files_below_the_shared_folder_alone() -> None:
    environment = airflow_environment()
    assert environment["AIRFLOW__CONNECT__CONNECTORS_ALLOWED_PATHS"] == environment["CONNECT_DEMO_DIR"]
    sharing = [
        name for name, service in COMPOSE["services"].items() if f"demo:{environment['CONNECT_DEMO_DIR']}" in service.get("volumes", [])
    ]
    assert {"airflow-scheduler", "spark-worker-1", "spark-worker-2"} <= set(sharing)


def test_the_images_can_be_named_by_digest() -> None:
    images = {name: service["image"] for name, service in COMPOSE["services"].items()}
    assert images.pop("kafka").startswith("${KAFKA_IMAGE:-")
    assert images.pop("postgres").startswith("${POSTGRES_IMAGE:-")
    assert set(images.values()) == {"airflow-provider-connect:dev"}
    build = COMPOSE["services"]["airflow-init"]["build"]
    assert build["args"].keys() == {"AIRFLOW_IMAGE"}
    assert re.search(r"^ARG AIRFLOW_IMAGE\nFROM \$\$\{AIRFLOW_IMAGE\}$", build["dockerfile_inline"], re.MULTILINE)


def stand_ins(folder: Path) -> None:
    """Programs for ``init`` in place of those that need root."""
    programs = folder / "programs"
    programs.mkdir()
    for name, text in (
        ("install", 'for last; do case "$last" in /*) mkdir -p "$last" ;; esac; done'),
        ("chown", "exit 0"),
        ("runuser", 'echo "as $*"'),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)


@pytest.fixture
def initialised(tmp_path: Path) -> Path:
    """``airflow-init`` can be run by ``init``; what it would have under /opt is in this folder."""
    stand_ins(tmp_path)
    return tmp_path


def init(folder: Path, **variables: str) -> "subprocess.CompletedProcess[str]":
    service = COMPOSE["services"]["airflow-init"]
    script = service["command"][0].replace("$$", "$").replace("/opt/", f"{folder}/opt/")
    environment = {"PATH": f"{folder / 'programs'}:{os.environ['PATH']}", "UNPINNED_IMAGES": "", **variables}
    return subprocess.run([*service["entrypoint"], script], env=environment, capture_output=True, text=True, check=False)


SECRETS = {"ADMIN_PASSWORD": "a secret", "SPARK_AUTH_SECRET": "s3cret-of-spark"}
PINNED = "airflow@sha256:1 kafka@sha256:2 postgres@sha256:3"


def test_its_first_step_writes_what_the_others_need(initialised: Path) -> None:
    done = init(initialised, IMAGES=PINNED, **SECRETS)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "as --user airflow -- /home/airflow/.local/bin/airflow db migrate\n"
    assert json.loads((initialised / "opt/airflow/auth/passwords.json").read_text()) == {"admin": "a secret"}
    spark = initialised / "opt/spark-conf/spark-defaults.conf"
    assert stat.S_IMODE(spark.stat().st_mode) == 0o600
    assert dict(line.split() for line in spark.read_text().splitlines()) == {
        "spark.authenticate": "true",
        "spark.authenticate.secret": "s3cret-of-spark",
        "spark.network.crypto.enabled": "true",
        "spark.io.encryption.enabled": "true",
    }


def test_every_part_that_speaks_to_spark_reads_its_settings() -> None:
    for name, service in COMPOSE["services"].items():
        if name.startswith(("airflow-", "spark-")):
            assert service["environment"]["SPARK_CONF_DIR"] == "/opt/spark-conf"
            assert any(volume.startswith("spark-conf:/opt/spark-conf") for volume in service["volumes"])
        if name.startswith("spark-"):
            assert service["depends_on"]["airflow-init"] == {"condition": "service_completed_successfully"}


@pytest.mark.parametrize(("images", "unpinned", "code"), [("a@sha256:1 KAFKA_IMAGE p@sha256:3", "", 1), ("a:3 k:4 p:17", "yes", 0)])
def test_an_image_without_a_digest_is_refused_unless_that_is_asked_for(initialised: Path, images: str, unpinned: str, code: int) -> None:
    done = init(initialised, IMAGES=images, UNPINNED_IMAGES=unpinned, **SECRETS)
    assert done.returncode == code
    assert ("KAFKA_IMAGE is not named by its digest" in done.stderr) is (code == 1)
    assert (initialised / "opt").exists() is (code == 0)


def is_ignored(path: str) -> bool:
    """As Docker decides: the last pattern that matches a path, or a folder above it, wins."""
    ignored = False
    parents = [path, *map(str, Path(path).parents)][:-1]
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern = line.removeprefix("!").removeprefix("**/")
            anywhere = [part for name in parents for part in (name, Path(name).name)] if "**/" in line else parents
            if any(fnmatch(name, pattern) for name in anywhere):
                ignored = not line.startswith("!")
    return ignored


def test_the_image_holds_neither_history_nor_environments_nor_secrets() -> None:
    for path in (".git/config", ".dev/stack.json", ".dev/cache/x", ".venv/bin/python", "tests/conftest.py", ".env", "worker.properties"):
        assert is_ignored(path), path
    for path in ("airflow_provider_connect/__pycache__/x.pyc", "dags/__pycache__", "spark_jobs/a.pyc"):
        assert is_ignored(path), path


def test_the_image_holds_all_that_the_wheel_is_built_from() -> None:
    folders = [ROOT / name for name in ("airflow_provider_connect", "dags", "spark_jobs")]
    listed = [file.relative_to(ROOT) for folder in folders for file in folder.rglob("*") if file.is_file()]
    files = [
        *(str(file) for file in listed if "__pycache__" not in file.parts),
        "setup.cfg",
        "setup.py",
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "NOTICE",
        "requirements/build.txt",
        "requirements/image.txt",
    ]
    assert len(files) > 300
    assert [file for file in files if is_ignored(file)] == []


def hashed(name: str) -> dict[str, tuple[Requirement, int]]:
    """The requirements in a file, and of how many files each allows the hash, by their names."""
    lines = (ROOT / "requirements" / name).read_text().replace("\\\n", " ").splitlines()
    found = [(Requirement(line.split(" --hash=")[0]), len(re.findall(r" --hash=sha256:[0-9a-f]{64}(?= |$)", line))) for line in lines]
    return {canonicalize_name(requirement.name): (requirement, hashes) for requirement, hashes in found}


def needed(names: Iterable[str], extras: Mapping[str, set[str]]) -> set[str]:
    """All that the distributions need, on Linux and the Python of this environment, by their installed metadata."""
    seen, waiting = set[tuple[str, str]](), [(name, extra) for name in names for extra in ("", *extras.get(name, ()))]
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) not in seen:
            seen.add((name, extra))
            wanted = [Requirement(text) for text in metadata.requires(name) or ()]
            wanted = [each for each in wanted if each.marker is None or each.marker.evaluate({"extra": extra})]
            waiting += [(canonicalize_name(each.name), one) for each in wanted for one in ("", *each.extras)]
    return {name for name, _ in seen}


def test_every_file_that_the_image_installs_is_known_by_its_hash() -> None:
    """After a change of setup.cfg or constraints.txt: make hashes."""
    build, image = hashed("build.txt"), hashed("image.txt")
    constraints: dict[str, str] = {
        canonicalize_name(name): version for name, _, version in map(constraint, (ROOT / "constraints.txt").read_text().splitlines())
    }
    for name, (requirement, hashes) in {**build, **image}.items():
        assert hashes > 0, name
        (pin,) = requirement.specifier
        if requirement.marker is None or requirement.marker.evaluate({"sys_platform": "linux", "python_full_version": "3.11.9"}):
            assert (pin.operator, pin.version) == ("==", constraints[name]), name
    ours = "airflow-provider-connect"
    extras = {"airflow", "filesystem", "jdbc", "lake", "mysql", "registry", "sftp", "sql"}
    wanted = needed([ours, "asyncpg", "psycopg2-binary", "setuptools"], {ours: extras}) - {ours}
    assert sorted(wanted - image.keys()) == []
    assert build.keys() == {"setuptools"}


def constraint(line: str) -> tuple[str, str, str]:
    return line.partition("#")[0].strip().partition("==")


def test_pip_fetches_nothing_for_the_image_without_a_hash() -> None:
    """Nor for building what comes as source, which pip would fetch without checking hashes."""
    text = COMPOSE["x-image"]["build"]["dockerfile_inline"]
    commands = [line.strip(" \\") for line in text.splitlines() if "pip install" in line]
    assert len(commands) == 3
    assert [command for command in commands if "--require-hashes" not in command and "--no-index --no-deps" not in command] == []
    assert [command for command in commands if "--no-build-isolation" not in command and "build.txt" not in command] == []
