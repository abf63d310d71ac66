"""How long the mirror keeps history, as the option asks."""

from contextlib import nullcontext
from typing import Any

import pytest

from airflow_provider_connect.api_server import mirror
from airflow_provider_connect.api_server.mirror import Mirror, history_days
from airflow_provider_connect.errors import ConfigException


@pytest.mark.parametrize(("text", "days"), [(None, None), ("365", 365.0), ("0.5", 0.5)])
def test_history_is_kept_so_many_days(text: str | None, days: float | None) -> None:
    assert history_days(text) == days


@pytest.mark.parametrize("text", ["a year", "0", "-1", "inf", "nan"])
def test_what_is_no_number_of_days_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigException, match="mirror_history_days"):
        history_days(text)


class Steps:
    """A follower that always holds the lease."""

    def __init__(self) -> None:
        self.count = 0

    def step(self, wait_seconds: float) -> bool:
        self.count += 1
        return True


def test_old_history_is_deleted_part_by_part_between_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    steps, are_left, at_steps = Steps(), [True, True, False], list[int]()

    def forget(session: object, before_ms: int) -> bool:
        at_steps.append(steps.count)
        return are_left.pop(0)

    def follower(*_: object, **__: object) -> Steps:
        return steps

    monkeypatch.setattr(mirror, "MirrorFollower", follower)
    monkeypatch.setattr(mirror, "create_session", nullcontext)
    monkeypatch.setattr(mirror, "own_option", {"mirror_history_days": "30"}.get)
    monkeypatch.setattr(mirror, "forget_history", forget)
    settings: Any = object()
    filled = Mirror(lambda: settings, holder="one", hide=lambda config, _: config)
    for _ in range(6):
        assert filled.step() == 0.0
    assert at_steps == [1, 2, 3]  # then not before an hour has passed
