"""Whether a run still has the connector that it claimed."""

from airflow_provider_connect.errors import FencedException
from airflow_provider_connect.model.cluster_state import ClusterConfigState
from airflow_provider_connect.model.run import Claim


def need_newest(state: ClusterConfigState, connector: str, claim: Claim) -> None:
    """Raise FencedException when another run has claimed the connector since."""
    newest = state.claims.get(connector)
    if newest != claim:
        raise FencedException(f"claim {claim} of {connector} is no longer the newest, {newest} is")
