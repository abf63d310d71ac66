"""Datasets that tasks read or write outside of Kafka, by OpenLineage's naming rules.

The lineage events of a run (``docs/lineage.md``) and the page use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from airflow_provider_connect.data.schema import Schema

_FILE: Final = "file"
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_PORTS: Final = {"hdfs": 8020, "sftp": 22}
_KEYED: Final = ("s3", "gs", "abfss", "wasbs")
"""Schemes of object stores, whose keys begin without a slash."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset of a data source, such as a table, a folder or a topic.

    ``namespace`` is the data source: ``postgres://host:5432``, ``s3://bucket``, ``hdfs://host:8020``, ``file``. ``name`` is the dataset
    within its data source: ``shop.public.orders``, or the key or path of a folder. Neither may contain a user name, a password or options.
    ``schema`` has the columns: it is a struct's schema, or column names with the source's type names. None: unknown.
    """

    namespace: str
    name: str
    schema: Schema | Mapping[str, str] | None = None

    @classmethod
    def at(cls, address: str, schema: Schema | Mapping[str, str] | None = None) -> Dataset:
        """The dataset at a path of the host, or at a URL. Leaves out the URL's user, password, options and fragment.

        Raises ValueError for a malformed URL.
        """
        scheme, separator, _ = address.partition(":/")
        if not separator or not scheme.isalnum():
            return cls(_FILE, address, schema)
        parts = urlsplit(address)
        scheme, path = _SCHEMES.get(parts.scheme, parts.scheme), unquote(parts.path)
        if scheme == _FILE:
            return cls(_FILE, path, schema)
        host = parts.netloc.rpartition("@")[2]
        if scheme in _PORTS and parts.port is None:
            host = f"{host.rstrip(':')}:{_PORTS[scheme]}"
        return cls(f"{scheme}://{host}", (path.strip("/") if scheme in _KEYED else path) or "/", schema)

    @classmethod
    def topic(cls, bootstrap_servers: str, topic: str) -> Dataset:
        """A topic of a Kafka cluster other than the worker's. The first server names the cluster."""
        return cls(kafka_namespace(bootstrap_servers), topic)


def kafka_namespace(bootstrap_servers: str) -> str:
    """The namespace of a Kafka cluster: ``kafka://«first server»:«port»``."""
    return f"kafka://{bootstrap_servers.partition(',')[0].strip().rpartition('://')[2].rpartition('@')[2]}"
