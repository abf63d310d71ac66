"""Expressions of a connector's author that would never end, or fill the memory."""

import hashlib
import re
import threading
import time
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.model.contradictions import unconsumed_topics
from airflow_provider_connect.sdk.bounded_regex import BoundedRegex

SLOW = r"(?!__)(a|aa|a?a)+[^a]"
"""Exponential; each new one is asked anew."""


def test_it_matches_as_re_does() -> None:
    assert BoundedRegex(r"(?!__).*-\d+", "topics.regex").matches("orders-7")
    assert not BoundedRegex(r"(?!__).*-\d+", "topics.regex").matches("__orders-7")
    assert BoundedRegex(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\{x\}", "k").matches("01234567-89ab-cdef-0123-456789abcdef{x}")
    found = BoundedRegex(r"(?P<n>\w)+", "k", flags=re.ASCII).search("äbc")
    assert found is not None
    assert (found.start(), found.end(), found["n"]) == (1, 3, "c")
    assert BoundedRegex("a.b", "k", flags=re.DOTALL).matches("a\nb")
    assert not BoundedRegex("a.b", "k").matches("a\nb")


@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")
@pytest.mark.parametrize(
    "wrong",
    [
        *("(", "a" * 10_001, "a{99999999999}", "a**"),
        *("a{100000000}", "((a{1000}){1000}){1000}", "(?:(?:a|b){5000}){5000}", "(?:){1000000000}", "[a]{0000000000000100000000}"),
        *(r"[\]](a{1000}){1000}[\]]", "[](](a{1000}){1000}", "(?#[)(a{1000}){1000}(?#])", "(?#(()(a{1000}){1000}", "[^]](?:a{9999}){9999}"),
        *("(?xi)( # )\n a{1000} ) {1000}", "(?i)(?x:a){2}", "(?<=(a{1000}){1000})b", "a{1000000}?", "a{1000000}+", r"\\{1000000}"),
        *("(?:" * 51 + ")" * 51, "(?:" * 2_000 + ")" * 2_000, "a{e<=1}", "a{1,2", "a{}", "[[:alpha:]]"),
    ],
)
def test_what_is_wrong_or_needs_much_memory_is_refused(wrong: str) -> None:
    with pytest.raises(re.error):
        BoundedRegex(wrong, "topics.regex")


def test_one_that_takes_too_long_for_a_text_is_ended_and_not_tried_with_it_again() -> None:
    slow = BoundedRegex(SLOW, "topics.regex", seconds=0.05)
    with pytest.raises(ConfigException, match=r"for configuration topics\.regex: the expression takes more than"):
        slow.matches("a" * 200)
    started = time.thread_time()
    with pytest.raises(ConfigException):
        BoundedRegex(SLOW, "topics.regex").matches("a" * 200)
    assert time.thread_time() - started < 0.4, "it was refused without being tried"
    assert slow.matches("aaab"), "another text"


def test_what_other_threads_use_does_not_count() -> None:
    over = threading.Event()

    def burn() -> None:
        block = bytes(1 << 22)
        while not over.is_set():
            hashlib.sha256(block)  # without the GIL

    def own_seconds(text: str) -> float:
        begun = time.thread_time()
        assert not BoundedRegex(SLOW, "k", seconds=60).matches(text)
        return time.thread_time() - begun

    text = next(text for length in range(10, 60) if own_seconds(text := "a" * length) > 0.02)
    limited = BoundedRegex(SLOW, "k", seconds=4 * own_seconds(text))
    others = [threading.Thread(target=burn) for _ in range(16)]
    for thread in others:
        thread.start()
    try:
        assert not limited.matches(text)
    finally:
        over.set()
        for thread in others:
            thread.join()


def test_other_threads_go_on_meanwhile() -> None:
    slow = BoundedRegex(rf"x?{SLOW}", "topics.regex", seconds=1.0)
    ended: list[float] = []

    def match() -> None:
        with pytest.raises(ConfigException):
            slow.matches("a" * 200)
        ended.append(time.monotonic())

    thread = threading.Thread(target=match)
    thread.start()
    turns = 0
    while thread.is_alive():
        time.sleep(0.01)
        turns += 1
    thread.join()
    assert turns > 10


def test_what_was_found_is_kept() -> None:
    pattern = BoundedRegex("(a)|b", "k")
    assert pattern.fullmatch("a") is pattern.fullmatch("a")
    assert [pattern.matches(f"b{number}") for number in range(3_000)] == [False] * 3_000
    assert pattern.matches("b")


def test_an_expression_that_is_slow_for_many_topics_is_given_up_after_the_time_for_one() -> None:
    slow = {"topics.regex": r"(?:(?:\w\w?|[.]){0,25}[A-Z]|shop.*)"}
    topics = [f"shop.orders.europe.germany.{number:04d}" for number in range(200)]
    started = time.thread_time()
    assert unconsumed_topics(topics, slow) == [], "unknown, so nothing is forgotten"
    assert time.thread_time() - started < 2.0
    started = time.thread_time()
    assert unconsumed_topics(reversed(topics), slow) == []
    assert time.thread_time() - started < 0.4


@pytest.mark.parametrize("expression", ["(?i)" + "[!-\uffff]" * 1900, "(?i)[" + "!-\uffff" * 3000 + "]", "(?i)" + r"[!-\uffff]" * 600])
def test_classes_of_characters_that_take_long_to_lay_out_are_refused(expression: str) -> None:
    started = time.thread_time()
    with pytest.raises(re.error, match=r"100 ranges|10000 characters"):
        BoundedRegex(expression, "topics.regex")
    assert time.thread_time() - started < 0.5


def test_large_expressions_are_not_kept_when_nothing_uses_them_any_more() -> None:
    def megabytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

    BoundedRegex("(?:a{300}){300}", "k")
    before = megabytes()
    for count in range(280, 299):
        BoundedRegex(f"(?:a{{{count}}}){{300}}", "k")
    assert megabytes() - before < 100


def test_a_slow_expression_of_one_connector_does_not_stop_the_comparison_of_all() -> None:
    another = r"(?!_)(a|aa|a?a)+[^a]"
    assert unconsumed_topics(["a" * length for length in range(180, 200)], {"topics.regex": another}) == [], (
        "unknown, so nothing is forgotten"
    )
