"""The first records of a preview before and after each transformation: the same as what the whole pipeline makes of them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.converters.json.converter import JsonConverter
from airflow_provider_connect.data.records import SinkRecord, SourceRecord, TopicPartition
from airflow_provider_connect.errors import DataException
from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.connector_settings import TransformationSettings
from airflow_provider_connect.runtime.model.previews import Preview, PreviewedRecord, PreviewedSteps, StepOutcome
from airflow_provider_connect.runtime.worker.delivery.raw_batch import HEADERS_TYPE, RawBatch
from airflow_provider_connect.runtime.worker.errors.failures import Failure
from airflow_provider_connect.runtime.worker.errors.tolerance import Tolerance
from airflow_provider_connect.runtime.worker.pipeline.sink_pipeline import SinkPipeline
from airflow_provider_connect.runtime.worker.pipeline.source_pipeline import SourcePipeline
from airflow_provider_connect.runtime.worker.pipeline.stages import Stage
from airflow_provider_connect.runtime.worker.preview.findings import previewed_record
from airflow_provider_connect.runtime.worker.preview.steps import MAX_STEPS_LENGTH, Steps
from airflow_provider_connect.runtime.worker.task.checked_connector import check_connector
from airflow_provider_connect.runtime.worker.task.pipeline_setup import create_converters, create_stages
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.converter import RAW_HEADERS
from airflow_provider_connect.sdk.functions.transformation import transformation
from airflow_provider_connect.sdk.transformations import Transformation

KAFKA = "org.apache.kafka.connect.transforms"
JSON = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "value.converter.schemas.enable": "false"}
SCHEMAS = {"value.converter": "org.apache.kafka.connect.json.JsonConverter"}
OF_T, TOMBSTONE = {"of-t.type": "TopicNameMatches", "of-t.pattern": "t"}, {"tombstone.type": "RecordIsTombstone"}

Chain = Mapping[str, Mapping[str, str]]
INSERT = {"type": "InsertField$Value", "static.field": "by", "static.value": "me"}
ROUTE = {"type": "RegexRouter", "regex": "(.*)", "replacement": "$1-routed"}
HEADER = {"type": "InsertHeader", "header": "h", "value.literal": "42"}
CAST = {"type": "Cast$Value", "spec": "name:int8"}
CHAINS: Mapping[str, Chain] = {
    "dropped by Filter": {"insert": INSERT, "drop": {"type": "Filter", "predicate": "of-t"}, "route": ROUTE},
    "a negated predicate": {"drop": {"type": "Filter", "predicate": "of-t", "negate": "true"}, "insert": INSERT},
    "an error in the second of three": {"insert": INSERT, "cast": CAST, "route": ROUTE},
    "rows dropped by SQL": {"sql": {"type": "SqlTransform", "sql": "SELECT id, id * 2 AS twice FROM batch WHERE id <> 2"}, "route": ROUTE},
    "routed": {"route": ROUTE, "drop": {"type": "Filter", "predicate": "of-t"}, "insert": INSERT},
    "a header": {"header": HEADER, "insert": INSERT},
}


def config(chain: Chain) -> dict[str, str]:
    settings = {f"transforms.{alias}.{key}": text for alias, own in chain.items() for key, text in own.items()}
    settings = {key: f"{KAFKA}.{text}" if text.endswith("$Value") else text for key, text in settings.items()}
    predicates = {f"predicates.{key}": text for key, text in {**OF_T, **TOMBSTONE}.items()}
    return {"transforms": ",".join(chain), "predicates": "of-t,tombstone", **settings, **predicates, "errors.tolerance": "all"}


class Run:
    """The same records through the whole pipeline, and through the steps."""

    def __init__(self, folder: Path, chain: Chain, *, is_sink: bool, converter: Mapping[str, str] = JSON, mask: Mask | None = None) -> None:
        worker = WorkerSettings.of({"connectors.allowed.paths": str(folder)})
        kind = {"topics": "t", "connector.class": "FileStreamSink"} if is_sink else {"topic": "t", "connector.class": "FileStreamSource"}
        checked = check_connector("c", {"name": "c", "file": str(folder / "x"), **kind, **converter, **config(chain)}, worker, {})
        self.converters = create_converters(checked, worker)
        self.failures: list[Failure] = []
        self.errors = Tolerance(checked.settings.errors, self.failures.append)
        self.stages = create_stages(checked, self.converters.header)
        self.mask = mask or Mask()
        self.steps = Steps(checked.settings.transforms, self.stages, self.converters.header, self.mask, deadline=1.0, now=lambda: 0.0)

    def of_source(self, batch: Batch) -> list[PreviewedRecord]:
        found: list[SourceRecord] = []
        for piece, _ in SourcePipeline(self.converters, self.stages, self.errors).pieces(batch):
            found += piece.source_records(self.converters.header)
        self.steps.add(0, batch)
        return [previewed_record(0, record, self.mask)[0] for record in found]

    def of_sink(self, values: Sequence[Any]) -> list[PreviewedRecord]:
        column = pa.array([None if value is None else json.dumps(value).encode() for value in values], pa.binary())
        raw = RawBatch(TopicPartition("t", 0), 7, 7 + len(column), column, timestamp=pa.array([1000] * len(column), pa.int64()))
        found: list[SinkRecord] = []
        for piece in SinkPipeline(self.converters, self.stages, self.errors).batches(raw):
            found += piece.sink_records(self.converters.header)
        for piece in SinkPipeline(self.converters).batches(raw):
            self.steps.add(0, piece)
        return [previewed_record(0, record, self.mask)[0] for record in found]


def last(steps: PreviewedSteps) -> list[PreviewedRecord]:
    """What is left of a record behind its last step."""
    left = [steps.read]
    for step in steps.transforms:
        left = left if step.outcome is StepOutcome.SKIPPED else list(step.records)
    return left


def outcomes(steps: PreviewedSteps) -> list[str]:
    return [f"{step.alias} {step.outcome}" for step in steps.transforms]


VALUES = [{"id": number, "name": "three" if number == 3 else str(number)} for number in range(1, 6)]


def structs() -> Batch:
    offsets = [{"line": number} for number in range(len(VALUES))]
    return Batch.of("t", VALUES, source_partition={"file": "x"}, source_offsets=offsets)


@pytest.mark.parametrize("name", CHAINS)
def test_what_is_left_of_a_sources_records_is_what_the_pipeline_returns(name: str, tmp_path: Path) -> None:
    run = Run(tmp_path, CHAINS[name], is_sink=False, converter=SCHEMAS)
    expected = run.of_source(structs())
    assert [record for steps in run.steps.shown for record in last(steps)] == expected
    assert [steps.read.value["id"] for steps in run.steps.shown] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("name", [name for name in CHAINS if "SQL" not in name])
def test_what_is_left_of_a_sinks_records_is_what_put_is_given(name: str, tmp_path: Path) -> None:
    run = Run(tmp_path, CHAINS[name], is_sink=True)
    expected = run.of_sink(VALUES)
    assert [record for steps in run.steps.shown for record in last(steps)] == expected
    assert [(steps.read.topic, steps.read.offset, steps.read.timestamp) for steps in run.steps.shown] == [
        ("t", offset, 1000) for offset in range(7, 12)
    ]


def test_a_record_ends_at_the_filter_that_drops_it(tmp_path: Path) -> None:
    run = Run(tmp_path, CHAINS["dropped by Filter"], is_sink=False, converter=SCHEMAS)
    assert run.of_source(structs()) == []
    for steps in run.steps.shown:
        insert, drop = steps.transforms
        assert (insert.class_name, insert.outcome, insert.predicate) == (f"{KAFKA}.InsertField$Value", "applied", None)
        assert insert.records[0].value == {**steps.read.value, "by": "me"}
        assert (drop.class_name, drop.outcome, drop.predicate, list(drop.records)) == (f"{KAFKA}.Filter", "dropped", "of-t", [])


def test_a_step_that_a_predicate_skips_is_named(tmp_path: Path) -> None:
    run = Run(tmp_path, CHAINS["a negated predicate"], is_sink=True)
    run.of_sink(VALUES)
    for steps in run.steps.shown:
        drop, _ = steps.transforms
        assert (drop.outcome, drop.predicate, list(drop.records)) == ("skipped", "not of-t", [])
        assert outcomes(steps) == ["drop skipped", "insert applied"]


def test_the_topic_that_a_step_gives_decides_the_predicates_behind_it(tmp_path: Path) -> None:
    run = Run(tmp_path, CHAINS["routed"], is_sink=False, converter=SCHEMAS)
    run.of_source(structs())
    steps = run.steps.shown[0]
    assert outcomes(steps) == ["route applied", "drop skipped", "insert applied"]
    assert [steps.read.topic, steps.transforms[0].records[0].topic] == ["t", "t-routed"]


def test_a_header_is_there_behind_its_step(tmp_path: Path) -> None:
    run = Run(tmp_path, CHAINS["a header"], is_sink=True)
    run.of_sink([None, {"id": 1}])
    assert [list(run.steps.shown[0].read.headers), run.steps.shown[0].transforms[0].records[0].headers] == [[], [{"key": "h", "value": 42}]]


def test_an_error_ends_one_record_at_its_step(tmp_path: Path) -> None:
    run = Run(tmp_path, CHAINS["an error in the second of three"], is_sink=True)
    run.of_sink(VALUES)
    assert [outcomes(steps) for steps in run.steps.shown].count(["insert applied", "cast applied", "route applied"]) == 4
    failed = run.steps.shown[2].transforms
    assert [(step.alias, step.outcome) for step in failed] == [("insert", "applied"), ("cast", "failed")]
    assert str(run.failures[0].error) in (failed[1].error or "")
    assert len(run.failures) == 1, "the steps report no second failure"


def test_rows_that_sql_leaves_out_are_dropped_by_it(tmp_path: Path) -> None:
    run = Run(tmp_path, CHAINS["rows dropped by SQL"], is_sink=False, converter=SCHEMAS)
    run.of_source(structs())
    assert outcomes(run.steps.shown[1]) == ["sql dropped"]
    assert run.steps.shown[0].transforms[0].records[0].value == {"id": 1, "twice": 2}


SECRET = "correct horse battery"
LEAKS: Mapping[str, Chain] = {
    "a field": {"leak": {**INSERT, "static.value": SECRET}, "hide": {"type": "MaskField$Value", "fields": "by"}},
    "a mask": {"leak": {"type": "MaskField$Value", "fields": "name", "replacement": SECRET}},
    "a header": {"leak": {"type": "InsertHeader", "header": SECRET, "value.literal": SECRET}},
    "a topic": {"leak": {"type": "RegexRouter", "regex": ".*", "replacement": SECRET.replace(" ", "-")}},
    "an error": {"fail": {"type": "Cast$Value", "spec": "name:int8"}},
}


@pytest.mark.parametrize("name", LEAKS)
def test_a_secret_is_masked_in_every_step(name: str, tmp_path: Path) -> None:
    run = Run(tmp_path, LEAKS[name], is_sink=True, mask=Mask([SECRET]))
    run.of_sink([{"id": 1, "name": SECRET}])
    shown = json.dumps([asdict(steps) for steps in run.steps.shown])
    assert SECRET not in shown
    assert "[hidden]" in shown
    assert outcomes(run.steps.shown[0])[0] in {"leak applied", "fail failed"}


class Twice(Transformation):
    def apply_batch(self, batch: Batch) -> list[Batch]:
        return [batch.replace(topic="a"), batch.replace(topic="b")]


class Many(Transformation):
    def apply_batch(self, batch: Batch) -> Batch:
        return Batch.of(batch.topic, ["x" * 3000] * 1000)


class Longer(Transformation):
    """A topic twice as long, as RegexRouter makes it by ``$1$1``."""

    def apply_batch(self, batch: Batch) -> Batch:
        return batch.replace(topic=batch.topic * 2)


class Slow(Transformation):
    def __init__(self, clock: list[float]) -> None:
        self.clock = clock

    def apply_batch(self, batch: Batch) -> Batch:
        self.clock[0] += 0.6
        return batch


class Refusing(Transformation):
    def apply_batch(self, batch: Batch) -> Batch:
        raise DataException("x" * 100_000)


def steps_of(*transformations: Transformation, deadline: float = 1.0) -> Steps:
    named = [TransformationSettings(f"T{n}", None, {}, f"t{n}", None, negate=False) for n in range(len(transformations))]
    return Steps(named, [Stage(each) for each in transformations], RAW_HEADERS, Mask(), deadline=deadline, now=lambda: 0.0)


def test_a_record_may_become_several() -> None:
    steps = steps_of(Twice(), Twice())
    steps.add(0, Batch.of("t", ["x"]))
    first, second = steps.shown[0].transforms
    assert [[record.topic for record in step.records] for step in (first, second)] == [["a", "b"], ["a", "b", "a", "b"]]
    assert not steps.shown[0].is_cut


def test_there_are_five_records_at_most_and_none_behind_the_deadline_or_without_transformations() -> None:
    steps = steps_of(Twice())
    for _ in range(3):
        steps.add(0, Batch.of("t", ["x", "y"]))
    assert (len(steps.shown), steps.has_room) == (5, False)
    for none in (steps_of(Twice(), deadline=0.0), steps_of()):
        none.add(0, Batch.of("t", ["x"]))
        assert none.shown == []


@transformation
def widened(row: dict) -> dict:  # type: ignore[type-arg]  # (as authors write it)
    return {**row, "double": row["id"] * 2} if row["id"] == 3 else row


def test_fields_that_a_transformation_learns_from_a_batch_are_there_in_each_step(tmp_path: Path) -> None:
    run = Run(tmp_path, {}, is_sink=False, converter=SCHEMAS)
    instance = widened()
    instance.configure(instance.config_def.parse({}))
    run.stages = [Stage(instance)]
    run.steps = Steps([TransformationSettings("W", None, {}, "w", None, negate=False)], run.stages, RAW_HEADERS, Mask(), deadline=math.inf)
    expected = run.of_source(structs())
    assert expected[0].value == {"id": 1, "name": "1", "double": None}
    assert [record for steps in run.steps.shown for record in last(steps)] == expected


class BrokenHeader(Transformation):
    def apply_batch(self, batch: Batch) -> Batch:
        return batch.replace(headers=pa.array([[("h", b"{")]], HEADERS_TYPE))


def test_a_step_whose_record_cannot_be_shown_names_the_reason_and_the_record_goes_on() -> None:
    headers = JsonConverter()
    headers.configure({"converter.type": "header"})
    named = [TransformationSettings("T", None, {}, f"t{n}", None, negate=False) for n in range(2)]
    steps = Steps(named, [Stage(BrokenHeader()), Stage(Twice())], headers, Mask(), deadline=1.0, now=lambda: 0.0)
    steps.add(0, Batch.of("t", ["x"]))
    first, second = steps.shown[0].transforms
    assert (first.outcome, list(first.records), second.outcome) == ("applied", [], "applied")
    assert "DataException" in (first.error or "")
    steps.add(0, Batch.of("t", ["x"], headers=pa.array([[("h", b"{")]], HEADERS_TYPE)))
    assert len(steps.shown) == 1, "a record that cannot be shown as it was read has no steps"


def test_no_stage_begins_behind_the_deadline() -> None:
    clock = [0.0]
    named = [TransformationSettings("S", None, {}, f"t{n}", None, negate=False) for n in range(3)]
    steps = Steps(named, [Stage(Slow(clock))] * 3, RAW_HEADERS, Mask(), deadline=1.0, now=lambda: clock[0])
    steps.add(0, Batch.of("t", ["x", "y"]))
    assert [(len(each.transforms), each.is_cut) for each in steps.shown] == [(2, True)]


@pytest.mark.parametrize(
    "chain", [[Many()] * 200, [Twice()] * 200, [Longer()] * 22, [Refusing()]], ids=["many", "twice", "longer", "refusing"]
)
def test_no_transformations_make_the_steps_long(chain: list[Transformation]) -> None:
    steps = steps_of(*chain)
    steps.add(0, Batch.of("t", ["x" * 100_000] * 10))
    assert len(json.dumps([asdict(each) for each in steps.shown])) < MAX_STEPS_LENGTH + 100_000
    assert steps.shown[-1].is_cut or chain[0].__class__ is Refusing


def test_steps_travel_as_json_and_are_left_out_where_there_are_none() -> None:
    steps = steps_of(Twice(), Refusing())
    steps.add(0, Batch.of("t", ["x"]))
    known = Preview("c", "source", "S", {"connector": "1"}, 1, [], [], [], failures=[], steps=steps.shown)
    assert Preview.of_json(json.loads(json.dumps(known.to_json()))) == known
    assert "steps" not in Preview("c", "source", "S", {"connector": "1"}, 1, [], [], []).to_json()
