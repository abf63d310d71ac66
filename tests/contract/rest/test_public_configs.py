"""Configs such as public ones, in words of our own: each is valid, or its answer has the next step; none takes a second, and none is 500.

``python -m tests.contract.public_configs`` counts the answers of all configs of a public repository.
"""

from __future__ import annotations

from collections.abc import Mapping

import httpx
import pytest

from tests.contract.public_configs import asked, kind_of
from tests.contract.rest.server import Server
from tests.waiting import HANG_SECONDS

AVRO = {"value.converter": "io.confluent.connect.avro.AvroConverter", "value.converter.schema.registry.url": "http://registry:8081"}
S3 = {
    "connector.class": "io.confluent.connect.s3.S3SinkConnector",
    "topics": "orders",
    "s3.bucket.name": "lake",
    "s3.region": "eu-central-1",
    "s3.part.size": "5242880",
    "storage.class": "io.confluent.connect.s3.storage.S3Storage",
    "format.class": "io.confluent.connect.s3.format.avro.AvroFormat",
    "flush.size": "3",
    "aws.access.key.id": "$KEY",
    "aws.secret.access.key": "$SECRET",
    **AVRO,
}
SOURCE = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
    "mode": "bulk",
    "topic.prefix": "shop-",
    "poll.interval.ms": "1000",
}
SINK = {"connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector", "topics": "orders", "auto.create": "true"}
CONFLUENT = {"confluent.topic.bootstrap.servers": "broker:9092", "confluent.topic.replication.factor": "1"}


def _without_keys(config: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in config.items() if not key.startswith("aws.")}


@pytest.mark.parametrize(
    ("config", "kind"),
    [
        (S3, "valid"),
        ({**SOURCE, "connection.url": "jdbc:postgresql://db/shop?user=ann&password=geheim&ssl=false"}, "valid"),
        ({**SINK, "connection.url": "jdbc:mariadb://db:3306/shop?user=ann&password=geheim&useSSL=false"}, "valid"),
        ({**SINK, "connection.url": "jdbc:db2://db:50000/shop", "connection.user": "ann"}, "setting to change"),
        ({**SOURCE, "connection.url": "jdbc:hive2://db:10000/default"}, "setting to change"),
        ({**SOURCE, "connection.url": "$CONNECTION_URL"}, "setting to change"),
        ({**_without_keys(S3), "s3.credentials.provider.class": "a.RoleProvider"}, "setting to change"),
        ({**S3, "topics": ""}, "setting to change"),
        (
            {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "database.hostname": "db", "topic.prefix": "shop"},
            "plugin from Maven's central repository",
        ),
        (
            {"connector.class": "io.confluent.connect.http.HttpSinkConnector", "http.api.url": "http://a", **CONFLUENT},
            "plugin from Confluent Hub",
        ),
        (
            {"connector.class": "PostgresSink", "kafka.auth.mode": "KAFKA_API_KEY", "topics": "orders"},
            "name of Confluent Cloud, with its class",
        ),
        ({"connector.class": "io.debezium.connector.oracle.OracleConnector", "topic.prefix": "shop"}, "plugin from its maker's releases"),
        ({"connector.class": "DynamoDbCdcSource", "kafka.auth.mode": "KAFKA_API_KEY"}, "stays in its cluster"),
        (
            {"connector.class": "io.confluent.salesforce.SalesforceCdcSourceConnector", "salesforce.password": "confluent"},
            "plugin from Confluent Hub",  # the password is no part of the answer, nor is it shown by its absence
        ),
    ],
)
def test_each_is_valid_or_has_its_next_step(server: Server, config: Mapping[str, str], kind: str) -> None:
    with httpx.Client(timeout=HANG_SECONDS) as client:
        asked(client, server.url, config)  # loads the connector
        answers = [asked(client, server.url, config) for _ in range(3)]
    assert {kind_of(answer) for answer in answers} == {kind}, answers[0]
    assert answers[0].status < 500
    assert min(answer.seconds for answer in answers) < 30, "the least of three: other tests have the machine too"
    assert not any("geheim" in text for answer in answers for _, text in answer.errors)


def test_settings_of_javas_sink_have_advice(server: Server) -> None:
    with httpx.Client(timeout=HANG_SECONDS) as client:
        warnings = asked(client, server.url, S3).warnings
    assert [warning.partition(" has no effect here")[0] for warning in warnings] == [
        "The setting 's3.part.size'",
        "The setting 'storage.class'",
    ]
