"""Validates the configs of a public repository by a real herder over REST, and counts what each is told: ``python -m
tests.contract.public_configs GIT_DIRECTORY [--all] [-o FILE]``.

The repository (vdesabou/kafka-docker-playground, 527 distinct configs of 202 classes) is only read: a config is a JSON object with
``connector.class`` in a script, page or file of its newest commit, or a file of properties. ``--all`` adds those that are no JSON until a
shell has read them. An answer counts as unclear unless each of its errors names the next step in words that are listed here.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx

from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.rest.server import rest_server
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from airflow_provider_connect.runtime.stores.admin_connection import server_info
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from tests.conftest import CACHE, worker_properties
from tests.no_runs import NoRuns
from tests.waiting import HANG_SECONDS

CLASS: Final = "connector.class"
JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_NO_CLASS: Final = "Failed to find any class that implements Connector"
_STEPS: Final = (
    ("plugin from Maven's central repository", r"\(to install it: airflow connect plugins install maven:[\w.-]+:[\w.-]+:[\w.-]+"),
    ("plugin from Confluent Hub", r"\(download the zip of [\w-]+/[\w-]+ from Confluent Hub"),
    ("plugin from its maker's releases", r"\(download the archive of a release of (?:github\.com/[\w-]+/[\w-]+|debezium\.io/releases)"),
    ("name of Confluent Cloud, with its class", r"\(outside of Confluent Cloud \w+ is [\w.]+: set connector\.class="),
    ("stays in its cluster", r"leave (?:it|this connector) (?:in a Kafka Connect cluster|there)"),
)
"""What the error of an unknown class says to do."""
_SETTINGS: Final = (
    r"Use a path below that, or ask an admin to add the folder to the setting\.$",
    r"airflow connect plugins install confluentinc-kafka-connect-jdbc-VERSION\.zip, copy the driver's jar",
    r"Run: pip install 'airflow-provider-connect\[\w+\]'",
    r"Write jdbc:\w+:",
    r"Write the URL, jdbc:",
    r"and in the URL \w+=",
    r"Take the options of stores out of the URL",
    r"Remove this setting\.$",
    r'^Missing required configuration "[^"]+" which has no default value\.$',
    r"^Must configure one of topics or topics\.regex$",
    r"Leave it out or ask for the worker setting [\w.]+",
    r"use SqlTransform or one of your own \(docs/transformations\.md\)",
)
"""What errors of settings say to do."""
_PAIR: Final = re.compile(r'"((?:[^"\\\n]|\\.)*)"\s*:\s*("(?:[^"\\]|\\.)*"|true|false|-?[0-9.]+)')
_COMMENT: Final = re.compile(r"^\s*(?:#|//).*$", re.MULTILINE)
_MASKED: Final = re.compile(r"\w\[hidden\]|\[hidden\]\w")


@dataclass(frozen=True, slots=True)
class PublicConfig:
    file: str
    config: Mapping[str, str]

    @property
    def class_name(self) -> str:
        return self.config[CLASS]


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server answers to a config."""

    status: int
    errors: list[tuple[str, str]]
    warnings: list[str]
    seconds: float


def public_configs(git_directory: str, *, with_loose: bool = False) -> list[PublicConfig]:
    """Those of the newest commit, each once whatever its file."""
    found: dict[str, PublicConfig] = {}
    names = {line.split(":", 1)[1] for line in _git(git_directory, "grep", "-I", "-l", "connector.class", "HEAD").splitlines()}
    for file in sorted(names):
        for config in _of_text(file, _git(git_directory, "show", f"HEAD:{file}"), with_loose):
            if isinstance(config.get(CLASS), str):
                texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
                found.setdefault(json.dumps(texts, sort_keys=True), PublicConfig(file, texts))
    return list(found.values())


def _git(directory: str, *arguments: str) -> str:
    done = subprocess.run(["git", "--git-dir", directory, *arguments], capture_output=True, check=False)  # a snapshot may lack large files
    return done.stdout.decode(errors="replace")


def _of_text(file: str, text: str, with_loose: bool) -> Iterator[dict[str, Any]]:
    if file.endswith(".properties"):
        lines = (line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#"))
        yield {key.strip(): value.strip() for key, _, value in lines}
        return
    for match in re.finditer(r'"connector\.class"', text):
        whole = _COMMENT.sub("", _enclosing(text, match.start()))
        try:
            yield json.loads(whole)
        except ValueError:
            if with_loose and whole:
                yield {key: value.removeprefix('"').removesuffix('"') for key, value in _PAIR.findall(whole)}


def _enclosing(text: str, at: int) -> str:
    """The object in braces around ``at``; empty where it does not end."""
    start = text.rfind("{", 0, at)
    while start > 0 and text[start - 1] == "$":  # a variable of the shell
        start = text.rfind("{", 0, start)
    depth, is_text, position = 0, False, start
    while 0 <= position < len(text):
        character = text[position]
        if is_text:
            position += character == "\\"
            is_text = character != '"'
        elif character == '"':
            is_text = True
        elif character in "{}":
            depth += 1 if character == "{" else -1
            if depth == 0:
                return text[start : position + 1]
        position += 1
    return ""


def kind_of(answer: Answer) -> str:
    """What a user is told: one of the kinds of steps, or ``unclear``."""
    if answer.status == 200 and not answer.errors:
        return "valid"
    texts = [text for _, text in answer.errors]
    if answer.status >= 500 or any(map(_MASKED.search, texts)):
        return "unclear"
    if texts[0].startswith(_NO_CLASS):
        return next((kind for kind, pattern in _STEPS if re.search(pattern, texts[0])), "unclear")
    return "setting to change" if all(any(re.search(each, text) for each in _SETTINGS) for text in texts) else "unclear"


def asked(client: httpx.Client, url: str, config: Mapping[str, str]) -> Answer:
    """The validation of ``config``, as a client of Kafka Connect asks for it."""
    start = time.perf_counter()
    given = {"name": "public", **config}
    response = client.put(f"{url}/connector-plugins/{quote(config[CLASS], safe='')}/config/validate", json=given)
    seconds = time.perf_counter() - start
    body = response.json()
    errors = [(each["value"]["name"], error) for each in body.get("configs", ()) for error in each["value"]["errors"]]
    if response.status_code != 200:
        errors = [(CLASS, body["message"])]
    return Answer(response.status_code, errors, json.loads(response.headers.get("X-Config-Warnings", "[]")), seconds)


def answers(configs: list[PublicConfig]) -> list[Answer]:
    """Of a herder on a broker of its own, whose connectors reach no file of the host."""
    with tempfile.TemporaryDirectory() as folder, KafkaServer(Path(folder), CACHE) as kafka:
        properties = worker_properties(kafka.bootstrap_servers, "public-configs") | {"key.converter": JSON, "value.converter": JSON}
        settings = WorkerSettings.of(properties | {"connectors.allowed.paths": folder})
        TopicAdmin(settings).ensure_internal_topics()
        with (
            PluginProbe(settings) as probe,
            Herder(settings, NoRuns(), probe=probe) as herder,
            rest_server({}, herder=lambda: herder, info=lambda: server_info(settings), port=0) as running,
            httpx.Client(timeout=HANG_SECONDS) as client,
        ):
            asked(client, running.url, {CLASS: "FileStreamSource"})  # the first request starts the plugins' process
            return [asked(client, running.url, each.config) for each in configs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("git_directory")
    parser.add_argument("--all", action="store_true", help="those that only a shell makes JSON of, too")
    parser.add_argument("-o", "--output", type=Path, help="a file for all answers, as JSON")
    arguments = parser.parse_args()
    configs = public_configs(arguments.git_directory, with_loose=arguments.all)
    found = answers(configs)
    kinds = [kind_of(answer) for answer in found]
    print(f"{len(configs)} distinct configs of {len({each.class_name for each in configs})} classes")
    for kind, count in Counter(kinds).most_common():
        print(f"{count:5} {kind}")
    print(
        f"answers of {max(answer.status for answer in found)} at most, the slowest within {max(answer.seconds for answer in found):.2f} s"
    )
    for public, answer, kind in zip(configs, found, kinds, strict=True):
        if kind == "unclear":
            print(f"unclear: {public.file} {public.class_name}: {answer.errors}")
    if arguments.output is not None:
        rows = [
            {"file": public.file, "class": public.class_name, "kind": kind, "errors": answer.errors, "warnings": answer.warnings}
            for public, answer, kind in zip(configs, found, kinds, strict=True)
        ]
        arguments.output.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
