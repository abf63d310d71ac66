"""The text of a Java ``.properties`` file. Knows nothing of which keys there are."""

import re
from collections.abc import Iterator

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_SEPARATOR = re.compile(r"(?<!\\)(?:\\\\)*(?P<end>[ \t\f]*[=:][ \t\f]*|[ \t\f]+)")


def parse_properties(text: str) -> dict[str, str]:
    """The keys and values of ``text``, by the rules of ``java.util.Properties``; the last of equal keys holds."""
    return dict(_pair(line) for line in _logical_lines(text))


def _logical_lines(text: str) -> Iterator[str]:
    """Lines with continuations joined, without comments and blank lines. Only CR and LF end a line, as in Java."""
    pending = ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield pending + line
        pending = ""
    if pending:
        yield pending


def _pair(line: str) -> tuple[str, str]:
    found = _SEPARATOR.search(line)
    if found is None:
        return _unescaped(line), ""
    return _unescaped(line[: found.start("end")]), _unescaped(line[found.end("end") :])


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda found: _character(found.group(1)), text)


def _character(escape: str) -> str:
    if len(escape) > 1:
        return chr(int(escape[1:], 16))
    return _ESCAPES.get(escape, escape)
