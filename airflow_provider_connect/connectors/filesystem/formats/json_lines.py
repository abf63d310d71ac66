"""``json``: one JSON value per line, written as JsonConverter without schemas would, and read without a schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final, NoReturn

from airflow_provider_connect.codecs.json.reader import LETTER_OUTSIDE_STRINGS, NotPlain, check_documents, json_column
from airflow_provider_connect.codecs.json.values import JsonRules, write_value
from airflow_provider_connect.codecs.json.writer import column_text
from airflow_provider_connect.connectors.filesystem.formats.content import NONE, content_encoding, encoding_of_mark
from airflow_provider_connect.connectors.filesystem.formats.contract import NonClosingFile, Piece, Split, check_codec, unreadable_error
from airflow_provider_connect.connectors.filesystem.formats.text import EXTENSIONS, TextWriter, byte_splits, read_texts
from airflow_provider_connect.connectors.text_encoding import ENCODING, UTF_8
from airflow_provider_connect.data.arrow import pa, pc
from airflow_provider_connect.data.arrow_schema import schema_of
from airflow_provider_connect.data.columns import cast_to_schema, is_json
from airflow_provider_connect.data.expansion import MOST_FAULTS, is_wrong_format, limit_faults, wrong_format
from airflow_provider_connect.data.json_text import MAX_DEPTH, SHORTEST_BEYOND, depth_of, may_have_long_number
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import ConfigException, DataException

DECIMAL_FORMAT, REPLACE_NULL = "json.decimal.format", "json.replace.null.with.default"
_LINES_AT_ONCE: Final = 10_000
_MARK: Final = b"\xef\xbb\xbf"  # some programs write this mark at the start of a file


class JsonLines:
    """Lines of JSON. ``json.decimal.format`` is BASE64 or NUMERIC. With ``json.replace.null.with.default``, as in JsonConverter, the
    default of a field is written instead of null. Blank lines are ignored."""

    def __init__(self, codec: str | None, options: Mapping[str, str]) -> None:
        self._codec = check_codec(codec, [*EXTENSIONS], NONE)
        self._read_codec = None if codec is None else self._codec
        decimals = options.get(DECIMAL_FORMAT, "BASE64").upper()
        if decimals not in ("BASE64", "NUMERIC"):
            raise ConfigException.of(DECIMAL_FORMAT, decimals, "Decimals are written as BASE64 or NUMERIC.")
        fills = options.get(REPLACE_NULL, "true").lower()
        if fills not in ("true", "false"):
            raise ConfigException.of(REPLACE_NULL, fills, "Set true or false.")
        self._rules = JsonRules(is_numeric=decimals == "NUMERIC", fills_defaults=fills == "true")
        self._encoding = content_encoding(options.get(ENCODING, UTF_8))

    @property
    def extension(self) -> str:
        return f".json{EXTENSIONS[self._codec]}"

    def accepts(self, schema: Schema | None, arrow_type: pa.DataType) -> None:
        """Accepts all values."""

    def writer(self, file: BinaryIO, schema: Schema | None, arrow_type: pa.DataType) -> JsonWriter:
        return JsonWriter(file, self._codec, schema, self._rules)

    def read(self, file: BinaryIO, split: Split | None) -> Iterator[Piece]:
        kept, lines = NonClosingFile(file), _Lines()
        try:
            for texts in read_texts(kept, self._read_codec, b"\n", split, self._encoding):
                if isinstance(texts, DataException):
                    yield texts
                else:
                    yield from lines.pieces(texts)
        except (pa.ArrowException, OSError, DataException) as error:
            yield unreadable_error(kept, error)

    def splits(self, file: BinaryIO, size: int, wanted_bytes: int) -> list[Split]:
        """One split for encodings other than UTF-8, because a byte range could start within a character."""
        file.seek(0)
        _, encoding = encoding_of_mark(file.read(4)) or (b"", self._encoding)
        return byte_splits(file, size, wanted_bytes if encoding == UTF_8 else size, self._read_codec)


class JsonWriter(TextWriter):
    """Writes values as lines; null is ``null``."""

    def __init__(self, file: BinaryIO, codec: str, schema: Schema | None, rules: JsonRules) -> None:
        super().__init__(file, codec, b"\n")
        self._schema = schema
        self._rules = rules

    def write(self, values: pa.Array) -> None:
        self.write_texts(_texts(values, self._schema, self._rules))


def _texts(values: pa.Array, schema: Schema | None, rules: JsonRules) -> pa.Array:
    if schema is not None:
        return column_text(schema, cast_to_schema(values, schema), rules)
    if is_json(values.type):
        texts = _quote_non_finite(values.storage.fill_null("null"), rules)
        is_broken = pc.any(pc.match_substring_regex(texts, "[\\r\\n]")).as_py()  # line breaks between tokens are white space
        return pc.replace_substring_regex(texts, "[\\r\\n]", " ") if is_broken else texts
    if pa.types.is_null(values.type):
        return pa.array(["null"] * len(values), pa.string())
    found = schema_of(pa.field("value", values.type))
    return column_text(found, cast_to_schema(values, found), rules)


def _quote_non_finite(texts: pa.Array, rules: JsonRules) -> pa.Array:
    """JSON texts in which infinities and NaN are quoted as in JsonConverter. Python writes them without quotes."""
    is_odd = pc.match_substring_regex(texts, LETTER_OUTSIDE_STRINGS)
    if not pc.any(is_odd).as_py():
        return texts
    quoted = [write_value(None, json.loads(text), rules) for text in texts.filter(is_odd).to_pylist()]
    return pc.replace_with_mask(texts, is_odd, pa.array(quoted, texts.type))


class _Lines:
    """Reads lines as JSON, and counts valid and invalid ones."""

    def __init__(self) -> None:
        self._good = self._bad = 0

    def pieces(self, lines: pa.Array) -> Iterator[Piece]:
        """Lines (binary, no nulls) as JSON texts. If some lines are invalid, the valid lines are one column, followed by an exception for
        each invalid line. Raises DataException if nearly all lines are invalid."""
        texts = lines.filter(pc.greater(pc.binary_length(lines), 0))
        if not len(texts):
            return
        try:
            check_documents(texts)
            self._good += len(texts)
            yield json_column(texts), None
        except NotPlain:
            yield from self._check_lines(texts)

    def _check_lines(self, lines: pa.Array) -> Iterator[Piece]:
        good, faults, before = list[bytes](), list[DataException](), self._bad
        for line in _values(lines):
            text = line.removeprefix(_MARK)
            try:
                if text.strip():
                    _check(text)
                    good.append(text)
            except (ValueError, RecursionError) as error:
                self._bad += 1
                if len(faults) < MOST_FAULTS:
                    faults.append(DataException(f"The line {text[:100]!r} is not one JSON value: {error}"))
                if is_wrong_format(self._bad, self._good + len(good)):
                    break
        self._good += len(good)
        if good:
            yield json_column(pa.array(good, pa.binary())), None
        yield from limit_faults(faults, self._bad - before)
        if is_wrong_format(self._bad, self._good):
            raise wrong_format(self._bad, self._good)


def _values(lines: pa.Array) -> Iterator[bytes]:
    for start in range(0, len(lines), _LINES_AT_ONCE):
        yield from lines.slice(start, _LINES_AT_ONCE).to_pylist()


def _check(text: bytes) -> None:
    """Raise ValueError or RecursionError unless the text is one JSON value within the limits of JsonConverter."""
    if may_have_long_number(text):
        raise ValueError("It may have a number of more than 1,000 digits")
    json.loads(text.decode(), parse_constant=_refuse_constant)
    if len(text) >= SHORTEST_BEYOND and depth_of(text) > MAX_DEPTH:
        raise ValueError(f"It nests more than {MAX_DEPTH} objects and arrays")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
