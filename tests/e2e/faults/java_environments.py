"""Environments of Java connectors in runs that stay: a folder's files into a topic, a topic into its mirror, a topic into a file."""

from __future__ import annotations

import re
import shutil
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from airflow_provider_connect.runtime.spark.jar_cache import fetch_jars
from airflow_provider_connect.runtime.spark.java_runtime import find_java
from tests.conftest import CACHE
from tests.e2e.faults.environments import RECORDS, lines, make_topic, send
from tests.e2e.faults.oracle import Verdict, judge, topic_records
from tests.e2e.faults.runs import Runs
from tests.java_libraries import PINS
from tests.java_plugins import MIRROR, compiled_plugin, copied_mirror

_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
_FILE = "org.apache.kafka:connect-file:4.3.1:jar"
_LINE = re.compile(rb"[0-9a-f]{8} \d{6} x{60}")


def java_plugin_path(folder: Path) -> Path:
    """A ``plugin.path`` with the locations ``own``, ``mirror`` and ``file``."""
    path = compiled_plugin(folder, "org.example.FolderSourceConnector", "source.SourceConnector")
    copied_mirror(CACHE, path)
    shutil.copytree(fetch_jars(CACHE, "connect-file-4.3.1", (_FILE,), find_java(cache=CACHE), pins=PINS), path / "file")
    return path


@dataclass(slots=True)
class JavaEnvironment(ABC):
    """One connector. ``sent`` are the records that should arrive, ``topic`` is where they come from or go to."""

    bootstrap: str
    topic: str
    runs: Runs
    sent: list[bytes]

    @classmethod
    def _of(cls, folder: Path, settings: Mapping[str, str], name: str, config: Mapping[str, str]) -> Self:
        topic = f"topic-{name}"
        make_topic(settings["bootstrap.servers"], topic, partitions=3)
        return cls(settings["bootstrap.servers"], topic, Runs(folder, name, settings, {"name": name, **config}), [])

    @property
    def name(self) -> str:
        return self.runs.connector

    def add(self, count: int = RECORDS) -> None:
        """More records on the topic, which the connector reads unless it is a source of its own."""
        new = lines(count)
        send(self.bootstrap, self.topic, new)
        self.sent += new

    @abstractmethod
    def verdict(self) -> Verdict:
        """What has arrived."""


class FolderEnvironment(JavaEnvironment):
    """``FolderSourceConnector``, exactly once: it asks for a task for each file. Its tasks read 50 lines in a poll."""

    @classmethod
    def make(cls, folder: Path, settings: Mapping[str, str]) -> Self:
        name = f"folder-{uuid.uuid4().hex[:8]}"
        (folder / name).mkdir()
        config = {"connector.class": "org.example.FolderSourceConnector", "folder": str(folder / name), "topic": f"topic-{name}"}
        return cls._of(folder, settings, name, {**config, "tasks.max": "9"})

    def add(self, count: int = RECORDS) -> None:
        """More lines at the ends of two files, and in one more file up to three."""
        files = sorted((self.runs.folder / self.name).glob("*.txt"))
        if len(files) < 3:
            files.append(self.runs.folder / self.name / f"{len(files)}.txt")
        for path in files[-2:]:
            new = lines(count // 2)
            with path.open("ab") as file:
                file.write(b"".join(line + b"\n" for line in new))
            self.sent += new

    def verdict(self) -> Verdict:
        return judge(self.sent, topic_records(self.bootstrap, self.topic))


class JavaMirrorEnvironment(JavaEnvironment):
    """``MirrorSourceConnector`` exactly once, with two tasks, from and into the same broker."""

    @classmethod
    def make(cls, folder: Path, settings: Mapping[str, str]) -> Self:
        name = f"mirror-{uuid.uuid4().hex[:8]}"
        config = {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "connector.plugin.location": MIRROR,
            "tasks.max": "2",
            "source.cluster.alias": name,
            "target.cluster.alias": f"to-{name}",
            "source.cluster.bootstrap.servers": settings["bootstrap.servers"],
            "target.cluster.bootstrap.servers": settings["bootstrap.servers"],
            "topics": f"topic-{name}",
            "key.converter": _BYTES,
            "value.converter": _BYTES,
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "sync.topic.acls.enabled": "false",
            "source.consumer.max.poll.records": "100",
        }
        return cls._of(folder, settings, name, config)

    def verdict(self) -> Verdict:
        return judge(self.sent, topic_records(self.bootstrap, f"{self.name}.{self.topic}"))


class JavaSinkEnvironment(JavaEnvironment):
    """``FileStreamSinkConnector``, at least once."""

    @classmethod
    def make(cls, folder: Path, settings: Mapping[str, str]) -> Self:
        name = f"file-{uuid.uuid4().hex[:8]}"
        config = {
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "connector.plugin.location": "file",
            "tasks.max": "1",
            "topics": f"topic-{name}",
            "file": str(folder / f"{name}.txt"),
            "consumer.override.max.poll.records": "100",
        }
        return cls._of(folder, settings, name, config)

    def verdict(self) -> Verdict:
        """The sink appends to a line that a killed one has not ended."""
        path = self.runs.folder / f"{self.name}.txt"
        return judge(self.sent, _LINE.findall(path.read_bytes()) if path.exists() else [])
