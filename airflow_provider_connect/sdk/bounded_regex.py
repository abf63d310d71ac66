"""Regular expressions from configs, with bounded matches. A match has a time limit, lets other threads run and needs little memory.

The syntax is that of Python's ``re``. ``re`` itself is not used for matching, because its matches can be stopped only by ending the
process.
"""

from __future__ import annotations

import re
import threading
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from airflow_provider_connect.errors import ConfigException

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

LONGEST: Final = 10_000
SECONDS: Final = 0.5
_MOST_UNROLLED: Final = 100_000
_DEEPEST: Final = 50
_LARGEST_KEPT: Final = 1000  # ``regex`` caches the last 500 expressions, and a large one takes 13 MB
_MOST_RANGES: Final = 100
_MOST_KEPT: Final = 1000
_ATTEMPTS: Final = 10  # the last attempt has 512 times the limit, for a process with many busy threads
_OWN: Final = 0.8  # share of the limit, because the clocks of a thread and its process have different resolutions

_TOKEN: Final = re.compile(
    r"\\N\{[^}]*+\}?|\\.|\(\?#[^)]*+\)?|\[\^?\]?(?:[^\]\\]|\\.)*+\]?|\{(?P<count>\d++)(?:,\d*+)?\}|\(\?[a-wyzA-Z-]*+x|.",
    re.DOTALL,
)
_RANGE: Final = re.compile(r"-(?:\\[uUxN]|[^\x00-\x7f])")  # a range beyond ASCII: ``re`` iterates over all its characters
_CLASS_NAME: Final = re.compile(r"\[[:.=]")

Match = re.Match[str]
"""A match of ``regex``, which has the attributes and methods of ``re.Match``."""

_too_slow: OrderedDict[tuple[str, str | None], None] = OrderedDict()
"""Expressions that were too slow, each with the text on which it was too slow. None instead of a text: it was too slow for many texts
together."""
_lock = threading.Lock()


class BoundedRegex:
    """A compiled ``expression``, the value of the setting ``key``. Several threads may use one instance.

    The constructor raises ``re.error`` for an invalid expression. It also refuses an expression with more than 10,000 characters, 50 nested
    groups or 100 character ranges beyond ASCII. An expression whose counted repetitions would need much memory is refused, too. A match
    takes little more than ``seconds`` of this thread's processor time, however busy other threads are. ``fullmatch`` caches the results of
    up to 1,000 texts, because a task checks the same few topics repeatedly.
    """

    def __init__(self, expression: str, key: str, *, flags: int = 0, seconds: float = SECONDS) -> None:
        import regex  # costs 20 ms, and few processes need it

        compiled = check_expression(expression, flags)
        engines = regex.VERSION0 | (regex.ASCII if flags & re.ASCII else 0) | (flags & re.DOTALL)
        is_small = _size(expression) <= _LARGEST_KEPT
        try:
            self._compiled = regex.compile(expression, engines, cache_pattern=is_small)
        except (regex.error, RecursionError) as error:
            raise re.error(str(error)) from error
        self.groups: int = compiled.groups
        self.groupindex: Mapping[str, int] = compiled.groupindex
        self.pattern = expression
        self._key, self._seconds = key, seconds
        self._fullmatches: dict[str, Match | None] = {}

    def fullmatch(self, text: str) -> Match | None:
        """The match of the whole ``text``, or None. Raises ConfigException, for the setting ``key``, if the match takes too long."""
        try:
            return self._fullmatches[text]
        except KeyError:
            pass
        found = self._bounded(self._compiled.fullmatch, text)
        if len(self._fullmatches) >= _MOST_KEPT:
            self._fullmatches.clear()
        self._fullmatches[text] = found
        return found

    def matches(self, text: str) -> bool:
        """Whether the expression matches the whole ``text``. Raises ConfigException as ``fullmatch`` does."""
        return self.fullmatch(text) is not None

    def unmatched(self, texts: Iterable[str]) -> list[str]:
        """The texts that the expression does not match as a whole.

        Raises ConfigException if all texts together take longer than the limit of one match. Every later call in this process then also
        raises ConfigException."""
        begun, unmatched = time.thread_time(), []
        for text in texts:
            if (self.pattern, None) in _too_slow:
                raise self._refusal(text)
            if not self.matches(text):
                unmatched.append(text)
            if time.thread_time() - begun > self._seconds:
                _note_slow(self.pattern, None)
        return unmatched

    def search(self, text: str) -> Match | None:
        """The first match within ``text``, or None. Raises ConfigException as ``fullmatch`` does. Results are not cached."""
        return self._bounded(self._compiled.search, text)

    def _bounded(self, method: Callable[..., Any], text: str) -> Match | None:
        """Match once. A text that took too long is never matched again in this process, because each attempt delays other threads."""
        question = (self.pattern, text)
        if question in _too_slow:
            raise self._refusal(text)
        for attempt in range(_ATTEMPTS):
            begun = time.thread_time()
            try:
                found: Match | None = method(text, timeout=self._seconds * 2**attempt, concurrent=True)
            except TimeoutError:  # ``regex`` measures the time of all threads of the process
                if time.thread_time() - begun >= self._seconds * _OWN:
                    break
            else:
                return found
        _note_slow(*question)
        raise self._refusal(text)

    def _refusal(self, text: str) -> ConfigException:
        reason = (
            f"the expression takes more than {self._seconds:g} s for the name {text[:100]}: avoid repetitions within repetitions, "
            "such as (a+)+"
        )
        return ConfigException.of(self._key, self.pattern[:200], reason)


def _note_slow(pattern: str, text: str | None) -> None:
    with _lock:
        _too_slow[pattern, text] = None
        while len(_too_slow) > _MOST_KEPT:
            _too_slow.popitem(last=False)


def check_expression(expression: str, flags: int = 0) -> re.Pattern[str]:
    """Compile ``expression`` with ``re``. The result is not used for matching. Raises ``re.error`` as ``BoundedRegex`` does."""
    if len(expression) > LONGEST:
        raise re.error(f"an expression has at most {LONGEST} characters")
    if sum(len(_RANGE.findall(token[0])) for token in _TOKEN.finditer(expression) if token[0].startswith("[")) > _MOST_RANGES:
        raise re.error(f"an expression has at most {_MOST_RANGES} ranges of characters beyond ASCII")
    try:
        compiled = re.compile(expression, flags)
    except (RecursionError, OverflowError) as error:
        raise re.error(str(error)) from error
    _size(expression)
    return compiled


def _size(expression: str) -> int:
    """The number of parts to which ``regex`` compiles a valid ``expression``. Counted repetitions are unrolled, even if they are nested."""
    sizes = [0]  # one for each open group
    last = 0
    has_counts = is_verbose = False
    for token in _TOKEN.finditer(expression):
        text, at = token[0], token.start()
        if token["count"]:
            has_counts = True
            count = max(int(token["count"].lstrip("0")[:9] or "0"), 1)
            sizes[-1] += last * (count - 1)
            last *= count
        elif text == ")" and len(sizes) > 1:
            last = sizes.pop()
            sizes[-1] += last
        elif text == "{":
            raise re.error("{ begins a count, such as {2} or {0,5}: write \\{ for the character", expression, at)
        elif text.startswith("[") and _CLASS_NAME.search(text, 1):
            raise re.error("[ within a class of characters: write \\[ for the character", expression, at)
        elif not text.startswith("(?#"):
            is_verbose = is_verbose or text.startswith("(?")
            if text.startswith("("):
                sizes.append(0)
            sizes[-1], last = sizes[-1] + 1, 1
        if len(sizes) > _DEEPEST:
            raise re.error(f"an expression has at most {_DEEPEST} nested groups", expression, at)
        if max(last, *sizes) > _MOST_UNROLLED:
            raise re.error("it has too many counted repetitions: write * or + instead", expression, at)
    if is_verbose and has_counts:
        raise re.error("counted repetitions cannot be combined with the flag x")
    return sum(sizes)
