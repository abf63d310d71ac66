"""The steps of a commit, in order, for each direction and guarantee. Fault tests end or freeze a process before or after a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Final

from airflow_provider_connect.runtime.model.connector_settings import Guarantee
from airflow_provider_connect.sdk.task import CommitStep

__all__ = ["SINK_STEPS", "SOURCE_STEPS", "CommitStep", "StepHook", "unobserved"]

SOURCE_STEPS: Final[Mapping[str, tuple[CommitStep, ...]]] = MappingProxyType(
    {
        Guarantee.EXACTLY_ONCE: (
            CommitStep.WRITE_RECORDS,
            CommitStep.WRITE_OFFSETS,
            CommitStep.COMMIT_TRANSACTION,
            CommitStep.NOTIFY_TASK,
        ),
        Guarantee.AT_LEAST_ONCE: (
            CommitStep.WRITE_RECORDS,
            CommitStep.ACKNOWLEDGE_RECORDS,
            CommitStep.COMMIT_OFFSETS,
            CommitStep.NOTIFY_TASK,
        ),
        Guarantee.AT_MOST_ONCE: (CommitStep.COMMIT_OFFSETS, CommitStep.WRITE_RECORDS),
    }
)
SINK_STEPS: Final[Mapping[str, tuple[CommitStep, ...]]] = MappingProxyType(
    {
        Guarantee.EXACTLY_ONCE: (CommitStep.PUT, CommitStep.PRE_COMMIT, CommitStep.COMMIT_GROUP),
        Guarantee.AT_LEAST_ONCE: (CommitStep.PUT, CommitStep.PRE_COMMIT, CommitStep.COMMIT_GROUP),
        Guarantee.AT_MOST_ONCE: (CommitStep.COMMIT_GROUP, CommitStep.PUT),
    }
)

StepHook = Callable[[CommitStep], AbstractContextManager[None]]
_NOTHING = nullcontext()


def unobserved(_: CommitStep) -> AbstractContextManager[None]:
    """The hook in production. It does nothing around a step."""
    return _NOTHING
