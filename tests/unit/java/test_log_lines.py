"""Which lines of a JVM's log are warnings, and which repeated lines are dropped."""

import logging

import pytest

from airflow_provider_connect.runtime.java.jvm.log_lines import MOST_LINES, MOST_LINES_OF_LOGGER, WINDOW_SECONDS, RepeatedLines, parse_line

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


def test_of_lines_that_differ_in_values_alone_ten_a_minute_are_logged_and_the_others_counted() -> None:
    clock = [0.0]
    repeated = RepeatedLines(lambda: clock[0])

    def logged(text: str, logger: str = "java.a.B") -> list[str]:
        return [line for _, _, line in repeated.admitted(logging.WARNING, logger, text)]

    shown = [logged(f"[c|task-0] record {number} of 'key {number}' is late") for number in range(1000)]
    assert [len(lines) for lines in shown] == [1] * MOST_LINES + [0] * (1000 - MOST_LINES)
    assert logged("another kind") == ["another kind"]
    assert logged("[c|task-0] record 1000 of 'key' is late", "java.a.C") == ["[c|task-0] record 1000 of 'key' is late"]
    clock[0] = WINDOW_SECONDS
    counted, next_line = logged("[c|task-0] record 1001 of 'key' is late")
    assert counted.startswith("990 more lines like: [c|task-0] record 10 of 'key 10' is late (dropped")
    assert next_line == "[c|task-0] record 1001 of 'key' is late"
    assert list(repeated.rest()) == []


def test_the_frames_of_a_printed_trace_are_logged_and_a_logger_of_ever_other_lines_is_limited() -> None:
    repeated = RepeatedLines(lambda: 0.0)
    frames = [f"\tat a.B.c(B.java:{number})" for number in range(50)]
    assert [line for frame in frames for _, _, line in repeated.admitted(logging.WARNING, "java", frame)] == frames
    words = ["".join(chr(ord("a") + int(digit)) for digit in str(number)) for number in range(1000)]
    assert sum(len(list(repeated.admitted(logging.ERROR, "java.a.B", word))) for word in words) == MOST_LINES_OF_LOGGER
    assert [(level, name, text.split(" (")[0]) for level, name, text in repeated.rest()] == [
        (logging.ERROR, "java.a.B", f"{1000 - MOST_LINES_OF_LOGGER} more lines of this logger")
    ]
