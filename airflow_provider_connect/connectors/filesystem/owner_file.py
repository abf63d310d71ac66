"""Whose a topic partition's files are: no two connectors, and no two topics, give different records one name.

A small file for each topic partition in the folder that connectors write to, created only where there is none. It names the connector, its
Connect cluster (the scope of its claims), and the topic by its id: a topic that was created anew counts its records from 0 again.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from airflow_provider_connect.connectors.filesystem.stores.store import Store, join_path, path_part
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConfigException, RetriableException, StoreException

STATE: Final = "_connect"
"""The folder of our own in the folder that connectors write to."""
_OWNERS: Final = "owners"
_REMEDY: Final = "Set topics.dir to another folder"


@dataclass(frozen=True, slots=True)
class Owner:
    """One connector that writes the files of a topic partition. ``topic_id`` empty: not known."""

    connector: str
    scope: str
    topic_id: str

    def is_same(self, other: Owner) -> bool:
        """Whether both give a name to the same records. One topic is in one Kafka cluster, whatever config topic its connectors are on."""
        if self.topic_id and other.topic_id:
            return (self.connector, self.topic_id) == (other.connector, other.topic_id)
        return (self.connector, self.scope) == (other.connector, other.scope)


class OwnerFiles:
    """The owners in ``folder`` of ``store``."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder = store, folder

    def take(self, owners: Mapping[TopicPartition, Owner], name_prefix: Callable[[TopicPartition], str], below: Iterable[str]) -> None:
        """Become the owner of each partition's files, or find that it is. Raises ConfigException where another one is, or where there are
        files of that name, of which no owner is known. ``name_prefix`` is how the names of a partition's files begin; ``below`` the folders
        that may hold some."""
        new = {partition: owner for partition, owner in owners.items() if not self._is_owned(partition, owner)}
        if new:
            self._reject_files({name_prefix(partition): partition for partition in new}, below)
        for partition, owner in new.items():
            if not self._store.create(self._path(partition), json.dumps(asdict(owner)).encode()) and not self._is_owned(partition, owner):
                raise RetriableException(f"{self._path(partition)} has just been removed. A later try may succeed.")

    def _reject_files(self, by_prefix: Mapping[str, TopicPartition], below: Iterable[str]) -> None:
        for path in self.files(by_prefix, below):
            name = path.rpartition("/")[2]
            partition = next(partition for name_prefix, partition in by_prefix.items() if name.startswith(name_prefix))
            raise ConfigException(
                f"{path} has the name of a file that this connector is to write, and no owner of {partition} is recorded. "
                f"{_REMEDY}, or move the files of {partition} elsewhere"
            )

    def files(self, name_prefixes: Iterable[str], below: Iterable[str]) -> Iterator[str]:
        """The paths of the files below these folders whose names begin so."""
        starts, state = tuple(name_prefixes), f"{join_path(self._folder, STATE)}/"
        for file in itertools.chain.from_iterable(map(self._store.files, below)):
            if file.path.rpartition("/")[2].startswith(starts) and not file.path.startswith(state):
                yield file.path

    def _is_owned(self, partition: TopicPartition, owner: Owner) -> bool:
        """False: there is no owner."""
        path = self._path(partition)
        try:
            data = self._store.read(path)
        except FileNotFoundError:
            return False
        try:
            found = Owner(**{key: str(value) for key, value in json.loads(data).items()})
        except (ValueError, TypeError, AttributeError) as error:
            raise StoreException(f"{path} does not name the connector that writes files of {partition}: {error}") from error
        if found.is_same(owner):
            return True
        if found.connector != owner.connector:
            whose = f"connector {found.connector} writes here"
        elif found.scope != owner.scope:
            whose = f"a connector of this name in another Connect cluster (config topic id {found.scope}) writes here"
        else:
            whose = f"this connector wrote here before the topic {partition.topic} (then with the id {found.topic_id}) was created anew"
        raise ConfigException(
            f"Files of {partition} would replace those that {whose}. {_REMEDY}; or move the files of {partition} elsewhere, and "
            f"remove {path}"
        )

    def _path(self, partition: TopicPartition) -> str:
        return join_path(self._folder, STATE, _OWNERS, path_part(partition.topic), str(partition.partition))
