"""Which lines of a JVM's log are warnings."""

import logging

import pytest

from airflow_provider_connect.runtime.java.jvm.log_lines import parse_line

SCANNER = "org.apache.kafka.connect.runtime.isolation.PluginScanner"
CLIENT = "org.apache.kafka.clients.NetworkClient"
ISSUE = "The metadata response from the cluster reported a recoverable issue with correlation id 6 : {t="


@pytest.mark.parametrize(
    ("line", "level", "logger", "text"),
    [
        ("|WARN|a.B|[c|task-0] slow|ly\\r\\n", logging.WARNING, "java.a.B", "[c|task-0] slow|ly"),
        ("|ERROR|a.B|broken\\njava.lang.Error: x\\n\\tat a.B.c\\n", logging.ERROR, "java.a.B", "broken\njava.lang.Error: x\n\\tat a.B.c"),
        ("|FATAL|a.B|x", logging.CRITICAL, "java.a.B", "x"),
        ("OpenJDK 64-Bit Server VM warning: x", logging.WARNING, "java", "OpenJDK 64-Bit Server VM warning: x"),
        ("|LOUD|a.B|x", logging.WARNING, "java", "|LOUD|a.B|x"),
        (
            f"|ERROR|{SCANNER}|Failed to discover: X\\njava.lang.Error\\n\tat a.B\\nCaused by: java.lang.Y: no\\n\tat a.C\\n",
            logging.INFO,
            f"java.{SCANNER}",
            "Failed to discover: X (java.lang.Y: no)",
        ),
        (
            f"|ERROR|{SCANNER}|Failed: X\\njava.lang.Error: y\\n\tat a.B\\n",
            logging.INFO,
            f"java.{SCANNER}",
            "Failed: X (java.lang.Error: y)",
        ),
        (f"|WARN|{SCANNER}|Two of a name\\n", logging.INFO, f"java.{SCANNER}", "Two of a name"),
        (
            f"|WARN|{CLIENT}|{ISSUE}UNKNOWN_TOPIC_OR_PARTITION}}\\n",
            logging.INFO,
            f"java.{CLIENT}",
            f"{ISSUE}UNKNOWN_TOPIC_OR_PARTITION}}",
        ),
        (
            f"|WARN|{CLIENT}|{ISSUE}INVALID_TOPIC}}",
            logging.WARNING,
            f"java.{CLIENT}",
            f"{ISSUE}INVALID_TOPIC}}",
        ),
        (f"|WARN|{CLIENT}|Connection to node 1 could not be established.", logging.WARNING, f"java.{CLIENT}", None),
    ],
)
def test_a_line_has_its_level_unless_it_is_of_ordinary_work(line: str, level: int, logger: str, text: str | None) -> None:
    found = parse_line(line)
    assert found[:2] == (level, logger)
    assert text in (None, found[2])
