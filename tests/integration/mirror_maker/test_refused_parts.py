"""A topic or a group whose rights the mirror lacks costs no other one."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.dev.kafka_server import KafkaServer
from tests.conftest import CACHE
from tests.integration.mirror_maker.conftest import AUTHORIZED
from tests.integration.mirror_maker.mirror import MirrorEnvironment, produce, records
from tests.integration.mirror_maker.test_checkpoints import checkpoints, runs_of
from tests.integration.worker.environment import commit_by_hand
from tests.kafka_topics import add_rights


def test_a_topic_and_a_group_without_rights_cost_no_other(
    mirror: MirrorEnvironment, tmp_path_factory: pytest.TempPathFactory, caplog: pytest.LogCaptureFixture
) -> None:
    open_to_all = {"super.users": "User:admin", "allow.everyone.if.no.acl.found": "true"}
    with KafkaServer(tmp_path_factory.mktemp("guarded"), CACHE, AUTHORIZED | open_to_all) as server:
        mirror.origin, mirror.alias = server.bootstrap_servers, f"o{mirror.unique[-8:]}"
        secret, plain = mirror.topic("secret"), mirror.topic("plain")
        groups = f"{mirror.unique}-a", f"{mirror.unique}-b"
        for topic in (secret, plain):
            produce(mirror.origin, topic, [(0, None, b"x", [], 0)])
        for group in groups:
            commit_by_hand(mirror.origin, group, {TopicPartition(plain, 0): 1})
        denied = [
            (ResourceType.TOPIC, secret, AclOperation.DESCRIBE_CONFIGS),
            (ResourceType.GROUP, groups[0], AclOperation.DESCRIBE),
        ]
        literal, deny = ResourcePatternType.LITERAL, AclPermissionType.DENY
        add_rights(
            mirror.origin,
            [AclBinding(kind, name, literal, "User:ANONYMOUS", "*", operation, deny) for kind, name, operation in denied]
            + [
                AclBinding(kind, name, literal, "User:ANONYMOUS", "*", AclOperation.ALL, AclPermissionType.ALLOW)
                for kind, name, _ in denied
            ],
        )
        mirror.run(mirror.config())
        assert [value for _, _, value, _, _ in records(mirror.target, mirror.remote(plain))] == [b"x"]
        assert any(f"Topic {secret} is not mirrored: the source cluster" in each.getMessage() for each in caplog.records)
        copier = runs_of(mirror, "checkpoints")
        copier.run(copier.config("MirrorCheckpoint", groups=f"{mirror.unique}.*", topics=f"{mirror.unique}.*"))
        assert {checkpoint.group for checkpoint in checkpoints(mirror)} == {groups[1]}
        assert any(f"The offsets of group {groups[0]} are not translated: " in each.getMessage() for each in caplog.records)
