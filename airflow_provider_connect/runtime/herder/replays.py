"""Replays of a sink's dead-letter records. Runs of another connector, ``«sink»-replay``, write them back.

So a replay is a run like any other: claimed, fenced, exactly once, with a DAG and a history. Meanwhile the sink's own runs continue. The
config of that connector is the last requested replay.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final

from airflow_provider_connect.codecs.dead_letters import REPLAY_CLASS, OffsetRanges, ReplayPosition, by_partition, origin_of
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import BadRequestException, ConflictException, ConnectException, NotFoundException
from airflow_provider_connect.runtime.config.config_providers import variables
from airflow_provider_connect.runtime.config.dag_settings import SCHEDULE, DagCheck
from airflow_provider_connect.runtime.config.masking import Mask, config_secrets
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.connectors import ConnectorConfigs
from airflow_provider_connect.runtime.herder.dead_letters import CONTEXT_HEADERS, SecretsOf, dead_letter_topic, has_context_headers
from airflow_provider_connect.runtime.herder.lifecycle import Lifecycle
from airflow_provider_connect.runtime.herder.offsets import OffsetKeeper
from airflow_provider_connect.runtime.herder.ports import Previewer
from airflow_provider_connect.runtime.herder.snapshot import Snapshot, Topics, config_of
from airflow_provider_connect.runtime.model.backfill import OF as BACKFILL_OF
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.history import Redact
from airflow_provider_connect.runtime.model.ids import refusal_of_topic
from airflow_provider_connect.runtime.model.previews import Preview, PreviewedRecord, PreviewedSteps
from airflow_provider_connect.runtime.model.replays import Replay, ReplayRequest, replay_connector
from airflow_provider_connect.runtime.model.secret_keys import HIDDEN
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.status import ConnectorStatus, TaskStatus
from airflow_provider_connect.runtime.model.view_json import of_json, to_json
from airflow_provider_connect.runtime.stores.last_records import missing_queue
from airflow_provider_connect.runtime.stores.sink_lag import topics_of_sink
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin

_KEY: Final = "dead.letters."
_OF, _REPLAY, _UNTIL, _TOPIC, _ID = (f"{_KEY}{name}" for name in ("connector", "replay", "until", "topic", "topic.id"))
_ORIGIN, _HIDDEN = f"{_KEY}origin", f"{_KEY}hidden"
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_RAW: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
_CLIENTS: Final = ("producer.override.", "consumer.override.", "admin.override.")
_OF_ONE_GROUP: Final = frozenset({"consumer.override.group.id", "consumer.override.isolation.level"})
_STEERING: Final = ("airflow.engine", "airflow.pool", "airflow.queue", "airflow.owner")
_CHANGES: Final = ("transforms", "predicates")
_LONGEST_LINE: Final = 500
_LONGEST: Final = 256 * 1024  # characters of a setting, as in any config that REST accepts


@dataclass(frozen=True, slots=True)
class Queue:
    """The current state of a dead letter queue. ``ends``: the end of each partition that contains records. ``origins``: the number of
    partitions of each topic that the sink reads."""

    topic: str
    topic_id: str
    ends: Mapping[int, int]
    origins: Mapping[str, int]

    @classmethod
    def read(cls, settings: WorkerSettings, topic: str, sink: Mapping[str, str]) -> Queue:
        """The queue ``topic`` of the sink with this config. Raises NotFoundException if the topic does not exist."""
        with closing(TopicAdmin(settings)) as admin:
            count = admin.partitions([topic]).get(topic, 0)
            if not count:
                raise missing_queue(topic)
            partitions = [TopicPartition(topic, number) for number in range(count)]
            begins, ends = admin.beginning_offsets(partitions), admin.end_offsets(partitions)
            held = {at.partition: end for at, end in ends.items() if end > begins[at]}
            return cls(topic, admin.topic_id(topic), held, topics_of_sink(sink, admin) or {})


class Replays:
    """See the module. ``previewer`` returns the previewer, or raises ConnectException if there is none. ``secrets`` returns the secrets of
    a connector's config."""

    def __init__(
        self,
        settings: WorkerSettings,
        topics: Topics,
        connectors: ConnectorConfigs,
        offsets: OffsetKeeper,
        lifecycle: Lifecycle,
        *,
        previewer: Callable[[], Previewer],
        dag_check: DagCheck,
        secrets: SecretsOf,
        read_queue: Callable[[WorkerSettings, str, Mapping[str, str]], Queue] = Queue.read,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._reader = topics.reader
        self._connectors = connectors
        self._offsets = offsets
        self._lifecycle = lifecycle
        self._previewer = previewer
        self._dag_check = dag_check
        self._secrets = secrets
        self._read_queue = read_queue
        self._now = now

    def state(self, sink: str) -> Replay:
        """The last requested replay. Raises NotFoundException if there was no replay."""
        snapshot, name = self._reader.read(), replay_connector(sink)
        config_of(snapshot.configs, sink)
        config = snapshot.configs.connector_config(name)
        if config is None or not is_replay(config, sink):
            raise NotFoundException(f"No dead-letter records of connector {sink} were replayed yet")
        return self._state(name, config, snapshot)

    def replayed(self, sink: str, topic: str) -> dict[int, OffsetRanges]:
        """The replayed offsets of the queue ``topic``, by partition. Empty if there was no replay."""
        name = replay_connector(sink)
        config = self._reader.configs().connector_config(name)
        if config is None or not is_replay(config, sink):
            return {}
        return {at: _position(offset, config[_ID]).replayed for at, offset in self._queue_offsets(name, topic).items()}

    def request(self, sink: str, asked: ReplayRequest, author: str | None, *, redact: Redact) -> Replay:
        """Steps: 1 check the request; 2 write the connector's config, which starts a run. Repeating the same ``replay`` changes nothing.
        ``redact``, here and below, hides the secrets of a config.

        Raises NotFoundException, ConflictException while another replay is in progress or was requested at the same time, and
        BadRequestException or ConfigException for records that cannot be replayed.
        """

        def require_unchanged(now: Mapping[str, str] | None) -> None:
            if now != known:
                raise ConflictException(f"Another replay of dead-letter records of {sink} was requested at the same time: wait for its end")

        name = replay_connector(sink)
        known = self._previous_config(sink)
        if known is not None:
            state = self._state(name, known, self._reader.read())
            if asked.replay is not None and state.replay == asked.replay:
                return state
            self._refuse_second(sink, state)
        config = self._config(sink, asked, redact)  # 1
        written, _ = self._connectors.put(name, config, author, require=require_unchanged)  # 2
        if self._reader.configs().target_state(name) is not TargetState.STARTED:
            self._lifecycle.resume(name, author)
        return self._state(name, written.config, self._reader.read())

    def preview(self, sink: str, asked: ReplayRequest, *, records: int, redact: Redact) -> Replay:
        """The first ``records`` records that such a replay would write, with the secrets of the sink's config hidden. The source offset of
        each is its position in the queue. Nothing is written.

        Also raises BadRequestException if a secret could not be hidden."""
        name, config = replay_connector(sink), self._config(sink, asked, redact)
        self._previous_config(sink)
        secrets = self._secrets(sink, config_of(self._reader.configs(), sink), redact)
        tried = {**config, "name": name, _ORIGIN: "true"} | ({_HIDDEN: _json_of(secrets)} if secrets else {})
        found = self._previewer().preview(name, tried, records=records, version=None)
        found = of_json(Preview, Mask(secrets).whole(to_json(found)))
        found = replace(found, records=list(map(_with_origin, found.records)), steps=list(map(_steps_with_origin, found.steps)))
        until = config[_UNTIL].split(",") if config[_UNTIL] else []
        return Replay(name, config[_REPLAY], config[_TOPIC], until, 0, False, None, preview=found)

    def _previous_config(self, sink: str) -> dict[str, str] | None:
        """The config of the previous replay. None: there was no replay. Raises ConflictException if another connector has its name."""
        name = replay_connector(sink)
        known = self._reader.configs().connector_config(name)
        if known is not None and not is_replay(known, sink):
            raise ConflictException(
                f"Connector {name} exists and does not replay dead-letter records of {sink}: delete it, and create it under another name"
            )
        return known

    def _refuse_second(self, sink: str, state: Replay) -> None:
        target = self._reader.configs().target_state(state.connector)
        if state.is_done or target is not TargetState.STARTED or state.state == State.FAILED:
            return
        raise ConflictException(
            f"A replay of dead-letter records of {sink} is in progress: wait for its end, or abandon it by pausing connector "
            f"{state.connector}"
        )

    def _config(self, sink: str, asked: ReplayRequest, redact: Redact) -> dict[str, str]:
        config = self._offsets.with_topics(sink, config_of(self._reader.configs(), sink))
        if live := config.get(BACKFILL_OF):
            raise BadRequestException(
                f"Connector {sink} is a backfill of {live}, which ends with its ranges, and would not read what is written to its topics: "
                "correct the cause, and create another backfill of the records that failed"
            )
        topic = dead_letter_topic(sink, config, self._settings)
        if not has_context_headers(config):
            raise BadRequestException(
                f"Dead-letter records of {sink} cannot be replayed: {CONTEXT_HEADERS} is not true, and without these headers nothing "
                "names the topic on which a record failed, nor the connector"
            )
        replay = asked.replay or f"{self._now() * 1000:.0f}"
        made = replay_config(sink, config, self._read_queue(self._settings, topic, config), asked, replay, redact=redact)
        return self._inherited_settings(replay_connector(sink), config) | made

    def _inherited_settings(self, name: str, config: Mapping[str, str]) -> dict[str, str]:
        """The sink's settings that decide where its runs execute, without settings that only a DAG file may set."""
        given = {key: config[key] for key in _STEERING if key in config}
        return {key: text for key, text in given.items() if not self._dag_check(name, {key: text})}

    def _queue_offsets(self, name: str, topic: str) -> dict[int, Mapping[str, object] | None]:
        """The source offsets of the queue's partitions."""
        views = [(view.partition or {}, view.offset) for view in self._offsets.offsets(name)]
        return {int(str(at["partition"])): offset for at, offset in views if at.get("topic") == topic and type(at.get("partition")) is int}

    def _state(self, name: str, config: Mapping[str, str], snapshot: Snapshot) -> Replay:
        found = self._queue_offsets(name, config[_TOPIC])
        ends = {partition: ranges.first or 0 for partition, ranges in by_partition(_entries(config[_UNTIL])).items()}
        positions = {partition: _position(found.get(partition), config[_ID]) for partition in ends}
        current = {partition: position for partition, position in positions.items() if position.replay == config[_REPLAY]}
        is_done = all(partition in current and current[partition].read >= end for partition, end in ends.items())
        records = sum(position.records for position in current.values())
        state, failure = _overall_state(snapshot, name)
        until = [f"{partition}:{end}" for partition, end in ends.items()]
        return Replay(name, config[_REPLAY], config[_TOPIC], until, records, is_done, state, failure)


def is_replay(config: Mapping[str, str], sink: str) -> bool:
    """Whether a connector with this ``config`` replays the dead-letter records of ``sink``."""
    return config.get("connector.class") == REPLAY_CLASS and config.get(_OF) == sink


def replay_config(
    sink: str, config: Mapping[str, str], queue: Queue, asked: ReplayRequest, replay: str, *, redact: Redact = dict
) -> dict[str, str]:
    """The config of the connector that carries out the replay ``asked`` of ``sink``. ``config`` is the sink's config. Raises
    BadRequestException.

    Records keep their bytes unless there are transformations. Transformations get the records that the sink's converters return, so an
    error may quote a record. Therefore the runs get the sink's secrets, in order to hide them.
    """
    _refuse_invalid(asked)
    _refuse_unmatched_edits(queue, asked)
    ends = _ends(queue, by_partition(asked.offsets))
    if not ends:
        raise NotFoundException(f"Topic {queue.topic} holds no records that are asked for")
    changed = bool(asked.transforms.get("transforms", "").strip())
    converters = {key: text for key, text in config.items() if key.startswith(_CONVERTERS)}
    clients = {key: text for key, text in config.items() if key.startswith(_CLIENTS) and key not in _OF_ONE_GROUP}
    made = {
        "connector.class": REPLAY_CLASS,
        "tasks.max": "1",
        SCHEDULE: "none",
        _TOPIC: queue.topic,
        _ID: queue.topic_id,
        _OF: sink,
        _REPLAY: replay,
        _UNTIL: ",".join(f"{partition}:{end}" for partition, end in sorted(ends.items())),
        f"{_KEY}origins": ",".join(f"{topic}:{count}" for topic, count in sorted(queue.origins.items())),
        f"{_KEY}offsets": ",".join(asked.offsets),
        f"{_KEY}from.topics": ",".join(asked.from_topics),
        f"{_KEY}exceptions": ",".join(asked.exceptions),
        f"{_KEY}target.topic": asked.topic or "",
        f"{_KEY}edits": _edits_text(asked) if asked.edits else "",
        f"{_KEY}decode": "true" if changed else "",
    }
    made |= _hidden(config, redact) if changed else {}
    given = {key: text for key, text in made.items() if text}
    return {**clients, **(converters if changed else dict.fromkeys(_CONVERTERS, _RAW)), **given, **asked.transforms}


def _edits_text(asked: ReplayRequest) -> str:
    return _plain({at: dict(edit) for at, edit in asked.edits.items()})


def _plain(value: object) -> str:
    """JSON without config variables: a ``${`` in a record or a secret stays text."""
    return json.dumps(value).replace("$", "\\u0024")


def _ends(queue: Queue, offsets: Mapping[int, OffsetRanges]) -> dict[int, int]:
    """The end of a replay in each partition that it reads: after the last requested record, but not beyond the queue's end."""
    if not offsets:
        return dict(queue.ends)
    return {at: min(end, (offsets[at].last or 0) + 1) for at, end in queue.ends.items() if at in offsets}


def _hidden(config: Mapping[str, str], redact: Redact) -> dict[str, str]:
    """Settings with a sink's secrets. Secrets that are literal in its config are in a JSON object. Its variables are in a text, one per
    line."""
    visible, named = redact(config), variables(config)
    literals = {value for key, value in config.items() if visible.get(key) != value} | config_secrets(config)
    return {_HIDDEN: _json_of(literals) if literals else "", f"{_KEY}hidden.variables": "\n".join(named)}


def _json_of(secrets: Iterable[str]) -> str:
    return _plain({f"secret.{number}": text for number, text in enumerate(sorted(secrets))})


def _with_origin(record: PreviewedRecord) -> PreviewedRecord:
    """The record with its position in the queue as source offset. The task has put the position into the first header."""
    origin = origin_of(str(record.headers[0]["key"])) if record.headers else None
    if origin is None:  # a transformation has created another record, or removed the header
        return record
    return replace(record, headers=record.headers[1:], source_offset={"partition": origin[0], "offset": origin[1]})


def _steps_with_origin(steps: PreviewedSteps) -> PreviewedSteps:
    transforms = [replace(step, records=list(map(_with_origin, step.records))) for step in steps.transforms]
    return replace(steps, read=_with_origin(steps.read), transforms=transforms)


def _refuse_invalid(asked: ReplayRequest) -> None:
    try:
        by_partition(asked.offsets)
        by_partition(list(asked.edits))
    except ConnectException as error:
        raise BadRequestException(error.message) from None
    for name, entries in (("from_topics", asked.from_topics), ("exceptions", asked.exceptions), ("offsets", asked.offsets)):
        if any("," in entry or not entry.strip() for entry in entries):
            raise BadRequestException(f"'{name}' has an entry that is empty or has a comma: give one name in each")
    for key in asked.transforms:
        if key not in _CHANGES and not key.startswith(tuple(f"{name}." for name in _CHANGES)):
            raise BadRequestException(
                f"'transforms' has the setting {cut(key)}: it may have transforms, transforms.…, predicates and predicates.…"
            )
    if asked.transforms and not asked.transforms.get("transforms", "").strip():
        raise BadRequestException("'transforms' has settings and no 'transforms', the list of the names that are applied: give it too")
    if asked.topic is not None and (refusal := refusal_of_topic(asked.topic)):
        raise BadRequestException(f"{cut(asked.topic)} is not a valid topic: {refusal}")
    if sum(map(len, asked.offsets)) > _LONGEST or len(_edits_text(asked)) > _LONGEST:
        raise BadRequestException(f"'offsets' and 'edits' may have {_LONGEST} characters each: replay fewer records at once")
    for at, edit in asked.edits.items():
        if any(text is not None and HIDDEN in text for text in edit.values()):
            raise BadRequestException(
                f"The edit of record {cut(at)} contains {HIDDEN}, which stands for a secret that is not shown: edit the record elsewhere"
            )


def _refuse_unmatched_edits(queue: Queue, asked: ReplayRequest) -> None:
    """Refuse an edit that matches no record. Otherwise the intended record would be replayed unedited, and only once."""
    chosen, seen = by_partition(asked.offsets), set[tuple[int, int]]()
    for at in asked.edits:
        ((partition, offsets),) = by_partition([at]).items()
        offset = offsets.first or 0
        if offset >= queue.ends.get(partition, 0) or (chosen and offset not in chosen.get(partition, OffsetRanges())):
            raise BadRequestException(f"The edit of record {cut(at)} matches no selected record of {queue.topic}: see 'offsets'")
        if (partition, offset) in seen:
            raise BadRequestException(f"There are two edits of record {partition}:{offset}: give one")
        seen.add((partition, offset))


def _entries(text: str) -> list[str]:
    return [entry for entry in text.split(",") if entry.strip()]


def _position(offset: Mapping[str, object] | None, topic_id: str) -> ReplayPosition:
    """The position of a source offset. An invalid offset is treated as missing, because the run reports it."""
    try:
        return ReplayPosition.of(offset, topic_id)
    except ConnectException:
        return ReplayPosition.of(None, topic_id)


def _overall_state(snapshot: Snapshot, name: str) -> tuple[str | None, str | None]:
    """The overall state of the connector and its tasks, FAILED first, and the reason of a failure."""
    statuses = snapshot.statuses
    connector = statuses.connector(name)
    tasks = statuses.task_map(name).values()
    found: list[ConnectorStatus | TaskStatus] = [*([] if connector is None else [connector]), *tasks]
    for status in found:
        if status.state is State.FAILED:
            lines = (status.trace or "").strip().splitlines()
            return State.FAILED, cut(lines[0] if lines else "without a trace", _LONGEST_LINE)
    return (str(found[-1].state), None) if found else (None, None)
