"""Datasets: what a task reads or writes outside of Kafka, under the names that OpenLineage has for it.

They go into the lineage events of a run (``docs/lineage.md``), and nothing else depends on them.
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
"""Stores of objects, whose keys begin without a slash."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """``namespace`` is the data source: ``postgres://host:5432``, ``s3://bucket``, ``hdfs://host:8020``, ``file``; ``name`` is the dataset
    in it: ``shop.public.orders``, the key or path of a folder. Neither holds a user, a password or options.

    ``schema`` has the columns: a struct's schema, or the names with the types as the source calls them; None: not known.
    """

    namespace: str
    name: str
    schema: Schema | Mapping[str, str] | None = None

    @classmethod
    def at(cls, address: str, schema: Schema | Mapping[str, str] | None = None) -> Dataset:
        """The dataset at a path of the host, or at a URL, of which user, password, options and fragment are left out.

        Raises ValueError for what looks like a URL and is malformed.
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
        """A topic of another Kafka cluster than the worker's: its cluster is named by the first server."""
        return cls(kafka_namespace(bootstrap_servers), topic)


def kafka_namespace(bootstrap_servers: str) -> str:
    """A Kafka cluster's name among data sources: ``kafka://«first server»:«port»``."""
    return f"kafka://{bootstrap_servers.partition(',')[0].strip().rpartition('://')[2].rpartition('@')[2]}"
