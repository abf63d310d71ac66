"""The folder of a record below its topic's folder: by Kafka partition, by fields, or by time."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, Protocol
from zoneinfo import ZoneInfo

from airflow_provider_connect.connectors.filesystem.partitioners.time_path import TimePath
from airflow_provider_connect.connectors.filesystem.partitioners.timestamps import Timestamps, field_of, local_ms
from airflow_provider_connect.connectors.filesystem.stores.store import path_part
from airflow_provider_connect.data.arrow import np, pa, pc
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.allowed_paths import LONGEST_NAME
from airflow_provider_connect.sdk.batch import Batch

NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""The folder of records whose field is null or empty, as Hive and Spark name it."""


@dataclass(frozen=True, slots=True)
class Share:
    """The records of a batch, at least one, that go into one folder."""

    folder: str
    batch: Batch


class Partitioner(Protocol):
    """Determines the folder of each record."""

    def folders(self, batch: Batch) -> pa.DictionaryArray:
        """The folders of a batch's records (at least one). Raises DataException."""
        ...


class DefaultPartitioner:
    """``partition=«number»``."""

    def folders(self, batch: Batch) -> pa.DictionaryArray:
        return _repeat_folder(f"partition={batch.topic_partition.partition}", batch)


@dataclass(frozen=True, slots=True)
class FieldPartitioner:
    """``«name»=«value»`` for each of the fields ``names``."""

    names: tuple[str, ...]

    def folders(self, batch: Batch) -> pa.DictionaryArray:
        levels = [self._level(batch, name) for name in self.names]
        if len(levels) == 1:
            return levels[0]
        return pc.binary_join_element_wise(*(level.cast(pa.string()) for level in levels), "/").dictionary_encode()

    def _level(self, batch: Batch, name: str) -> pa.DictionaryArray:
        values = field_of(batch, name)
        kind = values.type
        if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_date(kind)):
            raise DataException(f"The field {name} of type {kind} cannot name folders: use text, whole numbers, booleans or dates")
        return _encode_folders(values.cast(pa.string()), lambda text: _value_folder(name, text))


@dataclass(frozen=True, slots=True)
class TimePartitioner:
    """A folder for each period of ``duration_ms``, counted by the clock of ``zone``."""

    timestamps: Timestamps
    path: TimePath
    duration_ms: int
    zone: ZoneInfo
    now_ms: Callable[[], int]

    def folders(self, batch: Batch) -> pa.DictionaryArray:
        times = self.timestamps.of(batch)
        if times is None:
            return _repeat_folder(self._folder(local_ms(self.now_ms(), self.zone) // self.duration_ms), batch)
        zoned = times.cast(pa.timestamp("ms", self.zone.key))
        local = pc.local_timestamp(zoned).cast(pa.int64())
        periods = pc.floor(pc.divide(local.cast(pa.float64()), float(self.duration_ms))).cast(pa.int64())
        return _encode_folders(periods, self._folder)

    def _folder(self, period: int) -> str:
        try:
            return self.path.of(period * self.duration_ms)
        except OverflowError:
            raise DataException(
                f"The period of {self.duration_ms} ms that a record's time is in begins before the year 1: shorten partition.duration.ms"
            ) from None


def _value_folder(name: str, text: str | None) -> str:
    folder = f"{path_part(name)}={path_part(text) if text else NO_VALUE}"
    if len(folder.encode()) > LONGEST_NAME:
        raise DataException(f"A value of the field {name} has {len(folder)} characters: too many for a folder name")
    return folder


def _repeat_folder(folder: str, batch: Batch) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), batch.num_records), [folder])


def _encode_folders(values: pa.Array, folder: Callable[..., str]) -> pa.DictionaryArray:
    """The folder of each value, computed once per distinct value. Different values may have the same folder."""
    encoded = values.dictionary_encode(null_encoding="encode")
    names = pa.array(map(folder, encoded.dictionary.to_pylist()), pa.string()).dictionary_encode()
    return pa.DictionaryArray.from_arrays(names.indices.take(encoded.indices), names.dictionary)


def split_by_folder(batch: Batch, folders: pa.DictionaryArray) -> list[Share]:
    """Split the batch by the folders of its records."""
    found = pc.unique(folders.indices)
    names = folders.dictionary.take(found).to_pylist()
    if len(names) == 1:
        return [Share(names[0], batch)]
    return [Share(name, batch.filter(pc.equal(folders.indices, index))) for name, index in zip(names, found, strict=True)]


def count_up_to_folders(folders: pa.DictionaryArray, known: Collection[str], most: int) -> int:
    """The number of records from the start that need at most ``most`` folders, including the ``known`` folders."""
    names, room = folders.dictionary.to_pylist(), max(most - len(known), 0)
    if len(names) <= room:
        return len(folders)
    found, firsts = np.unique(folders.indices.to_numpy(), return_index=True)
    new = sorted(first for index, first in zip(found.tolist(), firsts.tolist(), strict=True) if names[index] not in known)
    return new[room] if len(new) > room else len(folders)
