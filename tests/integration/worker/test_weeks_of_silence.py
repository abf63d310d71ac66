"""Sinks whose topics were quiet for longer than the broker keeps the offsets of groups without members.

A minute stands for the weeks. It passes while the other tests of this folder run, which is why this file comes last.
"""

from __future__ import annotations

import time

from airflow_provider_connect.model.run import RunState
from tests.integration.worker.conftest import QuietSinks
from tests.integration.worker.scene import eventually, send
from tests.integration.worker.test_runs import text


def test_forgotten_groups_get_nothing_twice_and_miss_nothing(quiet_sinks: QuietSinks) -> None:
    """Exactly and at least once, from the beginning and from the end; the first two run before there is anything new, the others after."""
    begun = time.monotonic()
    eventually(lambda: not any(scene.group_offsets() for scene in quiet_sinks.scenes.values()), 180)
    print(f"waited {time.monotonic() - begun:.0f} s until the broker had forgotten the groups")
    for reset in ("earliest", "latest"):
        scene = quiet_sinks.scenes[reset, "exactly_once"]
        assert scene.readiness().state == "work"
        result = scene.run()
        assert (result.state, result.tasks[0].records) == (RunState.DONE, 0)
        assert scene.readiness().state == "no-work"
        assert {p.partition: known.offset for p, known in scene.group_offsets().items()} == {0: 50, 1: 50}
    send(quiet_sinks.bootstrap, quiet_sinks.topic, text(10, 100), partitions=2)
    for (reset, _), scene in quiet_sinks.scenes.items():
        assert scene.run().state is RunState.DONE
        assert sorted(scene.lines()) == sorted(text(110) if reset == "earliest" else text(10, 100))
