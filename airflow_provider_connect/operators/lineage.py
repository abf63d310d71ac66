"""Lineage of a run for Airflow's OpenLineage provider: the methods that it calls on an operator, and its client's classes.

The provider is an extra (``openlineage``). Its listener calls these methods in the task's process, or in a fork of it, and only where a
transport is configured; without it they are never called, and nothing of it is imported.
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_connect.runtime.model.lineage import FieldJson, NamedDataset, RunLineage, run_lineage
from airflow_provider_connect.runtime.model.run import RunResult

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import Dataset

FACET = "connect_delivery"
"""The run's facet of ours, with the ranges of offsets that it has delivered."""
_log = logging.getLogger(__name__)


class HasLineage:
    """An operator that reports what its run has read and written. A failure here is logged, and fails no run."""

    connector: str
    _lineage: "partial[RunLineage] | None" = None

    def note_lineage(self, result: RunResult, bootstrap_servers: str, *, is_source: bool) -> None:
        """Keep what the run has reported until the listener asks."""
        self._lineage = partial(run_lineage, result, bootstrap_servers, is_source=is_source)

    def get_openlineage_facets_on_start(self) -> "OperatorLineage | None":
        """Nothing is known before the config was read and checked: the event has Airflow's own facets alone."""
        return self._facets()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> "OperatorLineage | None":
        """What the run has read and written; nothing if there was nothing to do. Any: Airflow's task instance."""
        return self._facets()

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> "OperatorLineage | None":
        """What those tasks have read and written that did not fail."""
        return self._facets()

    def _facets(self) -> "OperatorLineage | None":
        try:
            from airflow.providers.openlineage.extractors import OperatorLineage

            if self._lineage is None:
                return OperatorLineage()
            found = self._lineage()
            return OperatorLineage(
                inputs=_datasets(found.inputs), outputs=_datasets(found.outputs), run_facets={FACET: _delivery_facet(found.delivery)}
            )
        except Exception as error:  # (a package of others, in any version)
            _log.warning("Connector %s: its lineage could not be reported: %s: %s", self.connector, type(error).__name__, error)
            return None


def _datasets(datasets: Sequence[NamedDataset]) -> "list[Dataset]":
    from openlineage.client.event_v2 import Dataset
    from openlineage.client.facet_v2 import schema_dataset

    def field(each: FieldJson) -> Any:
        inner = [field(one) for one in each.get("fields", ())]
        return schema_dataset.SchemaDatasetFacetFields(name=each["name"], type=each["type"], fields=inner)

    def facets(each: NamedDataset) -> dict[str, Any]:
        return {"schema": schema_dataset.SchemaDatasetFacet(fields=[field(one) for one in each.fields])} if each.fields else {}

    return [Dataset(namespace=each.namespace, name=each.name, facets=facets(each)) for each in datasets]


def _delivery_facet(delivery: dict[str, Any]) -> Any:
    from openlineage.client.facet_v2 import RunFacet

    return RunFacet().with_additional_properties(**delivery)
