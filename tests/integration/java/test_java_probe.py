"""What Kafka Connect's own classes report of Java plugins, in a JVM of a process of its own: Kafka's file connectors and two Debeziums."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import struct
import threading
import zipfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from airflow_provider_connect import __version__
from airflow_provider_connect.cli import plugins as commands
from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.java.config import rules
from airflow_provider_connect.runtime.java.installation.installation import SERVICES_JAR
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.model.views import ConfigValueView, Validation
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from tests.conftest import CACHE
from tests.integration.java.processes import children
from tests.java_plugins import DEBEZIUM, FILE, installed_plugins
from tests.unit.herder.conftest import MemoryBacking, NotedRuns
from tests.waiting import HANG_SECONDS

FILE_SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
POSTGRES = "io.debezium.connector.postgresql.PostgresConnector"
JAVA = {"name": "lines", "connector.class": FILE_SOURCE, "connector.plugin.version": "4.3.1", "file": "/in", "topic": "lines"}
SLOW_MACHINE_MS = "300000"


@pytest.fixture(scope="module")
def plugins() -> Path:
    return installed_plugins(CACHE)


@pytest.fixture(scope="module")
def probe(plugins: Path) -> Iterator[PluginProbe]:
    with PluginProbe(settings(plugins)) as opened:
        yield opened


def settings(plugins: Path, **more: str) -> WorkerSettings:
    allowed = {"plugin.path": str(plugins), "java.allowed.locations": str(plugins), "connectors.allowed.paths": "/"}
    return WorkerSettings.of({"bootstrap.servers": "localhost:1", "plugin.probe.timeout.ms": SLOW_MACHINE_MS, **allowed, **more})


def values(validation: Validation) -> dict[str, ConfigValueView]:
    return {value.name: value for _, value in validation.configs}


def errors(validation: Validation) -> dict[str, tuple[str, ...]]:
    return {name: tuple(value.errors) for name, value in values(validation).items() if value.errors}


def test_installed_plugins_are_listed_with_the_versions_that_connect_reports(plugins: Path, probe: PluginProbe) -> None:
    listed = {(plugin.class_name, plugin.type, plugin.version, plugin.location) for plugin in probe.plugins() if plugin.location}
    assert listed == {
        (FILE_SOURCE, "source", "4.3.1", FILE),
        (FILE_SOURCE.replace("Source", "Sink"), "sink", "4.3.1", FILE),
        *((POSTGRES, "source", name.removeprefix("debezium-connector-postgres-"), name) for name in DEBEZIUM),
    }
    assert probe.broken() == []
    others = {plugin.type for plugin in probe.plugins(connectors_only=False) if plugin.location}
    assert {"transformation", "converter", "header_converter"} <= others


def test_definitions_are_connects_own_by_version(probe: PluginProbe) -> None:
    keys = {key.name: key for key in probe.config_keys(FILE_SOURCE, "4.3.1")}
    assert {"file", "topic", "batch.size", "tasks.max", "exactly.once.support"} <= keys.keys()
    assert (keys["topic"].required, keys["batch.size"].default_value) == (True, "2000")
    older, newer = ({key.name for key in probe.config_keys(POSTGRES, version)} for version in ("[3.5,3.6)", None))
    assert newer - older, "3.6 has settings that 3.5 has not"
    passwords = {key.name for key in probe.config_keys(POSTGRES, None, DEBEZIUM[0]) if key.type == "PASSWORD"}
    assert "database.password" in passwords
    mask = {key.name for key in probe.config_keys("io.debezium.transforms.ExtractNewRecordState")}
    assert "delete.tombstone.handling.mode" in mask


def test_a_validation_is_connects_with_our_rules_added(probe: PluginProbe) -> None:
    assert errors(probe.validate(None, JAVA)) == {}
    assert values(probe.validate("FileStreamSource", JAVA))["connector.class"].value == FILE_SOURCE
    wrong = {
        **JAVA,
        "tasks.max": "0",
        "batch.max.records": "x",
        "topic": "connect-configs",
        "producer.override.bootstrap.servers": "evil:1",
    }
    found = errors(probe.validate(None, wrong))
    assert set(found) == {"tasks.max", "batch.max.records", "topic", "producer.override.bootstrap.servers"}
    assert probe.validate(None, wrong).error_count == 4
    located = {key: text for key, text in JAVA.items() if not key.endswith("version")} | {"connector.plugin.location": FILE}
    shown = values(probe.validate(None, located))
    assert (shown["connector.plugin.version"].value, shown["connector.plugin.location"].value) == ("4.3.1", FILE)
    missing = errors(probe.validate(None, {key: text for key, text in JAVA.items() if key != "topic"}))
    assert "which has no default value" in missing["topic"][0]


def test_exactly_once_is_refused_by_a_worker_without_it(plugins: Path) -> None:
    with PluginProbe(settings(plugins, **{"exactly.once.source.support": "disabled"})) as probe:
        found = errors(probe.validate(None, {**JAVA, "exactly.once.support": "required"}))
    assert found == {"exactly.once.support": ("This worker does not have exactly-once source support enabled.",)}


def test_two_versions_of_a_plugin_answer_in_one_jvm_and_no_secret_is_shown(probe: PluginProbe) -> None:
    database = {"database.hostname": "127.0.0.1", "database.port": "1", "database.user": "u", "database.dbname": "d"}
    config = {"name": "rows", "connector.class": POSTGRES, "topic.prefix": "p", "database.password": "s3cret-word", **database}
    for spec, version in (("[3.5,3.6)", "3.5.0.Final"), ("[3.6,)", "3.6.0.Final")):
        validation = probe.validate(None, {**config, "connector.plugin.version": spec})
        assert any("Connection to 127.0.0.1:1 refused" in text for texts in errors(validation).values() for text in texts)
        assert "s3cret-word" not in repr(validation)
        recommended = values(validation)["connector.plugin.version"]
        assert (recommended.value, list(recommended.recommended_values)) == (spec, ["3.5.0.Final", "3.6.0.Final"])
        assert {key.name for key in probe.config_keys(POSTGRES, version)} >= {"slot.name", "plugin.name"}
    assert len(children("py4j.GatewayServer", recursive=True)) == 1
    none = probe.validate(None, {**config, "connector.plugin.version": "[9,)"})
    assert "available versions: [3.5.0.Final, 3.6.0.Final]" in values(none)["connector.plugin.version"].errors[0]


def test_a_source_whose_runs_have_no_end_is_refused_in_its_validation(probe: PluginProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source is that for PostgreSQL, as if its end was not known."""
    monkeypatch.setattr(rules, "ENDING_DEBEZIUM", frozenset())
    found = errors(probe.validate(None, {"name": "rows", "connector.class": POSTGRES, "topic.prefix": "p"}))
    assert "Debezium's sources read in threads of their own" in found["connector.class"][0]
    monkeypatch.undo()
    assert "connector.class" not in errors(probe.validate(None, {"name": "rows", "connector.class": POSTGRES, "topic.prefix": "p"}))


def test_a_herder_takes_a_java_connector_as_any_other(plugins: Path, probe: PluginProbe) -> None:
    worker = settings(plugins)
    herder = Herder(worker, NotedRuns(), probe=probe, backing=MemoryBacking(worker), worker_id="api:0")
    config = {key: text for key, text in JAVA.items() if key not in ("name", "connector.plugin.version")}
    located = {**config, "connector.plugin.location": FILE}
    for wrong, reason in (
        ({**located, "topic": ""}, r"contains the following [0-9]+ error\(s\):"),
        ({**located, "batch.size": "many"}, "Invalid value many for configuration batch.size: Not a number of type INT"),
        ({**located, "connector.plugin.location": f"../{FILE}"}, r"no location of plugin\.path called \.\./"),
    ):
        with pytest.raises(ConnectException, match=reason):
            herder.create_connector("lines", wrong, TargetState.STOPPED)
    for name, given, version in (("lines", located, "4.3.1"), ("ours", config, __version__)):
        info = herder.create_connector(name, given, TargetState.STOPPED)
        assert (info.config, info.type) == ({**given, "name": name}, "source")
        assert herder.chosen_plugins(info)["connector"].version == version


def test_connectors_are_asked_about_offsets(probe: PluginProbe) -> None:
    config = {key: text for key, text in JAVA.items() if key != "name"}
    partition = {"filename": "/in"}
    assert probe.alter_offsets("lines", config, [(partition, {"position": 7})])
    with pytest.raises(ConnectException, match="should be a non-negative value"):
        probe.alter_offsets("lines", config, [(partition, {"position": -1})])
    sink = {**config, "connector.class": FILE_SOURCE.replace("Source", "Sink")}
    at = {"kafka_topic": "lines", "kafka_partition": 0}
    assert probe.alter_offsets("lines", sink, [(at, {"kafka_offset": 7}), ({**at, "kafka_partition": "1"}, None)])
    with pytest.raises(ConnectException, match="Partition values for sink connectors need to be integers"):
        probe.alter_offsets("lines", sink, [({**at, "kafka_partition": "x"}, None)])


def test_locations_that_the_worker_does_not_allow_are_not_loaded(plugins: Path, tmp_path: Path) -> None:
    for allowed in ({"java.allowed.locations": ""}, {"java.allowed.locations": str(plugins / DEBEZIUM[0])}):
        with PluginProbe(settings(plugins, **allowed)) as probe:
            with pytest.raises(ConfigException, match=r"the worker setting java\.allowed\.locations must name its folder"):
                probe.validate(None, JAVA)
            with pytest.raises(ConfigException, match=r"java\.allowed\.locations"):
                probe.config_keys(FILE_SOURCE, "4.3.1")


def test_a_jvm_that_is_killed_costs_one_request_and_none_is_left(plugins: Path) -> None:
    before = {process.pid for process in children("java", recursive=True)}
    with PluginProbe(settings(plugins)) as probe:
        assert errors(probe.validate(None, JAVA)) == {}
        started = [process for process in children("py4j.GatewayServer", recursive=True) if process.pid not in before]
        os.kill(started[0].pid, signal.SIGKILL)
        started[0].wait(HANG_SECONDS)
        with pytest.raises(ConnectException):
            probe.validate(None, JAVA)
        assert errors(probe.validate(None, JAVA)) == {}
        left = [process for process in children("py4j.GatewayServer", recursive=True) if process.pid not in before]
    psutil.wait_procs(left, 300)
    assert {process.pid for process in children("py4j.GatewayServer", recursive=True)} <= before


@pytest.mark.soak
def test_a_plugin_without_service_files_is_scanned(plugins: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    silent = tmp_path / "silent" / "connect-file.jar"
    silent.parent.mkdir()
    original = next((plugins / FILE).glob("connect-file-*.jar"))
    with zipfile.ZipFile(original) as opened, zipfile.ZipFile(silent, "w") as stripped:
        for member in opened.infolist():
            if not member.filename.startswith("META-INF/services/"):
                stripped.writestr(member, opened.read(member))
    shutil.copy(original, tmp_path / "single-1.jar")
    assert PluginCatalog([str(tmp_path)]).broken()[0].reason.startswith("it declares no plugins")
    commands.scan(Namespace(locations=[], path=str(tmp_path)))
    assert capsys.readouterr().out.count(FILE_SOURCE) == 2
    found = PluginCatalog([str(tmp_path)])
    assert found.broken() == []
    assert {plugin.location.name for plugin in found.named(FILE_SOURCE) if plugin.location} == {"silent", "single-1.jar"}
    assert (tmp_path / "silent" / SERVICES_JAR).is_file()
    with PluginProbe(settings(tmp_path)) as probe:
        assert "file" in {key.name for key in probe.config_keys(FILE_SOURCE, "4.3.1", "silent")}


def test_no_config_of_a_stranger_reads_files_of_the_host(probe: PluginProbe, tmp_path: Path) -> None:
    secret = tmp_path / "airflow.cfg"
    secret.write_text("key=a-secret-of-the-host\n")
    asked = {
        "config.providers": "x",
        "config.providers.x.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "producer.override.acks": f"${{x:{secret}:key}}",
        "producer.override.metric.reporters": "java.lang.String",
        "producer.override.sasl.jaas.config": 'Krb5LoginModule required "useKeyTab"=true "keyTab"="/etc/krb5.keytab";',
        "topic": "lines\x01",
    }
    found = errors(probe.validate(None, {**JAVA, **asked}))
    assert {"config.providers", "config.providers.x.class", "producer.override.metric.reporters", "topic"} <= set(found)
    assert "producer.override.sasl.jaas.config" in found
    assert "a-secret-of-the-host" not in str(found)
    assert "krb5.keytab" not in str(found)


def asks_for_passwords(server: socket.socket, heard: list[str]) -> None:
    """A server that a config's author may have: it asks for the password in clear text. Ends with its socket."""
    with suppress(OSError):
        while True:
            connection, _ = server.accept()
            heard.append("")
            with connection, suppress(OSError, struct.error):
                length, code = struct.unpack(">ii", connection.recv(8, socket.MSG_WAITALL))
                while code in (80877103, 80877104):  # TLS, Kerberos
                    connection.sendall(b"N")
                    length, code = struct.unpack(">ii", connection.recv(8, socket.MSG_WAITALL))
                connection.recv(length - 8, socket.MSG_WAITALL)
                connection.sendall(b"R" + struct.pack(">ii", 8, 3))
                heard[-1] = connection.recv(1000).decode(errors="replace")


def test_no_option_within_a_part_of_the_address_takes_the_password_to_another_server(probe: PluginProbe) -> None:
    heard: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        threading.Thread(target=asks_for_passwords, args=(server, heard), daemon=True).start()
        database = {"database.hostname": "127.0.0.1", "database.port": "1", "database.user": "u", "database.dbname": "d"}
        config = {"name": "rows", "connector.class": POSTGRES, "topic.prefix": "p", "database.password": "s3cret-word", **database}
        located = {**config, "connector.plugin.location": DEBEZIUM[0]}
        options = f"PGHOST=127.0.0.1&PGPORT={port}"
        for key, value in (
            ("database.dbname", f"d?{options}"),
            ("database.hostname", f"127.0.0.1/d?{options}&x="),
            ("database.port", f"1/d?{options}&x="),
        ):
            assert key in errors(probe.validate(None, {**located, key: value}))
            assert heard == [], key
        probe.validate(None, {**located, "database.port": str(port)})
        server.shutdown(socket.SHUT_RDWR)
    assert any("s3cret-word" in text for text in heard), "where the config allows it, it gets it"
