"""RegexRouter: another topic for the records of a topic whose whole name matches."""

from __future__ import annotations

from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, Lambda
from airflow_provider_connect.sdk.transformation import Transformation
from airflow_provider_connect.transforms.java_regex import Replacement, TopicPattern, check_regex

REGEX, REPLACEMENT = "regex", "replacement"
_MOST_TOPICS = 1000


class RegexRouter(Transformation):
    """A batch has one topic, so it is routed as a whole. In a topic that matches, the first match is replaced."""

    class_name = "org.apache.kafka.connect.transforms.RegexRouter"
    config_def = ConfigDef(
        ConfigKey(REGEX, validator=Lambda(check_regex), importance=Importance.HIGH, doc="Regular expression to use for matching."),
        ConfigKey(REPLACEMENT, importance=Importance.HIGH, doc="Replacement string."),
    )

    def configure(self, config: Config) -> None:
        self._pattern = TopicPattern(config[REGEX], REGEX)
        self._replacement = Replacement(REPLACEMENT, config[REPLACEMENT], self._pattern.regex)
        self._topics: dict[str, str] = {}

    def apply_batch(self, batch: Batch) -> Batch:
        topic = self._topics.get(batch.topic)
        if topic is None:
            topic = self._routed(batch.topic)
            if len(self._topics) >= _MOST_TOPICS:
                self._topics.clear()
            self._topics[batch.topic] = topic
        return batch if topic == batch.topic else batch.replace(topic=topic)

    def _routed(self, topic: str) -> str:
        return self._pattern.replaced(topic, self._replacement) if self._pattern.matches(topic) else topic
