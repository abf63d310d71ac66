"""Names across clusters: topic names in the target cluster, and filters of topics and groups. Knows nothing of clients."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.bounded_regex import BoundedRegex
from airflow_provider_connect.sdk.config_def import Config

HEARTBEATS: Final = "heartbeats"
POLICIES: Final = {f"org.apache.kafka.connect.mirror.{name}ReplicationPolicy": name for name in ("Default", "Identity")}


@dataclass(frozen=True, slots=True)
class ReplicationPolicy:
    """MirrorMaker's default policy, ``alias.topic``. With ``is_identity``, MirrorMaker's identity policy, which adds the alias only to
    heartbeats topics."""

    source: str
    target: str
    separator: str
    internal_separator: str
    is_identity: bool

    @classmethod
    def of(cls, config: Config) -> Self:
        separator = config["replication.policy.separator"]
        is_internal_too = config["replication.policy.internal.topic.separator.enabled"]
        is_identity = POLICIES[config["replication.policy.class"]] == "Identity"
        aliases = config["source.cluster.alias"], config["target.cluster.alias"]
        return cls(*aliases, separator, separator if is_internal_too else ".", is_identity)

    def remote_topic(self, topic: str) -> str:
        """The name in the target cluster."""
        return topic if self._is_unchanged(topic) else f"{self.source}{self.separator}{topic}"

    def remote_checkpoint_topic(self, topic: str) -> str:
        """Like ``remote_topic``, but a topic that was mirrored from the target cluster has its own name there."""
        return self.original_topic(topic) if self.source_of(topic) == self.target else self.remote_topic(topic)

    def source_of(self, topic: str) -> str | None:
        """The alias of the cluster from which a topic was last mirrored. None if it was not mirrored."""
        if self._is_unchanged(topic):
            return self.source
        alias, _, rest = topic.partition(self.separator)
        return alias if rest.replace(self.separator, "") else None

    def upstream_topic(self, topic: str) -> str | None:
        """The topic's name in the cluster that ``source_of`` returns."""
        source = self.source_of(topic)
        if source is None or self._is_unchanged(topic):
            return None if source is None else topic
        return topic[len(source) + len(self.separator) :]

    def original_topic(self, topic: str) -> str:
        """The name in the cluster where the topic was created."""
        while (upstream := self.upstream_topic(topic)) is not None and upstream != topic:
            topic = upstream
        return topic

    def is_heartbeats(self, topic: str) -> bool:
        return self.original_topic(topic) == HEARTBEATS

    def is_internal(self, topic: str) -> bool:
        """Whether the topic is internal to Kafka or MirrorMaker."""
        suffix = f"{self.internal_separator}internal"
        is_mirrors = topic.endswith((f"{self.internal_separator}checkpoints{suffix}", suffix if topic.startswith("mm2") else "\0"))
        return is_mirrors or topic.startswith(("__", "."))

    def is_cycle(self, topic: str) -> bool:
        """Whether the topic was mirrored from the target cluster, or came back to the source cluster (Kafka 4.4, KAFKA-9914). With identity
        names, only the target can be detected."""
        clusters = {self.target} if self.is_identity else {self.target, self.source}
        while (source := self.source_of(topic)) is not None:
            if source in clusters:
                return True
            upstream = self.upstream_topic(topic)
            if upstream is None or upstream == topic:
                return False
            topic = upstream
        return False

    def offset_syncs_topic(self, other: str) -> str:
        """The offset-syncs topic. ``other`` is the alias of the cluster that does not have this topic."""
        return self.internal_separator.join(("mm2-offset-syncs", other, "internal"))

    def checkpoints_topic(self) -> str:
        return self.internal_separator.join((self.source, "checkpoints", "internal"))

    def _is_unchanged(self, topic: str) -> bool:
        return self.is_identity and not topic.endswith(HEARTBEATS)


def offset_syncs_topic(config: Config) -> str:
    """The offset-syncs topic in the cluster of ``offset-syncs.topic.location``."""
    policy = ReplicationPolicy.of(config)
    return policy.offset_syncs_topic(policy.target if config["offset-syncs.topic.location"] == "source" else policy.source)


def name_filter(config: Config, key: str) -> Callable[[str], bool]:
    """A predicate for names, from the expressions in ``key`` and ``key.exclude``. An expression must match the whole name. Exclusion has
    precedence.

    Raises ConfigException, which names the setting, for an invalid expression. The predicate raises it for an expression that takes too
    long."""
    is_included, is_excluded = name_matcher(config, key), name_matcher(config, f"{key}.exclude")
    return lambda name: not is_excluded(name) and is_included(name)


def name_matcher(config: Config, key: str) -> Callable[[str], bool]:
    """A predicate: whether a whole name matches one of the expressions in ``key``."""
    expressions = config[key]
    if not expressions:
        return lambda _: False
    try:
        return BoundedRegex("|".join(f"(?:{expression})" for expression in expressions), key).matches
    except re.error as error:
        raise ConfigException.of(key, ",".join(expressions)[:200], f"Not a list of expressions: {error}") from error
