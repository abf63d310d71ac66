"""Into which folder below that of its topic a record goes: by its partition in Kafka, by fields, or by its time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from airflow_provider_connect.connectors.filesystem.partitioners.time_path import TimePath
from airflow_provider_connect.connectors.filesystem.partitioners.timestamps import Timestamps, field_of, local_ms
from airflow_provider_connect.connectors.filesystem.stores.store import path_part
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.allowed_paths import LONGEST_NAME
from airflow_provider_connect.sdk.arrow import pa, pc
from airflow_provider_connect.sdk.batch import Batch

NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The folder of records whose field is null or empty, as Hive and Spark name it."""


@dataclass(frozen=True, slots=True)
class Share:
    """The records of a batch, one or more, that go into one folder."""

    folder: str
    batch: Batch


class Partitioner(Protocol):
    """Divides batches."""

    def shares(self, batch: Batch) -> Iterable[Share]:
        """The batch, which has a record or more, divided by folder. Raises DataException before the first share."""
        ...


class DefaultPartitioner:
    """``partition=«number»``."""

    def shares(self, batch: Batch) -> Iterable[Share]:
        return [Share(f"partition={batch.topic_partition.partition}", batch)]


@dataclass(frozen=True, slots=True)
class FieldPartitioner:
    """``«name»=«value»`` for each of some fields."""

    names: tuple[str, ...]

    def shares(self, batch: Batch) -> Iterable[Share]:
        levels = [self._folders(batch, name) for name in self.names]
        return _divided(batch, levels[0] if len(levels) == 1 else pc.binary_join_element_wise(*levels, "/"))

    def _folders(self, batch: Batch, name: str) -> pa.Array:
        values = field_of(batch, name)
        kind = values.type
        if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind)):
            raise DataException(f"The field {name} of type {kind} names no folder: it must hold text, whole numbers, booleans or dates")
        return _each(values.cast(pa.string()), lambda text: _folder_of_value(name, text))


@dataclass(frozen=True, slots=True)
class TimePartitioner:
    """A folder for each period of ``duration_ms``, counted by the clock of ``zone``."""

    timestamps: Timestamps
    path: TimePath
    duration_ms: int
    zone: ZoneInfo
    now_ms: Callable[[], int]

    def shares(self, batch: Batch) -> Iterable[Share]:
        times = self.timestamps.of(batch)
        if times is None:
            return [Share(self._folder(local_ms(self.now_ms(), self.zone) // self.duration_ms), batch)]
        zoned = times.cast(pa.timestamp("ms", self.zone.key))
        local = pc.local_timestamp(zoned).cast(pa.int64())
        periods = pc.floor(pc.divide(local.cast(pa.float64()), float(self.duration_ms))).cast(pa.int64())
        return _divided(batch, _each(periods, self._folder))

    def _folder(self, period: int) -> str:
        return self.path.of(period * self.duration_ms)


def _folder_of_value(name: str, text: str | None) -> str:
    folder = f"{path_part(name)}={path_part(text) if text else NO_VALUE}"
    if len(folder.encode()) > LONGEST_NAME:
        raise DataException(f"A value of the field {name} has {len(folder)} characters: too many for the name of a folder")
    return folder


def _each(values: pa.Array, folder: Callable[..., str]) -> pa.Array:
    """The folder of each value, made once for equal ones."""
    encoded = values.dictionary_encode(null_encoding="encode")
    return pa.DictionaryArray.from_arrays(encoded.indices, pa.array(map(folder, encoded.dictionary.to_pylist()), pa.string())).cast(
        pa.string()
    )


def _divided(batch: Batch, folders: pa.Array) -> list[Share]:
    found = pc.unique(folders).to_pylist()
    if len(found) == 1:
        return [Share(found[0], batch)]
    return [Share(folder, batch.filter(pc.equal(folders, folder))) for folder in found]
