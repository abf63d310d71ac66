"""``airflow connect doctor`` on hosts and clusters where much is wrong, and what ``/health`` reports of it."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType
from sqlalchemy import create_engine, text

from airflow_provider_connect.api_server.cluster_checks import Finding, Outcome, kafka_findings, problems
from airflow_provider_connect.api_server.replication_slots import slot_problems, slot_reports
from airflow_provider_connect.dev.kafka_server import KafkaServer
from airflow_provider_connect.dev.own_server import LOOPBACK
from airflow_provider_connect.dev.postgres_server import USER, PostgresServer
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin, TopicSpec
from tests.airflow_home import airflow_environment, airflow_home
from tests.conftest import CACHE, worker_properties
from tests.integration.client.commands import run_commands
from tests.java_plugins import DEBEZIUM, installed_plugins
from tests.kafka_topics import add_rights
from tests.waiting import HANG_SECONDS

AHEAD_SECONDS = 3600

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with KafkaServer(tmp_path_factory.mktemp("guarded"), CACHE, AUTHORIZER) as server:
        yield server.bootstrap_servers


def found(findings: list[Finding], subject: str, outcome: Outcome) -> list[str]:
    return [f"{each.text} → {each.fix}" for each in findings if (each.subject, each.outcome) == (subject, outcome)]


@pytest.mark.soak
def test_a_host_where_nothing_is_set_up(tmp_path: Path) -> None:
    """Each line names what is missing, and what to type; nothing ends the command."""
    environment = airflow_environment(tmp_path / "home", {"AIRFLOW__CONNECT__BOOTSTRAP_SERVERS": "127.0.0.1:1"})
    environment |= {"AIRFLOW__CONNECT__PLUGIN_PATH": "/nowhere", "JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}
    environment |= {
        "AIRFLOW__API__BASE_URL": "http://127.0.0.1:1",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{tmp_path}/none/at/all.db",
    }
    (done,) = run_commands(environment, [["doctor"]])
    assert done.code == 1, done
    lines = done.out.splitlines()
    for subject in ("airflow", "kafka", "spark", "rest"):
        assert any(line.split()[:2] == ["WRONG", subject] for line in lines), (subject, done.out)
    assert done.out.index("airflow db migrate") < done.out.index("airflow connections add")  # which refuses without tables
    for fix in (
        "airflow db migrate",
        "airflow connections add spark_default --conn-type spark --conn-host 'local[2]'",
        f"mkdir -p {tmp_path}/home/connect-data",
        "mkdir -p /nowhere",
        "correct bootstrap.servers=127.0.0.1:1, or start the brokers",
        '"classpath": "airflow_provider_connect.dag_files.bundle.ConnectorsBundle"',
        "airflow api-server",
    ):
        assert any(line.lstrip().startswith("→") and fix in line for line in lines), (fix, done.out)


def test_a_host_that_lacks_airflows_processes_only(tmp_path: Path, bootstrap: str, unique: str) -> None:
    settings = worker_properties(bootstrap, unique)
    data = tmp_path / "data"
    data.mkdir()
    environment = airflow_home(
        tmp_path / "home",
        {
            "AIRFLOW_VAR_CONNECT_WORKER_CONFIG": json.dumps({**settings, "connectors.allowed.paths": str(data)}),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "spark://127.0.0.1:1"}),
            "AIRFLOW__API__BASE_URL": "http://127.0.0.1:1",
        },
    )
    before, after = run_commands(environment, [["doctor", "-o", "json"], ["doctor", "-o", "json"]])
    assert (before.code, after.code) == (1, 1), before.err
    outcomes = {(each["subject"], each["outcome"]): each for each in json.loads(before.out)}
    assert ("kafka", "ok") in outcomes
    assert outcomes["airflow", "wrong"]["fix"] in ("airflow scheduler", "airflow dag-processor")
    assert "spark://127.0.0.1:1" in outcomes["spark", "ok"]["text"]
    assert "127.0.0.1:1 does not answer" in outcomes["spark", "wrong"]["text"]
    assert ("folders", "warning") not in outcomes
    assert "does not exist yet" in outcomes["topics", "warning"]["text"]
    assert before.out == after.out  # it has created nothing


@pytest.mark.soak
def test_topics_that_others_have_made_and_a_clock_that_is_ahead(bootstrap: str, unique: str) -> None:
    settings = WorkerSettings.of(worker_properties(bootstrap, unique))
    admin = TopicAdmin(settings)
    admin.create(TopicSpec(settings.config_topic, 3, 1, {"cleanup.policy": "delete"}))
    admin.create(TopicSpec(settings.status_topic, 2, 1, {"cleanup.policy": "compact"}))
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(settings.status_topic, b"v", b"k", timestamp=int((time.time() + AHEAD_SECONDS) * 1000))
    assert producer.flush(HANG_SECONDS) == 0
    findings = kafka_findings(settings)
    wrong = "\n".join(found(findings, "topics", Outcome.WRONG))
    assert f"Topic {settings.config_topic} has cleanup.policy=delete" in wrong
    assert f"--entity-name {settings.config_topic} --add-config cleanup.policy=compact" in wrong
    assert f"Topic {settings.config_topic} has 3 partitions" in wrong
    warnings = "\n".join(found(findings, "topics", Outcome.WARNING))
    assert f"Topic {settings.status_topic} keeps replaced records for longer than an hour" in warnings
    assert f"Topic {settings.offset_topic} (offset.storage.topic) does not exist yet" in warnings
    manual = WorkerSettings.of({**worker_properties(bootstrap, unique), "internal.topics.automatic.creation.enable": "false"})
    (missing,) = (each for each in kafka_findings(manual) if settings.offset_topic in each.text)
    assert missing.outcome is Outcome.WRONG
    assert missing.fix.startswith(
        f"kafka-topics.sh --bootstrap-server {bootstrap} --create --topic {settings.offset_topic} --partitions 5 --replication-factor 1 "
        "--config "
    )
    assert " --config cleanup.policy=compact" in missing.fix
    assert "in the future: the clocks of Airflow's hosts differ" in found(findings, "clock", Outcome.WARNING)[0]
    assert len(problems(findings)) == sum(each.outcome is not Outcome.OK for each in findings)
    assert found(findings, "rights", Outcome.OK)


def test_rights_that_the_worker_lacks(guarded: str, unique: str) -> None:
    settings = WorkerSettings.of(worker_properties(guarded, unique))
    TopicAdmin(settings).ensure_internal_topics()
    assert [each for each in kafka_findings(settings) if each.outcome is not Outcome.OK] == []
    topic = (ResourceType.TOPIC, settings.status_topic, ResourcePatternType.LITERAL, "User:ANONYMOUS", "*")
    rules = [AclBinding(*topic, AclOperation.ALL, AclPermissionType.ALLOW), AclBinding(*topic, AclOperation.WRITE, AclPermissionType.DENY)]
    add_rights(guarded, rules)
    (lacking,) = found(kafka_findings(settings), "rights", Outcome.WRONG)
    assert lacking == (
        f"The worker's user may not Write topic {settings.status_topic} → "
        f"kafka-acls.sh --bootstrap-server {guarded} --add --allow-principal User:… --topic {settings.status_topic} --operation Write"
    )


def test_slots_hold_wal_back_whatever_the_state_of_their_connectors(bootstrap: str, postgres: PostgresServer, unique: str) -> None:
    """No JVM is started, and a server that does not answer costs its own line."""
    settings = WorkerSettings.of(worker_properties(bootstrap, unique) | {"plugin.path": str(installed_plugins(CACHE))})
    TopicAdmin(settings).ensure_internal_topics()
    slot = f"s_{unique[-8:]}".lower()
    config = {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "connector.plugin.location": DEBEZIUM[1],
        "database.hostname": LOOPBACK,
        "database.port": str(postgres.port),
        "database.user": USER,
        "database.password": "canary-of-a-password",
        "database.dbname": "postgres",
        "topic.prefix": "p",
        "slot.name": slot,
    }
    others = {
        "away": {**config, "database.port": "1"},
        "new": {**config, "slot.name": f"{slot}_2"},
        "file": {"connector.class": "FileStreamSink"},
    }
    with ConfigStore(settings) as store:
        for name, each in {"orders": config, **others}.items():
            store.create_connector(name, each, TargetState.STARTED)
    engine = create_engine(postgres.url(), isolation_level="AUTOCOMMIT")
    with engine.connect() as database:
        database.execute(text(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')"))
        try:
            at_work = list(slot_reports(settings))
            with ConfigStore(settings) as store:
                store.put_target_state("orders", TargetState.PAUSED)
            at_rest = list(slot_reports(settings))
        finally:
            database.execute(text(f"SELECT pg_drop_replication_slot('{slot}')"))
    engine.dispose()
    assert "canary-of-a-password" not in repr((at_work, at_rest))
    started, paused = ([each.finding for each in reports] for reports in (at_work, at_rest))
    counted = "Connectors with a replication slot that has lost WAL, holds much of it back or could not be queried"
    assert slot_problems(started) == [f"{counted}: 1. airflow connect doctor names them."]
    assert slot_problems(paused) == [f"{counted}: 2. airflow connect doctor names them."]
    assert slot_problems([each for each in started if each.outcome is Outcome.OK]) == []
    (held,) = found(started, "slots", Outcome.OK)
    assert f"replication slot {slot} of postgresql://{LOOPBACK}:{postgres.port}/postgres holds back" in held
    (away,) = found(started, "slots", Outcome.WARNING)
    assert away.startswith("The replication slot of connector away could not be queried")
    (warned,) = [each for each in found(paused, "slots", Outcome.WARNING) if "away" not in each]
    assert "Connector orders is PAUSED" in warned
    [view] = [each.view for each in at_work if each.connector == "orders"]
    assert view is not None
    assert (view.note, view.held_bytes is not None) == (None, True)
    [view] = [each.view for each in at_rest if each.connector == "orders"]
    assert view is not None
    assert view.note is not None
    assert re.fullmatch(rf"Replication slot {slot} holds back [0-9,]+ bytes of WAL, and more until .* PAUSED, resumes", view.note)
    assert f"SELECT pg_drop_replication_slot('{slot}')" in warned
