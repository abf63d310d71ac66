"""The settings of the mirror connectors are those that a real Kafka Connect 4.3.1 was recorded to have (``record_mirror_settings``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from tests.contract.record_mirror_settings import CASES, CONNECTORS, class_name, listed, read_recorded

RECORDED = read_recorded()


@pytest.fixture(scope="module")
def probe() -> Iterator[PluginProbe]:
    made = PluginProbe(WorkerSettings.of({"exactly.once.source.support": "disabled", "group.id": "mirrors"}))
    yield made
    made.close()


@pytest.mark.parametrize("connector", CONNECTORS)
def test_settings_are_kafkas(probe: PluginProbe, connector: str) -> None:
    assert_same(listed(probe.config_keys(class_name(connector), None)), RECORDED[connector]["keys"])


def assert_same(ours: Sequence[Sequence[object]], theirs: Sequence[Sequence[object]]) -> None:
    """MirrorMaker's definitions begin with those of every connector, ours end with them; it gives the connector's version no default."""
    apart = {"connector.plugin.version"}
    own = [key for key in ours if key[5] is None]
    assert own == [key for key in theirs if key[5] is None]
    by_name = [{str(key[0]): key for key in keys if key[0] not in apart} for keys in (ours, theirs)]
    assert by_name[0] == by_name[1]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("connector", CONNECTORS)
def test_errors_are_kafkas(probe: PluginProbe, connector: str, case: str) -> None:
    validation = probe.validate(class_name(connector), {"name": "x", "connector.class": class_name(connector), **CASES[case]})
    assert {value.name: list(value.errors) for _, value in validation.configs if value.errors} == RECORDED[connector]["errors"][case]


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("source.cluster.sasl.client.callback.handler.class", "x.Y", "no Java"),
        ("source.consumer.interceptor.classes", "x.Y", "no Java"),
        ("target.cluster.ssl.truststore.location", "/etc/passwd", "connectors.allowed.paths"),
        ("consumer.ssl.keystore.location", "/root/.ssh/id_rsa", "connectors.allowed.paths"),
        ("source.cluster.sasl.mechanism", "GSSAPI", "Kerberos"),
        ("target.admin.sasl.mechanism", "OAUTHBEARER", "Kerberos"),
        ("consumer.isolation.level", "none", "read_committed"),
        ("replication.policy.class", "x.Policy", "DefaultReplicationPolicy"),
        ("topic.filter.class", "x.Filter", "DefaultTopicFilter"),
        ("forwarding.admin.class", "x.Admin", "ForwardingAdmin"),
        ("topics", "a(", "Not a list of expressions"),
        ("topics.exclude", "[", "Not a list of expressions"),
    ],
)
def test_what_reaches_code_files_or_logins_of_the_host_is_refused(probe: PluginProbe, key: str, value: str, reason: str) -> None:
    protocols = {f"{side}.cluster.security.protocol": "SASL_SSL" for side in ("source", "target")}
    plain = {f"{side}.cluster.sasl.mechanism": "PLAIN" for side in ("source", "target")}
    config = {"name": "x", "source.cluster.alias": "a", **protocols, **plain, key: value}
    validation = probe.validate(class_name("Source"), {"connector.class": class_name("Source"), **config})
    errors = {value.name: " ".join(value.errors) for _, value in validation.configs if value.errors}
    assert list(errors) == [key], errors
    assert reason in errors[key]


def test_without_a_mechanism_kerberos_would_be_asked(probe: PluginProbe) -> None:
    config = {"name": "x", "source.cluster.alias": "a", "source.cluster.security.protocol": "SASL_PLAINTEXT"}
    validation = probe.validate(class_name("Source"), {"connector.class": class_name("Source"), **config})
    assert [value.name for _, value in validation.configs if value.errors] == ["source.cluster.sasl.mechanism"]
