"""The path of a request, read as it was sent, so that a connector's name may hold any character. Knows no routes.

Frameworks decode the whole path before they split it, so ``a%2Fb`` would be two segments. Here it is split first. The canonical form that
the routes see has every segment percent-encoded, no slash at its end, and no matrix parameters (``;…``), which Kafka Connect drops too.
"""

import re
from collections.abc import Iterable
from urllib.parse import quote, unquote_to_bytes

from airflow_provider_connect.rest.answers import HttpException

MOST_BYTES = 8192
_NOT_ENCODED = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_LEFT_AS_IS = "/;:@!$&'()*+,=~"


def canonical_path(sent: bytes, prefixes: Iterable[str] = ()) -> str:
    """The canonical form of the path ``sent``, below whichever of ``prefixes`` it begins with.

    Raises HttpException: 414 when it is too long, 400 when a segment is empty, leads up the tree, or does not decode to text.
    """
    if len(sent) > MOST_BYTES:
        raise HttpException(414, f"The path is {len(sent)} bytes long, and no more than {MOST_BYTES} are read")
    for prefix in prefixes:
        below = sent.removeprefix(quote(prefix).encode())
        if below != sent and below[:1] in (b"", b"/"):
            sent = below
            break
    segments = sent.split(b"/")[1:]
    if segments[-1:] == [b""]:
        segments.pop()
    return "/" + "/".join(quote(_text(segment.partition(b";")[0]), safe="") for segment in segments)


def _text(segment: bytes) -> str:
    if not segment:
        raise HttpException(400, "The path has an empty segment: remove the slash that is too many")
    if _NOT_ENCODED.search(segment):
        raise HttpException(400, "The path has a % that two hexadecimal digits do not follow: write %25 for the character itself")
    try:
        text = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise HttpException(400, "The path is not UTF-8 once its % are decoded") from None
    if _CONTROL.search(text):
        raise HttpException(400, "The path has a control character")
    if text in (".", ".."):
        raise HttpException(404 if segment == text.encode() else 400)
    return text


def location_segment(name: str) -> str:
    """``name`` as it stands in a Location header: what a path may hold is left as it is, as Kafka Connect leaves it."""
    return quote(name, safe=_LEFT_AS_IS)
