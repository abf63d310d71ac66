"""Tests given to processes of xdist in whole groups, so that the servers of a group start once."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController


class GroupScheduling(LoadScopeScheduling):
    """Gives each process whole groups of tests, in the order of the collection. ``group`` returns the group of a test by its name.

    ``--dist loadgroup`` adds a group to the name of a test, which pytest 9.2 ignores without a word: then every test is a group of its own.
    """

    def __init__(self, config: pytest.Config, log: Producer, group: Callable[[str], str]) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False
        self._group = group

    def _split_scope(self, nodeid: str) -> str:
        return self._group(nodeid)

    def remove_node(self, node: WorkerController) -> str | None:
        """A test that ended its process has failed, and the rest of its group runs in another process.

        xdist starts such a test again, in each new process (pytest-xdist #1371).
        """
        left = {group: tests for group, tests in self.assigned_work[node].items() if not all(tests.values())}
        crashed = next((test for tests in left.values() for test, is_done in tests.items() if not is_done), None)
        if crashed is not None:
            left[self._group(crashed)][crashed] = True
        self.assigned_work[node] = {group: tests for group, tests in left.items() if not all(tests.values())}
        super().remove_node(node)
        return crashed

    def _assign_work_unit(self, node: WorkerController) -> None:
        """xdist begins the last test of a process when it knows the next one: a process with one test would wait for the others' end."""
        super()._assign_work_unit(node)
        if self.workqueue and self._pending_of(self.assigned_work[node]) < 2:
            self._assign_work_unit(node)
