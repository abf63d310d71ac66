"""Settings of DeltaSink, and which of them go together. Knows nothing of deltalake."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from airflow_provider_connect.connectors.lake.lake_sink import retries_key, upsert_key
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, ListOf, Type
from airflow_provider_connect.sdk.required_packages import RequiredPackages

PACKAGES: Final = RequiredPackages("DeltaSink", ("deltalake",), "lake")
PATH: Final = "delta.table.path"
AUTO_CREATE, EVOLVE = "delta.table.auto-create-enabled", "delta.table.evolve-schema-enabled"
UPSERT, ID_COLUMNS, PARTITION_BY = "delta.table.upsert-mode-enabled", "delta.table.id-columns", "delta.table.partition-by"

CONFIG_DEF = ConfigDef(
    ConfigKey(
        PATH, importance=Importance.HIGH, group="Table", doc="The table's folder, below the allowed paths. The folder above it must exist."
    ),
    ConfigKey(
        AUTO_CREATE, Type.BOOLEAN, False, group="Table", doc="Whether a missing table is created, from the schema of its first records."
    ),
    ConfigKey(EVOLVE, Type.BOOLEAN, False, group="Table", doc="Whether the table gets the columns that records have and it lacks."),
    ConfigKey(PARTITION_BY, Type.LIST, "", validator=ListOf(unique=True), group="Table", doc="The partition columns of a new table."),
    upsert_key(UPSERT),
    ConfigKey(ID_COLUMNS, Type.LIST, "", validator=ListOf(unique=True), group="Writes", doc="The columns that identify a row."),
    retries_key("another writer was faster, or the store was not reached"),
)


@dataclass(frozen=True, slots=True)
class DeltaSettings:
    """The parsed settings. ``folder`` is the table's, without links."""

    folder: str
    auto_create: bool
    evolve: bool
    is_upsert: bool
    id_columns: tuple[str, ...]
    partition_by: tuple[str, ...]

    @classmethod
    def of(cls, config: Config, allowed: AllowedPaths) -> DeltaSettings:
        """Raises ConfigException for a path outside of the allowed folders, and for settings that do not go together."""
        for mistake in mistakes(config, allowed):
            raise mistake
        columns = tuple(config[ID_COLUMNS]), tuple(config[PARTITION_BY])
        return cls(allowed.resolved(PATH, config[PATH]), config[AUTO_CREATE], config[EVOLVE], config[UPSERT], *columns)


def mistakes(config: Config, allowed: AllowedPaths) -> Iterator[ConfigException]:
    """One exception for each setting that is wrong by itself or beside the others, and for packages that are not installed."""
    yield from PACKAGES.mistakes(PATH, config[PATH])
    if urlsplit(config[PATH]).scheme:
        yield ConfigException.of(PATH, config[PATH], "Delta tables lie in local folders. Give the path of a folder.")
    else:
        try:
            allowed.resolved(PATH, config[PATH])
        except ConfigException as error:
            yield error
    if config[UPSERT] and not config[ID_COLUMNS]:
        yield ConfigException.of(ID_COLUMNS, "", f"{UPSERT}=true needs the columns that identify a row. Set them.")
