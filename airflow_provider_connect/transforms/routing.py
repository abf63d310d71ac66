"""Transformations that change the topic: by a regular expression (RegexRouter), or by the record's timestamp (TimestampRouter)."""

from __future__ import annotations

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.bounded_regex import LONGEST
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance
from airflow_provider_connect.sdk.transformations import Transformation
from airflow_provider_connect.transforms.java_regex import Replacement, TopicPattern, check_regex
from airflow_provider_connect.transforms.one_side import runs_of
from airflow_provider_connect.transforms.simple_date_format import SimpleDateFormat

REGEX, REPLACEMENT = "regex", "replacement"
_MOST_TOPICS = 1000
TOPIC_FORMAT, TIMESTAMP_FORMAT = "topic.format", "timestamp.format"


class RegexRouter(Transformation):
    """Changes a topic whose whole name matches the expression. The first match is replaced.

    A batch has one topic, so the whole batch is routed.
    """

    class_name = "org.apache.kafka.connect.transforms.RegexRouter"
    config_def = ConfigDef(
        ConfigKey(REGEX, validator=check_regex, importance=Importance.HIGH, doc="Regular expression to use for matching."),
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
        return self._pattern.replace_first(topic, self._replacement) if self._pattern.matches(topic) else topic


class TimestampRouter(Transformation):
    """Changes the topic to a name that includes the record's timestamp, in UTC.

    A batch is split where the name changes, which is rare if there is one name per day.
    """

    class_name = "org.apache.kafka.connect.transforms.TimestampRouter"
    config_def = ConfigDef(
        ConfigKey(
            TOPIC_FORMAT,
            default="${topic}-${timestamp}",
            importance=Importance.HIGH,
            doc="Format string which can contain <code>${topic}</code> and <code>${timestamp}</code> as placeholders for the topic and "
            "timestamp, respectively.",
        ),
        ConfigKey(
            TIMESTAMP_FORMAT,
            default="yyyyMMdd",
            importance=Importance.HIGH,
            doc="Format string for the timestamp that is compatible with <code>java.text.SimpleDateFormat</code>.",
        ),
    )

    def configure(self, config: Config) -> None:
        self._topic_format: str = config[TOPIC_FORMAT]
        try:
            self._timestamp_format = SimpleDateFormat(config[TIMESTAMP_FORMAT])
        except ValueError as error:
            raise ConfigException.of(TIMESTAMP_FORMAT, config[TIMESTAMP_FORMAT], str(error)) from error

    def apply_batch(self, batch: Batch) -> Batch | list[Batch]:
        if not batch.num_records:
            return batch
        if batch.timestamp is None or batch.timestamp.null_count:
            raise DataException(f"Timestamp missing on record: of topic {batch.topic}")
        times = self._timestamp_format.format_column(batch.timestamp.cast(pa.int64()))
        length = len(self._topic_format) + self._topic_format.count("${topic}") * len(batch.topic)
        length += self._topic_format.count("${timestamp}") * (pc.max(pc.utf8_length(times)).as_py() or 0)
        if length > LONGEST:
            raise DataException(f"The topic's name would have up to {length} characters; the limit is {LONGEST}")
        routed = self._topic_format.replace("${topic}", batch.topic)
        return [batch.slice(start, length).replace(topic=routed.replace("${timestamp}", time)) for start, length, time in runs_of(times)]
