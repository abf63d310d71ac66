"""Which settings hold secrets, found by their names, and what is shown instead."""

import re
from collections.abc import Iterator

HIDDEN = "[hidden]"
"""Shown instead of a secret."""

SHORTEST = 4
"""Shorter values cannot be hidden in texts: they would blot out ordinary words."""

_NAME = re.compile(
    r"password|passwd|passphrase|pwd|secret|token|credential|private[._-]?key|keystore[._-]?key|api[._-]?key|access[._-]?key|user[._-]?info|authorization|jaas",
    re.IGNORECASE,
)


def is_secret_key(key: str) -> bool:
    """Whether a setting named ``key`` holds a secret; rather too often than too seldom."""
    return _NAME.search(key) is not None


def is_variable(text: str) -> bool:
    """Whether ``text`` consists of variables, ``${…}``, and white space alone: such a text names its secrets and holds none."""
    at, rest = 0, text.strip()
    while at < len(rest):
        end = rest.find("}", at) if rest.startswith("${", at) else -1
        if end < 0 or rest.find(":", at, end) < 0:
            return False
        at = end + 1
        while at < len(rest) and rest[at].isspace():
            at += 1
    return bool(rest)


def variable_spans(text: str) -> Iterator[tuple[int, int]]:
    """Where variables, ``${provider:path:key}``, begin and end: Kafka Connect's pattern, found in one pass whatever the text."""
    start = text.find("${")
    while start >= 0 and (end := text.find("}", start)) >= 0:
        if text.find(":", start, end) >= 0:
            yield start, end + 1
        start = text.find("${", end)
