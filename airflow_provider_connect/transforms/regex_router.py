"""RegexRouter: another topic for the records of a topic whose whole name matches."""

from __future__ import annotations

from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, Lambda
from airflow_provider_connect.sdk.transformation import Transformation
from airflow_provider_connect.transforms.java_regex import Replacement, check_regex, compile_regex

REGEX, REPLACEMENT = "regex", "replacement"


class RegexRouter(Transformation):
    """A batch has one topic, so it is routed as a whole. In a topic that matches, the first match is replaced."""

    class_name = "org.apache.kafka.connect.transforms.RegexRouter"
    config_def = ConfigDef(
        ConfigKey(REGEX, validator=Lambda(check_regex), importance=Importance.HIGH, doc="Regular expression to use for matching."),
        ConfigKey(REPLACEMENT, importance=Importance.HIGH, doc="Replacement string."),
    )

    def configure(self, config: Config) -> None:
        self._pattern = compile_regex(config[REGEX])
        self._replacement = Replacement(REPLACEMENT, config[REPLACEMENT], self._pattern)

    def apply_batch(self, batch: Batch) -> Batch:
        if self._pattern.fullmatch(batch.topic) is None:
            return batch
        return batch.replace(topic=self._pattern.sub(self._replacement, batch.topic, count=1))
