"""The sum and maximum of run-length encoded lengths in ORC streams (both versions), without an object for each length.

The source is the ORC specification v1, "Run Length Encoding". The count ends where a stream is truncated, because the library rejects such
a stream.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_BITS: Final = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
_PATCH_BITS: Final = (*_BITS, 128)
_SHORTEST_RUN: Final = 3
_MAX_SHIFT: Final = 63


class Run(NamedTuple):
    """Numbers of a stream: their sum, the largest, and the position after them."""

    total: int
    largest: int
    end: int


def all_runs(data: bytes, *, is_first_version: bool) -> Run:
    """The sum and maximum of a stream's numbers. For descending and patched runs, they are upper bounds."""
    total = largest = at = 0
    next_run = _first_version if is_first_version else _second_version
    while at < len(data):
        try:
            run = next_run(data, at)
        except IndexError:
            break
        total, largest, at = total + run.total, max(largest, run.largest), run.end
    return Run(total, largest, at)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A variable-length number, and the position after it. Raises ValueError for more than 64 bits."""
    number = shift = 0
    while data[at] & 128:
        if shift > _MAX_SHIFT:
            raise ValueError("a number of it has more than 64 bits")
        number |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
    return number | data[at] << shift, at + 1


def _first_version(data: bytes, at: int) -> Run:
    control = data[at]
    if control < 128:
        step = data[at + 1] - 256 * (data[at + 1] >> 7)
        first, at = varint(data, at + 2)
        return _steps(first, control + _SHORTEST_RUN, max(step, 0), at)
    numbers, at = [0], at + 1
    for _ in range(256 - control):
        number, at = varint(data, at)
        numbers.append(number)
    return Run(sum(numbers), max(numbers), at)


def _second_version(data: bytes, at: int) -> Run:
    head = data[at]
    kind = head >> 6
    if kind == 0:  # one repeated number
        end = at + 2 + (head >> 3 & 7)
        number = int.from_bytes(data[at + 1 : end], "big")
        return Run(number * ((head & 7) + _SHORTEST_RUN), number, end)
    width, count, at = _BITS[head >> 1 & 31], ((head & 1) << 8 | data[at + 1]) + 1, at + 2
    if kind == 1:
        numbers, end = _packed(data, at, width, count)
        return Run(sum(numbers), max(numbers), end)
    if kind == 2:  # numbers relative to a base, some patched with more bits
        return _patched(data, at, width, count)
    first, at = varint(data, at)
    step, at = varint(data, at)
    step = step >> 1 ^ -(step & 1)
    if not head >> 1 & 31:
        return _steps(first, count, max(step, 0), at)
    steps, end = _packed(data, at, width, count - 2)
    most = first + max(step, 0) + (sum(steps) if step >= 0 else 0)
    return Run(most * count, most, end)


def _steps(first: int, count: int, step: int, end: int) -> Run:
    """Numbers with a constant step."""
    return Run(count * first + step * (count * (count - 1) // 2), first + step * (count - 1), end)


def _patched(data: bytes, at: int, width: int, count: int) -> Run:
    third, fourth = data[at], data[at + 1]
    base_end, patch = at + 3 + (third >> 5), _BITS[third & 31]
    base = int.from_bytes(data[at + 2 : base_end], "big")
    numbers, end = _packed(data, base_end, width, count)
    entry = patch + (fourth >> 5) + 1
    entries, end = _packed(data, end, next(bits for bits in _PATCH_BITS if bits >= entry), fourth & 31)
    added = [(number & (1 << patch) - 1) << width for number in entries] or [0]
    return Run(base * count + sum(numbers) + sum(added), base + max(numbers) + max(added), end)


def _packed(data: bytes, at: int, width: int, count: int) -> tuple[list[int], int]:
    """``count`` numbers of ``width`` bits each."""
    size = (width * count + 7) // 8
    bits, mask = int.from_bytes(data[at : at + size], "big"), (1 << width) - 1
    top = min(size, len(data) - at) * 8
    return [bits >> max(top - width * number, 0) & mask for number in range(1, count + 1)], at + size
