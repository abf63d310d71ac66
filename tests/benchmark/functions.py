"""Records a second and core of sources from functions, beside a class with batches: ``python -m tests.benchmark.functions``.

Each polls, and the JsonConverter encodes; there is no broker. A page has 10,000 rows of five fields. The best of five is printed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from airflow_provider_connect.converters.json.converter import JsonConverter
from airflow_provider_connect.sdk import Batch, Config, SourceTask, pa, source
from airflow_provider_connect.sdk.functions.source import FunctionSource
from airflow_provider_connect.sdk.testing import MemorySourceContext

PAGES, ROWS, TIMES = 100, 10_000, 5
_NUMBERS: Final = range(ROWS)
_REST: Final = {
    "name": pa.array([f"name {n}" for n in _NUMBERS]),
    "amount": pa.array([n * 0.5 for n in _NUMBERS]),
    "is_open": pa.array([n % 2 == 0 for n in _NUMBERS]),
    "note": pa.array([f"note {n}" for n in _NUMBERS]),
}
TABLES: Final = [pa.table({"id": pa.array(range(page * ROWS, (page + 1) * ROWS)), **_REST}) for page in range(PAGES)]
DICTS: Final = [table.to_pylist() for table in TABLES[: PAGES // 5]]


class BatchTask(SourceTask):
    """The same tables as batches of a class."""

    def start(self, config: Config) -> None:
        self.page = 0

    def poll(self) -> Batch | None:
        if self.page == PAGES:
            return None
        table, self.page = TABLES[self.page], self.page + 1
        return Batch.of("t", table.to_struct_array(), table["id"], source_partition={"p": 1}, source_offset={"cursor": self.page * ROWS})


@source(cursor="id", key="id")
def tables() -> Iterator[Any]:
    yield from TABLES


@source(cursor="id", key="id")
def lists() -> Iterator[Any]:
    yield from DICTS


@source(cursor="id", key="id")
def dicts() -> Iterator[Any]:
    for page in DICTS:
        yield from page


def task_of(connector: type[FunctionSource] | None) -> SourceTask:
    """A started task; of the class where there is no function."""
    task = BatchTask() if connector is None else connector.task_class()
    task.initialize(MemorySourceContext({}))
    task.start(Config({}, {}) if connector is None else connector.task_config({"topic": "t"}))
    return task


def records_a_second(task: SourceTask, converter: JsonConverter) -> float:
    """Records by this process's time on the processor."""
    count, begun = 0, time.process_time()
    while (polled := task.poll()) is not None:
        for batch in [polled] if isinstance(polled, Batch) else polled:
            assert isinstance(batch, Batch)
            converter.from_connect_column("t", batch.value_schema, batch.value)
            converter.from_connect_column("t", batch.key_schema, batch.key)
            count += len(batch)
    return count / (time.process_time() - begun)


def main() -> None:
    converter = JsonConverter()
    converter.configure(JsonConverter.config_def.parse({"schemas.enable": "false", "converter.type": "value"}))
    kinds = {"class with batches": None, "generator of tables": tables, "generator of lists of dicts": lists, "generator of dicts": dicts}
    for name, connector in kinds.items():
        best = max(records_a_second(task_of(connector), converter) for _ in range(TIMES))
        print(f"{name:28}{best:12,.0f}")


if __name__ == "__main__":
    main()
