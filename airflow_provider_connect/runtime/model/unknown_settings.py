"""Settings that nothing reads: warnings, with the nearest name that something does. Kafka Connect accepts such settings silently."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from typing import Final

from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.foreign_settings import foreign_setting


def unknown_settings(given: Iterable[str], known: Collection[str]) -> list[str]:
    """A warning for each setting that nothing reads, with the nearest that something does. Kafka Connect accepts such settings silently.

    The settings of the DAG, of clients and of new topics are left out: they have checks of their own.
    """
    names = sorted(name for name in given if name not in known and not name.startswith(_CHECKED_ELSEWHERE))
    texts = [_unknown(name, known, given) for name in names[:_MOST_UNKNOWN]]
    return texts if len(names) <= _MOST_UNKNOWN else [*texts, f"and {len(names) - _MOST_UNKNOWN} more unknown settings"]


def _unknown(name: str, known: Collection[str], given: Iterable[str]) -> str:
    shown = cut(name, _LONGEST_NAME)
    converter = next((key for key in _CONVERTERS if name.startswith(f"{key}.") and key not in given), None)
    if converter is not None:
        return f"The setting {shown!r} is not used: without {converter!r} the worker's converter applies, with the worker's settings"
    advice = foreign_setting(name)
    if advice is not None:
        return f"The setting {shown!r} has no effect here: {advice}"
    prefix = next(iter(_OF_PLUGIN.findall(name)), "")
    of_plugin = [key.removeprefix(prefix) for key in known if key.startswith(prefix)] if prefix else []
    near = _nearest_setting(name.removeprefix(prefix), of_plugin) if of_plugin else _nearest_setting(name, known)
    near = near and f"{prefix if of_plugin else ''}{near}"
    return f"{_UNKNOWN} {shown!r}: " + ("nothing reads it" if near is None else f"did you mean {near!r}?")


def misspellings(errors: Iterable[str], warnings: Iterable[str]) -> list[str]:
    """The unknown settings among ``warnings`` if one of ``errors`` is a missing setting: one of them may be its misspelt name."""
    if not any(error.startswith(_MISSING) for error in errors):
        return []
    return [warning for warning in warnings if warning.startswith(_UNKNOWN)]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name most like ``name``; None: no name is like it. Takes up to a millisecond."""
    return next(iter(difflib.get_close_matches(cut(name, _LONGEST_NAME), sorted(known), n=1)), None)


def _nearest_setting(name: str, known: Iterable[str]) -> str | None:
    """The same, but settings share so many words that a name with points must be more like another, or its end (``schemas.enable``)."""
    whole = sorted((each for each in known if each.endswith(f".{name}")), reverse=True)  # that of the value before that of the key
    if whole:
        return whole[0]
    near = nearest(name, known)
    alike = difflib.SequenceMatcher(None, near, name).ratio() if near is not None else 0.0
    return near if alike >= _ALIKE or "." not in name else None


_UNKNOWN: Final = "Unknown setting"
_MISSING: Final = ("Missing required configuration ", "Must configure one of ")
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_OF_PLUGIN: Final = re.compile(r"^(?:(?:transforms|predicates)\.[^.]+|(?:key|value|header)\.converter)\.")
_CHECKED_ELSEWHERE: Final = ("airflow.", "topic.creation.", *(f"{client}.override." for client in ("producer", "consumer", "admin")))
_MOST_UNKNOWN, _LONGEST_NAME = 20, 100
_ALIKE: Final = 0.76
