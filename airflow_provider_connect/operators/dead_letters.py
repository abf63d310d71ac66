"""An operator that replays a sink's dead-letter records, in a cluster of this package (docs/dead-letters.md)."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_connect.client.conditions import Condition, ReplayEnds
from airflow_provider_connect.errors import NotFoundException
from airflow_provider_connect.operators.verb import ConnectVerbOperator
from airflow_provider_connect.runtime.model.replays import ReplayRequest
from airflow_provider_connect.runtime.model.states import State

if TYPE_CHECKING:
    from airflow_provider_connect.hooks.connect import ConnectHook


class ReplayDeadLettersOperator(ConnectVerbOperator):
    """Writes dead-letter records of the sink ``connector`` back to the topics on which they failed, or to ``topic``.

    No record is replayed twice. A run of the connector ``«connector»-replay`` writes the records. Three parameters select them: ``offsets``
    has entries such as ``0:5-20``, ``from_topics`` has the topics on which records failed, and ``exceptions`` has class names, in full or
    their last part. Without these parameters, all records are replayed.

    ``edits`` has new keys and values by ``PARTITION:OFFSET``. ``transforms`` has settings as in a connector's config. Each task instance is
    one replay, which a retry continues. Returns the request: ``{"connector": …, "replay": …, "until": […]}``.
    """

    template_fields: ClassVar[Sequence[str]] = (*ConnectVerbOperator.template_fields, "offsets", "from_topics", "exceptions", "topic")

    def __init__(
        self,
        *,
        offsets: Sequence[str] = (),
        from_topics: Sequence[str] = (),
        exceptions: Sequence[str] = (),
        topic: str | None = None,
        edits: Mapping[str, Mapping[str, str | None]] | None = None,
        transforms: Mapping[str, str] | None = None,
        timeout_seconds: float = 3600.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(timeout_seconds=timeout_seconds, **kwargs)
        self.offsets, self.from_topics, self.exceptions, self.topic = list(offsets), list(from_topics), list(exceptions), topic
        self.edits, self.transforms = dict(edits or {}), dict(transforms or {})
        self._replay: str | None = None

    def execute(self, context: Any) -> Any:
        ti = context["ti"]
        self._replay = f"{ti.dag_id}/{ti.run_id}/{ti.task_id}/{-1 if ti.map_index is None else ti.map_index}"
        return super().execute(context)

    def act(self, hook: "ConnectHook") -> dict[str, Any]:
        found = self._failed_replay(hook)
        if found is not None:
            hook.restart_connector(found, include_tasks=True)
        selected = (self.offsets, self.from_topics, self.exceptions)
        asked = ReplayRequest(*selected, self.topic, self.edits, self.transforms, self._replay)
        requested = hook.replay_dead_letters(self.connector, asked)
        return {"connector": requested.connector, "replay": requested.replay, "until": list(requested.until)}

    def after(self, result: Mapping[str, Any]) -> Condition:
        return ReplayEnds(self.connector, result["replay"])

    def _failed_replay(self, hook: "ConnectHook") -> str | None:
        """The connector of this replay, if an earlier try has left it FAILED."""
        try:
            known = hook.dead_letter_replay(self.connector)
        except NotFoundException:
            return None
        return known.connector if known.replay == self._replay and known.state == State.FAILED and not known.is_done else None
