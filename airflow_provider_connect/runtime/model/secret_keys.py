"""Finds settings that contain secrets, by their names, and variables in texts."""

import re
from collections.abc import Iterator

HIDDEN = "[hidden]"
"""The text that is shown instead of a secret."""

SHORTEST = 4
"""The minimum length of a secret that is hidden in texts. Hiding shorter secrets would also hide ordinary words."""

_NAME = re.compile(
    r"password|passwd|passphrase|pwd|secret|token|credential|private[._-]?key|keystore[._-]?key|api[._-]?key|access[._-]?key|"
    r"account[._-]?key|user[._-]?info|authorization|jaas",
    re.IGNORECASE,
)


def is_secret_key(key: str) -> bool:
    """Whether a setting named ``key`` may contain a secret. True in case of doubt."""
    return _NAME.search(key) is not None


def is_variable(text: str) -> bool:
    """Whether ``text`` consists only of variables, ``${…}``, and white space. Such a text refers to secrets but contains none."""
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
    """The start and end of each variable, ``${provider:path:key}``: Kafka Connect's pattern, in linear time."""
    start = text.find("${")
    while start >= 0 and (end := text.find("}", start)) >= 0:
        if text.find(":", start, end) >= 0:
            yield start, end + 1
        start = text.find("${", end)
