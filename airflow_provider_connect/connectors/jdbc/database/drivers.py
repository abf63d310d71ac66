"""Which Python packages a database needs, and the extra of this package that brings them. Imports none of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import Final

from airflow_provider_connect.connectors.jdbc.database.database_url import MARIADB, MYSQL, POSTGRESQL, SQLITE, URL, DatabaseUrl, parse_url
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.config_def import ConfigValue

_ADBC: Final = {POSTGRESQL: "adbc_driver_postgresql", SQLITE: "adbc_driver_sqlite"}
_DRIVERS: Final = {MYSQL: "pymysql", MARIADB: "pymysql", "mssql": "pymssql", "oracle": "oracledb"}
_EXTRAS: Final = {POSTGRESQL: "jdbc", SQLITE: "jdbc", MYSQL: "mysql", MARIADB: "mysql"}


def is_installed(module: str) -> bool:
    """Whether a module of this name can be imported."""
    return find_spec(module) is not None


def missing_driver(url: DatabaseUrl, *, has: Callable[[str], bool] = is_installed) -> str | None:
    """What is not installed here, with the line that installs it; None: everything is, or SQLAlchemy has to find out."""
    if url.dialect in _ADBC:
        needed = ["adbc_driver_manager", _ADBC[url.dialect], "nanoarrow", "sqlalchemy"]
    else:
        driver = _DRIVERS.get(url.dialect) if url.driver in (None, _DRIVERS.get(url.dialect)) else None
        needed = ["sqlalchemy", *([driver] if driver else [])]
    missing = [module for module in needed if not has(module)]
    if not missing:
        return None
    extra = _EXTRAS.get(url.dialect)
    packages = f"'airflow-provider-connect[{extra}]'" if extra else " ".join(missing)
    return (
        f"A connector to {url.dialect} needs Python packages that are not installed here: {', '.join(missing)}. "
        f"Run: pip install {packages} (on all hosts of Airflow, and on Spark's executors)"
    )


def require_driver(url: DatabaseUrl) -> None:
    """Raise ConfigException with what is missing."""
    reason = missing_driver(url)
    if reason is not None:
        raise ConfigException.of(URL, f"{url.dialect}:…", reason)


def add_driver_errors(values: Iterable[ConfigValue]) -> None:
    """To the URL, where it is good in itself but its database cannot be reached from this environment."""
    for value in values:
        if value.name == URL and value.value and not value.errors:
            try:
                require_driver(parse_url(str(value.value)))
            except ConfigException as error:
                value.errors.append(error.message)
