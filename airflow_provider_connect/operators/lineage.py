"""Lineage of a run for Airflow's OpenLineage provider: the operator's methods that it calls, and its client's classes.

The provider is an extra (``openlineage``). Its listener calls these methods in the task's process or in a fork, and only if a transport is
configured. Without the provider, they are never called, and none of its modules is imported.
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
"""Our own facet of a run, with the ranges of offsets that the run has delivered."""
_log = logging.getLogger(__name__)


class HasLineage:
    """An operator that reports the datasets that its run has read and written. A failure to report is logged and does not fail the run."""

    connector: str
    _lineage: "partial[RunLineage] | None" = None

    def note_lineage(self, result: RunResult, bootstrap_servers: str, *, is_source: bool) -> None:
        """Keep the run's result until the listener asks."""
        self._lineage = partial(run_lineage, result, bootstrap_servers, is_source=is_source)

    def get_openlineage_facets_on_start(self) -> "OperatorLineage | None":
        """Nothing is known before the config is read and checked, so the event has only Airflow's own facets."""
        return self._facets()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> "OperatorLineage | None":
        """The datasets that the run has read and written; None without work. Any: Airflow's task instance."""
        return self._facets()

    def get_openlineage_facets_on_failure(self, task_instance: Any) -> "OperatorLineage | None":
        """The datasets of the tasks that did not fail."""
        return self._facets()

    def _facets(self) -> "OperatorLineage | None":
        try:
            from airflow.providers.openlineage.extractors import OperatorLineage

            if self._lineage is None:
                return OperatorLineage()
            found = self._lineage()
            return OperatorLineage(
                inputs=event_datasets(found.inputs),
                outputs=event_datasets(found.outputs),
                run_facets={FACET: delivery_facet(found.delivery)},
            )
        except Exception as error:  # a foreign package, in any version
            _log.warning("Connector %s: its lineage could not be reported: %s: %s", self.connector, type(error).__name__, error)
            return None


def event_datasets(datasets: Sequence[NamedDataset]) -> "list[Dataset]":
    """The datasets with OpenLineage's classes, and with their columns if these are known."""
    from openlineage.client.event_v2 import Dataset
    from openlineage.client.facet_v2 import schema_dataset

    def field(each: FieldJson) -> Any:
        inner = [field(one) for one in each.get("fields", ())]
        return schema_dataset.SchemaDatasetFacetFields(name=each["name"], type=each["type"], fields=inner)

    def facets(each: NamedDataset) -> dict[str, Any]:
        return {"schema": schema_dataset.SchemaDatasetFacet(fields=[field(one) for one in each.fields])} if each.fields else {}

    return [Dataset(namespace=each.namespace, name=each.name, facets=facets(each)) for each in datasets]


def delivery_facet(delivery: dict[str, Any]) -> Any:
    """The facet ``FACET`` of a run. Any: of OpenLineage's type."""
    from openlineage.client.facet_v2 import RunFacet

    return RunFacet().with_additional_properties(**delivery)
