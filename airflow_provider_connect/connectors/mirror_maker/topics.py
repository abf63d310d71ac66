"""The source cluster's topics and their counterparts in the target: the selection of topics, and the sync of partitions, settings and
ACLs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from airflow_provider_connect.connectors.mirror_maker.cluster import NO_AUTHORIZER, Cluster, admin, client
from airflow_provider_connect.connectors.mirror_maker.names import ReplicationPolicy, name_filter, name_matcher
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.sdk.config_def import Config

log = logging.getLogger(__name__)
_Configs = Mapping[str, "admin.ConfigEntry"]


def mirrored_topics(source: Cluster, config: Config) -> dict[str, int]:
    """The topics to mirror, with their numbers of partitions, sorted by name."""
    policy, is_chosen = ReplicationPolicy.of(config), name_filter(config, "topics")
    with_heartbeats = config["heartbeats.replication.enabled"]

    def is_mirrored(topic: str) -> bool:
        if policy.is_internal(topic) or policy.is_cycle(topic):
            return False
        return is_chosen(topic) or (with_heartbeats and policy.is_heartbeats(topic))

    return {topic: count for topic, count in sorted(source.topics().items()) if is_mirrored(topic)}


class TopicSync:
    """Syncs the target cluster's topics with the source cluster's. ``topics`` are the topics to mirror, with their numbers of
    partitions."""

    def __init__(self, source: Cluster, target: Cluster, config: Config, topics: Mapping[str, int]) -> None:
        self._source, self._target, self._config, self._topics = source, target, config, dict(topics)
        self._is_excluded = name_matcher(config, "config.properties.exclude")
        policy = ReplicationPolicy.of(config)
        self._remote = {topic: policy.remote_topic(topic) for topic in topics}
        self._heartbeats = {topic for topic in topics if policy.is_heartbeats(topic)}

    def run(self) -> dict[str, int]:
        """Steps: (1) create topics and partitions; (2) sync settings and ACLs, and log errors.

        Returns the topics and partitions that can be mirrored. Topics whose settings the source cluster refuses to describe, and topics and
        partitions that the target cluster refuses, are logged. If a cluster refuses all topics except heartbeats, raises the exception of a
        refusal."""
        known = self._target.topics()
        of_source, refused = _describe_configs(self._source, self._topics)
        self._leave_out(refused)
        self._create(known, of_source)  # 1
        self._add_partitions(known)
        if self._config["sync.topic.configs.enabled"]:  # 2
            with _log_failure("settings"):
                self._sync_configs(of_source)
        if self._config["sync.topic.acls.enabled"]:
            with _log_failure("ACLs"):
                self._sync_acls()
        return self._topics

    def _create(self, known: Mapping[str, int], of_source: Mapping[str, _Configs]) -> None:
        factor_key = "replication.factor"
        missing = [topic for topic in self._topics if self._remote[topic] not in known]
        new = (
            admin.NewTopic(
                self._remote[topic],
                self._topics[topic],
                self._config[factor_key],
                config={name: str(entry.value) for name, entry in of_source[topic].items() if self._is_set(name, entry)},
            )
            for topic in missing
        )
        refused = self._target.create(new, factor_key)
        self._leave_out({topic: refused[self._remote[topic]] for topic in missing if self._remote[topic] in refused})

    def _leave_out(self, refused: Mapping[str, ConnectException]) -> None:
        """Do not mirror these topics. Raises one of the exceptions if only heartbeats are left."""
        if refused and refused.keys() >= self._topics.keys() - self._heartbeats:
            raise next(iter(refused.values()))
        for topic, error in refused.items():
            log.warning("Topic %s is not mirrored: %s", topic, error)
            del self._topics[topic], self._remote[topic]

    def _add_partitions(self, known: Mapping[str, int]) -> None:
        grown = {topic: count for topic, count in self._topics.items() if known.get(self._remote[topic], count) < count}
        refused = self._target.add_partitions({self._remote[topic]: count for topic, count in grown.items()})
        for topic, count in grown.items():
            remote = self._remote[topic]
            if remote in refused:
                self._topics[topic] = known[remote]
                log.warning("Of topic %s only the first %d partitions are mirrored: %s", topic, known[remote], refused[remote])
            else:
                log.info("Topic %s has %d partitions now, as in the source cluster", remote, count)

    def _sync_configs(self, of_source: Mapping[str, _Configs]) -> None:
        of_target, refused = _describe_configs(self._target, self._remote.values())
        for remote, error in refused.items():
            log.warning("The settings of topic %s could not be synced: %s", remote, error)
        resources = []
        for topic, remote in self._remote.items():
            changes = [*self._changes(of_source[topic], of_target.get(remote, {}))]
            if changes:
                resources.append(admin.ConfigResource(admin.ResourceType.TOPIC, remote, incremental_configs=changes))
        if resources:
            for resource, future in self._target.admin_client.incremental_alter_configs(resources).items():
                self._target.result_of(future, f"setting the configs of topic {resource.name}")

    def _changes(self, source: _Configs, target: _Configs) -> Iterator[admin.ConfigEntry]:
        """Set the values that the source topic overrides, and remove the values that only the target topic overrides."""
        for name, entry in source.items():
            there = target.get(name)
            if there is None:
                continue
            if self._is_set(name, entry):
                if there.value != entry.value:
                    yield admin.ConfigEntry(name, entry.value, incremental_operation=admin.AlterConfigOpType.SET)
            elif _source_of(there) == "DYNAMIC_TOPIC_CONFIG" and _source_of(entry) == "DEFAULT_CONFIG" and not self._is_excluded(name):
                yield admin.ConfigEntry(name, None, incremental_operation=admin.AlterConfigOpType.DELETE)

    def _is_set(self, name: str, entry: admin.ConfigEntry) -> bool:
        """Whether the target topic gets this value instead of the target cluster's default."""
        if entry.is_read_only or entry.is_sensitive or _source_of(entry) == "STATIC_BROKER_CONFIG" or self._is_excluded(name):
            return False
        return _source_of(entry) != "DEFAULT_CONFIG" or self._config["use.defaults.from"] == "source"

    def _sync_acls(self) -> None:
        """Allow principals that may read a topic to read its counterpart. ACLs for writing are not synced, because only mirroring writes to
        the counterpart. ACLs of topic patterns are not synced, because with identity names they would apply to the target cluster's own
        topics."""
        literal, any_operation, any_permission = admin.ResourcePatternType.LITERAL, admin.AclOperation.ANY, admin.AclPermissionType.ANY
        # None means any name, principal and host; the client's type hints do not allow it
        asked = admin.AclBindingFilter(admin.ResourceType.TOPIC, None, literal, None, None, any_operation, any_permission)  # type: ignore[arg-type]
        try:
            found = self._source.admin_client.describe_acls(asked).result()
        except client.KafkaException as error:
            if error.args[0].name() != NO_AUTHORIZER:
                raise
            log.info("The source cluster %s has no authorizer, so no ACLs are synced", self._source.alias)
            return
        wanted = [self._target_acl(acl) for acl in found if acl.name in self._topics and not _allows_write(acl)]
        if wanted:
            for acl, future in self._target.admin_client.create_acls(wanted).items():
                self._target.result_of(future, f"creating an ACL of topic {acl.name}")

    def _target_acl(self, acl: admin.AclBinding) -> admin.AclBinding:
        is_all = acl.permission_type == admin.AclPermissionType.ALLOW and acl.operation == admin.AclOperation.ALL
        operation = admin.AclOperation.READ if is_all else acl.operation
        of_topic = admin.ResourceType.TOPIC, self._remote[acl.name], admin.ResourcePatternType.LITERAL
        return admin.AclBinding(*of_topic, acl.principal, acl.host, operation, acl.permission_type)


def _source_of(entry: admin.ConfigEntry) -> str:
    return admin.ConfigSource(entry.source).name  # the client returns a number


def _allows_write(acl: admin.AclBinding) -> bool:
    return acl.permission_type == admin.AclPermissionType.ALLOW and acl.operation == admin.AclOperation.WRITE


def _describe_configs(cluster: Cluster, topics: Iterable[str]) -> tuple[dict[str, _Configs], dict[str, ConnectException]]:
    """The settings of topics, and the refusals for other topics. Raises RetriableException if the cluster does not respond."""
    asked = [admin.ConfigResource(admin.ResourceType.TOPIC, topic) for topic in topics]
    found: dict[str, _Configs] = {}
    refused: dict[str, ConnectException] = {}
    for resource, future in (cluster.admin_client.describe_configs(asked) if asked else {}).items():
        try:
            found[resource.name] = cluster.result_of(future, f"describing the settings of topic {resource.name}")
        except ConnectException as error:
            if error.retriable:
                raise
            refused[resource.name] = error
    return found, refused


@contextmanager
def _log_failure(what: str) -> Iterator[None]:
    """Log an error of the block, because records are mirrored even if ``what`` cannot be synced."""
    try:
        yield
    except (ConnectException, client.KafkaException) as error:
        log.warning("The %s of mirrored topics could not be synced: %s", what, error)
