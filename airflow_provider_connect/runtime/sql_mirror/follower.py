"""Fills the mirror from the topics. Knows nothing of threads: its thread calls ``MirrorFollower.step`` repeatedly.

Several processes may have a follower, but only the holder of the lease reads. If two nevertheless read at the same time, each record is
still applied only once. One transaction applies a batch. Steps: (1) hold the lease, whose row serializes followers; (2) move the positions,
by compare-and-set; (3) write the rows; (4) write the history. After a process has died, the next follower continues from the last
transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import CursorResult, Update, delete, insert, select, update

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.sql_mirror.changes import Entry, Kind, write_history
from airflow_provider_connect.runtime.sql_mirror.config_rows import Hide, masked, take_configs
from airflow_provider_connect.runtime.sql_mirror.lag_rows import forget_deleted
from airflow_provider_connect.runtime.sql_mirror.offset_rows import take_batches, take_offsets
from airflow_provider_connect.runtime.sql_mirror.queries import drop_lease, hold_lease, offset_topics
from airflow_provider_connect.runtime.sql_mirror.rows import Database, remove_rows
from airflow_provider_connect.runtime.sql_mirror.status_rows import take_statuses
from airflow_provider_connect.runtime.sql_mirror.sweep import Sweep
from airflow_provider_connect.runtime.sql_mirror.tables import CURRENT, batch, history, lease, position
from airflow_provider_connect.runtime.stores.log_consumer import LogTruncatedException
from airflow_provider_connect.runtime.stores.state_stream import KEPT_MS, StateRecord, StateStream, UnreadableTopicException
from airflow_provider_connect.runtime.stores.topic_admin import TopicIdentity

LEASE = "mirror"
LEASE_SECONDS = 15.0
_CHECK_SECONDS = 5.0
_COMPLETE_SECONDS = 60.0
_SKIP_SECONDS = 600.0
"""The time for which a connector's own offsets topic is skipped after it could not be read. Configs name such topics, and these must not
block other topics."""

_Apply = Callable[[Database, Sequence[StateRecord]], list[Entry]]
_SweepRows = Callable[[Sweep, Sequence[StateRecord]], None]
Held = dict[TopicPartition, tuple[int, int]]
Sessions = Callable[[], AbstractContextManager[Database]]

_log = logging.getLogger(__name__)


class MirrorFollower:
    """``sessions`` opens a transaction that commits when its body ends and rolls back when it raises; ``now`` is in seconds since 1970.

    ``holder`` is the unique name of this follower. ``hide`` hides secrets of configs that ``masked`` does not recognize. Not thread-safe.
    """

    def __init__(self, settings: WorkerSettings, sessions: Sessions, *, holder: str, now: Callable[[], float], hide: Hide = masked) -> None:
        self._settings = settings
        self._sessions = sessions
        self._holder = holder
        self._now = now
        self._take_configs: _Apply = partial(take_configs, hide=hide)
        self._stream = StateStream(settings)
        self._positions: dict[TopicPartition, ReadPosition] = {}
        self._next: dict[TopicPartition, int] = {}
        self._identities: dict[str, TopicIdentity] = {}
        self._trusted_seconds: dict[str, float] = {}
        self._skipped: dict[str, float] = {}  # until when each topic is skipped
        self._held_at = self._checked_at = 0.0

    def step(self, wait_seconds: float) -> bool:
        """Apply new records, and wait for them up to ``wait_seconds``. Returns False immediately if another process holds the lease.

        Raises the exceptions of the stores and the database. A later step continues from the last commit.
        """
        try:
            return self._step(wait_seconds)
        except (PositionMovedException, LogTruncatedException) as error:
            _log.info("The mirror reads again from its stored positions: %s", error)
            self._reset()
            return True
        except UnreadableTopicException as error:
            self._reset()
            if error.topic in self._internal:
                raise
            self._skip(error.topic, error.message)
            return True
        except Exception:
            self._reset()
            raise

    def close(self) -> None:
        """Release the lease, so that another process can take it immediately."""
        if self._held_at:
            with self._sessions() as database:
                drop_lease(database, LEASE, self._holder)
        self._reset()
        self._stream.close()

    def _step(self, wait_seconds: float) -> bool:
        if self._now() - self._held_at >= _CHECK_SECONDS and not self._renew():
            self._reset()
            return False
        if not self._positions:
            self._start()
        records, following = self._stream.poll(wait_seconds)
        self._next |= following
        if records:
            return self._take(records)
        if self._now() - self._checked_at >= _CHECK_SECONDS:
            self._check()
        return True

    def _renew(self) -> bool:
        """Take or renew the lease. Raises PositionMovedException if the mirror was dropped or rebuilt meanwhile."""
        with self._sessions() as database:
            if not self._hold(database):
                return False
            known = read_positions(database) if self._positions else {}
        if any(known.get(at) != read for at, read in self._positions.items()):
            raise PositionMovedException("its positions are no longer the same")
        return True

    def _hold(self, database: Database) -> bool:
        now = self._now()
        is_held = hold_lease(database, LEASE, self._holder, now=now, seconds=LEASE_SECONDS)
        self._held_at = now if is_held else 0.0
        return is_held

    @contextmanager
    def _held(self) -> Iterator[Database]:
        """A transaction with the lease held. Raises PositionMovedException if another process holds the lease."""
        with self._sessions() as database:
            if not self._hold(database):
                raise PositionMovedException("another process follows")
            yield database

    def _reset(self) -> None:
        """Discard records that were read but not committed."""
        self._positions, self._next, self._held_at = {}, {}, 0.0
        self._stream.unfollow()

    def _start(self) -> None:
        """Find each partition's position, sweep topics in which removals may have been missed, and continue reading."""
        with self._sessions() as database:
            known, wanted = read_positions(database), self._wanted(database)
        started = self._now()
        was, self._identities = (
            self._identities,
            self._stream.identities({*wanted, *(at.topic for at in known)} - self._skipped.keys()),
        )
        self._trusted_seconds = self._stream.absence_seconds(self._identities)
        held = self._stream.held(at for at in known if self._is_there(at))
        for topic in sorted({at.topic for at in known} - self._skipped.keys()):
            positions = {at: read for at, read in known.items() if at.topic == topic}
            if (reason := self._sweep_reason(positions, held)) is not None:
                self._sweep(topic, positions, held, reason)
        with self._held() as database:
            known = read_positions(database)
            for topic, identity in self._identities.items():
                for at in (TopicPartition(topic, number) for number in range(identity.partitions)):
                    if at not in known:
                        known[at] = ReadPosition(identity.id, 0, 0, _ms(started))
                        add_position(database, at, known[at])
        self._positions = {at: read for at, read in known.items() if self._is_there(at)}
        self._next = {at: read.position for at, read in self._positions.items()}
        self._stream.follow(self._next)
        self._checked_at = 0.0
        if was != self._identities:
            _log.info("The mirror follows %s", ", ".join(sorted(self._identities)))

    @property
    def _internal(self) -> set[str]:
        return {topic.name for topic in self._settings.internal_topics}

    def _wanted(self, database: Database) -> set[str]:
        now = self._now()
        self._skipped = {topic: until for topic, until in self._skipped.items() if until > now}
        return self._internal | set(offset_topics(database)) - self._skipped.keys()

    def _skip(self, topic: str, reason: str) -> None:
        _log.warning("The mirror skips topic %s for %.0f minutes: %s", topic, _SKIP_SECONDS / 60, reason)
        self._skipped[topic] = self._now() + _SKIP_SECONDS

    def _is_there(self, at: TopicPartition) -> bool:
        return at.topic in self._identities and at.partition < self._identities[at.topic].partitions

    def _sweep_reason(self, positions: dict[TopicPartition, ReadPosition], held: Held) -> str | None:
        """The reason why a topic's rows may be out of date. None: they are current."""
        topic = next(iter(positions)).topic
        identity, ids = self._identities.get(topic), {read.topic_id for read in positions.values()}
        silent = self._now() - min(read.complete_ms for read in positions.values()) / 1000
        trusted = self._trusted_seconds.get(topic, KEPT_MS / 2000)
        if identity is None:  # the topic was deleted, or is only absent until a broker has started
            return f"it has been gone for {silent:.0f} s" if silent > trusted else None
        if ids != {identity.id}:
            return f"the topic was created anew: its id was {', '.join(sorted(ids))} and is {identity.id}"
        if any(not held[at][0] <= read.position <= held[at][1] for at, read in positions.items() if at in held and read.position > 0):
            return "records were deleted before, or after, the mirror had read them"
        if silent > trusted:
            return (
                f"it was last read to its end {silent:.0f} s ago; its delete.retention.ms and min.compaction.lag.ms allow {trusted:.0f} s"
            )
        return None

    def _sweep(self, topic: str, positions: dict[TopicPartition, ReadPosition], held: Held, reason: str) -> None:
        """Remove rows whose records the topic no longer contains. A recreated topic is then read from its beginning, and other topics from
        their positions."""
        _log.warning("Topic %s is read again from its beginning for the mirror: %s", topic, reason)
        started, identity = self._now(), self._identities.get(topic)
        records = [] if identity is None else self._stream.read_whole(topic)
        if identity is not None and self._stream.identities([topic]).get(topic) != identity:
            raise PositionMovedException(f"topic {topic} was created anew while it was read")
        with self._held() as database:
            for at, read in positions.items():
                move_position(database, at, read, self._after_sweep(at, read, held.get(at), _ms(started)))
            forget_positions(database, [at for at in positions if not self._is_there(at)])
            note = Entry(Kind.MIRROR, "", _ms(started), (TopicPartition(topic, 0), -1), topic, note=reason)
            sweep = Sweep(database, topic, _ms(started), [note])
            self._kind(topic)[1](sweep, records)
            forget_deleted(database, sweep.entries)
            write_history(database, sweep.entries)

    def _after_sweep(self, at: TopicPartition, read: ReadPosition, held: tuple[int, int] | None, now_ms: int) -> ReadPosition:
        """The position from which the partition is read after a sweep."""
        identity = self._identities.get(at.topic)
        if identity is None or held is None:
            return read
        if read.topic_id != identity.id or read.position > held[1]:
            return ReadPosition(identity.id, 0, 0, now_ms)
        return replace(read, position=max(read.position, held[0]), complete_ms=now_ms)

    def _kind(self, topic: str) -> tuple[_Apply, _SweepRows]:
        """The functions that apply records of the topic, and that sweep its rows."""
        known = {
            self._settings.config_topic: (self._take_configs, Sweep.configs),
            self._settings.status_topic: (take_statuses, Sweep.statuses),
            self._settings.batch_topic: (take_batches, Sweep.batches),
        }
        return known.get(topic, (take_offsets, Sweep.offsets))

    def _take(self, records: Sequence[StateRecord]) -> bool:
        self._check_identities()
        topics = sorted({record.at.topic for record in records})
        moved = {at: replace(read, position=self._next[at]) for at, read in self._positions.items() if self._next[at] != read.position}
        with self._held() as database:  # 1
            for at, read in moved.items():
                move_position(database, at, self._positions[at], read)  # 2
            entries: list[Entry] = []
            for topic in topics:
                entries += self._kind(topic)[0](database, [record for record in records if record.at.topic == topic])  # 3
            news = self._news(entries)
            forget_deleted(database, news)
            write_history(database, news)  # 4
        self._positions |= moved
        if self._settings.config_topic in topics:
            self._restart_for_new_topics()
        return True

    def _news(self, entries: Iterable[Entry]) -> list[Entry]:
        """The entries that the history does not have yet."""
        return [entry for entry in entries if entry.cause[1] >= self._positions[entry.cause[0]].noted]

    def _restart_for_new_topics(self) -> None:
        """Restart if there is a new topic, such as a connector's own offsets topic."""
        with self._sessions() as database:
            missing = self._wanted(database) - self._identities.keys()
        if missing and self._stream.identities(missing):
            self._reset()

    def _check_identities(self) -> None:
        """Raise PositionMovedException unless the records that were just read came from the topics of the positions."""
        found = self._stream.identities(self._identities)
        for topic, identity in self._identities.items():
            if found.get(topic) != identity:
                raise PositionMovedException(f"topic {topic} was recreated")

    def _check(self) -> None:
        """Check the topics after some seconds without records. Once a minute, record the time at which topics were read to their end."""
        self._check_identities()
        now, ends = self._now(), self._stream.ends(self._positions)
        complete = {
            at: replace(read, position=self._next[at], complete_ms=_ms(now))
            for at, read in self._positions.items()
            if self._next[at] >= ends[at] and now - read.complete_ms / 1000 >= min(_COMPLETE_SECONDS, self._trusted_seconds[at.topic] / 4)
        }
        if complete:
            with self._held() as database:
                for at, read in complete.items():
                    move_position(database, at, self._positions[at], read)
            self._positions |= complete
        for at, read in self._positions.items():
            if now - read.complete_ms / 1000 > self._trusted_seconds[at.topic]:
                raise PositionMovedException(f"{at} was not read to its end for {self._trusted_seconds[at.topic]:.0f} s")
        self._checked_at = now
        self._restart_for_new_topics()


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


@dataclass(frozen=True, slots=True)
class ReadPosition:
    """The next offset of a partition. Records below ``noted`` are already in the history. At the time ``complete_ms``, no record was left
    to read. The row's ``since_ms`` is written once, and after that only ``forget_history`` changes it.

    Stored in the database, and advanced by compare-and-set in the same transaction as the records that were read. So no record is lost or
    duplicated by a crash or a second follower.
    """

    topic_id: str
    position: int
    noted: int
    complete_ms: int


class PositionMovedException(Exception):
    """Another process has changed the position, so the records that were read from it must not be written."""


def read_positions(database: Database) -> dict[TopicPartition, ReadPosition]:
    """All positions in the database."""
    return {
        TopicPartition(row.topic, row.topic_partition): ReadPosition(row.topic_id, row.position, row.noted, row.complete_ms)
        for row in database.execute(select(position))
    }


def add_position(database: Database, at: TopicPartition, read: ReadPosition) -> None:
    """Add the position of a new partition. Raises IntegrityError if another process has added it first."""
    values = {"topic_id": read.topic_id, "position": read.position, "noted": read.noted}
    values |= {"complete_ms": read.complete_ms, "since_ms": read.complete_ms}
    database.execute(insert(position).values(topic=at.topic, topic_partition=at.partition, **values))


def move_position(database: Database, at: TopicPartition, old: ReadPosition, new: ReadPosition) -> None:
    """Replace ``old`` by ``new``. Raises PositionMovedException."""
    statement = (
        update(position)
        .where(position.c.topic == at.topic, position.c.topic_partition == at.partition)
        .where(position.c.topic_id == old.topic_id, position.c.position == old.position)
        .values(topic_id=new.topic_id, position=new.position, noted=new.noted, complete_ms=new.complete_ms)
    )
    if _count(database, statement) != 1:
        raise PositionMovedException(f"the mirror's position in {at} is no longer {old.position}")


def forget_positions(database: Database, partitions: Iterable[TopicPartition]) -> None:
    """Delete the positions of partitions that are no longer followed."""
    remove_rows(database, position, [{"topic": at.topic, "topic_partition": at.partition} for at in partitions])


def _count(database: Database, statement: Update) -> int:
    result = database.execute(statement)
    assert isinstance(result, CursorResult)
    return result.rowcount


def rebuild(database: Database, *, keep_history: bool = True) -> None:
    """Empty the tables of the current state, so that the follower rereads every topic from its beginning within some seconds.

    The history stays, and no line is written twice. If ``keep_history`` is false, history and metrics of runs are also rebuilt, from the
    records that the topics still contain. The caller commits. A follower may be running meanwhile.
    """
    database.execute(update(lease).where(lease.c.name == LEASE).values(until=lease.c.until))  # a follower's transactions wait for this row
    if keep_history:
        reached = position.c.position
        database.execute(update(position).where(position.c.noted < reached).values(noted=reached))
        database.execute(update(position).values(position=0))
    else:
        database.execute(delete(position))
        database.execute(delete(batch))
        database.execute(delete(history))
    for table in CURRENT:
        database.execute(delete(table))
