"""Java regular expressions and replacements in configs.

Java's named groups, quotes and character classes are translated to Python's syntax. Class intersections and Unicode properties are refused.
"""

from __future__ import annotations

import re
from typing import Any, Final

from airflow_provider_connect.data.java_text import regex_error
from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.bounded_regex import LONGEST, BoundedRegex, Match

_JAVAS_OWN: Final = re.compile(
    r"\\Q(?P<quoted>.*?)(?:\\E|$)|\\k<(?P<back>\w+)>|\\[pP]\{(?P<property>\w+)\}|\\.|\(\?<(?P<name>[A-Za-z][A-Za-z0-9]*)>|(?P<bracket>[\[\]]|&&)",
    re.DOTALL,
)
_CLASSES: Final = {
    "Lower": "a-z",
    "Upper": "A-Z",
    "Alpha": "a-zA-Z",
    "Digit": "0-9",
    "Alnum": "a-zA-Z0-9",
    "Punct": re.escape("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"),
    "Space": r"\s",
    "XDigit": "0-9a-fA-F",
    "Blank": r" \t",
    "ASCII": r"\x00-\x7f",
}


def compile_regex(text: str, key: str) -> BoundedRegex:
    """Compile the Java expression of the setting ``key``. Character classes are ASCII, as in Java.

    Raises ``re.error`` for an invalid expression and for unsupported syntax.
    """
    depth = 0

    def translated(match: re.Match[str]) -> str:
        nonlocal depth
        if match["bracket"]:
            if depth and match["bracket"] != "]":
                raise re.error(f"{match['bracket']} within a character class is not supported")
            depth = {"[": 1, "]": 0}.get(match["bracket"], depth)
        if match["quoted"] is not None:
            return re.escape(match["quoted"])
        if match["back"]:
            return f"(?P={match['back']})"
        if match["name"]:
            return f"(?P<{match['name']}>" if not depth else match[0]
        return _class(match["property"], match[0], is_inside=depth > 0) if match["property"] else match[0]

    return BoundedRegex(_JAVAS_OWN.sub(translated, text), key, flags=re.ASCII)


def _class(name: str, written: str, *, is_inside: bool) -> str:
    is_negated = written[1] == "P"
    if name not in _CLASSES or (is_negated and is_inside):
        raise re.error(f"the class {written} is not supported")
    return _CLASSES[name] if is_inside else f"[{'^' if is_negated else ''}{_CLASSES[name]}]"


def check_regex(name: str, value: Any) -> None:
    """A validator: ``value`` must be a regular expression. A missing value is invalid, as in Connect."""
    if value is None:
        raise ConfigException.of(name, "null", "Invalid regex: null")
    try:
        compile_regex(value, name)
    except re.error as error:
        raise ConfigException.of(name, value, f"Invalid regex: {regex_error(value, error)}") from error


class TopicPattern:
    """An expression for the topics of batches. If matching a topic takes too long, its records fail with DataException."""

    def __init__(self, text: str, key: str) -> None:
        self.regex = compile_regex(text, key)

    def matches(self, topic: str) -> bool:
        """Whether the expression matches the whole ``topic``."""
        try:
            return self.regex.matches(topic)
        except ConfigException as error:
            raise DataException(error.message) from error

    def replace_first(self, topic: str, replacement: Replacement) -> str:
        """``topic`` with the first match within it replaced."""
        try:
            match = self.regex.search(topic)
        except ConfigException as error:
            raise DataException(error.message) from error
        return topic if match is None else topic[: match.start()] + replacement(match) + topic[match.end() :]


class Replacement:
    """A replacement as in ``Matcher.replaceFirst``: ``$1`` and ``${name}`` are groups, and a backslash escapes the next character."""

    def __init__(self, name: str, text: str, pattern: BoundedRegex) -> None:
        """Raises ConfigException for the setting ``name`` if ``text`` is invalid, or names a group that ``pattern`` does not have."""
        self._parts: list[str | int] = []
        at = 0
        while at < len(text):
            if text[at] == "\\":
                if at + 1 == len(text):
                    raise ConfigException.of(name, text, "character to be escaped is missing")
                self._parts.append(text[at + 1])
                at += 2
            elif text[at] == "$":
                group, at = _group(name, text, at + 1, pattern)
                self._parts.append(group)
            else:
                self._parts.append(text[at])
                at += 1

    def __call__(self, match: Match) -> str:
        """The text that replaces ``match``. A group that did not match is empty.

        Raises DataException if the text is longer than ``LONGEST``. Text could grow without limit, because a group may occur many times in
        a replacement, and a config may have a hundred routers.
        """
        texts = [part if isinstance(part, str) else match.group(part) or "" for part in self._parts]
        length = sum(map(len, texts))
        if length > LONGEST:
            raise DataException(f"The replacement would have {length} characters; the limit is {LONGEST}")
        return "".join(texts)


def _group(name: str, text: str, at: int, pattern: BoundedRegex) -> tuple[int, int]:
    """The number of the group at ``at``, and the end of its name. A group number takes as many digits as possible, while a group with that
    number exists."""
    if named := re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}").match(text, at):
        if named[1] not in pattern.groupindex:
            raise ConfigException.of(name, text, f"No group with name {{{named[1]}}}")
        return pattern.groupindex[named[1]], named.end()
    if at == len(text) or not text[at].isdecimal():
        raise ConfigException.of(name, text, "Illegal group reference")
    group, end = int(text[at]), at + 1
    if group > pattern.groups:
        raise ConfigException.of(name, text, f"No group {group}")
    while end < len(text) and text[end].isdecimal() and group * 10 + int(text[end]) <= pattern.groups:
        group, end = group * 10 + int(text[end]), end + 1
    return group, end
