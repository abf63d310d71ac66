"""What is raised by plugins, in the forms in which it may leave their calls."""

import asyncio
import threading

import pytest

from airflow_provider_connect.errors import MOST_CHARACTERS, ConnectException, last_line, message_of, plugin_code, shorten, trace_of


class Unreadable(Exception):
    def __str__(self) -> str:
        raise ValueError("no message")


def test_an_exception_without_a_readable_message_has_a_trace() -> None:
    assert message_of(Unreadable()) == "<Unreadable, whose message cannot be read>"
    assert "<Unreadable, whose message cannot be read>" in trace_of(Unreadable())


def test_a_text_of_any_length_fits_a_record() -> None:
    text = f"begin {'x' * 10_000_000} end"
    short = shorten(text)
    assert len(short) <= MOST_CHARACTERS
    assert (short[:6], short[-4:], shorten(short)) == ("begin ", " end", short)


@pytest.mark.parametrize(
    ("trace", "line"),
    [
        ("Traceback …\n  File …\nKeyError: 'rows'\n", "KeyError: 'rows'"),
        (
            "…\nUndefinedTable: there is no table a\nLINE 1: INSERT INTO a\n         ^\n",
            "UndefinedTable: there is no table a",
        ),
        (
            "org.apache.kafka.connect.errors.ConnectException: Exiting\n\tat org.apache.Task.run(Task.java:9)\n"
            "Caused by: java.lang.NoClassDefFoundError: org/apache/Writer\n\tat java.base/java.lang.Class.<init>(C.java)\n\t... 45 more\n",
            "java.lang.NoClassDefFoundError: org/apache/Writer",
        ),
        ("\tat a.B.c(B.java:1)\n\t... 2 more", "... 2 more"),
        ("^", "^"),
        ("", ""),
    ],
)
def test_a_trace_is_known_by_its_last_line_without_an_excerpt_of_code(trace: str, line: str) -> None:
    assert last_line(trace) == line


@pytest.mark.parametrize("error", [SystemExit(0), asyncio.CancelledError("late"), GeneratorExit()])
def test_what_would_end_a_process_in_silence_fails_the_call(error: BaseException) -> None:
    with pytest.raises(ConnectException, match=r"The plugin's code (called exit|raised)"), plugin_code():
        raise error


def test_an_interrupt_is_the_users_in_the_main_thread_alone() -> None:
    raised: list[BaseException] = []

    def interrupted() -> None:
        try:
            with plugin_code():
                raise KeyboardInterrupt
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=interrupted)
    thread.start()
    thread.join()
    interrupted()
    assert list(map(type, raised)) == [ConnectException, KeyboardInterrupt]
