"""The names of tasks, groups, transactional ids and DAGs, and the partition that a key belongs to: pure functions of text and bytes."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from airflow_provider_connect.errors import ConfigException

DAG_ID_PREFIX = "connect."
DAG_ID_LENGTH = 250  # Airflow's limit for a dag id
_PLAIN = re.compile(r"\w+([-.]\w+)*", re.ASCII)  # names that are as they are in their DAG's id; lists of a thousand are made of such
_MASK = 0xFFFFFFFF


class ConnectorTaskId(NamedTuple):
    """One task of a connector; printed as everywhere in Connect: ``«connector»-«task»``."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"

    @classmethod
    def parse(cls, text: str) -> "ConnectorTaskId | None":
        """The id that ``text`` prints; the connector's name may hold hyphens itself. None: not such a text."""
        connector, hyphen, task = text.rpartition("-")
        if not (hyphen and connector) or re.fullmatch("[0-9]{1,10}", task) is None or int(task) > 0x7FFFFFFF:
            return None
        return cls(connector, int(task))


def consumer_group(connector: str, overrides: Mapping[str, str] | None = None, worker: Mapping[str, str] | None = None) -> str:
    """The group in which a sink's offsets are kept: ``connect-«connector»``, unless the worker's ``consumer.group.id`` or, before that,
    the connector's ``consumer.override.group.id`` says otherwise (contract §1.8). ``overrides`` is the connector's config."""
    return (overrides or {}).get("consumer.override.group.id") or (worker or {}).get("consumer.group.id") or f"connect-{connector}"


def transactional_id(group_id: str, connector: str, task: int) -> str:
    """The id under which one task, source or sink, writes: Connect's own name, so that a real worker fences us and we it."""
    return f"{group_id}-{connector}-{task}"


def offsets_change_id(group_id: str, connector: str) -> str:
    """The id under which a connector's offsets are altered and reset while nobody runs its tasks (KIP-875)."""
    return f"{group_id}-{connector}"


def config_leader_id(group_id: str) -> str:
    """The transactional id under which the config topic is changed."""
    return f"connect-cluster-{group_id}"


def dag_id_for(connector: str) -> str:
    """The id of the connector's DAG, ``connect.«name»``.

    Airflow takes letters, digits, ``_``, ``.`` and ``-``, and no two full stops together. Every other byte of the name becomes ``--xx``
    (two hexadecimal digits); so do a hyphen and a full stop where they would make the result ambiguous or refused. No two names give
    the same id. Raises ConfigException for a name whose id Airflow would find too long.
    """
    out = connector if _PLAIN.fullmatch(connector) else _all_quoted(connector.encode())
    if len(DAG_ID_PREFIX + out) > DAG_ID_LENGTH:
        raise ConfigException.of(
            "name", connector, f"its DAG id would be {len(DAG_ID_PREFIX + out)} characters long, Airflow allows {DAG_ID_LENGTH}"
        )
    return DAG_ID_PREFIX + out


def _all_quoted(data: bytes) -> str:
    out = ""
    for index in range(len(data) - 1, -1, -1):
        out = _quoted(data[index], out, first=index == 0) + out
    return out


def _quoted(byte: int, rest: str, *, first: bool) -> str:
    """One byte of a name, given what its later bytes became."""
    char = chr(byte)
    plain = char.isascii() and (char.isalnum() or char == "_")
    plain = plain or (char == "-" and not rest.startswith("-"))
    plain = plain or (char == "." and not rest.startswith(".") and not first)
    return char if plain else f"--{byte:02x}"


def connector_for(dag_id: str) -> str | None:
    """The connector whose DAG has this id; None: the id is not one that ``dag_id_for`` gives."""
    if not dag_id.startswith(DAG_ID_PREFIX):
        return None
    quoted = dag_id.removeprefix(DAG_ID_PREFIX).encode()
    data = re.sub(rb"--([0-9a-f]{2})", lambda match: bytes([int(match[1], 16)]), quoted)
    try:
        connector = data.decode()
        return connector if dag_id_for(connector) == dag_id else None
    except (UnicodeDecodeError, ConfigException):
        return None


def murmur2(key: bytes) -> int:
    """Kafka's 32-bit murmur2 of ``key``, as an unsigned number."""
    multiplier = 0x5BD1E995
    result = (0x9747B28C ^ len(key)) & _MASK
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(key[at : at + 4], "little") * multiplier & _MASK
        word = (word ^ word >> 24) * multiplier & _MASK
        result = result * multiplier & _MASK ^ word
    if whole < len(key):
        result = (result ^ int.from_bytes(key[whole:], "little")) * multiplier & _MASK
    result = (result ^ result >> 13) * multiplier & _MASK
    return result ^ result >> 15


def partition_for(key: bytes, partitions: int) -> int:
    """The partition that Kafka's Java producer would choose for ``key``; the same key must never lie in two (contract §2.1)."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
