"""Apache Iceberg's own sink, unchanged, in runs that end: what its tasks have written is in the table then, each record once."""

import json
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from tests.conftest import CACHE
from tests.integration.java.conftest import JavaRuns
from tests.integration.java.test_java_sinks import send
from tests.java_plugins import ICEBERG, installed_iceberg
from tests.waiting import HANG_SECONDS, wait_until

CLASS = "org.apache.iceberg.connect.IcebergSinkConnector"
JSON = "org.apache.kafka.connect.json.JsonConverter"
COUNT = 1000


class Orders:
    """A topic of two partitions, and a table in a folder that a connector of two tasks writes."""

    def __init__(self, runs: JavaRuns, unique: str) -> None:
        self.runs, self.topic, self.sent = runs, unique, 0
        runs.make_topic(unique, partitions=2)
        runs.make_topic(f"{unique}-control")
        keys = {
            "connector.plugin.location": ICEBERG,
            "topics": unique,
            "tasks.max": "2",
            "value.converter": JSON,
            "value.converter.schemas.enable": "false",
            "iceberg.tables": "shop.orders",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.catalog.type": "hadoop",
            "iceberg.catalog.warehouse": (runs.folder / "warehouse").as_uri(),
            "iceberg.control.topic": f"{unique}-control",
            "iceberg.control.commit.timeout-ms": "10000",
        }
        self.config = runs.config(unique, CLASS, **keys)

    def send(self) -> None:
        values = [json.dumps({"id": number}) for number in range(self.sent, self.sent + COUNT)]
        send(self.runs, self.topic, values, partitions=2)
        self.sent += COUNT

    def table(self) -> list[int]:
        metadata = sorted((self.runs.folder / "warehouse" / "shop" / "orders" / "metadata").glob("v*.metadata.json"), key=_version)
        rows = StaticTable.from_metadata(str(metadata[-1])).scan().to_arrow() if metadata else {"id": []}
        return sorted(int(str(number)) for number in rows["id"])


def _version(path: Path) -> int:
    return int(path.name.partition(".")[0].removeprefix("v"))


@pytest.fixture
def orders(java_runs: JavaRuns, unique: str) -> Orders:
    java_runs.use(installed_iceberg(CACHE))
    return Orders(java_runs, unique)


@pytest.mark.soak
def test_a_run_ends_once_its_records_are_in_the_table(orders: Orders) -> None:
    for _ in range(3):
        orders.send()
        code, output = orders.runs.run(orders.config)
        assert code == 0, output
        assert orders.table() == list(range(orders.sent))
    code, output = orders.runs.run(orders.config)
    assert code == 0, output
    assert orders.table() == list(range(orders.sent))


@pytest.mark.soak
def test_what_a_killed_run_has_left_comes_once(orders: Orders) -> None:
    orders.send()
    process = orders.runs.start(orders.config)
    wait_until(lambda: orders.runs.end_of(f"{orders.topic}-control") > 0)
    process.kill()
    process.wait(HANG_SECONDS)
    orders.send()
    code, output = orders.runs.run(orders.config)
    assert code == 0, output
    assert orders.table() == list(range(orders.sent))
