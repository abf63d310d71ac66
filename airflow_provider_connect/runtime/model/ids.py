"""The names of tasks, groups, transactional ids and DAGs, and the partition of a key: pure functions of text and bytes."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from airflow_provider_connect.errors import ConfigException

DAG_ID_PREFIX = "connect."
APPLICATION_PREFIX = "connect-application."
DAG_ID_LENGTH = 248  # Airflow allows 250, but the folder of a DAG's logs is named ``dag_id=«id»``, and file systems allow 255 bytes
NAME_BYTES = 8000  # the name is part of URLs, group ids and transactional ids
TOPIC_LENGTH = 249  # Kafka's own limit
_READABLE_LENGTH = 160
_LABEL_NAME, _LABEL_LENGTH = 200, 250  # the number of characters of a mapped task's label that Airflow stores
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")
_SHORTENED = re.compile(r"--h[0-9a-f]{32}$")  # in other ids, two hexadecimal digits follow ``--``
_PLAIN = re.compile(r"\w+([-.]\w+)*", re.ASCII)  # names that are unchanged in their DAG's id: the fast path, for lists of thousands
_MASK = 0xFFFFFFFF


def refusal_of_topic(topic: str) -> str:
    """The reason why Kafka accepts no topic with this name, in Kafka's words. Empty: it accepts the name."""
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
    """One task of a connector. Its text is Connect's: ``«connector»-«task»``."""

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"

    @classmethod
    def parse(cls, text: str) -> "ConnectorTaskId | None":
        """The id from its text. The connector's name may contain hyphens. None: the text is not an id."""
        connector, hyphen, task = text.rpartition("-")
        if not (hyphen and connector) or re.fullmatch("[0-9]{1,10}", task) is None or int(task) > 0x7FFFFFFF:
            return None
        return cls(connector, int(task))


def consumer_group(connector: str, overrides: Mapping[str, str] | None = None, worker: Mapping[str, str] | None = None) -> str:
    """The group of a sink's offsets: the connector's ``consumer.override.group.id``, or else the worker's ``consumer.group.id``, or else
    ``connect-«connector»`` (contract §7.2). ``overrides`` is the connector's config."""
    return (overrides or {}).get("consumer.override.group.id") or (worker or {}).get("consumer.group.id") or f"connect-{connector}"


def named_topics(config: Mapping[str, Any]) -> list[str]:
    """The topics in a sink's ``topics``, in order. Empty without that setting, as with ``topics.regex``."""
    return [topic for topic in map(str.strip, (config.get("topics") or "").split(",")) if topic]


def transactional_id(group_id: str, connector: str, task: int) -> str:
    """The id under which a task of a source or sink writes. It is the same as Connect's, so real workers and ours fence each other."""
    return f"{group_id}-{connector}-{task}"


def offsets_change_id(group_id: str, connector: str) -> str:
    """The id under which a connector's offsets are altered and reset while none of its tasks runs (KIP-875).

    This id ends with a word, but task ids end with a number. So a change of offsets for ``orders-0`` cannot fence task 0 of ``orders``.
    """
    return f"{group_id}-{connector}-offsets"


def config_leader_id(group_id: str) -> str:
    """The transactional id under which the config topic is changed."""
    return f"connect-cluster-{group_id}"


def dag_id_for(connector: str) -> str:
    """The id of the connector's DAG, ``connect.«name»``.

    Airflow accepts letters, digits, ``_``, ``.`` and ``-``, but not two full stops in a row. Every other byte of the name becomes ``--xx``
    (two hexadecimal digits). A hyphen or full stop that would make the result ambiguous or invalid is replaced in the same way. A result
    longer than ``DAG_ID_LENGTH`` is truncated and ends with ``--h`` and a hash of the name. Different names have different ids.
    """
    data = connector.encode(errors="surrogatepass")
    out = connector if _PLAIN.fullmatch(connector) else _all_quoted(data)
    if len(DAG_ID_PREFIX + out) <= DAG_ID_LENGTH:
        return DAG_ID_PREFIX + out
    readable = re.sub("-{1,2}[0-9a-f]?$", "", out[:_READABLE_LENGTH])
    return f"{DAG_ID_PREFIX}{readable}--h{hashlib.sha256(data).hexdigest()[:32]}"


def application_dag_id(application: str) -> str:
    """The id of a shared application's DAG."""
    return f"{APPLICATION_PREFIX}{application}"


def check_name(connector: str) -> None:
    """Raises ConfigException for a name that cannot be part of record keys or URLs."""
    try:
        length = len(connector.encode())
    except UnicodeEncodeError as error:
        raise ConfigException.of("name", repr(connector[:40]), "it cannot be encoded in UTF-8") from error
    if length > NAME_BYTES:
        raise ConfigException.of("name", f"{connector[:40]}…", f"it has {length} bytes; at most {NAME_BYTES} are allowed")


def is_shortened(dag_id: str) -> bool:
    """Whether ``dag_id_for`` truncated the name. If so, ``connector_for`` returns None, but the DAG's tasks have the full name."""
    return dag_id.startswith(DAG_ID_PREFIX) and _SHORTENED.search(dag_id) is not None


def is_connectors_dag(dag_id: str) -> bool:
    """Whether ``dag_id_for`` may have made the id."""
    return connector_for(dag_id) is not None or is_shortened(dag_id)


def _all_quoted(data: bytes) -> str:
    parts: list[str] = []
    rest = ""
    for index in range(len(data) - 1, -1, -1):
        rest = _quoted(data[index], rest, first=index == 0)
        parts.append(rest)
    return "".join(reversed(parts))


def _quoted(byte: int, rest: str, *, first: bool) -> str:
    """The form of one byte of a name. ``rest`` is the form of the next byte."""
    char = chr(byte)
    plain = char.isascii() and (char.isalnum() or char == "_")
    plain = plain or (char == "-" and not rest.startswith("-"))
    plain = plain or (char == "." and not rest.startswith(".") and not first)
    return char if plain else f"--{byte:02x}"


def connector_for(dag_id: str) -> str | None:
    """The connector whose DAG has this id. None: ``dag_id_for`` did not create the id, or has truncated it."""
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
    """The label of an application of some of the connector's tasks in Airflow's UI, such as ``orders 0-2, 5``."""
    spans: list[list[int]] = []
    for task in sorted(tasks):
        if spans and task == spans[-1][1] + 1:
            spans[-1][1] = task
        else:
            spans.append([task, task])
    ranges = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
    return f"{connector[:_LABEL_NAME]} {ranges}"[:_LABEL_LENGTH]


def has_task(label: str, connector: str, task: int) -> bool:
    """Whether a label of ``tasks_label`` includes ``task``. A truncated label may lack some tasks of the application."""
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
    """The partition that Kafka's Java producer would choose for ``key``. Both must choose the same, because a key must never be in two
    partitions (contract §2.1)."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
