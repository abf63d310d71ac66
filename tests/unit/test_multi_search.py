"""Many texts found in one pass: the same ones that a search for each would find, in a time that does not depend on how many they are."""

from __future__ import annotations

import random
import time

import pytest

from airflow_provider_connect.runtime.config.masking import Mask
from airflow_provider_connect.runtime.config.multi_search import LONG, MultiSearch

SHORTEST = 4
MOST_SECONDS = 2.0


def covered(texts: list[str], text: str) -> set[int]:
    """The characters of ``text`` that belong to any of ``texts``."""
    found: set[int] = set()
    for each in texts:
        at = text.find(each)
        while at >= 0:
            found.update(range(at, at + len(each)))
            at = text.find(each, at + 1)
    return found


@pytest.mark.parametrize("seed", range(30))
def test_it_replaces_what_a_search_for_each_would_find(seed: int) -> None:
    random_ = random.Random(seed)
    longest = random_.choice([6, 12, LONG - 1])
    texts = ["".join(random_.choices("ab", k=random_.randint(SHORTEST, longest))) for _ in range(random_.choice([1, 5, 40]))]
    for _ in range(20):
        between = ["".join(random_.choices("abc", k=random_.randint(0, 12))), *random_.sample(texts, k=1)]
        text = "".join(random_.choices(between, k=random_.randint(1, 6)))
        shown = MultiSearch(texts, SHORTEST).replaced(text, "#")
        assert shown.replace("#", "") == "".join(text[at] for at in range(len(text)) if at not in covered(texts, text))


@pytest.mark.parametrize("length", [LONG - 1, LONG, LONG + 1, 2 * LONG, 5 * LONG + 3])
def test_a_long_text_is_replaced_as_a_whole(length: int) -> None:
    long = "".join(random.Random(length).choices("abcdef", k=length))
    many = MultiSearch([long, long[:40], "other"], SHORTEST)
    assert many.replaced(f"x{long}y{long}{long} other", "#") == "x#y## #"
    assert many.replaced(long[:40] + "z", "#") == "#z"
    assert many.replaced(long[1:], "#") == long[1:]


def test_of_a_part_of_a_long_text_nothing_is_shown_that_would_be_compared_again() -> None:
    many = MultiSearch(["a" * 3 * LONG + "b"], SHORTEST)
    assert many.replaced("a" * 2 * LONG, "#") == "#"
    assert many.replaced("a" * (LONG - 1), "#") == "a" * (LONG - 1)


HOSTILE = {
    "many": ([f"secret-{number:06d}" for number in range(100_000)], "Invalid value x for configuration secret-0000 " * 6000),
    "one beginning": ([f"{'a' * 200}{number:06d}" for number in range(5_000)], "a" * 250_000),
    "one within another": (["a" * length for length in range(4, 700)], "aaab" * 60_000),
    "long": (["a" * 250_000 + "b", *("a" * length + "c" for length in range(300, 900))], "a" * 250_000),
    "longer": ([("ab" * 120_000) + str(number) for number in range(4)], "ab" * 125_000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_texts_make_it_slow(name: str) -> None:
    texts, text = HOSTILE[name]
    many = MultiSearch(texts, SHORTEST)
    began = time.thread_time()
    many.replaced(text, "#")
    assert time.thread_time() - began < MOST_SECONDS


def test_a_config_of_many_secrets_makes_the_mask_of_an_answer_no_slower() -> None:
    """A validation masks some thousand texts in the server's process."""
    mask = Mask(f"pass word/{number:06d}" for number in range(20_000))
    began = time.thread_time()
    for number in range(1000):
        assert (
            mask(f"Invalid value pass%20word/{number:06d} for configuration batch.size")
            == "Invalid value [hidden] for configuration batch.size"
        )
    assert mask.in_bytes(b"\xff pass word/000007\x00") == b"\xff [hidden]\x00"
    assert mask.whole({"a": ["pass word/019999"]}) == {"a": ["[hidden]"]}
    assert time.thread_time() - began < MOST_SECONDS
