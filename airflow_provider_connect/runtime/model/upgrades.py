"""An upgrade of a connector to another version of its plugin, as plain values: the state of the upgrade, and the version that runs use.

An upgrade is on the config topic, like the connector's config. So every process sees the upgrade, and one transaction can change both. The
config changes only after the new version has succeeded in a run.
"""

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.runtime.model.run import Claim

if TYPE_CHECKING:  # every Airflow task reads upgrades, but few of them have a comparison
    from airflow_provider_connect.runtime.model.preview_comparison import Comparison

VERSION_KEY = "connector.plugin.version"
CLASS_KEY = "connector.class"


class UpgradeState(StrEnum):
    REQUESTED = "REQUESTED"  # the next run compares the versions first; runs use the old version
    HELD = "HELD"  # the comparison found differences that prevent the upgrade; runs use the old version
    TRIAL = "TRIAL"  # the comparison found no such differences; the first run with the new version is due, or running
    DONE = "DONE"  # the first run with the new version succeeded; runs use the requested version
    ROLLED_BACK = "ROLLED_BACK"  # the first run with the new version failed; runs use the old version


@dataclass(frozen=True, slots=True)
class Upgrade:
    """``to`` is the requested range. ``new`` is the exact version to which the range resolved. ``old`` is the previous exact version.
    ``named`` and ``class_name`` are version and class in the config at the time of the request. The upgrade does not apply to a config with
    another version or class.

    ``claim`` is the claim of the run that tries the new version. None: no such run has started. ``passed`` are the tasks that have
    succeeded in that run. ``is_replanned``: whether the old version has planned the tasks again after a failure. ``comparison`` is a
    Comparison as JSON. Times are epoch ms.
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
        """Whether a run still has to compare or try the versions."""
        return self.state in (UpgradeState.REQUESTED, UpgradeState.TRIAL)

    def concerns(self, config: Mapping[str, str]) -> bool:
        """Whether the upgrade applies to this config: version and class are the same as at the request."""
        return config.get(VERSION_KEY) == self.named and config.get(CLASS_KEY) == self.class_name

    def version(self, *, is_trying: bool = True) -> str:
        """The version, or range, that runs use now. Without ``is_trying``, an untried new version is not returned."""
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
        """Raises KeyError, TypeError or ValueError for values of another form. Ignores unknown keys."""
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
    """The version or range that an upgrade sets for a connector with this config. None: the config decides."""
    return None if upgrade is None or not upgrade.concerns(config) else upgrade.version(is_trying=is_trying)


def evaluate(upgrade: Upgrade, comparison: "Comparison") -> Upgrade:
    """The upgrade after a comparison of the two versions: TRIAL or HELD. It stays REQUESTED if there was nothing to compare."""
    seen = dataclasses.replace(upgrade, comparison=comparison.to_json())
    if not comparison.has_seen_enough:
        return dataclasses.replace(seen, reason="the source had no record for a comparison of the versions; the next run compares again")
    hindrances = comparison.blockers(accept_schema_change=upgrade.accepts_schema_change)
    if not hindrances:
        return dataclasses.replace(seen, state=UpgradeState.TRIAL, reason="")
    reason = f"version {upgrade.new} is not like {upgrade.old}: {'; '.join(map(str, hindrances))}"
    return dataclasses.replace(seen, state=UpgradeState.HELD, reason=reason)


def hold(upgrade: Upgrade, reason: str) -> Upgrade:
    """The upgrade if the new version could not be compared: HELD."""
    return dataclasses.replace(upgrade, state=UpgradeState.HELD, reason=reason)


def begin_trial(upgrade: Upgrade, claim: Claim) -> Upgrade:
    """The upgrade when a run starts to use the new version."""
    return dataclasses.replace(upgrade, claim=claim, passed=())


def roll_back(upgrade: Upgrade, reason: str) -> Upgrade:
    """The upgrade after a failed trial."""
    return dataclasses.replace(upgrade, state=UpgradeState.ROLLED_BACK, reason=reason, is_replanned=False)


def pass_tasks(upgrade: Upgrade, tasks: Collection[int], of: int) -> Upgrade:
    """The upgrade after ``tasks`` succeeded in the trial. It is DONE once all ``of`` tasks have succeeded."""
    together = tuple(sorted({*upgrade.passed, *tasks}))
    state = UpgradeState.DONE if set(together) >= set(range(of)) else upgrade.state
    return dataclasses.replace(upgrade, passed=together, state=state)


def postpone(upgrade: Upgrade) -> Upgrade:
    """The upgrade after a trial that ended without a result. The next run is another trial."""
    return dataclasses.replace(upgrade, claim=None, passed=())
