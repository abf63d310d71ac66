"""What an operator carries from the file that makes a connector's DAG to the serialized DAG and to the task: the config, or a mark.

Each lies in an attribute of its own in the serialized DAG: not in a template field (those are shown as rendered templates), not in
``params`` (shown when a run is triggered), not in XCom. Variables such as ``${airflow:shop:password}`` lie there as written.
"""

import json
from collections.abc import Mapping
from typing import Any

from airflow_provider_connect.runtime.config.dag_settings import DEFINED_IN

ATTRIBUTE = "connector_definition"
MARK = "dag_mark"
CONNECTOR = "connector"


class DefinesConnector:
    """Mixed into the operators of a connector's DAG, which carry the connector's name. The first one also carries either
    ``connector_definition``, the config as JSON, when a DAG file defines the connector, or ``dag_mark``, the keys that a stored connector's
    DAG was made of."""

    connector: str
    connector_definition: str | None = None
    dag_mark: str | None = None
    dag: Any

    @classmethod
    def get_serialized_fields(cls) -> frozenset[str]:
        """Called by Airflow: the attributes that go into the serialized DAG."""
        fields: frozenset[str] = super().get_serialized_fields()  # type: ignore[misc]  # the operator's, which stands behind this class
        return fields | {ATTRIBUTE, MARK, CONNECTOR}

    def definition(self) -> dict[str, str] | None:
        """The config as the config topic holds it, with the name and where it is defined; None: the connector is defined elsewhere."""
        if self.connector_definition is None:
            return None
        return stored_config(self.connector, json.loads(self.connector_definition), defined_in(self.dag))


def definition_text(config: Mapping[str, str]) -> str:
    """``config`` as an operator carries it: the same text for the same config, whatever its order."""
    return json.dumps(dict(config), sort_keys=True)


def stored_config(connector: str, config: Mapping[str, str], file: str) -> dict[str, str]:
    """``config`` as it is written to the config topic when the DAG ``file`` defines the connector."""
    return {**config, "name": connector, DEFINED_IN: file}


def defined_in(dag: Any) -> str:
    """The DAG's file, relative to its bundle."""
    return str(dag.relative_fileloc or dag.fileloc)
