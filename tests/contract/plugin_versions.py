"""The plugin versions of the recordings' profile ``versions``, as locations of a ``plugin.path``: built-in classes under older versions.

Built-ins play the newest version of each; the older ones differ where Kafka's did.
"""

from __future__ import annotations

from pathlib import Path

from airflow_provider_connect import __version__
from tests.unit.plugins.locations import tree

V_OLD, V_MID, J_OLD, J_MID = "0.0.1", "0.0.2", "0.0.3", "0.0.4"
PLACEHOLDERS = {"{v_old}": V_OLD, "{v_mid}": V_MID, "{v_new}": __version__, "{j_old}": J_OLD, "{j_mid}": J_MID, "{j_new}": __version__}

_FILE = """\
from airflow_provider_connect.connectors.file_sink import FileStreamSinkConnector
from airflow_provider_connect.connectors.file_source import FileStreamSourceConnector
"""
_FILE_ENTRIES = (
    "source:org.apache.kafka.connect.file.FileStreamSourceConnector = kafka_file:FileStreamSourceConnector",
    "sink:org.apache.kafka.connect.file.FileStreamSinkConnector = kafka_file:FileStreamSinkConnector",
)
_JSON = "from airflow_provider_connect.converters.json.converter import JsonConverter\n"
_OLD_JSON = """\
from airflow_provider_connect.converters.json import converter as json
from airflow_provider_connect.sdk.config_def import ConfigDef


class JsonConverter(json.JsonConverter):
    config_def = ConfigDef(*(key for key in json.JsonConverter.config_def.keys.values() if key.name != "schema.content"))
"""
_JSON_ENTRIES = tuple(
    f"{kind}:org.apache.kafka.connect.json.JsonConverter = kafka_json:JsonConverter" for kind in ("converter", "header_converter")
)
_TRANSFORMS = "from airflow_provider_connect.transforms.routing import RegexRouter\n"
_TRANSFORM_ENTRIES = ("transformation:org.apache.kafka.connect.transforms.RegexRouter = kafka_transforms:RegexRouter",)


def install_versions(plugin_path: Path) -> None:
    """Make the older versions below ``plugin_path``, a location each."""
    for version in (V_OLD, V_MID):
        install(plugin_path, "kafka_file", version, _FILE, _FILE_ENTRIES)
    install(plugin_path, "kafka_json", J_OLD, _OLD_JSON, _JSON_ENTRIES)
    install(plugin_path, "kafka_json", J_MID, _JSON, _JSON_ENTRIES)
    install(plugin_path, "kafka_transforms", J_OLD, _TRANSFORMS, _TRANSFORM_ENTRIES)


def install(plugin_path: Path, module: str, version: str, source: str, entries: tuple[str, ...]) -> Path:
    """One location: a module and its distribution's metadata."""
    return tree(plugin_path / f"{module}-{version}", module, version, {f"{module}.py": source}, *entries)
