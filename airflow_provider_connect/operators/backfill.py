"""An operator that delivers ranges of a sink's topics again, while the live connector runs (docs/backfills.md)."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_connect.client.conditions import BackfillEnds, Condition
from airflow_provider_connect.errors import AlreadyExistsException, BadRequestException, NotFoundException
from airflow_provider_connect.operators.verb import ConnectVerbOperator
from airflow_provider_connect.runtime.model.backfill import backfill_name
from airflow_provider_connect.runtime.model.backfill_request import AskedRange, BackfillRequest

if TYPE_CHECKING:
    from airflow_provider_connect.hooks.connect import ConnectHook

_FIELDS = ("topic", "partition", "from", "to")
_SHAPE = 'a list of {"topic": …, "partition": …, "from": …, "to": …}, of which each may be left out'
_DIGITS = 16


class BackfillOperator(ConnectVerbOperator):
    """Creates a backfill of a sink's ``ranges``, and waits until they are delivered. Returns the backfill's name.

    Each range is ``{"topic": …, "partition": …, "from": …, "to": …}``. The ends ``from`` and ``to`` (exclusive) are offsets (numbers) or
    instants (ISO 8601 texts with a time zone). An omitted key does not limit the range. ``config`` has the settings that differ from the
    connector's; None removes a setting. For a source, omit ``ranges``, limit the backfill by settings in ``config``, and set
    ``wait=False``.

    The backfill is the connector ``«connector».backfill.«id»``, which has its own DAG. All tries of a task use the same ``id``, so a retry
    waits for the backfill of the first try. With ``delete``, the operator deletes the backfill after the wait.
    """

    template_fields: ClassVar[Sequence[str]] = (*ConnectVerbOperator.template_fields, "ranges", "config")
    template_fields_renderers: ClassVar[dict[str, str]] = {"ranges": "json", "config": "json"}

    def __init__(
        self,
        *,
        ranges: Sequence[Mapping[str, Any]] = (),
        config: Mapping[str, str | None] | None = None,
        delete: bool = False,
        timeout_seconds: float = 86_400.0,
        failure_timeout_seconds: float = 300.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(timeout_seconds=timeout_seconds, failure_timeout_seconds=failure_timeout_seconds, **kwargs)
        self.ranges, self.config, self.delete = ranges, config, delete
        self._backfill_id = ""

    def execute(self, context: Any) -> Any:
        """Called by Airflow. The id is derived from the task instance, so no other task of any run has it."""
        ti = context["ti"]
        identity = "\0".join(map(str, (ti.dag_id, ti.task_id, ti.run_id, ti.map_index)))
        self._backfill_id = hashlib.sha256(identity.encode()).hexdigest()[:_DIGITS]
        return super().execute(context)

    def act(self, hook: "ConnectHook") -> str:
        request = BackfillRequest(parse_ranges(self.ranges), dict(self.config or {}), self._backfill_id)
        if self.wait and not self.ranges and hook.connector_info(self.connector).type == "source":
            raise BadRequestException("When a source's backfill has ended is not known: set wait=False")
        try:
            return hook.create_backfill(self.connector, request).name
        except AlreadyExistsException:
            return backfill_name(self.connector, self._backfill_id)

    def after(self, result: Any) -> Condition:
        return BackfillEnds(self.connector, str(result))

    def _act(self) -> Any:
        return self._delete_if_requested(super()._act())

    def complete(self, context: Any, event: Mapping[str, str], result: Any = None) -> Any:
        """Called by Airflow when the triggerer has waited for the effect."""
        return self._delete_if_requested(super().complete(context, event, result))

    def _delete_if_requested(self, name: str) -> str:
        if self.delete and self.wait:
            with self._hook() as hook:
                try:
                    hook.delete_connector(name)
                except NotFoundException:
                    self.log.info("Backfill %s is gone already", name)
        return name


def parse_ranges(ranges: object) -> list[AskedRange]:
    """Parse ranges as users write them. Raises BadRequestException, which names the invalid entry."""
    if not isinstance(ranges, list | tuple):
        raise BadRequestException(f"ranges must be {_SHAPE}, not {ranges!r}")
    return [_parse_range(number, entry) for number, entry in enumerate(ranges)]


def _parse_range(number: int, entry: object) -> AskedRange:
    if not isinstance(entry, Mapping) or not set(entry) <= set(_FIELDS):
        raise BadRequestException(f"ranges must be {_SHAPE}, but entry {number} is {entry!r}")
    topic, partition, first, end = (entry.get(name) for name in _FIELDS)
    for name, value, kinds in (("topic", topic, str), ("partition", partition, int), ("from", first, (int, str)), ("to", end, (int, str))):
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise BadRequestException(f"{name} of entry {number} of ranges is {value!r}: {_SHAPE}")
    return AskedRange(topic, partition, first, end)
