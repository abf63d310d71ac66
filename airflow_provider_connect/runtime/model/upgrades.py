"""An upgrade of a connector to another version of its plugin: its state, and the version that holds meanwhile. Plain values.

It lies on the config topic beside the connector's config, so that every process sees it, and one transaction changes both. The config
itself is not touched before the new version has proved itself in a run.
"""

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.runtime.model.run import Claim

if TYPE_CHECKING:  # every Airflow task reads upgrades, and few of them have a comparison
    from airflow_provider_connect.runtime.model.preview_comparison import Comparison

VERSION_KEY = "connector.plugin.version"
CLASS_KEY = "connector.class"


class UpgradeState(StrEnum):
    REQUESTED = "REQUESTED"  # the next run compares the versions first; runs use the old one
    HELD = "HELD"  # the comparison stood in the way; runs use the old version
    TRIAL = "TRIAL"  # nothing stood in the way; the first run with the new version is due, or under way
    DONE = "DONE"  # that run has ended well; runs use what was asked for
    ROLLED_BACK = "ROLLED_BACK"  # it has not; runs use the old version


@dataclass(frozen=True, slots=True)
class Upgrade:
    """``to`` is the range that was asked for, ``new`` the version that it stood for, ``old`` the one before, both exact. ``named`` and
    ``class_name`` are those of the config at the request: an upgrade does not hold for a config with another version or class.

    ``claim`` is the run that tries the new version, None: none has begun. ``passed`` are the tasks of it that have ended well.
    ``is_replanned``: after a failure, whether the tasks were planned anew by the old version. ``comparison`` is a Comparison as
    JSON. Times are epoch ms.
    """

    state: UpgradeState
    to: str
    old: str
    new: str
    class_name: str
    named: str | None = None
    canary: int = 100
    accepts_schema_change: bool = False
    reason: str = ""
    comparison: Mapping[str, Any] | None = None
    claim: Claim | None = None
    passed: tuple[int, ...] = ()
    is_replanned: bool = False
    requested_ms: int = 0
    changed_ms: int = 0

    @property
    def is_open(self) -> bool:
        """Whether runs have still something to do about it."""
        return self.state in (UpgradeState.REQUESTED, UpgradeState.TRIAL)

    def concerns(self, config: Mapping[str, str]) -> bool:
        """Whether it holds for this config, which has the same version and class as at the request."""
        return config.get(VERSION_KEY) == self.named and config.get(CLASS_KEY) == self.class_name

    def version(self, *, is_trying: bool = True) -> str:
        """The version, or range, that runs use as things are; without ``is_trying``, the one that has proved itself."""
        if self.state is UpgradeState.TRIAL and is_trying:
            return self.new
        return self.to if self.state is UpgradeState.DONE else self.old

    def to_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in _PLAIN},
            "state": str(self.state),
            "claim": None if self.claim is None else str(self.claim),
            "passed": list(self.passed),
        }

    @classmethod
    def of_json(cls, values: Mapping[str, Any]) -> "Upgrade":
        """Raises KeyError, TypeError or ValueError for values of another form; unknown keys are left out."""
        plain = {name: values[name] for name in _PLAIN if name in values}
        claim = values.get("claim")
        return cls(
            **plain,
            state=UpgradeState(values["state"]),
            claim=None if claim is None else Claim.parse(claim),
            passed=tuple(map(int, values.get("passed", ()))),
        )


_PLAIN = tuple(each.name for each in dataclasses.fields(Upgrade) if each.name not in ("state", "claim", "passed"))


def version_in_force(upgrade: Upgrade | None, config: Mapping[str, str], *, is_trying: bool = True) -> str | None:
    """The version or range that an upgrade lays down for a connector with this config; None: the config decides."""
    return None if upgrade is None or not upgrade.concerns(config) else upgrade.version(is_trying=is_trying)


def judged(upgrade: Upgrade, comparison: "Comparison") -> Upgrade:
    """The upgrade after a comparison of the two versions: TRIAL or HELD; or REQUESTED still, where there was nothing to compare."""
    seen = dataclasses.replace(upgrade, comparison=comparison.to_json())
    if not comparison.has_seen_enough:
        return dataclasses.replace(seen, reason="the source had no record to compare the versions by; the next run compares again")
    hindrances = comparison.hindrances(accept_schema_change=upgrade.accepts_schema_change)
    if not hindrances:
        return dataclasses.replace(seen, state=UpgradeState.TRIAL, reason="")
    reason = f"version {upgrade.new} is not like {upgrade.old}: {'; '.join(map(str, hindrances))}"
    return dataclasses.replace(seen, state=UpgradeState.HELD, reason=reason)


def refused(upgrade: Upgrade, reason: str) -> Upgrade:
    """The new version could not even be compared."""
    return dataclasses.replace(upgrade, state=UpgradeState.HELD, reason=reason)


def tried(upgrade: Upgrade, claim: Claim) -> Upgrade:
    """A run begins to use the new version."""
    return dataclasses.replace(upgrade, claim=claim, passed=())


def rolled_back(upgrade: Upgrade, reason: str) -> Upgrade:
    """The trial has failed."""
    return dataclasses.replace(upgrade, state=UpgradeState.ROLLED_BACK, reason=reason, is_replanned=False)


def passed(upgrade: Upgrade, tasks: Collection[int], of: int) -> Upgrade:
    """``tasks`` have ended well in the trial, of ``of`` in all: DONE once all have."""
    together = tuple(sorted({*upgrade.passed, *tasks}))
    state = UpgradeState.DONE if set(together) >= set(range(of)) else upgrade.state
    return dataclasses.replace(upgrade, passed=together, state=state)


def postponed(upgrade: Upgrade) -> Upgrade:
    """The trial was ended before it had a result; the next run is one."""
    return dataclasses.replace(upgrade, claim=None, passed=())
