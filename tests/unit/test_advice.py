"""Advice in messages can be followed: what it names is there. ``test_remedies`` carries advice out.

The texts are those of the whole package (``tests.messages``) and the remedies of docs/troubleshooting.md, so a new message cannot escape. A
name of another product is in ``FOREIGN``, with its owner. The messages of that page are in the package.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from airflow.cli.cli_config import core_commands
from airflow.configuration import retrieve_configuration_description

from airflow_provider_connect.cli.commands import get_connect_cli_commands
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.get_provider_info import get_provider_info
from airflow_provider_connect.kafka_client import settings as client_settings
from airflow_provider_connect.kafka_client.keys import client_config_def
from airflow_provider_connect.runtime.config.client_settings import ClientKind
from airflow_provider_connect.runtime.config.dag_settings import dag_settings
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.connector_keys import common_config_def, own_config_def, sink_config_def, source_config_def
from airflow_provider_connect.runtime.model.verbs import VERBS
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.sdk.config_def import ConfigDef, ConfigKey, Plugin
from tests import site
from tests.contract.references import airflow_keys, worker_keys
from tests.messages import ROOT, Text, source
from tests.unit.test_docs_howtos import parser_of

DOCS: Final = ROOT / "docs"
TROUBLESHOOTING: Final = DOCS / "troubleshooting.md"
FOREIGN: Final[Mapping[str, str]] = {
    "Kafka's topics and brokers": "cleanup.policy cleanup.policy=compact delete.retention.ms max.compaction.lag.ms max.message.bytes "
    "message.max.bytes min.compaction.lag.ms segment.ms follower.replication.throttled.replicas leader.replication.throttled.replicas "
    "log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms message.timestamp.difference.max.ms message.timestamp.type "
    "min.insync.replicas unclean.leader.election.enable",
    "Kafka Connect's REST extension": "rest.basic.auth.credentials.file",
    "Kafka's FileConfigProvider": "allowed.paths",
    "Debezium": "database.dbname database.hostname database.port heartbeat.action.query heartbeat.interval.ms time.precision.mode "
    "time.precision.mode=connect signal.enabled.channels=kafka read.only=true status.update.interval.ms=200 slot.retry.delay.ms=1000 "
    "slot.max.retries=60 publication.autocreate.mode=filtered slot.drop.on.stop=true include.schema.changes=false "
    "snapshot.mode=when_needed",
    "Spark": "format.option=value",
    "Confluent's connectors": "dest.kafka.* src.kafka.* fs.listing.directory.path aws.s3.* azblob.* gcs.credentials.config kafka.api.* "
    "kafka.auth.mode input.data.format output.data.format finished.path input.file.pattern input.path sftp.host sftp.port "
    "sftp.working.dir topic.whitelist time.interval kafka.connect.datagen kafka.connect.datagen=datagen",
    "Confluent's schemas": "confluent.field_meta connect.parameters connect.type",
    "Delta Lake": "delta.appendOnly delta.columnMapping.mode delta.setTransactionRetentionDuration",
    "Iceberg": "iceberg.hadoop.* schema.name-mapping.default write.py-location-provider.impl namespace.table",
    "Strimzi": "metadata.name spec.config spec.state",
    "Python": "batch.value batch.value_schema batch.… batch.…_schema os._exit google.protobuf google.protobuf.StringValue sqlalchemy.url",
    "the Connection's extra": "rest.login rest.password",
    "a column in a message": "table.column foo.bar",
    "web sites": "www.confluent.io",
    "Kafka Connect's texts": "ignored.Otherwise",
    "the demonstration": "connect.example-jdbc-source connect.example-jdbc-sink",
}
"""Names and values of settings, and other names with dots, that are not this package's."""
_PROSE = re.compile(r"[a-z]{2}[,;:]? [a-z]")
_SENTENCE = re.compile(r"[,.:;)] |[,.:;)'`]$")
_WORDS_ENOUGH = 100
"""A text without a comma or full stop that is longer is a table."""
_NO_ADVICE = re.compile(r"\bSELECT\b.*\sFROM [a-z{]|\|\w+\||^import |^#|^<|charset=|max-age=|^\n.*=.*\n.*=|^\n\w+ \w+[ .]", re.DOTALL)
"""Statements of SQL, patterns, programs, headers, tables."""
_NAME = re.compile(r"(?<![\w./$@:«{%\\=-])[a-z][a-z0-9_-]*(?:\.[\w*«»…-]+)+(?:=\w+)?")
_FILES = re.compile(r"(?:.*\.(?:properties|txt|json|sh|zip|gz|pem|p12|ora|conf|offsets|py|cfg|1)|python3\.\d+)(?:=\w+)?")
_JAVA = re.compile(r"(?:java|org|io|com)\.[\w.]+\.[A-Z][\w.…]*")
_GROUPS = re.compile(
    r"(?:producer|consumer|admin)\.(?:override\.)?|(?:key|value|header)\.converter\.|(?:config|offset|status|batch)\.storage\."
    r"|listeners\.https\.|(?:source|target)\.cluster\.(?:producer\.|consumer\.|admin\.)?"
)
_ANY_NAME = re.compile(
    r"airflow\.notifiers\.|airflow\.application\.|config\.providers\.|iceberg\.table\.«table»\.|option\.«name»|topic\.creation\."
    r"|transforms\.|predicates\.|iceberg\.catalog\.|(?:offset|status)\.…|(?:aws|s3|bearer\.auth|source\.cluster|target\.cluster)\.\*|source\.cluster$"
    r"|target\.cluster$|max\.backoff\.ms"
)
"""Settings whose names have a part that users choose, and parts of names in lists."""


@cache
def advice() -> tuple[Text, ...]:
    """All texts with a sentence, and the remedies of the page."""
    page = TROUBLESHOOTING.read_text(encoding="utf-8").splitlines()
    remedies = (Text("docs/troubleshooting.md", number, line) for number, line in enumerate(page, 1) if line.startswith("**Remedy"))
    return (*filter(is_sentence, source().texts), *remedies)


def is_sentence(text: Text) -> bool:
    is_long = len(text.text) >= _WORDS_ENOUGH
    return bool(_PROSE.search(text.text) and (not is_long or _SENTENCE.search(text.text)) and not _NO_ADVICE.search(text.text))


@cache
def definitions() -> tuple[ConfigDef, ...]:
    loaded: list[Any] = [plugin.load() for plugin in PluginCatalog().plugins()]
    return (
        *(plugin.config_def for plugin in loaded),
        common_config_def(),
        own_config_def(),
        sink_config_def(),
        source_config_def(),
        *map(client_config_def, ClientKind),
    )


@cache
def keys() -> Mapping[str, list[ConfigKey]]:
    """The settings of plugins and clients, by name and older name."""
    found = dict[str, list[ConfigKey]]()
    for key in (key for definition in definitions() for key in definition.keys.values()):
        for name in filter(None, (key.name, key.alias)):
            found.setdefault(name, []).append(key)
    return found


@cache
def foreign() -> frozenset[str]:
    return frozenset(name for names in FOREIGN.values() for name in names.split())


def unknown_names(text: str) -> Iterator[str]:
    """Names with dots that are neither settings nor in FOREIGN."""
    for token in _NAME.findall(text):
        name = token.partition("=")[0].rstrip(".…-")
        own = _GROUPS.sub("", name, count=1)
        if "." not in name and not token.endswith("*"):
            continue
        if {token, name, own} & foreign() or _FILES.fullmatch(token) or _JAVA.fullmatch(name) or _ANY_NAME.match(token):
            continue
        if name.startswith("airflow_provider_connect."):
            if not is_in_package(name):
                yield name
        elif not (
            {name, own} & (keys().keys() | client_settings._NATIVE)
            or name in worker_keys()
            or name in airflow_keys()
            or name in _OF_SERVERS
        ):
            yield name


_OF_SERVERS: Final = ("airflow.defined.in", "offset.storage.file.filename")


def is_in_package(name: str) -> bool:
    """Whether a module, a class in one, or a group of entry points has this name."""
    path = ROOT / name.replace(".", "/")
    is_module = path.with_suffix(".py").exists() or path.is_dir() or (ROOT / path.name).is_dir()
    return is_module or name == "airflow_provider_connect.plugins" or name.rpartition(".")[2] in source().classes | {"run_connector"}


_VALUE = re.compile(r"(?<![\w./$&?-])([a-z][\w-]*(?:\.[\w-]+)*)=([A-Za-z0-9_@]+)(?![\w.…]*[.…(]\w)")
_SET_TO = re.compile(r"\b[Ss]et ([a-z][\w-]*(?:\.[\w-]+)+) to '?(true|false|none|\d+|[a-z]+_\w+|[A-Z]+)\b")
_IN_WORDS: Final = {"name", "option", "value", "offset", "partition", "topic", "ssl", "file", "paused", "username", "password"}
"""Words in patterns of commands and addresses, and options of addresses."""


def refused_values(text: str) -> Iterator[str]:
    """Settings with a value that no plugin accepts under this name."""
    for name, value in (*_VALUE.findall(text), *_SET_TO.findall(text)):
        if f"{name}={value}" not in foreign() | _OF_ADDRESSES and name not in _IN_WORDS and not is_accepted(name, value):
            yield f"{name}={value}"


_OF_ADDRESSES: Final = {
    *("encrypt=true", "trustServerCertificate=true", "databaseName=name", "includeTasks=true", "binlog_format=ROW", "ENGINE=InnoDB"),
    *("if_exists=update", "wait=False", "schemaless=True", "transforms=a", "type=string", "type=unix", "delimiter=_"),
}
"""Options of URLs, arguments in Python, settings of databases and of transformations: see the table below."""


def is_accepted(name: str, value: str) -> bool:
    own = _GROUPS.sub("", name, count=1)
    return (
        any(accepts(key, value) for key in (*keys().get(name, ()), *keys().get(own, ())))
        or (name in worker_keys() and not raises(lambda: WorkerSettings.of({name: value})))
        or (name in airflow_keys() and not raises(lambda: dag_settings("x", {name: value})))
        or _ANY_NAME.match(name) is not None
    )


def accepts(key: ConfigKey, value: str) -> bool:
    def check() -> None:
        parsed = key.parse(value)
        if key.validator is not None:
            key.validator(key.name, parsed)

    return not raises(check)


def raises(work: Any) -> bool:
    try:
        work()
    except (ConnectException, ValueError):
        return True
    return False


_COMMAND = re.compile(r"(?<![\w/.])(airflow|connect-run|connect-standalone|connect-new) (?=[a-z<«…-])([^\n,;:)(`\"#]*)")
_PLACEHOLDER = re.compile(r"…|«\w+»")
_NO_COMMANDS: Final = ("roles", "command.")
"""A command of the provider FAB, which is not everywhere; and a word."""


@cache
def parser() -> argparse.ArgumentParser:
    return parser_of([*core_commands, *get_connect_cli_commands()])


@cache
def tree() -> Mapping[str, Any]:
    return _tree([*core_commands, *get_connect_cli_commands()])


def _tree(commands: Iterable[Any]) -> dict[str, Any]:
    return {each.name: _tree(each.subcommands) if hasattr(each, "subcommands") else None for each in commands}


_OF_KAFKA = re.compile(r"kafka-\w+\.sh --(?!bootstrap-server )[\w-]+")


def unknown_commands(text: str) -> Iterator[str]:
    """Commands that do not exist, those whose options or arguments their parser refuses, and Kafka's without an address."""
    yield from _OF_KAFKA.findall(text)
    for program, rest in _COMMAND.findall(text):
        words = _PLACEHOLDER.sub("x", rest).replace("'", " ' ").split(" ' ")[0].split() if rest.count("'") % 2 else _words(rest)
        if program != "airflow":
            if not is_script(program):
                yield program
        elif words and words[0] not in _NO_COMMANDS and not is_known(words):
            yield f"{program} {rest}"


def _words(text: str) -> list[str]:
    return shlex.split(_PLACEHOLDER.sub("x", text))


def is_script(name: str) -> bool:
    return any(each.name == name for each in importlib.metadata.entry_points(group="console_scripts"))


def is_known(words: list[str]) -> bool:
    """Whether the words begin with a command, and the options and placeholders after it are arguments of it. Prose may follow."""
    below: Mapping[str, Any] | None = tree()
    path = 0
    while below is not None:
        if path == len(words) or words[path].rstrip(".") not in below:
            return False
        below = below[words[path].rstrip(".")]
        path += 1
    given = [
        index + 1 for index, word in enumerate(words) if index >= path and (word in ("x", "NAME") or word.startswith("--") or "=" in word)
    ]
    if not given:
        return True  # the command is only named
    return any(not refuses([*words[:path], *words[path:end]]) for end in range(max(given), len(words) + 1))


def refuses(words: list[str]) -> bool:
    try:
        parser().parse_args([word.rstrip(".") for word in words])
    except (SystemExit, argparse.ArgumentError):
        return True
    return False


_PIP = re.compile(r"\bpip install ([^\n;,()#]*)")


_FLAG = re.compile(r"(?<![\w<!-])--[a-z][a-z-]+")
_FLAGS_OF_OTHERS: Final = {
    *("--upgrade", "--force-reinstall", "--no-deps", "--target", "--conn-type", "--conn-host"),
    *("--bootstrap-server", "--create", "--topic", "--config", "--alter", "--entity-type", "--entity-name", "--add-config", "--add"),
    *("--allow-principal", "--operation"),
}


def unknown_flags(text: str) -> Iterator[str]:
    """Options that no command of this package declares."""
    yield from (flag for flag in _FLAG.findall(text) if flag not in _FLAGS_OF_OTHERS and flag not in constants())


def unknown_packages(text: str) -> Iterator[str]:
    """Packages that pip is asked for and that neither this package nor one of its requirements is, and extras that they do not have."""
    for rest in _PIP.findall(text):
        for name, extra in re.findall(r"(?<![\w.-])([a-z][\w-]*\d?)(?:\[([\w,-]+)\])?", re.sub(r"(?<!\S)--?[a-z-]+|'", " ", rest)):
            if name in ("it", "or", "on", "test"):
                continue
            if name not in known_packages():
                yield name
            elif extra and not set(extra.split(",")) <= set(extras_of(name)):
                yield f"{name}[{extra}]"


@cache
def known_packages() -> frozenset[str]:
    wanted = importlib.metadata.requires("airflow-provider-connect") or []
    return frozenset({"airflow-provider-connect", "psycopg2-binary", *(re.split(r"[^\w.-]", each)[0].lower() for each in wanted)})


def extras_of(name: str) -> list[str]:
    return importlib.metadata.metadata(name).get_all("Provides-Extra") or []


_REQUEST = re.compile(
    r"(?:\b(GET|POST|PUT|PATCH|DELETE)'? (?:request to the )?'?)?(…?(?:/connectors?|/config|/offsets)\b[\w«»{}…/-]*)(?:\?(\w+)=)?"
)
_OF_PAGES: Final = ("/connect/metrics", "/connect", "/connectors")


def unknown_routes(text: str) -> Iterator[str]:
    """Requests that no route takes."""
    for method, path, parameter in _REQUEST.findall(text):
        if method and path not in _OF_PAGES:
            fits = [verb for verb in VERBS.values() if verb.method == method and _fits(path, verb.path)]
            if not fits or (parameter and not any(parameter in verb.query for verb in fits)):
                yield f"{method} {path}?{parameter}"


def _fits(path: str, route: str) -> bool:
    parts, wanted = path.split("/"), route.split("/")
    if parts[0] == "…":
        parts, wanted = parts[1:], wanted[1 - len(parts) :]
    return len(parts) == len(wanted) and all(
        part == other or (other.startswith("{") and (part.startswith(("«", "{", "…")))) for part, other in zip(parts, wanted, strict=True)
    )


_TRANSFORMATION = re.compile(r"(?:[Tt]ransformations?|predicate) ([A-Z]\w+(?:\$\w+)?)(?:, ([a-z.]+)(?:=(\w+))?)?")
_CLASS = re.compile(r"(?<![\w./$«-])(?:[A-Z][a-z0-9]+){2,}(?![\w.]*\.[a-z])")
_OTHERS: Final = {
    *("PostgreSQL", "MariaDB", "HyperSQL", "DataDirect", "DuckDB", "InnoDB", "OpenSSH", "PySpark", "MirrorMaker", "KafkaConnect"),
    *("BigDecimal", "BigInteger", "BooleanDeserializer", "SimpleDateFormat", "TopicPartition", "BaseNotifier", "StrEnum"),
    *("DefaultPartitioner", "FieldPartitioner", "TimeBasedPartitioner", "DailyPartitioner", "HourlyPartitioner", "RecordField"),
    *("FileStreamSinkTask", "FileStreamSourceTask", "SourceRecords", "SameCluster", "KafkaConnector", "ClassName", "LocalFileSystem"),
}
"""Words with capitals within that are not classes of this package: products, classes of others, choices of settings."""


@cache
def plugins() -> Mapping[str, type[Plugin]]:
    """The built-in plugins by all of their names, without packages."""
    found = {}
    for each in PluginCatalog().plugins():
        loaded: type[Plugin] = each.load()
        for name in (each.class_name, *loaded.aliases):
            short = name.rpartition(".")[2]
            found.update({short: loaded, short.removesuffix("$Value"): loaded, short.removesuffix("Connector"): loaded})
    return found


def unknown_plugins(text: str) -> Iterator[str]:
    """Transformations and predicates that do not exist, their settings that they do not have, and other names of classes."""
    named = _TRANSFORMATION.findall(text)
    for name, setting, value in named:
        key = plugins()[name].config_def.keys.get(setting) if name in plugins() else None
        if setting and name in plugins() and (key is None or (value and not accepts(key, value))):
            yield f"{name}, {setting}={value}"
    names = dict.fromkeys((*(name for name, _, _ in named), *_CLASS.findall(text)))
    yield from (name for name in names if name not in plugins() and name not in source().classes | _OTHERS)


_OF_THIS_PACKAGE = re.compile(r"connector\.class=(\w+) of this package, with (.*)", re.DOTALL)
_SETTING = re.compile(r"(?<![\w«.$])[a-z]+(?:\.[a-z]+)+(?![\w».*])")


def settings_of_others(text: str) -> Iterator[str]:
    """Settings that the class in the text does not have."""
    for name, rest in _OF_THIS_PACKAGE.findall(text):
        there = plugins()[name].config_def.keys if name in plugins() else {}
        yield from (key for key in _SETTING.findall(rest) if key not in there and key not in foreign())


_PAGE = re.compile(r"\bdocs/([\w-]+\.md)(?:#([\w.-]+))?")


def unknown_pages(text: str) -> Iterator[str]:
    for page, anchor in _PAGE.findall(text):
        file = DOCS / page
        if not file.exists() or (anchor and anchor not in site.anchors(file.read_text(encoding="utf-8"))):
            yield f"{page}#{anchor}"


_OPTION = re.compile(r"(\b[a-z]+(?:_[a-z]+)+|\bhost|\bport) (?:in|of) section \[(\w+)\]")
_VARIABLE = re.compile(r"\b[A-Z]{2,}(?:__?[A-Z0-9]+)+\b(?!\.)")
_OF_OTHERS: Final = {"PGSSLROOTCERT", "SASL_SSL", "SASL_PLAINTEXT", "SERVICE_NAME", "STATIC_TOKEN"}


@cache
def constants() -> frozenset[str]:
    return frozenset(each.text for each in source().texts)


@cache
def airflows(section: str) -> frozenset[str]:
    """The options of Airflow's section."""
    return frozenset(retrieve_configuration_description(include_providers=False).get(section, {}).get("options", ()))


def unknown_options(text: str) -> Iterator[str]:
    """Options of Airflow that neither Airflow nor the provider has, and environment variables that nothing here reads."""
    own = get_provider_info()["config"]
    for option, section in _OPTION.findall(text):
        if option not in own.get(section, {}).get("options", {}) and option not in airflows(section):
            yield f"[{section}] {option}"
    for name in _VARIABLE.findall(text):
        section, _, option = name.removeprefix("AIRFLOW__").lower().partition("__")
        if name.startswith("AIRFLOW__"):
            known = own.get(section, {}).get("options", {}).keys() | {key.replace(".", "_") for key in worker_keys()}
            if option not in known and option not in airflows(section):
                yield name
        elif name not in _OF_OTHERS and name not in constants():
            yield name


CHECKS: Final = (
    unknown_names,
    refused_values,
    unknown_commands,
    unknown_flags,
    unknown_packages,
    unknown_routes,
    unknown_plugins,
    settings_of_others,
    unknown_pages,
    unknown_options,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_what_messages_name_is_there(check: Any) -> None:
    assert [f"{finding!r}: {each}" for each in advice() for finding in check(each.text)] == []


@pytest.mark.parametrize(
    ("check", "text", "wrong"),
    [
        (unknown_names, "set batch.max.recrods to a smaller number", ["batch.max.recrods"]),
        (unknown_names, "raise producer.override.max.request.sizes of the connector", ["producer.override.max.request.sizes"]),
        (refused_values, "or set auto.evolve=yes, and run it again", ["auto.evolve=yes"]),
        (refused_values, "or set delivery.guarantee to at_least_twice.", ["delivery.guarantee=at_least_twice"]),
        (unknown_commands, "see airflow connect states", ["airflow connect states"]),
        (unknown_commands, "airflow connect stop … --nonsense, then", ["airflow connect stop … --nonsense"]),
        (unknown_commands, "call connect-once instead of connect-run x", []),
        (unknown_commands, "kafka-topics.sh --create --topic …", ["kafka-topics.sh --create"]),
        (unknown_flags, "give it without --conn-ids and --url", ["--conn-ids"]),
        (unknown_packages, "Run: pip install 'airflow-provider-connect[frame]'", ["airflow-provider-connect[frame]"]),
        (unknown_routes, "set the offset (PATCH /connectors/«name»/offset)", ["PATCH /connectors/«name»/offset?"]),
        (unknown_plugins, "rename one (transformation RenameField)", ["RenameField"]),
        (unknown_plugins, "flatten it (transformation Flatten, separator=_)", ["Flatten, separator=_"]),
        (unknown_plugins, "the predicate RecordIsNull", ["RecordIsNull"]),
        (settings_of_others, "connector.class=FileSystemSink of this package, with file.pattern", ["file.pattern"]),
        (unknown_pages, "see docs/sql-transforms.md", ["sql-transforms.md#"]),
        (unknown_options, "name another in option spark_connection of section [connect]", ["[connect] spark_connection"]),
        (unknown_options, "set AIRFLOW_PROVIDER_CONNECT_CACHES to a folder", ["AIRFLOW_PROVIDER_CONNECT_CACHES"]),
    ],
)
def test_a_name_that_is_nowhere_is_found_out(check: Any, text: str, wrong: list[str]) -> None:
    assert list(check(text)) == wrong


def test_a_message_that_asks_to_set_offsets_asks_to_stop_the_connector() -> None:
    """Offsets of other connectors are refused."""
    asking = [each for each in advice() if re.search(r"PATCH /connectors/\S+/offsets", each.text)]
    assert len(asking) > 5
    assert [str(each) for each in asking if not re.search(r"\bstop", each.text, re.IGNORECASE)] == []


def values_in(page: str) -> Iterator[str]:
    """Settings with values between backticks, outside of blocks."""
    for line, is_prose in site.prose(page):
        yield from (token for token in re.findall(r"`([^`]+)`", line if is_prose else "") if "=" in token)


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda page: page.name)
def test_values_of_settings_on_a_page_are_accepted(page: Path) -> None:
    found = (wrong for token in values_in(page.read_text(encoding="utf-8")) for wrong in refused_values(token))
    assert [wrong for wrong in found if "." in wrong.partition("=")[0]] == []


# The messages of the page


def messages() -> list[str]:
    """The messages in the headings of the page; ``…`` stands for any text."""
    return re.findall(r"^### `(.+)`$", TROUBLESHOOTING.read_text(encoding="utf-8"), re.MULTILINE)


@cache
def lines() -> str:
    return "\n".join(each.text.replace("\n", " ") for each in source().texts)


def is_in_the_code(message: str) -> bool:
    """Whether one text has all of its pieces in their order."""
    pieces = [re.escape(piece.strip()) for piece in message.split("…") if piece.strip(" .:;")]
    return re.search(".*".join(pieces), lines()) is not None


def test_a_message_that_is_nowhere_is_found_out() -> None:
    assert is_in_the_code("Claim … of connector …")
    assert not is_in_the_code("Claim … of connector … is the oldest")


@pytest.mark.parametrize("message", messages())
def test_the_code_has_the_message(message: str) -> None:
    assert is_in_the_code(message)


def test_every_message_has_a_remedy() -> None:
    parts = TROUBLESHOOTING.read_text(encoding="utf-8").split("\n### ")[1:]
    assert len(parts) > 30
    assert [part.splitlines()[0] for part in parts if "**Remedy:**" not in part] == []
