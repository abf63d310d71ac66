"""The formats of files, by name: ``file_format``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from airflow_provider_connect.connectors.filesystem.formats.avro import Avro
from airflow_provider_connect.connectors.filesystem.formats.bytes_format import RawBytes
from airflow_provider_connect.connectors.filesystem.formats.contract import FORMAT, FileFormat, FileWriter, Piece, Split
from airflow_provider_connect.connectors.filesystem.formats.csv import Csv
from airflow_provider_connect.connectors.filesystem.formats.json_lines import JsonLines
from airflow_provider_connect.connectors.filesystem.formats.orc import Orc
from airflow_provider_connect.connectors.filesystem.formats.parquet import Parquet
from airflow_provider_connect.connectors.filesystem.formats.text import EXTENSIONS
from airflow_provider_connect.errors import ConfigException

__all__ = ["FORMAT", "FORMATS", "FileFormat", "FileWriter", "Piece", "Split", "codec_of", "file_format"]

FORMATS: Final[Mapping[str, Callable[[str | None, Mapping[str, str]], FileFormat]]] = {
    "json": JsonLines,
    "csv": Csv,
    "parquet": Parquet,
    "avro": Avro,
    "orc": Orc,
    "bytes": RawBytes,
}
"""Each is called with a codec name (None: the default to write; to read text, the files' first bytes decide), and with all settings of a
connector, including settings of other formats."""
TEXTS: Final = ("json", "csv", "bytes")
"""The formats that are compressed as a whole."""


def file_format(name: str, compression: str | None, options: Mapping[str, str]) -> FileFormat:
    """The format ``name`` with a codec. None means the format's default codec.

    ``options`` may be all settings of a connector. Raises ConfigException for an unknown name or codec and for invalid options.
    """
    create = FORMATS.get(name.lower())
    if create is None:
        raise ConfigException.of(FORMAT, name, f"The supported formats are {', '.join(FORMATS)}.")
    return create(compression, options)


def codec_of(name: str, path: str) -> str | None:
    """The codec of a text file by the path's extension, in lower or upper case. None if the content of the file shows it."""
    if name.lower() not in TEXTS:
        return None
    return next((codec for codec, extension in EXTENSIONS.items() if extension and path.lower().endswith(extension)), None)
