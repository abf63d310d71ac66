"""Hostile values in settings of the built-in connectors and in offsets: taken, or a 400 that names the key; never an error of Python's."""

import random
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.connectors.file_sink import FileStreamSinkConnector
from airflow_provider_connect.connectors.file_source import FileStreamSourceConnector
from airflow_provider_connect.connectors.jdbc.sink.connector import JdbcSinkConnector
from airflow_provider_connect.connectors.jdbc.source.connector import JdbcSourceConnector
from airflow_provider_connect.connectors.lake.delta_sink import DeltaSinkConnector
from airflow_provider_connect.connectors.lake.iceberg_sink import IcebergSinkConnector
from airflow_provider_connect.errors import BadRequestException, ConnectException
from airflow_provider_connect.runtime.config.dag_settings import DagCheck, DagLimits, steering_errors
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.checks import check_config
from airflow_provider_connect.runtime.model.connector_keys import own_config_def, sink_config_def, source_config_def
from airflow_provider_connect.runtime.model.offsets import OFFSET, PARTITION, TOPIC, sink_offsets
from airflow_provider_connect.runtime.model.views import Validation
from airflow_provider_connect.runtime.plugins.catalog.chosen_plugins import PluginChoice
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.runtime.plugins.validation.validation import validate_config
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED
from tests.unit.herder.conftest import GivenErrors

SEED = 20261121
TRIES = 800
VALUES = (
    *("", " ", ",", ",,,", ".", "..", "/", "-1", "0", "1.5", "1e400", "NaN", "٣", "null", "[]", "{}", "${", "${a", "$", "\\", "(", "a,a"),
    *("9" * 5000, "-" + "9" * 5000, "0" * 5000 + "7", "." + "9" * 5000, "1e" + "9" * 5000, "x" * 5000, "ü" * 5000, "[" * 5000, "a," * 3000),
    *(
        "2147483648",
        "9223372036854775808",
        "jdbc:",
        "jdbc:sqlite:",
        "postgresql://",
        "postgresql://h:99999999999/d",
        "http://[",
        "\ud800",
        "\U0001f600",
    ),
)
MORE_KEYS = (
    *("transforms.a.type", "transforms.a.predicate", "transforms.a.negate", "transforms.a.plugin.version"),
    *("predicates.p.type", "predicates.p.plugin.version"),
    *("value.converter.schemas.enable", "value.converter.schemas.cache.size", "value.converter.decimal.format"),
    *("topic.creation.default.partitions", "topic.creation.default.replication.factor"),
    *("producer.override.linger.ms", "producer.override.transaction.timeout.ms", "producer.override.buffer.memory"),
    *("consumer.override.group.id", "consumer.override.max.poll.records", "admin.override.retries"),
    *("airflow.schedule", "airflow.retries", "airflow.retry.delay", "airflow.pool.slots", "airflow.tags", "airflow.doc"),
)
TRANSFORMATION = {
    "transforms": "a",
    "transforms.a.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.a.field": "x",
}
PREDICATE = {"predicates": "p", "predicates.p.type": "RecordIsTombstone"}


def configs(folder: Path) -> dict[Any, dict[str, str]]:  # Any: a class of connectors
    """Valid configs of connectors with files in ``folder``."""
    url = {"connection.url": f"jdbc:sqlite:{folder}/hostile.db"}
    return {
        FileStreamSourceConnector: {"file": f"{folder}/in.txt", "topic": "t"},
        FileStreamSinkConnector: {"file": f"{folder}/out.txt", "topics": "t"},
        JdbcSourceConnector: {**url, "mode": "bulk", "topic.prefix": "t"},
        JdbcSinkConnector: {**url, "topics": "t"},
    }


class InProcess(GivenErrors):
    """A Probe that runs the built-in connectors' code here, which may use files in ``folder``."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._choice = PluginChoice(PluginCatalog(()), WorkerSettings.of({"connectors.allowed.paths": str(folder)}))

    def validate(self, plugin: str, config: Mapping[str, str | None]) -> Validation:
        return validate_config(self._choice, config)


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, where a connector that resolved an address as a relative path would be allowed to use it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_setting_takes_hostile_values_or_is_refused_by_name(tmp_path: Path) -> None:
    chance, probe = random.Random(SEED), InProcess(tmp_path)
    check = partial(steering_errors, limits=DagLimits())
    for _ in range(TRIES):
        connector, given = chance.choice(list(configs(tmp_path).items()))
        framework = sink_config_def() if "topics" in given else source_config_def()
        keys = [*connector.config_def.keys, *framework.keys, *own_config_def().keys, *MORE_KEYS]
        key, value = chance.choice([each for each in keys if each != "name"]), chance.choice(VALUES)
        stages = TRANSFORMATION if key.startswith("transforms.") else PREDICATE if key.startswith("predicates.") else {}
        config = {"name": "c", "connector.class": connector.class_name, **given, **stages, key: value}
        about = (SEED, connector.__name__, key, value[:50])
        text = _refusal(config, probe, check, about)
        is_named = key.rpartition(".")[2] in text or key.endswith(".plugin.version")  # of which Connect repeats the range alone
        assert not text or is_named, (*about, text[:500])
        assert len(text) < 300_000, about


S3 = {"aws.access.key.id": "a", "aws.secret.access.key": "b"}
ICEBERG = {"iceberg.tables": "a.b", "iceberg.catalog.type": "rest", "iceberg.catalog.uri": "http://h", "iceberg.catalog.warehouse": "w"}
SQL_CATALOG = {"iceberg.catalog.type": "sql", "iceberg.catalog.uri": "jdbc:postgresql://h/d"}


@pytest.mark.parametrize(
    ("connector", "given", "key"),
    [
        (IcebergSinkConnector, ICEBERG, "iceberg.catalog.uri"),
        (IcebergSinkConnector, {**ICEBERG, **SQL_CATALOG}, "iceberg.catalog.uri"),
        (IcebergSinkConnector, {**ICEBERG, **SQL_CATALOG}, "iceberg.catalog.warehouse"),
        (DeltaSinkConnector, S3, "delta.table.path"),
        (DeltaSinkConnector, {**S3, "delta.table.path": "s3://bucket/t"}, "store.url"),
    ],
)
@pytest.mark.parametrize("value", ["http://u:p@[", "s3://[", "s3://a]b/c", "jdbc:postgresql://["])
def test_an_address_that_is_no_url_is_refused_by_name(
    working_folder: Path, connector: type, given: dict[str, str], key: str, value: str
) -> None:
    config = {"name": "c", "connector.class": connector.__name__, "topics": "t", **given, key: value}
    assert key in _refusal(config, InProcess(working_folder), partial(steering_errors, limits=DagLimits()), (key, value))


def _refusal(config: Mapping[str, str | None], probe: InProcess, check: DagCheck, about: object) -> str:
    """The text of the 400; empty where the config is taken."""
    try:
        check_config("c", config, probe, check, {})
    except ConnectException as error:
        if error.status_code == 400:
            return error.message
        raise AssertionError(about) from error
    except Exception as error:
        raise AssertionError(about) from error
    return ""


ODD: tuple[Any, ...] = (
    *(None, True, False, "", " ", ".", "x" * 300, "a/b", "９", "9" * 5000, "-1", "1.5", "1e5", 1.5, -1, 10**30, 2**31, 2**63, 10**900),
    *([], [1, None], {}, {"a": {"b": []}}, "connect-configs", "\U0001f600", float("inf")),
)


def test_offsets_of_sinks_are_read_or_refused() -> None:
    chance = random.Random(SEED)
    for _ in range(TRIES):
        partition: Any = {TOPIC: chance.choice(("t", *ODD)), PARTITION: chance.choice((0, *ODD))}
        pair = (chance.choice((partition, partition, partition, *ODD)), chance.choice(({OFFSET: chance.choice(ODD)}, *ODD)))
        try:
            taken = sink_offsets([pair])
        except BadRequestException:
            continue
        assert all(re.fullmatch("[a-zA-Z0-9._-]{1,249}", topic) for topic, _ in taken)


@pytest.mark.parametrize("connector_class", [FileStreamSourceConnector, JdbcSourceConnector])
def test_offsets_of_sources_are_agreed_to_or_refused(tmp_path: Path, connector_class: Any) -> None:
    chance, connector = random.Random(SEED), connector_class()
    connector.allowed_paths = ALL_ALLOWED
    config = {"name": "c", **configs(tmp_path)[connector_class]}
    names = ("filename", "position", "protocol", "table", "query", "incrementing", "timestamp", "timestamp_nanos", "x")
    for _ in range(TRIES):
        partition, offset = ({chance.choice(names): chance.choice(ODD) for _ in range(2)} for _ in range(2))
        try:
            connector.alter_offsets(config, [(chance.choice((partition, None)), chance.choice((offset, None)))])
        except ConnectException:
            continue
