"""The steps of verbs at which their process is killed. A step is a method of the product, before or after it."""

from __future__ import annotations

from dataclasses import dataclass

_PACKAGE = "airflow_provider_connect"
_KEEPER, _CHANGE = f"{_PACKAGE}.runtime.herder.offsets:OffsetKeeper", f"{_PACKAGE}.runtime.stores.offset_change:OffsetChange"
_OWNER, _LAUNCHER = (
    f"{_PACKAGE}.runtime.stores.transactional_producer:TransactionalProducer",
    f"{_PACKAGE}.api_server.launcher:AirflowLauncher",
)
_CONNECTORS, _LIFECYCLE = f"{_PACKAGE}.runtime.herder.connectors:ConnectorConfigs", f"{_PACKAGE}.runtime.herder.lifecycle:Lifecycle"


@dataclass(frozen=True, slots=True)
class Step:
    """``method`` is ``module:Class.method``; ``when`` is before or after."""

    method: str
    when: str

    def __str__(self) -> str:
        return f"{self.when} {self.method.rpartition(':')[2]}"


_PATCH_SOURCE = (
    f"{_KEEPER}._fence",
    f"{_KEEPER}._claim_no_tasks",
    f"{_CHANGE}.take_over",
    f"{_OWNER}.send",
    f"{_CHANGE}._flush",
    f"{_KEEPER}._check",
    f"{_OWNER}.commit",
)
_PATCH_SINK = (
    f"{_KEEPER}._claim_no_tasks",
    f"{_CHANGE}._flush",
    f"{_OWNER}.commit",
    f"{_PACKAGE}.runtime.stores.group_offsets:GroupOffsets.delete",
)
_DELETE = (
    f"{_CONNECTORS}.delete",
    f"{_LIFECYCLE}.deleted",
    f"{_LAUNCHER}.end",
    f"{_PACKAGE}.runtime.herder.statuses:StatusKeeper.remove",
    f"{_LAUNCHER}.forget",
)
STEPS = {
    verb: [Step(method, when) for method in methods for when in ("before", "after")]
    for verb, methods in {"PATCH offsets of a source": _PATCH_SOURCE, "PATCH offsets of a sink": _PATCH_SINK, "DELETE": _DELETE}.items()
}
ALL_STEPS = sorted({step.method for steps in STEPS.values() for step in steps})
