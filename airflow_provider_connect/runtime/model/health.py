"""The health of a connector: one word beside Kafka Connect's state, and the reason for it as a sentence.

A state says what a connector was asked to do and whether it failed. Its health says whether it delivers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from airflow_provider_connect.data.records import BYTES, RECORDS, Distance
from airflow_provider_connect.errors import reason_of
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.states import State
from airflow_provider_connect.runtime.model.views import ConnectorStatusView, Health, HealthWord, StateView, TaskView

BEHIND_SECONDS: Final = 60.0
"""A connector is behind if what waits would take it longer than this."""
IDLE_SECONDS: Final = 3600.0
"""A connector that has delivered nothing for so long is idle."""
_IN_STATES: Final = (HealthWord.FAILING, HealthWord.WAITING)
_LONGEST_REASON: Final = 300
_MEASURED_SECONDS: Final = 10.0  # a shorter run says little about speed
_USUAL: Final = {RECORDS: 100.0, BYTES: 100_000.0}
"""In each unit, what a connector is taken to deliver in a second while its own speed is not known well."""


@dataclass(frozen=True, slots=True)
class Pace:
    """What a connector has delivered in its last run, in ``seconds``. ``last_ms`` is when it delivered records last, since 1970.
    None: never. ``stays``: its runs do not end when they have read everything, so most of their time is waiting."""

    records: int
    bytes: int
    seconds: float
    last_ms: int | None
    stays: bool = False

    def per_second(self, unit: str) -> float | None:
        """None: its speed is not known in this unit."""
        usual = _USUAL.get(unit)
        if usual is None:
            return None
        delivered = self.records if unit == RECORDS else self.bytes
        known = delivered / self.seconds if self.seconds >= _MEASURED_SECONDS else usual
        return max(known, usual) if self.stays else known


NOTHING_DELIVERED: Final = Pace(0, 0, 0.0, None)


def trouble_in_states(connector: StateView, tasks: Sequence[TaskView]) -> Health | None:
    """The health of a connector that has FAILED, in part or as a whole, or that waits for a slot. None: its states show no trouble."""
    has_failed = State.FAILED in (connector.state, *(task.state for task in tasks))
    if not has_failed and connector.state != State.UNASSIGNED:
        return None
    traces = [connector.trace, *(task.trace for task in tasks)]
    reason = next((cut(reason_of(trace), _LONGEST_REASON) for trace in traces if trace and trace.strip()), None)
    if has_failed:
        return Health(HealthWord.FAILING, reason)
    return Health(HealthWord.WAITING, reason) if reason else None


def health_of(status: ConnectorStatusView | None, left: Distance | None, pace: Pace | None, *, now_ms: float) -> Health | None:
    """``left`` is what waits; ``left`` and ``pace`` None: unknown. Returns None for a connector that is PAUSED or STOPPED, or was just
    created: its state says everything."""
    if status is None:
        return None
    trouble = status.trouble or trouble_in_states(status.connector, status.tasks)
    if status.connector.state == State.RUNNING:
        return trouble or _of_deliveries(left, pace, now_ms)
    return trouble if trouble is not None and trouble.word in _IN_STATES else None


def _of_deliveries(left: Distance | None, pace: Pace | None, now_ms: float) -> Health:
    if pace is None:
        return Health(HealthWord.HEALTHY)
    if pace.last_ms is None:
        return Health(HealthWord.IDLE, "It has delivered nothing yet.")
    silent_seconds = (now_ms - pace.last_ms) / 1000
    if left is not None and left.left > 0:
        speed, waiting = pace.per_second(left.unit), f"{left.left:,} {left.unit} wait"
        if pace.stays and silent_seconds > BEHIND_SECONDS:
            return Health(HealthWord.BEHIND, f"{waiting}, and nothing has been delivered for a minute.")
        if speed is not None and left.left > speed * BEHIND_SECONDS:
            return Health(HealthWord.BEHIND, f"{waiting}: more than it delivers in a minute.")
    return Health(HealthWord.IDLE, "It has delivered nothing for an hour.") if silent_seconds > IDLE_SECONDS else Health(HealthWord.HEALTHY)
