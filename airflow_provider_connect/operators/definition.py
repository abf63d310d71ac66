"""The config or mark that an operator passes from a connector's DAG file to the serialized DAG and to the task.

Each is in its own attribute of the serialized DAG. It is not in a template field, in ``params`` or in XCom, because Airflow shows rendered
templates, and shows ``params`` when a run is triggered. Variables such as ``${airflow:shop:password}`` are not resolved there.
"""

import json
from collections.abc import Mapping
from typing import Any

from airflow_provider_connect.runtime.config.dag_settings import DEFINED_IN

ATTRIBUTE = "connector_definition"
MARK = "dag_mark"
CONNECTOR = "connector"


class DefinesConnector:
    """A mixin for the operators of a connector's DAG.

    If a DAG file defines the connector, the first operator has ``connector_definition``, the config as JSON. Otherwise it has ``dag_mark``,
    the keys from which the DAG of a stored connector was created.
    """

    connector: str
    connector_definition: str | None = None
    dag_mark: str | None = None
    dag: Any

    @classmethod
    def get_serialized_fields(cls) -> frozenset[str]:
        """The attributes of the serialized DAG. Called by Airflow."""
        fields: frozenset[str] = super().get_serialized_fields()  # type: ignore[misc]  # the operator's, which stands behind this class
        return fields | {ATTRIBUTE, MARK, CONNECTOR}

    def definition(self) -> dict[str, str] | None:
        """The config as the config topic has it, with the name and the defining file. None: the connector is defined elsewhere."""
        if self.connector_definition is None:
            return None
        return stored_config(self.connector, json.loads(self.connector_definition), defined_in(self.dag))

    def is_outdated(self, config: Mapping[str, str], key: str) -> bool:
        """Whether ``config``, which is in force, has another value of ``key`` than the config or mark from which the DAG was created. Then
        Airflow has not parsed the DAG again yet. False for an operator in a DAG of the user's own."""
        text = self.connector_definition or self.dag_mark
        return text is not None and json.loads(text).get(key) != config.get(key)


def definition_text(config: Mapping[str, str]) -> str:
    """``config`` as an operator has it: the same text for the same config in any order."""
    return json.dumps(dict(config), sort_keys=True)


def stored_config(connector: str, config: Mapping[str, str], file: str) -> dict[str, str]:
    """``config`` as it is written to the config topic when the DAG ``file`` defines the connector."""
    return {**config, "name": connector, DEFINED_IN: file}


def defined_in(dag: Any) -> str:
    """The DAG's file, relative to its bundle."""
    return str(dag.relative_fileloc or dag.fileloc)
