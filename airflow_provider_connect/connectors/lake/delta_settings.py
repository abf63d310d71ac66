"""Settings of DeltaSink and their contradictions. Knows nothing of deltalake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import unquote, urlsplit

from airflow_provider_connect.connectors.bucket_access import (
    ACCESS_KEY,
    S3_KEYS,
    S3_NEEDS_KEYS,
    SECRET_KEY,
    STORE_URL,
    check_s3,
    client_options,
    s3_options,
    without_user,
)
from airflow_provider_connect.connectors.lake.lake_sink import retries_key, upsert_key
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.config_def import Config, ConfigDef, ConfigKey, Importance, ListOf, Type
from airflow_provider_connect.sdk.required_packages import RequiredPackages

PACKAGES: Final = RequiredPackages("DeltaSink", ("deltalake",), "lake")
PATH: Final = "delta.table.path"
AUTO_CREATE, EVOLVE = "delta.table.auto-create-enabled", "delta.table.evolve-schema-enabled"
UPSERT, ID_COLUMNS, PARTITION_BY = "delta.table.upsert-mode-enabled", "delta.table.id-columns", "delta.table.partition-by"

_KEY_DOC: Final = "Access key for S3. A table in S3 needs one: keys of the host are never used."
CONFIG_DEF = ConfigDef(
    ConfigKey(
        PATH,
        importance=Importance.HIGH,
        group="Table",
        doc="Folder of the table below the allowed paths, or s3://bucket/path. Its parent folder, or the bucket, must exist.",
    ),
    ConfigKey(
        AUTO_CREATE, Type.BOOLEAN, False, group="Table", doc="Whether to create a missing table from the schema of its first records."
    ),
    ConfigKey(EVOLVE, Type.BOOLEAN, False, group="Table", doc="Whether to add missing columns."),
    ConfigKey(PARTITION_BY, Type.LIST, "", validator=ListOf(unique=True), group="Table", doc="Partition columns of a new table."),
    upsert_key(UPSERT),
    ConfigKey(ID_COLUMNS, Type.LIST, "", validator=ListOf(unique=True), group="Writes", doc="Columns that identify a row."),
    retries_key("another writer was faster, or the store was unreachable"),
    *(replace(key, group="Store", doc=_KEY_DOC if key.name == ACCESS_KEY else key.doc) for key in S3_KEYS),
)
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_FORMS: Final = "Give the absolute path of a folder, or s3://bucket/path"
_CREATED_ONCE: Final = {"conditional_put": "etag"}
"""Conditional writes in S3. If several processes create the same version of a table, only one succeeds."""


@dataclass(frozen=True, slots=True)
class DeltaSettings:
    """The parsed settings. ``address`` is the table's folder with links resolved, or ``s3://bucket/path``. ``store_options`` are
    deltalake's options, empty for a folder."""

    address: str
    auto_create: bool
    evolve: bool
    is_upsert: bool
    id_columns: tuple[str, ...]
    partition_by: tuple[str, ...]
    store_options: dict[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_folder(self) -> bool:
        return not self.store_options

    @classmethod
    def of(cls, config: Config, allowed: AllowedPaths) -> DeltaSettings:
        """Parse settings. Raises ConfigException for a path outside the allowed folders, and for contradictory settings."""
        for mistake in mistakes(config, allowed):
            raise mistake
        columns = tuple(config[ID_COLUMNS]), tuple(config[PARTITION_BY])
        options = _store_options(config) if _is_s3(config) else {}
        address = config[PATH].rstrip("/") if options else allowed.resolve(PATH, config[PATH])
        return cls(address, config[AUTO_CREATE], config[EVOLVE], config[UPSERT], *columns, options)


def mistakes(config: Config, allowed: AllowedPaths) -> Iterator[ConfigException]:
    """One exception for each invalid or contradictory setting, and for missing packages."""
    yield from PACKAGES.mistakes(PATH, config[PATH])
    try:
        _check_address(config, allowed)
    except ConfigException as error:
        yield error
    if config[UPSERT] and not config[ID_COLUMNS]:
        yield ConfigException.of(ID_COLUMNS, "", f"{UPSERT}=true needs the columns that identify a row. Set them.")


def _is_s3(config: Config) -> bool:
    return str(config[PATH]).startswith("s3://")


def _check_address(config: Config, allowed: AllowedPaths) -> None:
    """Raise ConfigException for an invalid or disallowed address, and for incomplete credentials."""
    given = config[PATH]
    if not _is_s3(config):
        if not given.startswith("/"):
            raise ConfigException.of(PATH, without_user(given), f"{_FORMS}.")
        allowed.resolve(PATH, given)
        return
    try:
        parts = urlsplit(given)
    except ValueError:
        raise ConfigException.of(PATH, without_user(given), f"{_FORMS}.") from None
    path = unquote(parts.path[1:]).rstrip("/")
    if not _BUCKET.fullmatch(parts.netloc) or not path or parts.query or parts.fragment or not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise ConfigException.of(PATH, without_user(given), f"{_FORMS}, without credentials, a query or the parts . and .. in the path.")
    check_s3(config)
    if not config[ACCESS_KEY]:
        raise ConfigException.of(f"{ACCESS_KEY}, {SECRET_KEY}", "null", S3_NEEDS_KEYS)


def _store_options(config: Config) -> dict[str, str]:
    """deltalake's options. Without credentials, the library would use the host's."""
    options = {**s3_options(config), **client_options(config[STORE_URL] or ""), **_CREATED_ONCE}
    return {name: str(value).lower() if isinstance(value, bool) else value for name, value in options.items()}
