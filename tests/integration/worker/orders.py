"""A source connector whose versions differ in the fields that they write, and in where they break."""

from pathlib import Path

from tests.unit.plugins.locations import tree

NAME = "org.example.OrdersSourceConnector"
ORDERS = """\
from __future__ import annotations
import logging
import time
from pathlib import Path
from airflow_provider_connect.sdk import Batch, Config, ConfigDef, ConfigKey, ExactlyOnceSupport, SourceConnector, SourceTask
from airflow_provider_connect.data.arrow import pa

FIELDS, BREAKS_AT, HANGS = {fields!r}, {breaks_at!r}, {hangs!r}


class OrderTask(SourceTask):
    def start(self, config: Config) -> None:
        self.config, self.partition = config, {{"orders": "all"}}
        self.next = self.context.offset(self.partition, {{"next": 0}})["next"]
        log = logging.getLogger("orders")
        log.debug("task starts at %d", self.next)
        log.info("orders of all shops")
        log.warning("orders have\\nno key")

    def poll(self) -> Batch | None:
        while HANGS:
            time.sleep(1)
        if self.next >= int(Path(self.config["until"]).read_text()):
            return None
        if BREAKS_AT is not None and self.next >= BREAKS_AT:
            raise ValueError("order " + str(self.next) + " cannot be read, " + self.config["password"])
        first, self.next = self.next, self.next + 10
        if BREAKS_AT is not None:
            time.sleep(0.25)  # so that what comes before the break is committed
        columns = {{"id": pa.array(range(first, self.next)), "note": pa.array([self.config["password"]] * 10)}}
        value = pa.StructArray.from_arrays([columns[name] for name in FIELDS], FIELDS)
        offset = {{"next": self.next}}
        return Batch.of(self.config["topic"], value=value, source_partition=self.partition, source_offset=offset)


class OrdersSource(SourceConnector):
    task_class = OrderTask
    config_def = ConfigDef(ConfigKey("topic"), ConfigKey("until"), ConfigKey("password", default=""))

    def task_configs(self, max_tasks: int):
        logging.getLogger("orders").debug("one task is planned")
        logging.getLogger("orders").info("one task is enough")
        return [self.config]

    def exactly_once_support(self, config):
        return ExactlyOnceSupport.SUPPORTED
"""


def install(plugin_path: Path, version: str, *fields: str, breaks_at: int | None = None, hangs: bool = False) -> None:
    """A version as a location of ``plugin_path``. It writes ``fields``, ``id`` alone when none is named, ten orders a poll; it fails at
    the order ``breaks_at``, or never answers."""
    source = ORDERS.format(fields=list(fields or ("id",)), breaks_at=breaks_at, hangs=hangs)
    tree(plugin_path / f"orders-{version}", "orders", version, {"orders.py": source}, f"source:{NAME} = orders:OrdersSource")
