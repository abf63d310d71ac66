"""Opens the catalog of Iceberg tables, and their files, for a config whose author is not trusted.

Catalogs are opened by class, not with pyiceberg's ``load_catalog``, which adds settings of the environment. Responses of a REST catalog may
also set options, but only credentials for S3 are accepted. Loaded only by tasks.
"""

from __future__ import annotations

import errno
import json
import os
from importlib import import_module
from importlib.util import find_spec
from typing import Final
from urllib.parse import urlsplit

from pyiceberg.catalog import MetastoreCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO
from pyiceberg.typedef import EMPTY_DICT, Properties

from airflow_provider_connect.connectors.bucket_access import S3_NEEDS_KEYS
from airflow_provider_connect.connectors.lake.iceberg_settings import (
    CATALOG,
    CATALOG_NAME,
    CATALOG_TYPE,
    HIVE,
    REST,
    S3_SCHEMES,
    URI,
    WAREHOUSE,
    catalog_kind,
    catalog_options,
)
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import LONGEST_NAME, AllowedPaths
from airflow_provider_connect.sdk.config_def import Config

_FOLDERS: Final = "connect.allowed-folders"
"""The file option with the allowed folders. Set only here."""
_REFUSES_KERBEROS: Final = 160000  # the first version of libpq that can refuse Kerberos
_STORE_OPTIONS: Final = frozenset(
    f"s3.{name}" for name in ("endpoint", "region", "access-key-id", "secret-access-key", "session-token", "force-virtual-addressing")
)


class AllowedFiles(PyArrowFileIO):
    """The files of tables: local files below the allowed folders, and S3 with only the config's keys.

    Locations come from catalogs and tables' metadata, which the config's author may have written. Each location is checked before use.
    """

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__({key: value for key, value in properties.items() if key in _STORE_OPTIONS})
        self._allowed = AllowedPaths(tuple(json.loads(properties[_FOLDERS])))

    def _check_location(self, location: str) -> str:
        scheme, _, path = self.parse_location(location)
        if scheme in S3_SCHEMES:
            if not self.properties.get("s3.access-key-id") or not self.properties.get("s3.secret-access-key"):
                raise ConfigException.of(f"{CATALOG}s3.access-key-id", self.properties.get("s3.access-key-id"), S3_NEEDS_KEYS)
            self.properties.setdefault("s3.region", "us-east-1")
            return location
        if scheme != "file" or urlsplit(location).netloc:
            raise ConfigException.of(WAREHOUSE, location, "Tables must be in local folders or in S3.")
        if max(len(name.encode()) for name in path.split("/")) > LONGEST_NAME:  # a partition value may be too long
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
        return self._allowed.resolve(WAREHOUSE, path)

    def new_input(self, location: str) -> PyArrowFile:
        return super().new_input(self._check_location(location))

    def new_output(self, location: str) -> PyArrowFile:
        return super().new_output(self._check_location(location))

    def delete(self, location: str | InputFile | OutputFile) -> None:
        super().delete(self._check_location(location if isinstance(location, str) else location.location))


class _RestCatalog(RestCatalog):
    """Of the options in the server's responses, accepts only the location of tables."""

    def _fetch_config(self) -> None:
        given = dict(self.properties)
        super()._fetch_config()
        taken = {key: value for key, value in self.properties.items() if key in ("prefix", "warehouse")}
        self.properties = {**taken, **given}
        self.uri = given["uri"]


def open_catalog(config: Config, allowed: AllowedPaths) -> MetastoreCatalog | RestCatalog:
    """Connect to the catalog of a config. Raises ConfigException if a library is missing."""
    files = {_FOLDERS: json.dumps(allowed.folders), "py-io-impl": f"{AllowedFiles.__module__}.{AllowedFiles.__name__}"}
    options, name = catalog_options(config, allowed) | files, config[CATALOG_NAME]
    kind = catalog_kind(config)
    catalog: MetastoreCatalog | RestCatalog
    if kind == REST:
        catalog = _RestCatalog(name, **options)
    elif kind == HIVE:
        catalog = _hive_catalog(name, options)
    else:
        if options["uri"].startswith("postgresql:"):
            options["uri"] = _with_driver(options["uri"])
        catalog = SqlCatalog(name, **options)

    def open_files(properties: Properties = EMPTY_DICT, location: str | None = None) -> FileIO:
        return AllowedFiles({**properties, **options} if kind == REST else options)

    catalog._load_file_io = open_files  # type: ignore[method-assign]  # here, options of tables would override ours
    return catalog


def _with_driver(address: str) -> str:
    """The address with a driver. A server may request Kerberos, which uses the host's ticket. libpq can refuse Kerberos since version
    16."""
    driver = _driver()
    version = import_module("psycopg2.extensions").libpq_version() if driver == "psycopg2" else import_module("psycopg.pq").version()
    more = "&require_auth=%21gss%2C%21sspi" if version >= _REFUSES_KERBEROS else ""
    return address.replace("postgresql:", f"postgresql+{driver}:", 1) + more


def _driver() -> str:
    for name in ("psycopg2", "psycopg"):
        if find_spec(name) is not None:
            return name
    raise ConfigException.of(URI, "[hidden]", "PostgreSQL needs a driver here: pip install psycopg2-binary.")


def _hive_catalog(name: str, options: dict[str, str]) -> MetastoreCatalog:
    try:
        from pyiceberg.catalog.hive import HiveCatalog
    except ImportError as error:
        raise ConfigException.of(CATALOG_TYPE, HIVE, "Hive needs more packages here: pip install 'pyiceberg[hive]'.") from error
    return HiveCatalog(name, **options)
