"""Each regular expression that a config gives: a hostile one ends with an error that names its key."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.connectors.jdbc.catalog.column import Table, TableName
from airflow_provider_connect.connectors.jdbc.catalog.table_filter import TableFilter
from airflow_provider_connect.connectors.jdbc.sink.connector import JdbcSinkConnector
from airflow_provider_connect.connectors.jdbc.sink.settings import SinkSettings
from airflow_provider_connect.connectors.jdbc.source.config import CONFIG_DEF
from airflow_provider_connect.connectors.jdbc.source.connector import in_patterns
from airflow_provider_connect.connectors.jdbc.source.settings import SourceSettings
from airflow_provider_connect.converters.plain import StringConverter
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException
from airflow_provider_connect.runtime.config.config_providers import create_providers
from airflow_provider_connect.runtime.model.connector_settings import ConnectorSettings, ErrorSettings
from airflow_provider_connect.runtime.model.topic_creation import TopicCreation
from airflow_provider_connect.runtime.worker.errors.failures import Failure
from airflow_provider_connect.runtime.worker.errors.tolerance import Tolerance
from airflow_provider_connect.runtime.worker.pipeline.source_pipeline import SourcePipeline
from airflow_provider_connect.runtime.worker.pipeline.stages import Converters, Stage
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.converter import RAW_HEADERS
from airflow_provider_connect.transforms.predicates import Filter, TopicNameMatches
from airflow_provider_connect.transforms.routing import RegexRouter

SLOW = r"(a|aa|a?a)+[^a]"
"""Exponential for every engine that tries one way after another."""
JAVAS = rf"(?<all>{SLOW})\Q.\E"
TEXT = "a" * 200
REPEATED = "((a{1000}){1000}){1000}"
MOST_SECONDS = 5.0  # of processor time; the limit is 0.5 for each of at most two


def made(plugin: Any, **config: str) -> Any:
    plugin.configure(plugin.config_def.parse(config))
    return plugin


def source(**config: str) -> SourceSettings:
    given = {key.replace("_", "."): value for key, value in config.items()}
    return SourceSettings.of(CONFIG_DEF.parse({"connection.url": "jdbc:sqlite:/x.db", "topic.prefix": "p", "mode": "bulk", **given}))


def sink(pattern: str) -> SinkSettings:
    return SinkSettings.of(JdbcSinkConnector.config_def.parse({"connection.url": "jdbc:sqlite:/x.db", "table.name.pattern": pattern}))


def creation(include: str = ".*", exclude: str = "") -> TopicCreation:
    settings = {"include": include, "exclude": exclude}
    defaults = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
    found = TopicCreation.of({**defaults, "topic.creation.groups": "g", **{f"topic.creation.g.{k}": v for k, v in settings.items()}})
    assert found is not None
    return found


def connector(**config: str) -> ConnectorSettings:
    given = {key.replace("_", "."): value for key, value in config.items()}
    return ConnectorSettings.of({"name": "c", "connector.class": "X", **given}, is_sink=True)


def provider(**settings: str) -> Any:
    own = {f"config.providers.p.{key.replace('__', '.')}": value for key, value in settings.items()}
    names = {"config.providers": "p", "config.providers.p.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider"}
    return create_providers({**names, **own}, "c")["p"]


def of_airflow(allowlist: str) -> Any:
    return create_providers({"config.providers.variable.param.allowlist.pattern": allowlist}, "c")["variable"]


@dataclass(frozen=True, slots=True)
class Use:
    """Of one setting: ``ask`` uses an expression for a text."""

    key: str
    ask: Callable[[str, str], object]
    error: type[ConnectException] = ConfigException


USES = [
    Use("regex", lambda p, text: made(RegexRouter(), regex=p, replacement="x").apply_batch(Batch.of(text, pa.array(["v"]))), DataException),
    Use("pattern", lambda p, text: made(TopicNameMatches(), pattern=p).test_batch(Batch.of(text, pa.array(["v"]))), DataException),
    Use("table.name.pattern", lambda p, text: sink(p).table_of(text)),
    Use("table.include", lambda p, text: TableFilter.of([p], []).chosen([TableName(text)])),
    Use("table.exclude", lambda p, text: TableFilter.of([], [p]).chosen([TableName(text)])),
    Use("topic.creation.g.include", lambda p, text: creation(p).group_of(text)),
    Use("topic.creation.g.exclude", lambda p, text: creation(exclude=p).group_of(text)),
    Use("topics.regex", lambda p, text: connector(topics_regex=p).reads_topic(text)),
    Use("config.providers.p.public.keys", lambda p, text: provider(public__keys=p).is_public(text)),
    Use("config.providers.p.access.c", lambda p, text: provider(access__c=p).refusal("c", "", text)),
    Use("config.providers.variable.param.allowlist.pattern", lambda p, text: of_airflow(p).refusal("c", "", text)),
    Use("topics.regex", lambda p, text: connector(topics_regex=p, errors_deadletterqueue_topic_name=text)),
]


@pytest.mark.parametrize("use", USES, ids=[f"{use.key}-{number}" for number, use in enumerate(USES)])
def test_a_hostile_expression_ends_with_an_error_that_names_its_key(use: Use) -> None:
    begun = time.thread_time()
    with pytest.raises(use.error, match=rf"for configuration {re.escape(use.key)}: the expression takes more than 0\.5 s"):
        use.ask(SLOW, TEXT)
    assert time.thread_time() - begun < MOST_SECONDS


@pytest.mark.parametrize("use", USES, ids=[f"{use.key}-{number}" for number, use in enumerate(USES)])
@pytest.mark.parametrize("expression", [r"(a+)+$", r"(x|x)*y", r"(a*)*b", r"(?:(?:a+)+)+[^a]"])
def test_well_known_hostile_expressions_end(use: Use, expression: str) -> None:
    begun = time.thread_time()
    with contextlib.suppress(ConnectException):
        use.ask(expression, TEXT + "!")
    assert time.thread_time() - begun < MOST_SECONDS


@pytest.mark.parametrize("use", USES, ids=[f"{use.key}-{number}" for number, use in enumerate(USES)])
@pytest.mark.parametrize("expression", [REPEATED, "(?:" * 60 + "a" + ")" * 60, "a?" * 5_001])
def test_an_expression_that_would_need_much_memory_is_refused_where_it_is_given(use: Use, expression: str) -> None:
    with pytest.raises(ConfigException, match=re.escape(use.key)):
        use.ask(expression, "a")


@pytest.mark.parametrize(("pattern", "name"), [("%a" * 30 + "b", TEXT[:120]), ("%_" * 30 + "b", TEXT[:120])])
@pytest.mark.parametrize("key", ["catalog.pattern", "schema.pattern"])
def test_a_hostile_pattern_of_schemas_ends(key: str, pattern: str, name: str) -> None:
    begun = time.thread_time()
    settings = source(**{key.replace(".", "_"): pattern})
    with contextlib.suppress(ConfigException):
        assert not in_patterns(Table(TableName("t", schema=name, catalog=name)), settings)
    assert time.thread_time() - begun < MOST_SECONDS


def test_javas_own_syntax_is_bounded_as_well() -> None:
    with pytest.raises(DataException, match="for configuration regex: the expression takes more than"):
        made(RegexRouter(), regex=JAVAS, replacement="${all}").apply_batch(Batch.of(TEXT + ".", pa.array(["v"])))
    assert made(RegexRouter(), regex=JAVAS, replacement="${all}").apply_batch(Batch.of("aab.", pa.array(["v"]))).topic == "aab"


def converters() -> Converters:
    converter = StringConverter()
    converter.configure({}, is_key=False)
    return Converters(converter, converter, RAW_HEADERS)


@pytest.mark.parametrize(
    "stage",
    [
        Stage(made(RegexRouter(), regex=rf"b|{SLOW}", replacement="c")),
        Stage(Filter(), made(TopicNameMatches(), pattern=SLOW)),
    ],
    ids=["RegexRouter", "TopicNameMatches"],
)
def test_records_of_a_topic_that_takes_too_long_are_bad_records_and_no_others(stage: Stage) -> None:
    failures: list[Failure] = []
    tolerant = ErrorSettings(0, 60_000, tolerates_all=True, log_enable=False, log_include_messages=False)
    pipeline = SourcePipeline(converters(), [stage], Tolerance(tolerant, report=failures.append))
    begun = time.thread_time()
    written = [
        (piece.topic, piece.num_records) for topic in (TEXT, "b") for piece in pipeline.encode(Batch.of(topic, pa.array(["v"] * 100)))
    ]
    assert written == [("c" if isinstance(stage.transformation, RegexRouter) else "b", 100)]
    assert len(failures) == 100
    assert all("takes more than" in str(failure.error) for failure in failures)
    assert time.thread_time() - begun < MOST_SECONDS, "each topic is tried once, not each record"
