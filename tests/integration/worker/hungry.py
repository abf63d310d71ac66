"""A source of numbers of which one task takes memory without end, in the middle of its records, while a file is there."""

from __future__ import annotations

from pathlib import Path

from tests.unit.plugins.locations import tree

NAME = "org.example.HungrySourceConnector"
_CODE = """\
from __future__ import annotations
import time
from pathlib import Path
from airflow_provider_connect.sdk import Batch, Config, ConfigDef, ConfigKey, ExactlyOnceSupport, SourceConnector, SourceTask, Type
from airflow_provider_connect.data.arrow import pa


def eat_slowly():
    kept = []
    while True:
        kept.append(b"x" * (8 << 20))


def eat_at_once():
    return b"x" * (20 << 30)  # one call, which lets no other thread of Python's run


def eat_by_arrow():
    return pa.repeat(b"x" * (1 << 20), 20_000)


class HungryTask(SourceTask):
    def start(self, config: Config) -> None:
        self.config, self.number = config, int(config.originals["task"])
        self.next = self.context.offset({"task": self.number}, {"next": 0})["next"]

    def poll(self) -> Batch | None:
        if self.next >= 30:
            return None
        if self.next == 10 and self.number == 0 and Path(self.config["while"]).exists():
            globals()[self.config["how"]]()
        time.sleep(0.5)
        first, self.next = self.next, self.next + 10
        values = [f"{self.number}-{number}" for number in range(first, self.next)]
        partition, offset = {"task": self.number}, {"next": self.next}
        return Batch.of(self.config["topic"], value=pa.array(values), source_partition=partition, source_offset=offset)


class HungrySource(SourceConnector):
    task_class = HungryTask
    config_def = ConfigDef(ConfigKey("topic"), ConfigKey("while"), ConfigKey("how"), ConfigKey("tasks", Type.INT, 1))

    def exactly_once_support(self, config):
        return ExactlyOnceSupport.SUPPORTED

    def task_configs(self, max_tasks: int):
        return [{**self.config.originals, "task": str(number)} for number in range(self.config["tasks"])]
"""


def install(plugin_path: Path) -> None:
    tree(plugin_path / "hungry-1", "hungry", "1", {"hungry.py": _CODE}, f"source:{NAME} = hungry:HungrySource")
