"""The order of a cursor's texts. Texts that are all integers, or all instants, are compared as what they are.

As texts, "9" is greater than "10", and "00.500Z" is less than "00Z".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.json_text import has_half_pair
from airflow_provider_connect.errors import DataException

_INTEGER: Final = "^-?[0-9]{1,38}$"
_INSTANT: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?$"
_OFFSET: Final = ":[0-9.,]+(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"


def order_keys(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """A value for each text, without nulls. These values have the texts' order: integers, nanoseconds or microseconds since 1970, or the
    texts themselves. Raises DataException for texts of several kinds, unless all have the same length."""
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
    return texts


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
