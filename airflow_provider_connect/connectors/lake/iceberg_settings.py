"""The settings of IcebergSink, named as in Apache Iceberg's own sink for Kafka Connect. Knows nothing of catalog libraries.

The author of a config is not trusted, so only the catalog options that are defined here exist. They do not load code, read files outside
the allowed folders, or use credentials of the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from airflow_provider_connect.connectors.bucket_access import scheme_of, without_user
from airflow_provider_connect.connectors.lake.iceberg_partitions import PartitionField, partition_fields
from airflow_provider_connect.connectors.lake.lake_sink import retries_key, upsert_key
from airflow_provider_connect.connectors.lake.table_offsets import MAIN
from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.bounded_regex import BoundedRegex
from airflow_provider_connect.sdk.config_def import (
    Config,
    ConfigDef,
    ConfigKey,
    Importance,
    NonEmptyString,
    Password,
    Type,
)
from airflow_provider_connect.sdk.required_packages import RequiredPackages

PACKAGES: Final = RequiredPackages("IcebergSink", ("pyiceberg", "sqlalchemy"), "lake")
TABLES, ROUTE_FIELD, DYNAMIC = "iceberg.tables", "iceberg.tables.route-field", "iceberg.tables.dynamic-enabled"
AUTO_CREATE, EVOLVE = "iceberg.tables.auto-create-enabled", "iceberg.tables.evolve-schema-enabled"
FORCE_OPTIONAL, IGNORES_CASE = "iceberg.tables.schema-force-optional", "iceberg.tables.schema-case-insensitive"
UPSERT = "iceberg.tables.upsert-mode-enabled"
ID_COLUMNS, PARTITION_BY = "iceberg.tables.default-id-columns", "iceberg.tables.default-partition-by"
BRANCH, OFFSETS_TABLE = "iceberg.tables.default-commit-branch", "offsets.table"
CATALOG, CATALOG_NAME, ONE_TABLE = "iceberg.catalog.", "iceberg.catalog", "iceberg.table."
CATALOG_TYPE, CATALOG_IMPL, URI, WAREHOUSE = (f"{CATALOG}{name}" for name in ("type", "catalog-impl", "uri", "warehouse"))
USER, PASSWORD = f"{CATALOG}jdbc.user", f"{CATALOG}jdbc.password"
SQL, REST, HIVE = "sql", "rest", "hive"
S3_SCHEMES: Final = ("s3", "s3a", "s3n")

_KINDS: Final = {"jdbc": SQL, "sql": SQL, "rest": REST, "hive": HIVE}
_JAVA_CATALOGS: Final = {
    "org.apache.iceberg.jdbc.JdbcCatalog": SQL,
    "org.apache.iceberg.rest.RESTCatalog": REST,
    "org.apache.iceberg.hive.HiveCatalog": HIVE,
}
_DATABASE_OPTIONS: Final = frozenset({"sslmode", "connect_timeout", "application_name"})
_NO_FILE: Final = "/dev/null/none"  # an empty value would mean the default, which is a file of the user
_NO_HOST_CREDENTIALS: Final = {"passfile": "/dev/null", "sslcert": _NO_FILE, "sslkey": _NO_FILE, "gssencmode": "disable"}
"""Options that keep libpq from using passwords, certificates or Kerberos tickets of the host, because the config's author chooses the
server."""
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*+")
_TABLE_OPTIONS: Final = ("id-columns", "partition-by", "route-regex", "commit-branch")


@dataclass(frozen=True, slots=True)
class TableSettings:
    """The settings of one table. If ``route`` is None, the table gets no records when there is a route field."""

    name: str
    id_columns: tuple[str, ...]
    partition_by: tuple[PartitionField, ...]
    route: BoundedRegex | None
    branch: str


@dataclass(frozen=True, slots=True)
class IcebergSettings:
    """The parsed settings of tables and records. ``tables`` is empty if a field of each record names its table."""

    tables: tuple[TableSettings, ...]
    route_field: str | None
    is_upsert: bool
    auto_create: bool
    evolve: bool
    force_optional: bool
    ignores_case: bool
    home: str
    """The table with offsets and claims: the only table of the config, or a separate one without columns."""
    config: Config

    @classmethod
    def of(cls, config: Config) -> IcebergSettings:
        """Parse settings. Raises ConfigException for contradictory settings, with one text per mistake."""
        errors = [error.message for error in mistakes(config)]
        if errors:
            raise ConfigException("\n".join(errors), errors=errors)
        names = () if config[DYNAMIC] else tuple(config[TABLES])
        return cls(
            tables=tuple(table_settings(config, name) for name in names),
            route_field=config[ROUTE_FIELD],
            is_upsert=config[UPSERT],
            auto_create=config[AUTO_CREATE],
            evolve=config[EVOLVE],
            force_optional=config[FORCE_OPTIONAL],
            ignores_case=config[IGNORES_CASE],
            home=names[0] if len(names) == 1 else config[OFFSETS_TABLE],
            config=config,
        )

    def table(self, name: str) -> TableSettings:
        """The settings of a table that a record names, or of the table that only keeps offsets."""
        found = table_settings(self.config, name)
        is_ours = name == self.home and name not in {table.name for table in self.tables}
        return replace(found, branch=MAIN) if is_ours else found


def table_settings(config: Config, name: str) -> TableSettings:
    """The settings of a table. Raises ConfigException for invalid options of the table."""
    own = {option: config.originals.get(f"{ONE_TABLE}{name}.{option}") for option in _TABLE_OPTIONS}
    columns = config[ID_COLUMNS] if own["id-columns"] is None else own["id-columns"].split(",")
    key = PARTITION_BY if own["partition-by"] is None else f"{ONE_TABLE}{name}.partition-by"
    partition_by = config[PARTITION_BY] if own["partition-by"] is None else own["partition-by"]
    route = own["route-regex"]
    return TableSettings(
        name=name,
        id_columns=tuple(column.strip() for column in columns if column.strip()),
        partition_by=partition_fields(key, partition_by or ""),
        route=None if route is None else _pattern(f"{ONE_TABLE}{name}.route-regex", route),
        branch=own["commit-branch"] or config[BRANCH],
    )


def _pattern(key: str, text: str) -> BoundedRegex:
    try:
        return BoundedRegex(text, key)
    except re.error as error:
        raise ConfigException.of(key, text, f"Not a regular expression: {error}") from error


def check_name(name: str) -> str:
    """The name of a table, ``namespace.table``. Raises DataException for a name that could lead out of the warehouse."""
    parts = name.split(".")
    if len(parts) < 2 or len(name) > 255 or not all(_NAME.fullmatch(part) for part in parts):
        shown = name if len(name) <= 100 else f"{name[:100]}…"
        raise DataException(
            f"{shown!r} is not a table name: use namespace.table, with letters, digits, underscores and hyphens ({ROUTE_FIELD})"
        )
    return name


def mistakes(config: Config) -> Iterator[ConfigException]:
    """One exception for each contradictory or disallowed setting, and for missing packages."""
    yield from PACKAGES.mistakes(URI, "[hidden]")
    tables, route = config[TABLES], config[ROUTE_FIELD]
    if config[DYNAMIC]:
        if not route:
            yield ConfigException.of(ROUTE_FIELD, "", f"{DYNAMIC}=true takes the name of each record's table from a field. Name the field.")
        if tables:
            reason = f"{DYNAMIC}=true takes tables from the records. Remove one of the two settings."
            yield ConfigException.of(TABLES, ",".join(tables), reason)
    elif not tables:
        yield ConfigException.of(TABLES, "", f"Set it to the tables to write to, or set {DYNAMIC} to true.")
    if len(set(tables)) < len(tables):
        yield ConfigException.of(TABLES, ",".join(tables), "A table is named twice.")
    for name in tables:
        yield from _table_mistakes(config, name)
    with _collect_errors(OFFSETS_TABLE, config[OFFSETS_TABLE]) as found:
        check_name(config[OFFSETS_TABLE])
    yield from found
    yield from _unsupported_options(config)
    with _collect_errors(CATALOG_TYPE, config[CATALOG_TYPE]) as found:
        if catalog_kind(config) != REST and not config[WAREHOUSE]:
            raise ConfigException.of(
                WAREHOUSE, "", "Set it to the location of new tables: a folder below the allowed paths, or s3://bucket/path."
            )
    yield from found


def _table_mistakes(config: Config, name: str) -> Iterator[ConfigException]:
    with _collect_errors(TABLES, name) as found:
        settings = table_settings(config, check_name(name))
        if config[UPSERT] and not settings.id_columns:
            raise ConfigException.of(ID_COLUMNS, "", f"{UPSERT}=true needs the columns that identify a row of {name}. Set them.")
        if config[ROUTE_FIELD] and not config[DYNAMIC] and settings.route is None:
            reason = f"With {ROUTE_FIELD}, each table needs the expression that selects its records."
            raise ConfigException.of(f"{ONE_TABLE}{name}.route-regex", "", reason)
    yield from found


@contextmanager
def _collect_errors(key: str, value: object) -> Iterator[list[ConfigException]]:
    """A list that collects the ConfigException of the block. A DataException becomes a ConfigException about ``key``."""
    found: list[ConfigException] = []
    try:
        yield found
    except ConfigException as error:
        found.append(error)
    except DataException as error:
        found.append(ConfigException.of(key, value, error.message))


def _unsupported_options(config: Config) -> Iterator[ConfigException]:
    for key in sorted(config.originals):
        if key.startswith(CATALOG) and key not in CONFIG_DEF.keys and key not in IGNORED and key not in _ALIASES:
            reason = "This catalog option is not allowed: it could load code, or use files or credentials of the host. Remove it."
            yield ConfigException.of(key, "[hidden]", reason)


def catalog_kind(config: Config) -> str:
    """The kind of the catalog: ``sql``, ``rest`` or ``hive``."""
    kind = _KINDS.get((config[CATALOG_TYPE] or "").lower()) or _JAVA_CATALOGS.get(config[CATALOG_IMPL] or "")
    if kind is None:
        raise ConfigException.of(CATALOG_TYPE, config[CATALOG_TYPE], "Set it to jdbc (or sql), rest or hive.")
    return kind


IGNORED: Final = frozenset({f"{CATALOG}io-impl", f"{CATALOG}s3.path-style-access", f"{CATALOG}cache-enabled"})
"""Options of Java's catalogs that have no effect here."""


_ALIASES: Final = (f"{CATALOG}client.region",)


def ignored_keys(config: Mapping[str, str]) -> list[str]:
    """The config's settings for Apache Iceberg's sink that have no effect here."""
    known = (CATALOG, CATALOG_NAME)
    mine = (key for key in config if key.startswith("iceberg.") and key not in CONFIG_DEF.keys and key not in known)
    used = tuple(f".{option}" for option in _TABLE_OPTIONS)
    return sorted(
        key for key in mine if (key in IGNORED or not key.startswith(CATALOG)) and not (key.startswith(ONE_TABLE) and key.endswith(used))
    )


def catalog_options(config: Config, allowed: AllowedPaths) -> dict[str, str]:
    """The options for the catalog library, with checked addresses and paths. Raises ConfigException for disallowed addresses and paths."""
    names = [key for key in CONFIG_DEF.keys if key.startswith(CATALOG) and key not in (CATALOG_TYPE, CATALOG_IMPL, USER, PASSWORD)]
    texts = {key.removeprefix(CATALOG): config[key] for key in names if config[key] is not None}
    options = {key: value.value if isinstance(value, Password) else str(value) for key, value in texts.items()}
    kind = catalog_kind(config)
    if kind == SQL:
        options["uri"] = database_address(config, allowed)
    elif scheme_of(config[URI]) not in ({REST: ("http", "https"), HIVE: ("thrift",)}[kind]):
        schemes = "http:// or https://" if kind == REST else "thrift://"
        raise ConfigException.of(URI, config[URI], f"The address of a {kind} catalog must begin with {schemes}.")
    if kind != REST and scheme_of(config[WAREHOUSE]) not in S3_SCHEMES:
        options["warehouse"] = allowed.resolve(WAREHOUSE, _warehouse_folder(config[WAREHOUSE]))
    return options


def _warehouse_folder(address: str) -> str:
    """The path of a local warehouse. Raises ConfigException for a relative path, and for an address with another scheme."""
    path = address.removeprefix("file://").removeprefix("file:")
    if not path.startswith("/"):
        reason = "Give the absolute path of a folder (/path or file:///path), or s3://bucket/path (or s3a://, s3n://)."
        raise ConfigException.of(WAREHOUSE, without_user(address), reason)
    return path


def database_address(config: Config, allowed: AllowedPaths) -> str:
    """The address of a SQL catalog's database for SQLAlchemy: a SQLite file below the allowed folders, or PostgreSQL over TCP."""
    given = config[URI].removeprefix("jdbc:")
    scheme, _, rest = given.partition(":")
    if scheme == "sqlite":
        path = unquote(rest.removeprefix("//").replace("//", "/", 1) if rest.startswith("///") else rest)
        if not path.startswith("/") or "?" in path:
            raise ConfigException.of(URI, "[hidden]", "Write jdbc:sqlite:/path/to/file.db or sqlite:////path/to/file.db, without options.")
        return f"sqlite:///{allowed.file_path(URI, path)}"
    if scheme.partition("+")[0] not in ("postgresql", "postgres"):
        raise ConfigException.of(URI, "[hidden]", "A SQL catalog must be in PostgreSQL (jdbc:postgresql://host/database) or SQLite.")
    try:
        parts, port = urlsplit(f"postgresql:{rest}"), urlsplit(f"postgresql:{rest}").port or 5432
    except ValueError as error:
        raise ConfigException.of(URI, "[hidden]", "Not an address: write jdbc:postgresql://host:5432/database.") from error
    query = dict(parse_qsl(parts.query))
    host, unknown = parts.hostname or "", sorted(set(query) - _DATABASE_OPTIONS)
    if unknown or not re.fullmatch(r"[A-Za-z0-9._:-]+", host):
        reason = f"The option {unknown[0]} is not allowed." if unknown else "It needs a host name; sockets are not allowed."
        raise ConfigException.of(URI, "[hidden]", reason)
    password = config[PASSWORD].value if config[PASSWORD] is not None else unquote(parts.password or "")
    user = quote(config[USER] or unquote(parts.username or ""), safe="")
    own = urlencode({**query, **_NO_HOST_CREDENTIALS})
    host = f"[{host}]" if ":" in host else host
    return f"postgresql://{user}:{quote(password, safe='')}@{host}:{port}/{quote(unquote(parts.path[1:]), safe='')}?{own}"


CONFIG_DEF = ConfigDef(
    ConfigKey(
        TABLES,
        Type.LIST,
        "",
        importance=Importance.HIGH,
        group="Tables",
        doc="Tables to write to, as namespace.table. Each of several gets all records, or those that its route-regex selects.",
    ),
    ConfigKey(
        ROUTE_FIELD,
        Type.STRING,
        None,
        group="Tables",
        doc="Field of the value whose text selects a record's table; dots separate the names of inner fields.",
    ),
    ConfigKey(DYNAMIC, Type.BOOLEAN, False, group="Tables", doc="Whether the route field holds the table's name, in any case."),
    ConfigKey(
        AUTO_CREATE, Type.BOOLEAN, False, group="Tables", doc="Whether to create missing tables from the schema of their first records."
    ),
    ConfigKey(
        EVOLVE,
        Type.BOOLEAN,
        False,
        group="Tables",
        doc="Whether to add missing columns, and to widen types for wider numbers.",
    ),
    ConfigKey(
        FORCE_OPTIONAL,
        Type.BOOLEAN,
        False,
        group="Tables",
        doc="Whether new columns are optional at any depth, even if fields are required.",
    ),
    ConfigKey(
        IGNORES_CASE, Type.BOOLEAN, False, group="Tables", doc="Whether names of fields and columns match regardless of case, at any depth."
    ),
    ConfigKey(
        ID_COLUMNS,
        Type.LIST,
        "",
        group="Writes",
        doc="Columns that identify a row. iceberg.table.«table».id-columns sets them for one table.",
    ),
    upsert_key(UPSERT),
    ConfigKey(
        PARTITION_BY,
        Type.STRING,
        "",
        group="Tables",
        doc="Partition spec of new tables: columns, year(c), month(c), day(c), hour(c), bucket(c,n), truncate(c,n), with commas between. "
        "iceberg.table.«table».partition-by sets it for one table.",
    ),
    ConfigKey(
        BRANCH,
        Type.STRING,
        MAIN,
        validator=NonEmptyString(),
        group="Writes",
        doc="Branch to write to. A missing one starts at the head of main. iceberg.table.«table».commit-branch sets it for one table.",
    ),
    ConfigKey(
        OFFSETS_TABLE,
        Type.STRING,
        "connect.sink_offsets",
        validator=NonEmptyString(),
        group="Delivery",
        doc="Table for offsets if records may go to several tables. Created if missing.",
    ),
    retries_key("the catalog or the store was unreachable"),
    ConfigKey(CATALOG_NAME, Type.STRING, "iceberg", group="Catalog", doc="Name of the catalog; a SQL catalog stores tables under it."),
    ConfigKey(CATALOG_TYPE, Type.STRING, None, importance=Importance.HIGH, group="Catalog", doc="jdbc (or sql), rest or hive."),
    ConfigKey(CATALOG_IMPL, Type.STRING, None, group="Catalog", doc="Instead of the type: the class of Java's JDBC, REST or Hive catalog."),
    ConfigKey(
        URI,
        importance=Importance.HIGH,
        validator=NonEmptyString(),
        group="Catalog",
        doc="Address of the catalog: jdbc:postgresql://host:5432/database, jdbc:sqlite:/path/to/file.db, https://host/path (REST) or "
        "thrift://host:9083 (Hive).",
    ),
    ConfigKey(
        WAREHOUSE,
        Type.STRING,
        None,
        importance=Importance.HIGH,
        group="Catalog",
        doc="Location of new tables: a folder below the allowed paths, or s3://bucket/path. Optional for REST catalogs.",
    ),
    ConfigKey(USER, Type.STRING, None, group="Catalog", doc="User of a SQL catalog's database, unless the URL has one."),
    ConfigKey(PASSWORD, Type.PASSWORD, None, group="Catalog", doc="Password of a SQL catalog's database, unless the URL has one."),
    ConfigKey(f"{CATALOG}credential", Type.PASSWORD, None, group="Catalog", doc="OAuth2 client of a REST catalog, as id:secret."),
    ConfigKey(f"{CATALOG}token", Type.PASSWORD, None, group="Catalog", doc="Bearer token for a REST catalog."),
    ConfigKey(f"{CATALOG}scope", Type.STRING, None, group="Catalog", doc="OAuth2 scope for a REST catalog."),
    ConfigKey(f"{CATALOG}prefix", Type.STRING, None, group="Catalog", doc="Prefix of a REST catalog's paths."),
    ConfigKey(f"{CATALOG}s3.endpoint", Type.STRING, None, group="Store", doc="Address of an S3 server other than Amazon's."),
    ConfigKey(f"{CATALOG}s3.region", Type.STRING, None, alias=f"{CATALOG}client.region", group="Store", doc="Region of the bucket."),
    ConfigKey(
        f"{CATALOG}s3.access-key-id",
        Type.STRING,
        None,
        group="Store",
        doc="Access key for S3. Credentials of the host are never used: without keys here, only a REST catalog can give some.",
    ),
    ConfigKey(f"{CATALOG}s3.secret-access-key", Type.PASSWORD, None, group="Store", doc="Secret of the access key."),
    ConfigKey(f"{CATALOG}s3.session-token", Type.PASSWORD, None, group="Store", doc="Session token of a temporary access key."),
)
