"""Masks secrets in texts that people may read: traces, statuses, results, logs."""

from __future__ import annotations

import base64
import json
import logging
import re
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar
from urllib.parse import quote, quote_plus

from airflow_provider_connect.runtime.config import config_providers
from airflow_provider_connect.runtime.config.config_providers import ConfigProvider
from airflow_provider_connect.runtime.config.multi_search import MultiSearch
from airflow_provider_connect.runtime.model.secret_keys import HIDDEN, SHORTEST, is_secret_key, is_variable
from airflow_provider_connect.runtime.model.url_passwords import text_without_url_passwords, url_passwords
from airflow_provider_connect.sdk.config_type import Type

if TYPE_CHECKING:
    from airflow_provider_connect.sdk.config_def import ConfigDef

_QUOTED = re.compile(r"\"([^\"]+)\"|'([^']+)'")
_SHORTEST_LINE = 8
_URL: Final = re.compile(r"https?://[^/?#\s]*(?P<path>/[^?#\s]*)(?P<query>\?[^#\s]*)?(?:#\S*)?")
_WITHIN: Final = (
    re.compile(r"(?:[\w-]+:\s*)?(?:bearer|basic|token|apikey)\s+(\S+)", re.IGNORECASE),
    re.compile(r"[^\s:/{\[]+:(?!//)(\S+)"),
)
"""The secret of an Authorization header, and of ``user:password``."""
_PAIRS: Final = re.compile(r"[;&\s]+")
_FEW = 500
"""Up to this number of spellings, each is searched for separately, which is faster."""
_URL_SAFE = str.maketrans("+/", "-_")
_MOST_NESTED: Final = 200
"""Up to this number of secrets, a spelling within another one is also hidden. A secret with quotes or non-ASCII letters then has ten times
as many spellings."""

_T = TypeVar("_T")
HideSecrets = Callable[[Iterable[str]], None]
"""Receives secrets before any code that knows them may write texts."""


class Mask:
    """Replaces all added secrets, and passwords in URLs, in a text. Safe to share between threads.

    ``process`` also receives the secrets: it masks the output of a process that hosts several connectors. A text about one connector hides
    only its own secrets, because an author could otherwise guess the secrets of others and see whether a guess is hidden.
    """

    def __init__(self, secrets: Iterable[str] = (), *, process: Mask | None = None) -> None:
        self._process = process
        self._secrets: frozenset[str] = frozenset()
        self._replace = _replacing(self._secrets)
        self._replace_in_bytes: Callable[[str], str] | None = None  # created at its first use
        self._adding = threading.Lock()
        self.add(secrets)

    def add(self, secrets: Iterable[str]) -> None:
        secrets = set(secrets)
        if self._process is not None:
            self._process.add(secrets)
        forms = spellings(secrets)
        with self._adding:
            if not forms <= self._secrets:
                self._secrets |= forms
                self._replace, self._replace_in_bytes = _replacing(self._secrets), None

    def __call__(self, text: str) -> str:
        return text_without_url_passwords(self._replace(text))

    def in_bytes(self, data: bytes) -> bytes:
        """``data`` with its secrets in UTF-8 replaced."""
        replace = self._replace_in_bytes
        if replace is None:
            with self._adding:
                replace = _replacing(secret.encode(errors="surrogatepass").decode("latin-1") for secret in self._secrets)
                self._replace_in_bytes = replace
        return replace(data.decode("latin-1")).encode("latin-1")

    def text(self, data: bytes, most: int) -> str:
        """``data`` without secrets: text if it is UTF-8, else ``0x`` and the first ``most`` bytes in hexadecimal. Text is not truncated,
        because a part of a secret could stay visible."""
        hidden = self.in_bytes(data)
        try:
            return self(hidden.decode())
        except UnicodeDecodeError:
            return f"0x{hidden[:most].hex()}"

    def whole(self, value: _T) -> _T:
        """A JSON value with all its texts masked, including field names."""
        return self._whole(value)  # type: ignore[no-any-return]

    def _whole(self, value: Any) -> Any:
        if isinstance(value, str):
            return self(value)
        if isinstance(value, Mapping):
            return {self._whole(name): self._whole(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self._whole(inner) for inner in value]
        return self(str(value)) if isinstance(value, int | float) and str(value) in self._secrets else value


def _replacing(texts: Iterable[str]) -> Callable[[str], str]:
    """A function that replaces each of ``texts`` by ``HIDDEN``."""
    longest_first = sorted(texts, key=len, reverse=True)
    if len(longest_first) > _FEW:
        many = MultiSearch(longest_first, SHORTEST)
        return lambda text: many.replaced(text, HIDDEN)

    def replaced(text: str) -> str:
        for each in longest_first:
            if each in text:
                text = text.replace(each, HIDDEN)
        return text

    return replaced


class MaskedLogs(logging.Filter):
    """A filter for handlers that masks every line with ``mask``."""

    def __init__(self, mask: Mask) -> None:
        super().__init__()
        self._mask = mask

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if record.exc_info:
            trace = logging.Formatter().formatException(record.exc_info)
            if self._mask(trace) != trace:  # compared as text, because formatters such as Airflow's format the exception themselves
                text, record.exc_info, record.exc_text = f"{text}\n{trace}", None, None
        if record.stack_info:
            record.stack_info = self._mask(record.stack_info)
        record.msg, record.args = self._mask(text), ()
        return True


def mask_logs(mask: Mask) -> Callable[[], None]:
    """Masks every line that this process logs with ``mask``, until the returned function is called. Logging must be configured."""
    masked = MaskedLogs(mask)
    handlers = [*(logging.getLogger().handlers or filter(None, [logging.lastResort]))]
    for handler in handlers:
        handler.addFilter(masked)

    def unmask() -> None:
        for handler in handlers:
            handler.removeFilter(masked)

    return unmask


class MaskedStream:
    """A text stream that writes to ``stream``, masked with ``masks``."""

    def __init__(self, stream: TextIO, *masks: Mask) -> None:
        self._stream, self._masks = stream, masks

    def with_mask(self, mask: Mask) -> MaskedStream:
        """The same stream, with one more mask."""
        return MaskedStream(self._stream, *self._masks, mask)

    def write(self, text: str) -> int:
        shown = text
        for mask in self._masks:
            shown = mask(shown)
        self._stream.write(shown)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def mask_output(mask: Mask) -> None:
    """Masks everything that this process logs or prints from now on. For processes that belong to a single run."""
    mask_logs(mask)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        setattr(sys, name, stream.with_mask(mask) if isinstance(stream, MaskedStream) else MaskedStream(stream, mask))
    warnings.showwarning = _masked_warnings(warnings.showwarning, mask)


def _masked_warnings(show: Callable[..., None], mask: Mask) -> Callable[..., None]:
    """Masks warnings. Airflow shows them with a logger that has no handlers of ``logging``."""

    def show_masked(message: Warning | str, *rest: Any, **more: Any) -> None:
        text = mask(str(message))
        show(message if text == str(message) else UserWarning(text), *rest, **more)

    return show_masked


def spellings(secrets: Iterable[str]) -> set[str]:
    """All texts that reveal one of ``secrets``, except those that are too short to hide."""
    given = list(secrets)
    forms = _nested_forms if len(given) <= _MOST_NESTED else _forms
    return {form for secret in given for form in forms(secret) if len(form) >= SHORTEST}


def _forms(secret: str) -> Iterator[str]:
    """The forms of a secret in a text: unchanged, trimmed, its lines, in a Python or JSON literal, in a URL, in base64. Also returns the
    secrets within it."""
    for part in _parts(secret):
        yield from _texts(part)
        yield from _in_base64(part.encode(errors="surrogatepass"))


def _nested_forms(secret: str) -> Iterator[str]:
    """The forms of a secret, and each of these forms in a Python or JSON literal, in a URL or in base64, because records of JSON contain
    such texts. A secret of letters and digits has no further forms."""
    for part in _parts(secret):
        for text in _texts(part):
            data = text.encode(errors="surrogatepass")
            yield from (text, repr(text)[1:-1], quote(data), quote(data, safe=""))
            yield from _in_json(text)
            yield from _in_base64(data)


def _texts(part: str) -> set[str]:
    data = part.encode(errors="surrogatepass")
    quoted = {quote(data), quote(data, safe=""), quote_plus(data)}
    return {part, repr(part)[1:-1], ascii(part)[1:-1], repr(data)[2:-1], *_in_json(part), *quoted, *map(_lower_case_escapes, quoted)}


def _in_json(text: str) -> tuple[str, str]:
    return json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]


def _in_base64(data: bytes) -> Iterator[str]:
    """The base64 of ``data`` within longer data. There are three texts, because the base64 depends on the number of preceding bytes."""
    for before in range(3):
        whole = base64.b64encode(b"\0" * before + data).decode()
        inner = whole[-(-8 * before // 6) : 8 * (before + len(data)) // 6]
        yield inner
        yield inner.translate(_URL_SAFE)
    yield from (base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode())


def _parts(secret: str) -> set[str]:
    lines = {line.strip() for line in secret.splitlines() if len(line.strip()) >= _SHORTEST_LINE}
    parts = {secret, secret.strip(), *lines, *url_passwords(secret), *_of_json(secret), *_of_url(secret), *_of_pairs(secret)}
    parts.update(found[1] for pattern in _WITHIN if (found := pattern.fullmatch(secret.strip())))
    return parts


def _lower_case_escapes(quoted: str) -> str:
    first, *rest = quoted.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])


def _of_json(secret: str) -> set[str]:
    """Secrets in JSON, such as the extra of an Airflow Connection: texts of fields that are named like secrets, and those of a list."""
    if not secret.lstrip().startswith(("{", "[")):
        return set()
    try:
        value = json.loads(secret)
        return set(_secret_texts(value, is_secret=isinstance(value, list)))
    except (ValueError, RecursionError):
        return set()


def _secret_texts(value: Any, *, is_secret: bool) -> Iterator[str]:
    if isinstance(value, str) and is_secret:
        yield value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _secret_texts(inner, is_secret=is_secret_key(name))
    elif isinstance(value, list):
        for inner in value:
            yield from _secret_texts(inner, is_secret=is_secret)


def _of_pairs(secret: str) -> set[str]:
    """The values of a connection string whose names are names of secrets."""
    without_spaces = "=".join(part.strip() for part in secret.split("="))
    pairs = (pair.partition("=") for pair in _PAIRS.split(without_spaces))
    return {value for name, _, value in pairs if value and is_secret_key(name)}


def _of_url(secret: str) -> set[str]:
    """The path of a secret URL, as HTTP clients write it in errors, with and without the query."""
    found = _URL.fullmatch(secret.strip())
    paths = (found["path"], found["path"] + (found["query"] or "")) if found else ()
    return {path for path in paths if len(path) >= _SHORTEST_LINE}


def secret_values(config: Mapping[str, str], providers: Mapping[str, ConfigProvider], secrets: Mapping[str, str]) -> set[str]:
    """The secrets in ``config``: the values of its variables, unless the worker declares them public; the values of keys that are named
    like secrets; passwords in URLs.

    Raises ConfigException if a provider's file cannot be read, or for a variable that the connector may not read.
    """
    values = config_providers.variable_values(config, providers, secrets)
    return config_providers.hidden_values(config, providers, values) | config_secrets(config)


def password_values(definition: ConfigDef, config: Mapping[str, str]) -> set[str]:
    """The values of the settings of type PASSWORD, in a resolved config."""
    keys = (key.name for key in definition.keys.values() if key.type is Type.PASSWORD)
    return {text for key in keys if (text := config.get(key))}


def config_secrets(config: Mapping[str, str | None]) -> set[str]:
    """The secrets in ``config`` itself, found by names of keys and in URLs."""
    found: set[str] = set()
    for key, text in config.items():
        if not text:
            continue
        found |= set(url_passwords(text))
        if is_secret_key(key) and not is_variable(text):  # a variable may be shown as written
            found |= {text, *(part for parts in _QUOTED.findall(text) for part in parts if part)}
    return found
