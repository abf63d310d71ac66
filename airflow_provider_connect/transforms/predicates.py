"""Kafka Connect's predicates (topic name, header, tombstone), and Filter, which drops records. They all work on whole batches."""

from __future__ import annotations

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, NonEmptyString
from airflow_provider_connect.sdk.transformations import Predicate, Transformation
from airflow_provider_connect.transforms.headers import have_header
from airflow_provider_connect.transforms.java_regex import TopicPattern, check_regex

_PACKAGE = "org.apache.kafka.connect.transforms.predicates"


def _check_pattern(name: str, value: str | None) -> None:
    NonEmptyString()(name, value)
    check_regex(name, value)


class TopicNameMatches(Predicate):
    """Selects the records of topics whose whole name matches ``pattern``."""

    class_name = f"{_PACKAGE}.TopicNameMatches"
    config_def = ConfigDef(
        ConfigKey(
            "pattern",
            validator=_check_pattern,
            doc="A Java regular expression for matching against the name of a record's topic.",
        )
    )

    def configure(self, config: Config) -> None:
        self._pattern = TopicPattern(config["pattern"], "pattern")

    def test_batch(self, batch: Batch) -> pa.BooleanArray:
        return _throughout(batch, self._pattern.matches(batch.topic))


class HasHeaderKey(Predicate):
    """Selects records with a header called ``name``."""

    class_name = f"{_PACKAGE}.HasHeaderKey"
    config_def = ConfigDef(ConfigKey("name", validator=NonEmptyString(), doc="The header name."))

    def configure(self, config: Config) -> None:
        self._name: str = config["name"]

    def test_batch(self, batch: Batch) -> pa.BooleanArray:
        if batch.headers is None:
            return _throughout(batch, False)
        return have_header(batch.headers, self._name)


class RecordIsTombstone(Predicate):
    """Selects records with a null value."""

    class_name = f"{_PACKAGE}.RecordIsTombstone"

    def test_batch(self, batch: Batch) -> pa.BooleanArray:
        return _throughout(batch, True) if batch.value is None else pc.is_null(batch.value)


def _throughout(batch: Batch, truth: bool) -> pa.BooleanArray:
    return pa.array([truth] * batch.num_records, type=pa.bool_())


class Filter(Transformation):
    """Drops every record. Use Filter with a predicate. The framework still counts the records as read."""

    class_name = "org.apache.kafka.connect.transforms.Filter"
    drops_all = True

    def apply_batch(self, batch: Batch) -> None:
        return None
