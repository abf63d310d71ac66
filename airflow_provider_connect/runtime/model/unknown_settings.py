"""Warnings about settings that nothing reads, with the most similar known name. Kafka Connect accepts such settings silently."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import Final

from airflow_provider_connect.runtime.model.config_limits import cut


def unknown_settings(given: Iterable[str], known: Collection[str]) -> list[str]:
    """A warning for each setting that nothing reads, with the most similar known name.

    Leaves out the settings of the DAG, of clients and of new topics, which have separate checks.
    """
    names = sorted(name for name in given if name not in known and not name.startswith(_CHECKED_ELSEWHERE))
    texts = [_unknown(name, known, given) for name in names[:_MOST_UNKNOWN]]
    return texts if len(names) <= _MOST_UNKNOWN else [*texts, f"and {len(names) - _MOST_UNKNOWN} more unknown settings"]


def _unknown(name: str, known: Collection[str], given: Iterable[str]) -> str:
    shown = cut(name, _LONGEST_NAME)
    converter = next((key for key in _CONVERTERS if name.startswith(f"{key}.") and key not in given), None)
    if converter is not None:
        return f"The setting {shown!r} is not used: without {converter!r} the worker's converter applies, with the worker's settings"
    advice = foreign_setting(name)
    if advice is not None:
        return f"The setting {shown!r} has no effect here: {advice}"
    prefix = next(iter(_OF_PLUGIN.findall(name)), "")
    of_plugin = [key.removeprefix(prefix) for key in known if key.startswith(prefix)] if prefix else []
    near = _nearest_setting(name.removeprefix(prefix), of_plugin) if of_plugin else _nearest_setting(name, known)
    near = near and f"{prefix if of_plugin else ''}{near}"
    return f"{_UNKNOWN} {shown!r}: " + ("nothing reads it" if near is None else f"did you mean {near!r}?")


def misspellings(errors: Iterable[str], warnings: Iterable[str], given: Collection[str]) -> list[str]:
    """The unknown settings among ``warnings``, if one of ``errors`` is about a setting that the config lacks. An unknown setting may be the
    misspelled name of the missing one. ``given`` are the names of the config's settings."""
    if not any(_is_about_missing(error, given) for error in errors):
        return []
    return [warning for warning in warnings if warning.startswith(_UNKNOWN)]


def _is_about_missing(error: str, given: Collection[str]) -> bool:
    refused = _WITHOUT_VALUE.match(error)
    return error.startswith(_MISSING) or (refused is not None and any(name not in given for name in refused[1].split(", ")))


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name that is most similar to ``name``. None: no name is similar. Takes up to a millisecond."""
    return next(iter(difflib.get_close_matches(cut(name, _LONGEST_NAME), sorted(known), n=1)), None)


def _nearest_setting(name: str, known: Iterable[str]) -> str | None:
    """The most similar setting. Settings share many words. So a name with full stops must be more similar than other names, or be the end
    of another name (``schemas.enable``)."""
    whole = sorted((each for each in known if each.endswith(f".{name}")), reverse=True)  # value.converter's before key.converter's
    if whole:
        return whole[0]
    near = nearest(name, known)
    alike = difflib.SequenceMatcher(None, near, name).ratio() if near is not None else 0.0
    return near if alike >= _ALIKE or "." not in name else None


_UNKNOWN: Final = "Unknown setting"
_MISSING: Final = ("Missing required configuration ", "Must configure one of ")
_WITHOUT_VALUE: Final = re.compile(r"Invalid value (?:null|None|) for configuration ([^:]+): ")
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_OF_PLUGIN: Final = re.compile(r"^(?:(?:transforms|predicates)\.[^.]+|(?:key|value|header)\.converter)\.")
_CHECKED_ELSEWHERE: Final = ("airflow.", "topic.creation.", *(f"{client}.override." for client in ("producer", "consumer", "admin")))
_MOST_UNKNOWN, _LONGEST_NAME = 20, 100
_ALIKE: Final = 0.76


# Settings of other connectors and of Confluent's products, with advice for each. Only for warnings.
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
    ("*.value.schema.id.serializer", "schema ids are written before the bytes, not in headers; remove it"),
    ("*.key.schema.id.serializer", "schema ids are written before the bytes, not in headers; remove it"),
)


def foreign_setting(name: str) -> str | None:
    """The advice about a setting that nothing here reads. None: there is no advice."""
    return next((advice for pattern, advice in _ADVICE if fnmatchcase(name, pattern)), None)
