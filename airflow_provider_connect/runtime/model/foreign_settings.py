"""Settings that configs bring along from other connectors and from Confluent's products, and what to do about each. Only for warnings."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Final

_CLUSTER: Final = "the worker settings name the cluster; remove it"
_KERBEROS: Final = "Kerberos is not used; remove it"
_PROXY: Final = "requests go to the store directly, without a proxy; remove it"
_ROLE: Final = "no role is assumed: set aws.access.key.id and aws.secret.access.key to keys that may write, and remove it"
_WEB_HDFS: Final = "files are written by WebHDFS to the name node of hdfs.url; remove it"
_HIVE: Final = "no Hive tables are made: create the table in Hive, with MSCK REPAIR TABLE for new partitions, and remove it"
_REPORTER: Final = "there are no reports of records: errors.deadletterqueue.topic.name takes those that are refused; remove it"
_STORE: Final = "url, or the name of the bucket, chooses the store; remove it"
_PARTS: Final = "uploads choose their parts themselves; remove it"
_NEEDLESS: Final = "this connector needs no such setting; remove it"
_ADVICE: Final = (
    ("confluent.license*", "no license is needed; remove it"),
    ("confluent.topic.*", "no license is needed, and so no topic of it; remove it"),
    ("confluent.*", "it is read by Confluent's products alone; remove it"),
    ("kafka.api.*", _CLUSTER),
    ("kafka.auth.mode", _CLUSTER),
    ("kafka.endpoint", _CLUSTER),
    ("kafka.region", _CLUSTER),
    ("reporter.*", _REPORTER),
    ("input.data.format", "set value.converter, such as org.apache.kafka.connect.json.JsonConverter, and remove it"),
    ("output.data.format", "set value.converter (of a sink of files: format), and remove it"),
    ("storage.class", _STORE),
    ("*.part.size", _PARTS),
    ("*.part.retries", "max.retries and errors.retry.timeout decide; remove it"),
    ("schema.generator.class", _NEEDLESS),
    ("schema.cache.size", _NEEDLESS),
    ("schemas.cache.config", _NEEDLESS),
    ("s3.credentials.provider.*", _ROLE),
    ("s3.proxy.*", _PROXY),
    ("gcs.proxy.*", _PROXY),
    ("gcs.credentials.path", "no file of the host is read: set gcs.credentials.json to what it holds, such as ${dir:/secrets:key.json}"),
    ("connect.hdfs.*", _KERBEROS),
    ("hdfs.namenode.principal", _KERBEROS),
    ("hadoop.*", _WEB_HDFS),
    ("hive.*", _HIVE),
    ("logs.dir", "commits are kept below topics.dir; remove it"),
    ("iceberg.control.commit.interval-ms", "the worker setting offset.flush.interval.ms is the interval of commits; remove it"),
    ("iceberg.control.*", "tasks need no topic to commit; remove it"),
    ("iceberg.kafka.*", _CLUSTER),
    ("iceberg.connect.*", _NEEDLESS),
    ("iceberg.catalog.s3.path-style-access", "with iceberg.catalog.s3.endpoint paths are used anyway; remove it"),
    ("poll.interval.ms", "runs poll by the schedule: set airflow.schedule, such as */5 * * * *, and remove it"),
    ("connection.attempts", "airflow.retries and errors.retry.timeout decide; remove it"),
    ("connection.backoff.ms", "airflow.retries and errors.retry.timeout decide; remove it"),
    ("dialect.name", "connection.url chooses the dialect; remove it"),
    ("connection.javax.net.ssl.*", "it is a Java key store, which only Java reads: name PEM files in connection.url, and remove it"),
    ("connection.oracle.*", "it is of Java's driver for Oracle; remove it"),
    ("*.value.schema.id.serializer", "ids of schemas stand in front of the bytes, not in headers; remove it"),
    ("*.key.schema.id.serializer", "ids of schemas stand in front of the bytes, not in headers; remove it"),
)


def foreign_setting(name: str) -> str | None:
    """What to do about a setting that nothing here reads; None: nothing is known about it."""
    return next((advice for pattern, advice in _ADVICE if fnmatchcase(name, pattern)), None)
