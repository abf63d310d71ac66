"""The report of ``airflow connect import`` on many connectors: one page, grouped by the next step, in the order of work."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from airflow_provider_connect.runtime.plugins.catalog.next_step import StepKind, step_of

FEW: Final = 20
"""Up to this number of connectors, each has a line."""
_MOST, _WIDTH = 8, 110
_MOST_NAMES: Final = 20
_NO_EFFECT: Final = re.compile(r"The setting ('[^']*') has no effect here: (.*)", re.DOTALL)
_OF_VALUE: Final = re.compile(r"Invalid value .*? for configuration \S+: (.*)", re.DOTALL)
_NO_PLUGIN: Final = "Failed to find any class that implements Connector"


@dataclass(slots=True)
class ImportCandidate:
    """A connector to import. ``errors`` are the server's reasons to refuse the connector's config, each with the key of the setting.
    Without errors, the connector can run on this server."""

    name: str
    class_name: str
    errors: Sequence[str] = ()
    warnings: Sequence[str] = field(default_factory=list)


def page(found: Sequence[ImportCandidate], command: str, *, is_live: bool) -> str:
    """The connectors by the next step: (1) ready to run, (2) plugins to install, (3) archives to download, (4) other classes, (5) settings,
    (6) connectors that cannot be moved. ``command`` lists one connector. ``is_live``: it calls a running Kafka Connect, which has
    offsets."""
    runs = [each for each in found if not each.errors]
    by_kind: dict[StepKind | None, list[ImportCandidate]] = {}
    for each in found:
        if each.errors:
            by_kind.setdefault(_kind(each), []).append(each)
    lines = [f"{len(runs)} of {len(found)} connectors run here as they are, {len(found) - len(runs)} need a step first."]
    sections = [
        _running(runs, command, is_live=is_live),
        _installed(by_kind.get(StepKind.INSTALL, ())),
        _downloaded(by_kind.get(StepKind.DOWNLOAD, ())),
        _renamed(by_kind.get(StepKind.CLASS, ())),
        _changed(by_kind.get(None, ())),
        _staying(by_kind.get(StepKind.STAY, ())),
    ]
    for number, section in enumerate(filter(None, map(list, sections)), 1):
        lines += ["", f"{number}. {section[0]}", *section[1:]]
    warnings = _warnings(runs)
    if warnings:
        lines += ["", "Warnings of those that run:", *_counted(warnings)]
    return "\n".join([*lines, "", f"{command} prints the complete reason for one connector, -o json for all."])


def _kind(candidate: ImportCandidate) -> StepKind | None:
    """The kind of the next step. None: a setting."""
    if not any(_NO_PLUGIN in error for error in candidate.errors):
        return None
    step = step_of(candidate.class_name)
    return StepKind.DOWNLOAD if step is None else step.kind


def _running(runs: Sequence[ImportCandidate], command: str, *, is_live: bool) -> Iterator[str]:
    if runs:
        what = "Take over those that run" if is_live else "Create those that run, STOPPED and without offsets"
        yield f"{what} ({len(runs)}): {command} {'--handover' if is_live else '--create'}"
        yield _names(each.name for each in runs)


def _installed(found: Sequence[ImportCandidate]) -> Iterator[str]:
    if found:
        wanted = Counter(_what(each) for each in found)
        yield f"Install plugins of Maven's central repository ({len(found)} connectors):"
        yield f"   airflow connect plugins install {' '.join(wanted)}"


def _downloaded(found: Sequence[ImportCandidate]) -> Iterator[str]:
    if found:
        yield f"Download plugins from Confluent Hub, www.confluent.io/hub/NAME, or from their makers ({len(found)} connectors), then"
        yield "   airflow connect plugins install FILE.zip …"
        yield _names(_times(Counter(_what(each) for each in found)))


def _renamed(found: Sequence[ImportCandidate]) -> Iterator[str]:
    if found:
        yield f"Set another class, such as that outside of Confluent Cloud ({len(found)} connectors):"
        yield _names(_times(Counter(each.class_name for each in found)))


def _changed(found: Sequence[ImportCandidate]) -> Iterator[str]:
    if found:
        yield f"Change settings ({len(found)} connectors):"
        reasons = Counter(reason for each in found for reason in dict.fromkeys(map(_reason, each.errors)))
        yield from _counted(reasons.most_common())


def _staying(found: Sequence[ImportCandidate]) -> Iterator[str]:
    if found:
        yield f"Leave in their cluster ({len(found)} connectors):"
        classes: dict[str, Counter[str]] = {}
        for each in found:
            classes.setdefault(_what(each), Counter())[each.class_name.rpartition(".")[2]] += 1
        for reason, names in classes.items():
            yield _wrapped(f"{', '.join(_times(names))}: {reason}", lines=3)


def _what(candidate: ImportCandidate) -> str:
    step = step_of(candidate.class_name)
    return candidate.class_name if step is None else step.what


def _reason(error: str) -> str:
    """``error`` without the invalid value, so that equal errors of many connectors are counted together."""
    key, colon, rest = error.partition(": ")
    match = _OF_VALUE.fullmatch(rest if colon else error) or _OF_VALUE.fullmatch(error)
    return error if match is None else f"{key}: {match[1]}" if colon and match[0] == rest else match[1]


def _warnings(runs: Iterable[ImportCandidate]) -> list[tuple[str, int]]:
    """Warnings with their number of connectors. Settings with the same advice are one warning."""
    settings: dict[str, dict[str, set[str]]] = {}
    for each in runs:
        for warning in each.warnings:
            named = _NO_EFFECT.fullmatch(warning)
            setting, advice = (named[1], named[2]) if named is not None else ("", warning)
            settings.setdefault(advice, {}).setdefault(setting, set()).add(each.name)
    counted = [
        (f"{', '.join(found)}: {advice}" if "" not in found else advice, len(set[str]().union(*found.values())))
        for advice, found in settings.items()
    ]
    return sorted(counted, key=lambda each: -each[1])


def _times(counts: Counter[str]) -> Iterator[str]:
    return (name if count == 1 else f"{name} ({count})" for name, count in counts.most_common())


def _names(texts: Iterable[str]) -> str:
    given = list(texts)
    more = f" and {len(given) - _MOST_NAMES} more" if len(given) > _MOST_NAMES else ""
    return _wrapped(", ".join(given[:_MOST_NAMES]) + more, lines=12)


def _counted(counts: Sequence[tuple[str, int]]) -> list[str]:
    lines = [_wrapped(f"{count} × {text}") for text, count in counts[:_MOST]]
    return lines if len(counts) <= _MOST else [*lines, f"   and {len(counts) - _MOST} more"]


def _wrapped(text: str, *, lines: int = 2) -> str:
    short = textwrap.shorten(text, lines * _WIDTH - 20, placeholder=" …")
    return textwrap.fill(short, _WIDTH, initial_indent="   ", subsequent_indent="     ", break_long_words=False, break_on_hyphens=False)
