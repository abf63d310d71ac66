"""Which metrics and labels a PromQL expression names. Enough of its grammar for the expressions of docs/grafana."""

import re
from collections.abc import Iterator

_TOKEN = re.compile(
    r"""(?P<text>"(?:[^"\\]|\\.)*")|(?P<range>\[[^\]]*\])|(?P<word>[a-zA-Z_:][\w:]*)|(?P<number>[\d.]+)|(?P<sign>=~|!~|!=|==|>=|<=|[-+*/%^(){},=<>])|\s+"""
)
_GROUPING = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right"})
_OPERATORS = frozenset({"and", "or", "unless", "bool", "offset"})


def named(expression: str) -> list[tuple[str, frozenset[str]]]:
    """Each metric with the labels of its selector, then ``""`` with those of all groupings. Raises ValueError for what cannot be read."""
    tokens = list(_tokens(expression))
    found, grouped, depth = [], set[str](), 0
    position = 0
    while position < len(tokens):
        kind, text = tokens[position]
        following = tokens[position + 1][1] if position + 1 < len(tokens) else ""
        depth += (text == "(") - (text == ")")
        if depth < 0:
            raise ValueError(f"a ) too many in {expression}")
        position += 1
        if text in _GROUPING:
            end = tokens.index(("sign", ")"), position)
            grouped |= {word for what, word in tokens[position:end] if what == "word"}
            position = end + 1
        elif kind == "word" and following not in {"(", *_GROUPING} and text not in _OPERATORS:  # not a function, not an aggregation
            labels = frozenset[str]()
            if following == "{":
                end = tokens.index(("sign", "}"), position)
                labels = frozenset(word for what, word in tokens[position:end] if what == "word")
                position = end + 1
            found.append((text, labels))
    if depth:
        raise ValueError(f"a ( too many in {expression}")
    return [*found, ("", frozenset(grouped))]


def _tokens(expression: str) -> Iterator[tuple[str, str]]:
    position = 0
    while position < len(expression):
        match = _TOKEN.match(expression, position)
        if match is None:
            raise ValueError(f"not PromQL at character {position}: {expression}")
        position = match.end()
        if match.lastgroup is not None:
            yield match.lastgroup, match.group()
