"""Encodings of text files, by the setting ``encoding``. Knows nothing of files and lines."""

from __future__ import annotations

import codecs
from typing import Final

from airflow_provider_connect.errors import ConfigException

ENCODING: Final = "encoding"
UTF_8: Final = "utf-8"
WIDE_ENCODINGS: Final = {"utf-16": 2, "utf-16-le": 2, "utf-16-be": 2, "utf-32": 4, "utf-32-le": 4, "utf-32-be": 4}
"""Encodings whose line feed has more than one byte, with the number of bytes."""
_OTHERS: Final = frozenset({UTF_8, "ascii", "big5", "euc_jp", "euc_kr", "gb18030", "gbk", "koi8-r", "koi8-u", "mac-roman", "shift_jis"})
"""In encodings with several bytes per character, no byte of such a character equals a line feed."""
_FAMILIES: Final = ("iso8859-", "cp125", "cp437", "cp85")


def encoding_name(given: str) -> str:
    """Python's name of the encoding, without the suffix ``-sig`` (byte-order mark). Raises ConfigException for an unsupported encoding."""
    try:
        name = codecs.lookup(given.strip()).name.removesuffix("-sig")
    except (LookupError, ValueError):
        name = ""
    if name not in WIDE_ENCODINGS and name not in _OTHERS and not name.startswith(_FAMILIES):
        reason = "Not an encoding of text files. Set utf-8, utf-16, iso-8859-1 (latin-1), windows-1252 or another."
        raise ConfigException.of(ENCODING, given[:100], reason)
    return name
