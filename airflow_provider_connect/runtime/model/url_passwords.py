"""Finds and hides passwords in URLs. Knows no driver, so it hides any text that a driver may interpret as a password.

Drivers disagree about the characters of a password and about its end. So a setting is read liberally. The user-info of a URL extends to the
last ``@``, and an option extends to the next ``&`` or ``;``, whatever characters it contains. In a text with other words, URLs end at white
space. All functions take time linear in the length of the text.
"""

import re
from collections.abc import Iterator
from urllib.parse import unquote, unquote_plus

from airflow_provider_connect.runtime.model.secret_keys import HIDDEN, is_secret_key, is_variable, variable_spans

Span = tuple[int, int]

_SCHEME = re.compile(r"\w[\w+.-]*+:")
_WORD_END = re.compile(r"[\s\"'<>]|$")
_HOSTS = re.compile(r"(?:\[[0-9A-Fa-f:.]*+\]|[\w.%,-]*+)(?::[0-9]{1,5}+(?:,[\w.%-]*+)?)*+(?=([/;]))")
_PORT_ALONE = re.compile(r"[0-9]{0,5}+[^\w\s]*+$")
_HOST_AND_PATH = re.compile(r"[\w.\-\[\]%,]++(?::[0-9]{1,5}+)?/")
_USER = re.compile(r"[?&;](?:user|user_?name|uid|login)=[^?&;@]*+@[^?&;@]*+(?=[?&;]|$)", re.IGNORECASE)
_OPTION_OF_SETTING = re.compile(r"[?&#]([^?&#=]*+)=([^?&#]*+)")
_OPTION_OF_SEMICOLONS = re.compile(r";([^;=]*+)=")
_OPTION_OF_BRACKETS = re.compile(r"(?<=[(,])\s*+([\w.%-]++)\s*+=")
_OPTION_OF_TEXT = re.compile(r"(?<![^?&#;,\s(\"'{\[])([\w.%+-]++)=")
_VALUE = re.compile(r"(?:[^\s&;\"']|[\"'](?![\s)\]}.:;]|,[\s\"']|$)|;(?!\s|$|[\w.%-]++=))*+")
_VALUE_OF_QUERY = re.compile(r"(?:[^\s&\"']|[\"'](?![\s)\]}.:;]|,[\s\"']|$))*+")
_SINGLE = re.compile(r"'((?:[^'\\]|\\.)++)'(?=[\s&;,)\]}.]|$)", re.DOTALL)
_DOUBLE = re.compile(r"\"((?:[^\"\\]|\\.)++)\"(?=[\s&;,)\]}.]|$)", re.DOTALL)
_ORACLE = re.compile(r"oracle:\w++:(?!@)")
_BEFORE_NAME = re.compile(r"[?&#;,\s(]")
_IN_URLS = ("pass", "passcode", "auth", "sig", "signature", "keyvaultproviderclientkey")


def without_url_passwords(setting: str) -> str:
    """``setting``, the whole value of a setting, with ``[hidden]`` instead of its ``url_passwords``. Variables stay visible."""
    return _without(setting, _of_setting(setting))


def text_without_url_passwords(text: str) -> str:
    """``text``, such as a line of a log, with ``[hidden]`` instead of passwords in URLs and in ``password=…``."""
    return _without(text, _of_text(text))


def url_passwords(setting: str) -> list[str]:
    """The texts that ``without_url_passwords`` hides in ``setting``, both as written and decoded. Also the parts of these texts that a
    stricter reader would use."""
    found: dict[str, None] = {}
    for start, end in _of_setting(setting):
        hidden = setting[start:end]
        if start < end and not is_variable(hidden):
            before, _, after = hidden.partition("@")
            for part in (hidden, hidden.rstrip(), hidden.strip(), hidden.strip("{}'\" "), before if "/" in after else ""):
                found |= dict.fromkeys((part, unquote(part), unquote_plus(part)))
    return [part for part in found if part]


def _without(text: str, spans: list[Span]) -> str:
    parts, at = [], 0
    for start, end in _merged(span for span in spans if span[0] < span[1] and not is_variable(text[slice(*span)])):
        parts += [text[at:start], HIDDEN]
        at = end
    return "".join([*parts, text[at:]])


def _merged(spans: Iterator[Span]) -> list[Span]:
    merged: list[Span] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _of_setting(setting: str) -> list[Span]:
    if "=" not in setting and "@" not in setting:
        return []
    text = _neutral(setting)
    start = len(text) - len(text.lstrip())
    if not _SCHEME.match(text, start) and not setting.startswith("${", start):
        return [*_user_infos(text, False), *_options_of_text(text)]
    options = (*_options_of_text(text), *_options(text), *_options_of_semicolons(text), *_options_of_brackets(text))
    return [*_user_infos(text, True), *_of_oracle(text), *options]


def _of_text(text: str) -> list[Span]:
    if "=" not in text and "@" not in text:
        return []
    text = _neutral(text)
    return [*_user_infos(text, False), *_of_oracle_in_text(text), *_options_of_text(text)]


def _neutral(text: str) -> str:
    """``text`` with each variable (``${provider:path:key}``) replaced by as many letters, because the ``:`` and ``/`` of a variable are
    not part of the URL. A variable that contains ``@``, ``&``, ``=`` or ``?`` stays."""
    parts, at = [], 0
    for start, end in variable_spans(text):
        if start >= at and not any(mark in text[start:end] for mark in "@&=?"):
            parts += [text[at:start], "v" * (end - start)]
            at = end
    return "".join([*parts, text[at:]])


def _user_infos(text: str, is_one: bool) -> Iterator[Span]:
    """``is_one``: the whole text is one URL, or a list of them."""
    start, end = text.find("://"), 0
    while start >= 0:
        if start >= end:
            end = len(text) if is_one else _end_in_text(text, start)
        is_http = text.endswith(("http", "https"), max(0, start - 5), start)
        found = _user_info(text, start, end, is_http)
        if found is not None:
            yield found
        start = text.find("://", start + 3 if is_http and found is None else max(end, start + 3))


def _end_in_text(text: str, start: int) -> int:
    """The end of the URL whose ``://`` is at ``start``: the end of the word, or a later ``@`` that can only belong to a password."""
    tail = start + 3
    word = _WORD_END.search(text, tail)
    end = word.start() if word else len(text)
    limits = [at for at in (text.find("://", end), text.find("\n", end)) if at >= 0]
    limit = min(limits, default=len(text))
    colon = text.find(":", tail, end)
    if colon < 0 or (text.find("@", tail, end) < 0 and _HOSTS.match(text, tail, end)):
        return end
    is_whole = text.find("@", tail, end) >= 0 or _PORT_ALONE.match(text[colon + 1 : end]) is not None
    at = text.rfind("@", end, limit)
    while is_whole and at >= 0 and _HOST_AND_PATH.match(text, at + 1, limit) is None:
        at = text.rfind("@", end, at)
    return end if at < 0 else at + 1


def _user_info(text: str, start: int, end: int, is_http: bool) -> Span | None:
    """The password between the ``://`` at ``start`` and the last ``@``. None: there are only hosts, ports and user names."""
    tail = start + 3
    last = text.rfind("@", tail, end)
    colon = text.find(":", tail, max(last, tail))
    if colon < 0 or (is_http and text.find("/", tail, colon) >= 0):
        return None
    hosts = _HOSTS.match(text, tail, end)
    if hosts is None or (hosts[1] == ";" and not text.endswith("sqlserver", 0, start)):
        return colon + 1, last
    if is_http:
        return None
    path = _USER.sub(lambda found: found[0].replace("@", "_"), text[hosts.end() : end])
    last = path.rfind("@")
    return None if last < 0 else (colon + 1, max(colon + 1, hosts.end() + last))


def _of_oracle(text: str) -> Iterator[Span]:
    last = text.rfind("@")
    if (found := _ORACLE.search(text)) and (slash := text.find("/", found.end(), max(last, 0))) >= 0:
        yield slash + 1, last


def _of_oracle_in_text(text: str) -> Iterator[Span]:
    end = 0
    for found in _ORACLE.finditer(text):
        if found.start() >= end:
            word = _WORD_END.search(text, found.end())
            end = word.start() if word else len(text)
            yield from ((found.start() + a, found.start() + b) for a, b in _of_oracle(text[found.start() : end]))


def _options(text: str) -> Iterator[Span]:
    """Options of a query, each up to the next ``&``, whatever characters precede it."""
    at = 0
    while (found := _OPTION_OF_SETTING.search(text, at)) is not None:
        at = found.end()
        if _is_secret_name(found[1]):
            end = text.find("&", found.start(2))
            at = end if end >= 0 else len(text)
            yield found.start(2), at
        elif _holds_encoded(found[2]):
            yield found.span(2)


def _options_of_semicolons(text: str) -> Iterator[Span]:
    """``;name=value`` and ``;name={value}``, each up to the next ``;`` outside of braces."""
    at = 0
    while (found := _OPTION_OF_SEMICOLONS.search(text, at)) is not None:
        at = found.end()
        if _is_secret_name(found[1]):
            closed = text.find("}", at) if text.startswith("{", at) else at
            end = text.find(";", closed) if closed >= 0 else -1
            end = end if end >= 0 else len(text)
            yield at, end
            at = end


def _options_of_brackets(text: str) -> Iterator[Span]:
    """``(user=…,password=…)`` and ``(user=…)(password=…)``, each option up to its end."""
    found = next((each for each in _OPTION_OF_BRACKETS.finditer(text) if _is_secret_name(each[1])), None)
    if found is not None:
        yield found.end(), len(text)


def _is_secret_name(name: str) -> bool:
    for _ in range(3):  # some readers decode twice
        if "%" not in name:
            break
        name = unquote(name)
    return is_secret_key(name) or _BEFORE_NAME.split(name)[-1].strip().lower() in _IN_URLS


def _holds_encoded(value: str) -> bool:
    """Whether an option's value is an encoded URL, or an encoded list of options, that contains a password."""
    return "%" in value and bool(_of_text(unquote_plus(value)))


def _options_of_text(text: str) -> Iterator[Span]:
    """Options up to white space, or up to the quotation mark or bracket that ends them."""
    at, last_brace = 0, text.rfind("}")
    while (found := _OPTION_OF_TEXT.search(text, at)) is not None:
        at = begun = found.end()
        if not _is_secret_name(found[1]):
            continue
        if quoted := _SINGLE.match(text, at) or _DOUBLE.match(text, at):
            yield quoted.span(1)
            at = quoted.end()
            continue
        if text.startswith("{", at) and at < last_brace:
            at = text.find("}", at)
        at += text.startswith(("'", '"'), at)
        value = (_VALUE_OF_QUERY if text[found.start() - 1 : found.start()] in ("?", "&") else _VALUE).match(text, at)
        at = value.end() if value else at
        yield begun, at
