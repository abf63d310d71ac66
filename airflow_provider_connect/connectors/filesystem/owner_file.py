"""The owner of a topic partition's files. Two connectors or topics must not write different records under the same file name.

Each topic partition has a small file with the owner, in the folder that connectors write to. The file is created only if it does not exist.
It names the connector, its Connect cluster (the scope of its claims) and the topic id, because offsets of a recreated topic start at 0
again.
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
"""The state folder in the folder that connectors write to."""
_OWNERS: Final = "owners"
_REMEDY: Final = "Set topics.dir to another folder"


@dataclass(frozen=True, slots=True)
class Owner:
    """The connector that writes the files of a topic partition. An empty ``topic_id`` is unknown."""

    connector: str
    scope: str
    topic_id: str

    def is_same(self, other: Owner) -> bool:
        """Whether both owners write the same records under a name. A topic id is unique across Kafka clusters and config topics."""
        if self.topic_id and other.topic_id:
            return (self.connector, self.topic_id) == (other.connector, other.topic_id)
        return (self.connector, self.scope) == (other.connector, other.scope)


class OwnerFiles:
    """The owners in ``folder`` of ``store``."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder = store, folder

    def take(self, owners: Mapping[TopicPartition, Owner], name_prefix: Callable[[TopicPartition], str], below: Iterable[str]) -> None:
        """Record these owners of partitions, unless they are already recorded. Raises ConfigException if a partition has another owner, or
        has files without a recorded owner. ``name_prefix`` is the prefix of a partition's file names; ``below`` are the folders that may
        contain files."""
        new = {partition: owner for partition, owner in owners.items() if not self._is_owned_by(partition, owner)}
        if new:
            self._reject_files({name_prefix(partition): partition for partition in new}, below)
        for partition, owner in new.items():
            if not self._store.create(self._path(partition), json.dumps(asdict(owner)).encode()) and not self._is_owned_by(
                partition, owner
            ):
                raise RetriableException(f"{self._path(partition)} has just been removed. A later attempt may succeed.")

    def _reject_files(self, by_prefix: Mapping[str, TopicPartition], below: Iterable[str]) -> None:
        for path in self.files(by_prefix, below):
            name = path.rpartition("/")[2]
            partition = next(partition for name_prefix, partition in by_prefix.items() if name.startswith(name_prefix))
            raise ConfigException(
                f"{path} has the name of a file that this connector would write, and no owner of {partition} is recorded. "
                f"{_REMEDY}, or move the files of {partition} elsewhere"
            )

    def files(self, name_prefixes: Iterable[str], below: Iterable[str]) -> Iterator[str]:
        """The paths of the files below these folders whose names have one of these prefixes."""
        starts, state = tuple(name_prefixes), f"{join_path(self._folder, STATE)}/"
        for file in itertools.chain.from_iterable(map(self._store.files, below)):
            if file.path.rpartition("/")[2].startswith(starts) and not file.path.startswith(state):
                yield file.path

    def _is_owned_by(self, partition: TopicPartition, owner: Owner) -> bool:
        """Whether the partition has this owner. False if it has no owner. Raises ConfigException for another owner."""
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
            whose = f"this connector wrote here before the topic {partition.topic} (then with the id {found.topic_id}) was recreated"
        raise ConfigException(
            f"Files of {partition} would replace those that {whose}. {_REMEDY}; or move the files of {partition} elsewhere, and "
            f"remove {path}"
        )

    def _path(self, partition: TopicPartition) -> str:
        return join_path(self._folder, STATE, _OWNERS, path_part(partition.topic), str(partition.partition))
