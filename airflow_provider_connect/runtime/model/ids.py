"""The names of tasks, groups, transactional ids and DAGs, and the partition that a key belongs to: pure functions of text and bytes."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from airflow_provider_connect.errors import ConfigException

DAG_ID_PREFIX = "connect."
DAG_ID_LENGTH = 248  # Airflow takes 250, but the folder of a DAG's logs is named ``dag_id=«id»``, and file systems take 255 bytes
NAME_BYTES = 8000  # the name stands in URLs, group ids and transactional ids
TOPIC_LENGTH = 249  # Kafka's own limit
_READABLE_LENGTH = 160
_LABEL_NAME, _LABEL_LENGTH = 200, 250  # Airflow keeps so many characters of a mapped task's label
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")
_SHORTENED = re.compile(r"--h[0-9a-f]{32}$")  # no id that is not shortened holds ``--h``: there two hexadecimal digits follow
_PLAIN = re.compile(r"\w+([-.]\w+)*", re.ASCII)  # names that stay as they are in their DAG's id: the fast path, for lists of thousands
_MASK = 0xFFFFFFFF


def refusal_of_topic(topic: str) -> str:
    """Why Kafka takes no topic of this name, in its words; empty where it does."""
    if not topic:
        return "Topic name is invalid: the empty string is not allowed"
    if topic in (".", ".."):
        return "Topic name is invalid: '.' or '..' is not allowed"
    if len(topic) > TOPIC_LENGTH:
        return f"Topic name is invalid: its length of {len(topic)} is longer than the max allowed length {TOPIC_LENGTH}"
    if _TOPIC.fullmatch(topic) is None:
        return "Topic name is invalid: it contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return ""


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
    the connector's ``consumer.override.group.id`` names another (contract §7.2). ``overrides`` is the connector's config."""
    return (overrides or {}).get("consumer.override.group.id") or (worker or {}).get("consumer.group.id") or f"connect-{connector}"


def named_topics(config: Mapping[str, Any]) -> list[str]:
    """The topics that a sink's ``topics`` names, in its order; empty where it names none, as with ``topics.regex``."""
    return [topic for topic in map(str.strip, (config.get("topics") or "").split(",")) if topic]


def transactional_id(group_id: str, connector: str, task: int) -> str:
    """The id under which one task, source or sink, writes: Connect's own name, so that a real worker fences us and we it."""
    return f"{group_id}-{connector}-{task}"


def offsets_change_id(group_id: str, connector: str) -> str:
    """The id under which a connector's offsets are altered and reset while no task of it runs (KIP-875).

    It ends in a word, and task ids in a number: no connector's change of offsets can fence a task of another one, such as task 0 of
    ``orders`` that of a connector ``orders-0``.
    """
    return f"{group_id}-{connector}-offsets"


def config_leader_id(group_id: str) -> str:
    """The transactional id under which the config topic is changed."""
    return f"connect-cluster-{group_id}"


def dag_id_for(connector: str) -> str:
    """The id of the connector's DAG, ``connect.«name»``.

    Airflow takes letters, digits, ``_``, ``.`` and ``-``, and no two full stops together. Every other byte of the name becomes ``--xx``
    (two hexadecimal digits); so do a hyphen and a full stop where they would make the result ambiguous or refused. Where that is longer
    than ``DAG_ID_LENGTH``, it is cut and ends in ``--h`` and a hash of the name. No two names give the same id.
    """
    data = connector.encode(errors="surrogatepass")
    out = connector if _PLAIN.fullmatch(connector) else _all_quoted(data)
    if len(DAG_ID_PREFIX + out) <= DAG_ID_LENGTH:
        return DAG_ID_PREFIX + out
    readable = re.sub("-{1,2}[0-9a-f]?$", "", out[:_READABLE_LENGTH])
    return f"{DAG_ID_PREFIX}{readable}--h{hashlib.sha256(data).hexdigest()[:32]}"


def check_name(connector: str) -> None:
    """Raises ConfigException for a name that no record key or URL could hold."""
    try:
        length = len(connector.encode())
    except UnicodeEncodeError as error:
        raise ConfigException.of("name", repr(connector[:40]), "it is not text that has UTF-8") from error
    if length > NAME_BYTES:
        raise ConfigException.of("name", f"{connector[:40]}…", f"it is {length} bytes long; a name may have {NAME_BYTES}")


def is_shortened(dag_id: str) -> bool:
    """Whether ``dag_id_for`` had to cut the name: ``connector_for`` returns None then, but the DAG's tasks carry the name."""
    return dag_id.startswith(DAG_ID_PREFIX) and _SHORTENED.search(dag_id) is not None


def _all_quoted(data: bytes) -> str:
    parts: list[str] = []
    rest = ""
    for index in range(len(data) - 1, -1, -1):
        rest = _quoted(data[index], rest, first=index == 0)
        parts.append(rest)
    return "".join(reversed(parts))


def _quoted(byte: int, rest: str, *, first: bool) -> str:
    """One byte of a name, given what the byte after it became."""
    char = chr(byte)
    plain = char.isascii() and (char.isalnum() or char == "_")
    plain = plain or (char == "-" and not rest.startswith("-"))
    plain = plain or (char == "." and not rest.startswith(".") and not first)
    return char if plain else f"--{byte:02x}"


def connector_for(dag_id: str) -> str | None:
    """The connector whose DAG has this id; None: the id is not one that ``dag_id_for`` gives, or it is shortened."""
    if not dag_id.startswith(DAG_ID_PREFIX) or len(dag_id) > DAG_ID_LENGTH or is_shortened(dag_id):
        return None
    quoted = dag_id.removeprefix(DAG_ID_PREFIX).encode()
    data = re.sub(rb"--([0-9a-f]{2})", lambda match: bytes([int(match[1], 16)]), quoted)
    try:
        connector = data.decode()
    except UnicodeDecodeError:
        return None
    return connector if dag_id_for(connector) == dag_id else None


def tasks_label(connector: str, tasks: Sequence[int]) -> str:
    """What names an application of some of the connector's tasks in Airflow's UI: ``orders 0-2, 5``."""
    spans: list[list[int]] = []
    for task in sorted(tasks):
        if spans and task == spans[-1][1] + 1:
            spans[-1][1] = task
        else:
            spans.append([task, task])
    ranges = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
    return f"{connector[:_LABEL_NAME]} {ranges}"[:_LABEL_LENGTH]


def has_task(label: str, connector: str, task: int) -> bool:
    """Whether a label of ``tasks_label`` names ``task``. One that was cut may name fewer tasks than the application has."""
    ranges = label.removeprefix(f"{connector[:_LABEL_NAME]} ").split(", ")
    bounds = [found for each in ranges if (found := re.fullmatch("([0-9]{1,10})(?:-([0-9]{1,10}))?", each))]
    return any(int(found[1]) <= task <= int(found[2] or found[1]) for found in bounds)


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
