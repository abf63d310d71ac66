"""One page of ``airflow connect import`` for a whole cluster: what runs, then what there is to do, in the order of work."""

from __future__ import annotations

import re
import shlex

import pytest

from airflow_provider_connect.cli.commands import get_connect_cli_commands
from airflow_provider_connect.cli.import_report import ImportCandidate, page
from airflow_provider_connect.cli.imports import call_for_one
from tests.unit.test_docs_howtos import parser_of

MISSING = "Failed to find any class that implements Connector and which name matches x, available connectors are: …"
PATH = "Connectors of this worker may only use files below /data. Use a path below that."
POSTGRES, MONGO = "io.debezium.connector.postgresql.PostgresConnector", "com.mongodb.kafka.connect.MongoSinkConnector"


def missing(name: str, class_name: str) -> ImportCandidate:
    return ImportCandidate(name, class_name, [MISSING])


FOUND = [
    ImportCandidate(
        "files",
        "FileStreamSink",
        (),
        ["The setting 'storage.class' has no effect here: remove it", "Unknown setting 'a': nothing reads it"],
    ),
    ImportCandidate("more-files", "FileStreamSink", (), ["The setting 's3.part.size' has no effect here: remove it"]),
    missing("rows", POSTGRES),
    missing("more-rows", POSTGRES),
    missing("documents", MONGO),
    missing("calls", "io.confluent.connect.http.HttpSinkConnector"),
    missing("own", "org.example.OwnConnector"),
    missing("cloud", "PostgresSource"),
    ImportCandidate("outside", "FileStreamSource", [f"Invalid value /etc/passwd for configuration file: {PATH}"]),
    ImportCandidate("beside", "FileStreamSource", [f"Invalid value /root/x for configuration file: {PATH}"]),
    missing("server", "io.debezium.connector.sqlserver.SqlServerConnector"),
    missing("changes", "DynamoDbCdcSource"),
]


def test_work_is_in_its_order_with_one_command_for_all_plugins() -> None:
    text = page(FOUND, "airflow connect import http://there NAME", is_live=True)
    assert text.startswith("2 of 12 connectors run here as they are, 10 need a step first.\n")
    assert re.findall(r"^\d\. .*", text, re.MULTILINE) == [
        "1. Take over those that run (2): airflow connect import http://there NAME --handover",
        "2. Install plugins of Maven's central repository (4 connectors):",
        "3. Download plugins from Confluent Hub, www.confluent.io/hub/NAME, or from their makers (2 connectors), then",
        "4. Set another class, such as that outside of Confluent Cloud (1 connectors):",
        "5. Change settings (2 connectors):",
        "6. Leave in their cluster (1 connectors):",
    ]
    assert (
        "   airflow connect plugins install maven:io.debezium:debezium-connector-postgres:3.6.1.Final "
        "maven:org.mongodb.kafka:mongo-kafka-connect:2.0.1 maven:io.debezium:debezium-connector-sqlserver:3.6.1.Final\n"
    ) in text
    assert "   confluentinc/kafka-connect-http, org.example.OwnConnector\n" in text
    assert f"   2 × {PATH}\n" in text, "equal reasons are one, whatever the value"
    assert "   2 × 'storage.class', 's3.part.size': remove it\n   1 × Unknown setting 'a': nothing reads it\n" in text


def test_a_part_without_connectors_has_no_number() -> None:
    text = page([missing("rows", POSTGRES)], "airflow connect import http://there NAME", is_live=True)
    assert "0 of 1 connectors run here" in text
    assert re.findall(r"^\d\. ", text, re.MULTILINE) == ["1. "]
    assert "Warnings" not in text


def test_thousands_of_connectors_are_a_page_too() -> None:
    many = [missing(f"c{number}", f"io.confluent.connect.c{number % 300}.C{number}SinkConnector") for number in range(2000)]
    many += [ImportCandidate(f"d{number}", "JdbcSink", [f"connection.url: reason {'x' * 5000} {number}"], []) for number in range(500)]
    many += [ImportCandidate(f"e{number}", "JdbcSink", (), [f"Unknown setting 's{number}': nothing reads it"]) for number in range(500)]
    text = page(many, "airflow connect import http://there NAME", is_live=True)
    assert len(text.splitlines()) < 80
    assert max(map(len, text.splitlines())) <= 130


def test_connectors_of_a_file_are_created_since_it_has_no_offsets() -> None:
    text = page(FOUND, "airflow connect import connectors.yaml NAME", is_live=False)
    assert "1. Create those that run, STOPPED and without offsets (2): airflow connect import connectors.yaml NAME --create\n" in text
    assert "--handover" not in text


@pytest.mark.parametrize(
    ("words", "server", "command"),
    [
        (["http://ann:x@there"], "http://there", "http://there NAME"),
        (["http://there", "--source-user", "ann:secret"], "http://there", "http://there NAME --source-user ann"),
        (["my connectors.yaml"], None, "'my connectors.yaml' NAME"),
        (["http://there", "a", "--application", "crm"], "http://there", "http://there NAME --application crm"),
        (["x.properties", "--source-url", "http://ann:x@there"], "http://there", "x.properties NAME --source-url http://there"),
        (
            ["http://there", "--url", "http://here", "--user", "bob:secret"],
            "http://there",
            "http://there NAME --url http://here --user bob",
        ),
    ],
)
def test_the_command_for_one_connector_has_the_options_of_the_list_without_passwords(
    words: list[str], server: str | None, command: str
) -> None:
    parser = parser_of(get_connect_cli_commands())
    found = call_for_one(parser.parse_args(["connect", "import", *words]), server)
    assert found == f"airflow connect import {command}"
    again = parser.parse_args([*shlex.split(found)[1:], "--handover"])
    assert (again.names, again.handover, again.application) == (["NAME"], True, "crm" if "crm" in words else None)
