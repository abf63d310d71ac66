"""Parses Java ``.properties`` files. Knows no key.

Kafka Connect reads files as ISO-8859-1, and editors write UTF-8. So a file is read as UTF-8, or as ISO-8859-1 if it is not UTF-8.
"""

import re
from collections.abc import Iterator

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_SEPARATOR = re.compile(r"(?<!\\)(?:\\\\)*(?P<end>[ \t\f]*[=:][ \t\f]*|[ \t\f]+)")


def parse_properties(content: str | bytes) -> dict[str, str]:
    """The keys and values of a file, by the rules of ``java.util.Properties``. If keys are equal, the last one counts.

    Raises ValueError, as Java does, for a ``\\u`` without four hexadecimal digits.
    """
    return dict(_pair(line) for line in _logical_lines(content if isinstance(content, str) else _decoded(content)))


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("iso-8859-1")


def _logical_lines(text: str) -> Iterator[str]:
    """The lines, with continuations joined, without comments and blank lines. Only CR and LF end a line, as in Java."""
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
    """Replaces escapes. The two halves of a surrogate pair become one character, as in Java's text. A single half stays."""
    found = _ESCAPE.sub(lambda found: _character(found[1]), text)
    return found.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _character(escape: str) -> str:
    if escape == "u":
        raise ValueError("Malformed \\uxxxx encoding.")
    return chr(int(escape[1:], 16)) if len(escape) > 1 else _ESCAPES.get(escape, escape)
