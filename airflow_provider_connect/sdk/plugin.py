"""The attributes of every plugin class: its public name, other names, version and settings."""

from __future__ import annotations

from typing import ClassVar

from airflow_provider_connect.sdk.config_def import ConfigDef
from airflow_provider_connect.sdk.config_type import class_name_of

__all__ = ["Plugin", "class_name_of"]


class Plugin:
    """A connector, converter, transformation or predicate. Created by the framework without arguments, then configured."""

    class_name: ClassVar[str | None] = None
    """The public name, if it is not module and class; our own plugins have Kafka Connect's Java name."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """Further names that a config may use."""
    version: ClassVar[str | None] = None
    """None: the version of the plugin's distribution."""
    config_def: ClassVar[ConfigDef] = ConfigDef()
