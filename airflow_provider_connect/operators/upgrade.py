"""An operator that moves a connector to another version of its plugin, in a cluster of this package (docs/upgrades.md)."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_connect.client.conditions import Condition, UpgradeSucceeds
from airflow_provider_connect.errors import NotFoundException
from airflow_provider_connect.operators.verb import ConnectVerbOperator
from airflow_provider_connect.runtime.model.upgrades import UpgradeState

if TYPE_CHECKING:
    from airflow_provider_connect.hooks.connect import ConnectHook

_REQUESTED_STATES = (UpgradeState.REQUESTED, UpgradeState.TRIAL, UpgradeState.DONE)


class UpgradeConnectorOperator(ConnectVerbOperator):
    """Requests an upgrade to the version or range ``to``, and waits until a run has succeeded with it. Returns ``{"old": …, "new": …}``.

    The task fails if the upgrade is held or rolled back. The connector's own runs perform the upgrade, so ``timeout_seconds`` must cover
    the next one or two runs. ``canary`` and ``accept_schema_change`` are the options of ``airflow connect upgrade``.
    """

    template_fields: ClassVar[Sequence[str]] = (*ConnectVerbOperator.template_fields, "to")

    def __init__(self, *, to: str, canary: int = 100, accept_schema_change: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.to, self.canary, self.accept_schema_change = to, canary, accept_schema_change

    def act(self, hook: "ConnectHook") -> dict[str, str]:
        try:
            known = hook.upgrade(self.connector)
        except NotFoundException:
            known = None
        if known is None or known.to != self.to or known.state not in _REQUESTED_STATES:
            known = hook.request_upgrade(self.connector, self.to, canary=self.canary, accept_schema_change=self.accept_schema_change)
        return {"old": known.old, "new": known.new}

    def after(self, result: object) -> Condition:
        return UpgradeSucceeds(self.connector)
