"""The order of a cursor's texts. Texts that are all integers, or all instants, are compared as what they are.

As texts, "9" is greater than "10", and "00.500Z" is less than "00Z". Texts that contain numbers, such as "A-9" and "A-10", are compared as
texts, unless this would skip a text that follows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.json_text import has_half_pair
from airflow_provider_connect.errors import DataException

_INTEGER: Final = "^-?[0-9]{1,38}$"
_INSTANT: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?$"
_LONGEST: Final = 38  # digits of a number in a text
_DIGITS: Final = re.compile(r"[0-9]+")
_OFFSET: Final = ":[0-9.,]+(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"


def order_keys(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A value for each text, without nulls. These values have the texts' order: integers, nanoseconds or microseconds since 1970, or the
    texts themselves. Raises DataException for texts of several kinds, unless all have the same length, and for a text that is before the
    first one only as text."""
    instants, integers = (pc.match_substring_regex(texts, pattern) for pattern in (_INSTANT, _INTEGER))
    if pc.all(instants, min_count=0).as_py():
        return _nanoseconds(texts)
    if pc.all(integers, min_count=0).as_py():
        return texts.cast(pa.decimal128(38, 0))
    lengths = pc.min_max(pc.binary_length(texts)).as_py()
    if lengths["min"] != lengths["max"]:
        for is_kind, kind in ((instants, "a time"), (integers, "a number")):
            if pc.any(is_kind).as_py():
                one, other = (texts[pc.index(is_kind, value).as_py()].as_py() for value in (True, False))
                raise DataException(
                    f"{one!r:.100} is {kind}, {other!r:.100} is not, and they have no common order. To compare them as texts, declare the "
                    "field as a string with schema="
                )
        _refuse_skipped_numbers(texts)
    return texts


def _refuse_skipped_numbers(texts: pa.Array | pa.ChunkedArray) -> None:
    """Raise DataException for a text that is before the first one, but after it by its number. Does nothing if the other texts are not in
    the order of their numbers: then their order is that of texts."""
    if not pc.any(pc.less(texts, texts[0])).as_py():
        return
    first, *others = texts.to_pylist()
    start, *numbers = (_DIGITS.sub(lambda match: match[0].zfill(_LONGEST), text) for text in (first, *others))
    skipped = [text for text, number in zip(others, numbers, strict=True) if text < first and number > start]
    if skipped and numbers == sorted(numbers):
        raise DataException(
            f"{skipped[0]!r:.100} is after {first!r:.100} by its number, and before it as text. Use a number or a time as the cursor. To "
            "compare them as texts, declare the field as a string with schema="
        )


def keys_of(values: Sequence[Any]) -> list[Any]:
    """As ``order_keys``, for values of which some may be numbers. Then all are compared as they are. Raises DataException also for a
    string with half of a surrogate pair."""
    for value in values:
        if isinstance(value, str):
            refuse_surrogates(value)
    if not values or not all(isinstance(value, str) for value in values):
        return list(values)
    found: list[Any] = order_keys(pa.array(values, pa.string())).to_pylist()
    return found


def refuse_surrogates(text: str) -> None:
    """Raise DataException for half of a surrogate pair."""
    if has_half_pair(text):
        raise DataException(f"{text!r:.100} has half of a surrogate pair, which is not valid Unicode")


def _nanoseconds(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    have_offset = pc.match_substring_regex(texts, _OFFSET)
    has_offset = pc.any(have_offset).as_py()
    if has_offset and not pc.all(have_offset).as_py():
        one, other = (texts[pc.index(have_offset, value).as_py()].as_py() for value in (True, False))
        raise DataException(f"{one!r:.100} has an offset from UTC, {other!r:.100} has none, and they have no common order")
    plain = pc.replace_substring(texts, ",", ".")
    for unit in ("ns", "us"):  # nanoseconds end in the year 2262
        try:
            return plain.cast(pa.timestamp(unit, "UTC" if has_offset else None)).cast(pa.int64())
        except pa.ArrowInvalid as error:
            reason = error
    raise DataException(f"a time cannot be read: {reason}")
