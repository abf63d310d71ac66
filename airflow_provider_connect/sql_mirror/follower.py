"""Fills the mirror from the topics. Knows nothing of threads: ``MirrorFollower.step`` is called over and over by whoever runs it.

Several processes may do so at once: one holds the lease and reads, and should two read at once, all the same each record is taken in once.
One transaction takes in a batch: 1 the lease, whose row makes followers wait for one another 2 the places read from, by compare-and-set
3 the rows 4 the history. A process that dies leaves what the last transaction said; the next follower reads on from there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial

from sqlalchemy import CursorResult, Update, insert, select, update

from airflow_provider_connect.config.worker_settings import WorkerSettings
from airflow_provider_connect.sdk.records import TopicPartition
from airflow_provider_connect.sql_mirror.changes import Entry, Kind, write_history
from airflow_provider_connect.sql_mirror.config_rows import take_configs
from airflow_provider_connect.sql_mirror.masking import Hide, masked
from airflow_provider_connect.sql_mirror.offset_rows import take_batches, take_offsets
from airflow_provider_connect.sql_mirror.queries import drop_lease, hold_lease, offset_topics
from airflow_provider_connect.sql_mirror.rows import Database, remove_rows
from airflow_provider_connect.sql_mirror.status_rows import take_statuses
from airflow_provider_connect.sql_mirror.sweep import Sweep
from airflow_provider_connect.sql_mirror.tables import position
from airflow_provider_connect.stores.log_consumer import LogTruncatedException
from airflow_provider_connect.stores.state_stream import DAY_SECONDS, StateRecord, StateStream, TopicIdentity

LEASE = "mirror"
LEASE_SECONDS = 15.0
_CHECK_SECONDS = 5.0
_COMPLETE_SECONDS = 60.0

_TakeIn = Callable[[Database, Sequence[StateRecord]], list[Entry]]
_SweepOut = Callable[[Sweep, Sequence[StateRecord]], None]
Sessions = Callable[[], AbstractContextManager[Database]]

_log = logging.getLogger(__name__)


class MirrorFollower:
    """``sessions`` opens a transaction that commits when its body ends and rolls back when it raises; ``now`` is in seconds since 1970.

    ``holder`` names this follower among all; ``hide`` hides more secrets of configs than their names tell. Not thread-safe.
    """

    def __init__(self, settings: WorkerSettings, sessions: Sessions, *, holder: str, now: Callable[[], float], hide: Hide = masked) -> None:
        self._settings = settings
        self._sessions = sessions
        self._holder = holder
        self._now = now
        self._take_configs: _TakeIn = partial(take_configs, hide=hide)
        self._stream = StateStream(settings)
        self._places: dict[TopicPartition, Place] = {}
        self._next: dict[TopicPartition, int] = {}
        self._identities: dict[str, TopicIdentity] = {}
        self._patience: dict[str, float] = {}
        self._held_at = self._checked_at = 0.0

    def step(self, wait_seconds: float) -> bool:
        """Take in what has come; waits up to ``wait_seconds`` for it. False, at once: another process follows.

        Raises what the stores and the database raise; a later step goes on from what was committed.
        """
        try:
            return self._step(wait_seconds)
        except (PlaceMovedException, LogTruncatedException) as error:
            _log.info("The mirror reads again from where it is said to be: %s", error)
            self._let_go()
            return True
        except Exception:
            self._let_go()
            raise

    def close(self) -> None:
        """Let another process follow at once."""
        if self._held_at:
            with self._sessions() as database:
                drop_lease(database, LEASE, self._holder)
        self._let_go()
        self._stream.close()

    def _step(self, wait_seconds: float) -> bool:
        if self._now() - self._held_at >= _CHECK_SECONDS and not self._renew():
            self._let_go()
            return False
        if not self._places:
            self._start()
        records, following = self._stream.poll(wait_seconds)
        self._next |= following
        if records:
            return self._take(records)
        if self._now() - self._checked_at >= _CHECK_SECONDS:
            self._check()
        return True

    def _renew(self) -> bool:
        """Hold the lease. Raises PlaceMovedException when somebody has dropped the mirror meanwhile, or rebuilds it."""
        with self._sessions() as database:
            if not self._hold(database):
                return False
            known = read_places(database) if self._places else {}
        if any(known.get(at) != place for at, place in self._places.items()):
            raise PlaceMovedException("its positions are no longer the same")
        return True

    def _hold(self, database: Database) -> bool:
        now = self._now()
        is_held = hold_lease(database, LEASE, self._holder, now=now, seconds=LEASE_SECONDS)
        self._held_at = now if is_held else 0.0
        return is_held

    def _let_go(self) -> None:
        """Forget what was read and is not committed."""
        self._places, self._next, self._held_at = {}, {}, 0.0
        self._stream.unfollow()

    def _start(self) -> None:
        """Find each partition's place, sweep topics where removals may have been missed, and read on."""
        with self._sessions() as database:
            known, wanted = read_places(database), self._wanted(database)
        started = self._now()
        was, self._identities = self._identities, self._stream.identities({*wanted, *(at.topic for at in known)})
        self._patience = {name: seconds / 2 for name, seconds in self._stream.tombstone_seconds(self._identities).items()}
        held = self._stream.held(at for at in known if self._is_there(at))
        for topic in sorted({at.topic for at in known}):
            places = {at: place for at, place in known.items() if at.topic == topic}
            if (reason := self._mistrust(places, held)) is not None:
                self._sweep(topic, places, held, reason)
        with self._sessions() as database:
            if not self._hold(database):
                raise PlaceMovedException("another process follows")
            known = read_places(database)
            for topic, identity in self._identities.items():
                for at in (TopicPartition(topic, number) for number in range(identity.partitions)):
                    if at not in known:
                        known[at] = Place(identity.id, 0, 0, _ms(started))
                        add_place(database, at, known[at])
        self._places = {at: place for at, place in known.items() if self._is_there(at)}
        self._next = {at: place.position for at, place in self._places.items()}
        self._stream.follow(self._next)
        self._checked_at = 0.0
        if was != self._identities:
            _log.info("The mirror follows %s", ", ".join(sorted(self._identities)))

    def _wanted(self, database: Database) -> set[str]:
        return {*(topic.name for topic in self._settings.internal_topics), *offset_topics(database)}

    def _is_there(self, at: TopicPartition) -> bool:
        return at.topic in self._identities and at.partition < self._identities[at.topic].partitions

    def _mistrust(self, places: dict[TopicPartition, Place], held: dict[TopicPartition, tuple[int, int]]) -> str | None:
        """Why a topic's rows may say what it no longer holds; None: they do not."""
        topic = next(iter(places)).topic
        identity, ids = self._identities.get(topic), {place.topic_id for place in places.values()}
        silent = self._now() - min(place.complete_ms for place in places.values()) / 1000
        patience = self._patience.get(topic, DAY_SECONDS / 2)
        if identity is None:  # for good, or for as long as a broker starts
            return f"it has been gone for {silent:.0f} s" if silent > patience else None
        if ids != {identity.id}:
            return f"the topic was made anew: its id was {', '.join(sorted(ids))} and is {identity.id}"
        if any(not held[at][0] <= place.position <= held[at][1] for at, place in places.items() if at in held and place.position > 0):
            return "records were deleted before, or after, the mirror had read them"
        if silent > patience:
            return f"it was last read to its end {silent:.0f} s ago, and half of delete.retention.ms is {patience:.0f} s"
        return None

    def _sweep(self, topic: str, places: dict[TopicPartition, Place], held: dict[TopicPartition, tuple[int, int]], reason: str) -> None:
        """Remove what the topic does not hold. A topic made anew is then read from its beginning, others from where they were."""
        _log.warning("Topic %s is read again from its beginning for the mirror: %s", topic, reason)
        started, identity = self._now(), self._identities.get(topic)
        records = [] if identity is None else self._stream.read_whole(topic)
        if identity is not None and self._stream.identities([topic]).get(topic) != identity:
            raise PlaceMovedException(f"topic {topic} was made anew while it was read")
        with self._sessions() as database:
            if not self._hold(database):
                raise PlaceMovedException("another process follows")
            for at, place in places.items():
                move_place(database, at, place, self._after_sweep(at, place, held.get(at), _ms(started)))
            forget_places(database, [at for at in places if not self._is_there(at)])
            note = Entry(Kind.MIRROR, "", _ms(started), (TopicPartition(topic, 0), -1), topic, note=reason)
            sweep = Sweep(database, topic, _ms(started), [note])
            self._kind(topic)[1](sweep, records)
            write_history(database, sweep.entries)

    def _after_sweep(self, at: TopicPartition, place: Place, held: tuple[int, int] | None, now_ms: int) -> Place:
        """Where the partition is read on."""
        identity = self._identities.get(at.topic)
        if identity is None or held is None:
            return place
        if place.topic_id != identity.id or place.position > held[1]:
            return Place(identity.id, 0, 0, now_ms)
        return replace(place, position=max(place.position, held[0]), complete_ms=now_ms)

    def _kind(self, topic: str) -> tuple[_TakeIn, _SweepOut]:
        """How records of the topic are taken in, and how its rows are swept."""
        known = {
            self._settings.config_topic: (self._take_configs, Sweep.configs),
            self._settings.status_topic: (take_statuses, Sweep.statuses),
            self._settings.batch_topic: (take_batches, Sweep.batches),
        }
        return known.get(topic, (take_offsets, Sweep.offsets))

    def _take(self, records: Sequence[StateRecord]) -> bool:
        self._refuse_strangers()
        topics = sorted({record.at.topic for record in records})
        moved = {at: replace(place, position=self._next[at]) for at, place in self._places.items() if self._next[at] != place.position}
        with self._sessions() as database:
            if not self._hold(database):  # 1
                raise PlaceMovedException("another process follows")
            for at, place in moved.items():
                move_place(database, at, self._places[at], place)  # 2
            entries: list[Entry] = []
            for topic in topics:
                entries += self._kind(topic)[0](database, [record for record in records if record.at.topic == topic])  # 3
            write_history(database, self._news(entries))  # 4
        self._places |= moved
        if self._settings.config_topic in topics:
            self._look_for_topics()
        return True

    def _news(self, entries: Iterable[Entry]) -> list[Entry]:
        """Those that the history does not have."""
        return [entry for entry in entries if entry.place[1] >= self._places[entry.place[0]].noted]

    def _look_for_topics(self) -> None:
        """Start again where there is a topic to follow that was not there, as when a connector is given an offsets topic of its own."""
        with self._sessions() as database:
            missing = self._wanted(database) - self._identities.keys()
        if missing and self._stream.identities(missing):
            self._let_go()

    def _refuse_strangers(self) -> None:
        """What was just read came from the topics that the places speak of. Raises PlaceMovedException."""
        found = self._stream.identities(self._identities)
        for topic, identity in self._identities.items():
            if found.get(topic) != identity:
                raise PlaceMovedException(f"topic {topic} is no longer what it was")

    def _check(self) -> None:
        """Nothing came for a while. The topics are the same, and where all is read, that is noted once a minute."""
        self._refuse_strangers()
        now, ends = self._now(), self._stream.ends(self._places)
        complete = {
            at: replace(place, position=self._next[at], complete_ms=_ms(now))
            for at, place in self._places.items()
            if self._next[at] >= ends[at] and now - place.complete_ms / 1000 >= min(_COMPLETE_SECONDS, self._patience[at.topic] / 4)
        }
        if complete:
            with self._sessions() as database:
                if not self._hold(database):
                    raise PlaceMovedException("another process follows")
                for at, place in complete.items():
                    move_place(database, at, self._places[at], place)
            self._places |= complete
        for at, place in self._places.items():
            if now - place.complete_ms / 1000 > self._patience[at.topic]:
                raise PlaceMovedException(f"{at} was not read to its end for {self._patience[at.topic]:.0f} s")
        self._checked_at = now
        self._look_for_topics()


def _ms(seconds: float) -> int:
    return int(seconds * 1000)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a partition is read on. What lies below ``noted`` is in the history already. At ``complete_ms`` nothing was left to read.

    Kept in the database, moved by compare-and-set in the same transaction as what was read: so a crash, or a second follower, loses and
    doubles nothing.
    """

    topic_id: str
    position: int
    noted: int
    complete_ms: int


class PlaceMovedException(Exception):
    """Somebody else has moved the place: what was read from it is not to be written."""


def read_places(database: Database) -> dict[TopicPartition, Place]:
    """All places that the database knows."""
    return {
        TopicPartition(row.topic, row.topic_partition): Place(row.topic_id, row.position, row.noted, row.complete_ms)
        for row in database.execute(select(position))
    }


def add_place(database: Database, at: TopicPartition, place: Place) -> None:
    """A place for a partition that has none. Raises IntegrityError when somebody was first."""
    values = {"topic_id": place.topic_id, "position": place.position, "noted": place.noted, "complete_ms": place.complete_ms}
    database.execute(insert(position).values(topic=at.topic, topic_partition=at.partition, **values))


def move_place(database: Database, at: TopicPartition, old: Place, new: Place) -> None:
    """Replace ``old`` by ``new``. Raises PlaceMovedException."""
    statement = (
        update(position)
        .where(position.c.topic == at.topic, position.c.topic_partition == at.partition)
        .where(position.c.topic_id == old.topic_id, position.c.position == old.position)
        .values(topic_id=new.topic_id, position=new.position, noted=new.noted, complete_ms=new.complete_ms)
    )
    if _count(database, statement) != 1:
        raise PlaceMovedException(f"the mirror's position in {at} is no longer {old.position}")


def forget_places(database: Database, partitions: Iterable[TopicPartition]) -> None:
    """The partitions are no longer followed."""
    remove_rows(database, position, [{"topic": at.topic, "topic_partition": at.partition} for at in partitions])


def _count(database: Database, statement: Update) -> int:
    result = database.execute(statement)
    assert isinstance(result, CursorResult)
    return result.rowcount
