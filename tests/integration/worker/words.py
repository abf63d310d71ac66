"""A source connector in versions of its own: each writes the words of the dependency that came with it."""

from __future__ import annotations

from pathlib import Path

from tests.unit.plugins.locations import tree

NAME = "org.example.WordSourceConnector"
WORDS = """\
from __future__ import annotations
import greeting
from airflow_provider_connect.sdk import Batch, Config, ConfigDef, ConfigKey, SourceConnector, SourceTask, Type
from airflow_provider_connect.data.arrow import pa


class WordTask(SourceTask):
    def start(self, config: Config) -> None:
        self.config, self.partition = config, {"words": "all"}
        self.next = self.context.offset(self.partition, {"next": 0})["next"]

    def poll(self) -> Batch | None:
        if self.next >= self.config["until"]:
            return None
        first, self.next = self.next, self.config["until"]
        words = [f"{greeting.greet()} {number}" for number in range(first, self.next)]
        return Batch.of(self.config["topic"], value=pa.array(words), source_partition=self.partition, source_offset={"next": self.next})


class WordSource(SourceConnector):
    task_class = WordTask
    config_def = ConfigDef(ConfigKey("topic"), ConfigKey("until", Type.LONG))

    def task_configs(self, max_tasks: int):
        return [self.config]
"""


def install(plugin_path: Path, version: str, word: str) -> None:
    """Each version needs another version of ``greeting``."""
    location = plugin_path / f"words-{version}"
    tree(location, "words", version, {"words.py": WORDS}, f"source:{NAME} = words:WordSource")
    tree(location, "greeting", version, {"greeting.py": f"def greet():\n    return {word!r}\n"})
