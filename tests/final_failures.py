"""Failures that no second try excuses: records that a test has counted as lost or doubled, and secrets that it has seen."""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable

_SHOWN = 20


class FinalFailure(AssertionError):
    """``tests.suite`` never repeats a test that has failed with it."""


class LostRecords(FinalFailure):
    """Records that were sent are missing at the destination."""


class DoubledRecords(FinalFailure):
    """Records are at the destination more often than the guarantee allows."""


class ShownSecrets(FinalFailure):
    """Secrets are where their readers may not read them."""


def expect_each_once(arrived: Iterable[Hashable], sent: Iterable[Hashable]) -> None:
    """Raises LostRecords or DoubledRecords unless the same records have arrived that were sent, as often."""
    here, there = Counter(sent), Counter(arrived)
    if lost := list((here - there).elements()):
        raise LostRecords(f"{len(lost)} of {here.total()} records: {lost[:_SHOWN]}")
    if doubled := list((there - here).elements()):
        raise DoubledRecords(f"{len(doubled)} more than {here.total()} records: {doubled[:_SHOWN]}")


def expect_hidden(shown: Collection[str]) -> None:
    """``shown`` names the secrets, or each with where it was seen. Raises ShownSecrets unless it is empty."""
    if shown:
        raise ShownSecrets("; ".join(sorted(shown)))
