"""``airflow connect import``: import connectors with their offsets from a running Kafka Connect or from files, and hand them back.

Without an option, the command lists the connectors; if a connector cannot run in this cluster, it prints the reason. Connectors are created
STOPPED, so no connector runs in both clusters. The worker file of a Kafka Connect stands for its whole cluster, whose connectors join one
shared application.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import random
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import yaml

from airflow_provider_connect import __version__
from airflow_provider_connect.cli.connection import Verbs, client_of, connect_command
from airflow_provider_connect.cli.import_report import FEW, ImportCandidate, page
from airflow_provider_connect.cli.printing import print_rows, print_value, visible
from airflow_provider_connect.cli.worker_file import GROUP, LOCATION, Here, SettingOutcome, application_for, outcomes, worker_file
from airflow_provider_connect.client.conversation import RetryLimits, is_outage
from airflow_provider_connect.client.rest_client import ConnectClient
from airflow_provider_connect.errors import (
    BadRequestException,
    ConfigException,
    ConflictException,
    ConnectException,
    NotFoundException,
    PluginNotFoundException,
)
from airflow_provider_connect.hooks.airflow_settings import airflow_secrets, run_directory, sources_above_file
from airflow_provider_connect.rest.secrets import Secrets
from airflow_provider_connect.runtime.config.dag_settings import APPLICATION, CONTINUOUS, PROCESS, SCHEDULE, application_key, application_of
from airflow_provider_connect.runtime.config.masking import Mask, config_secrets
from airflow_provider_connect.runtime.config.worker_settings import SIMPLE_HEADER_CONVERTER, WorkerSettings
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.java.config.rules import STAY, needs_continuous
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.connector_keys import LOCATION_KEY
from airflow_provider_connect.runtime.model.ids import application_dag_id
from airflow_provider_connect.runtime.model.secret_keys import HIDDEN
from airflow_provider_connect.runtime.model.states import INITIAL_STATES, TargetState
from airflow_provider_connect.runtime.model.upgrades import CLASS_KEY, VERSION_KEY
from airflow_provider_connect.runtime.model.versions import choose_version
from airflow_provider_connect.runtime.model.views import ConnectorInfo, ConnectorStatusView, OffsetView, PluginView
from airflow_provider_connect.runtime.plugins.catalog.maven_connectors import installation_of
from airflow_provider_connect.runtime.plugins.catalog.next_step import INSTALL, next_step
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import CONNECTOR_KINDS, built_in_connectors, short_names
from airflow_provider_connect.runtime.spark.run_directory import write_private
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.group_offsets import GroupOffsets
from airflow_provider_connect.standalone.files import read_connector_file

_T = TypeVar("_T")

_RETRY = RetryLimits(seconds=30.0)
_STOP_SECONDS = 120.0
_CONVERTERS, _HEADERS = ("key.converter", "value.converter"), "header.converter"
_STATES = {"PAUSED": TargetState.PAUSED, "STOPPED": TargetState.STOPPED}
_YAML = (".yaml", ".yml")
_LONGEST_KEY = 100
_MOST_NODES = 200_000  # of a YAML file; nodes of an alias count at each use
_DAG_FILE = '''"""Connector {name}, imported from {source}."""

from airflow_provider_connect import ConnectorDag

ConnectorDag(
    {name_text},
    {{
{config}
    }},
)
'''


@dataclass(slots=True)
class Found:
    """A connector to import. ``problem`` is the reason why it cannot run in this cluster. None: it can run."""

    name: str
    config: dict[str, str]
    state: TargetState = TargetState.STARTED
    problem: str | None = None
    errors: Sequence[str] = field(default_factory=list)
    """The parts of ``problem``, if the server refuses the config."""
    warnings: Sequence[str] = field(default_factory=list)
    is_begun: bool = False
    """Whether an interrupted handover has created the connector in this cluster."""
    is_member: bool = False
    """Whether the config already names the application."""
    carried: dict[str, str | None] = field(default_factory=dict, repr=False)
    """What the other worker's file changes in the config. None: the key is removed."""


@connect_command
def import_connectors(arguments: Any, verbs: Verbs) -> None:
    """List, create, hand over, hand back or take over connectors. The exit code is 1 if a connector cannot be imported."""
    if sum(map(bool, (arguments.create, arguments.dags, arguments.handover, arguments.handback, arguments.takeover))) > 1:
        raise BadRequestException("Give one of --create, --dags, --handover, --handback and --takeover")
    is_server = arguments.source.startswith(("http://", "https://"))
    worker = None if is_server else worker_file(Path(arguments.source))
    if worker is not None:
        sys.exit(_of_cluster(worker, arguments, verbs))
    if arguments.takeover or arguments.source_url:
        raise BadRequestException("--takeover and --source-url need a worker file of Kafka Connect, such as connect-distributed.properties")
    if (arguments.handover or arguments.handback) and not is_server:
        raise BadRequestException("A file has no offsets: --handover and --handback need the URL of a running Kafka Connect")
    application = None if arguments.application is None else application_for({}, arguments.application)
    if not is_server:
        sys.exit(_from(list(_chosen(_of_file(Path(arguments.source)), arguments.names)), arguments, verbs, None, application))
    with client_of(arguments.source, arguments.source_user, _RETRY) as there:
        sys.exit(_from(list(_chosen(_of_server(there), arguments.names)), arguments, verbs, there, application))


def _from(
    found: list[Found],
    arguments: Any,
    verbs: Verbs,
    there: ConnectClient | None,
    application: str | None,
    *,
    existing: set[str] | None = None,
    settings: Sequence[SettingOutcome] = (),
    worker: Mapping[str, str] | None = None,
) -> int:
    """``existing``: the connectors here that are not those of ``found``. None: all. ``worker``: the settings of the other worker's file, if
    it is given."""
    source = arguments.source if there is None else there.server.url  # without the URL's login
    if arguments.handback:
        assert there is not None
        return _each(found, lambda each: _hand_back(each, verbs, there))
    existing = set(verbs.connectors()) if existing is None else existing
    for each in found:
        if application is not None:
            each.is_member = application_of(each.config) == application
            each.config[APPLICATION] = application
        _let_stay(each)
        _carry_converters(each, worker, verbs)
        each.is_begun = arguments.handover and there is not None and each.name in existing and _is_begun(each, verbs, there)
        _check(each, verbs, existing)
        if worker is None:
            _name_converters(each, verbs)
    if arguments.dags is not None:
        folder = Path(arguments.dags)
        folder.mkdir(parents=True, exist_ok=True)
        secrets = Secrets(verbs.plugin_config, hides_unknown=True)
        return _each(found, lambda each: _write_dag(each, folder, source, secrets))
    if arguments.create:
        return _each(found, lambda each: _create(each, verbs, there))
    if arguments.handover:
        assert there is not None
        return _each(found, lambda each: _hand_over(each, verbs, there))
    if arguments.takeover:
        assert application is not None
        return _each(found, lambda each: _join(each, verbs, application))
    if settings and arguments.output != "table":
        plugins = verbs.plugins()
        shown = {
            "application": application,
            "settings": list(map(_setting, settings)),
            "connectors": [_row(each, plugins) for each in found],
        }
        print_value(shown, arguments.output)
    elif len(found) > FEW and arguments.output == "table":
        command = call_for_one(arguments, None if there is None else there.server.url)
        print(visible(page([_candidate(each) for each in found], command, is_live=there is not None)))
    else:
        _print_each(found, arguments.output, verbs.plugins())
    if not found:
        print(f"{source} has no connectors", file=sys.stderr)
    return 1 if any(each.problem for each in found) else 0


def call_for_one(arguments: Any, server: str | None) -> str:
    """This call for one connector, NAME, and without passwords. ``server`` is the URL of the other Kafka Connect without its login."""
    is_file = not arguments.source.startswith(("http://", "https://"))
    source = arguments.source if is_file or server is None else server
    options = {
        "--source-url": server if is_file else None,
        "--source-user": (arguments.source_user or "").partition(":")[0],
        "--application": arguments.application,
        "--url": arguments.url,
        "--user": (arguments.user or "").partition(":")[0],
        "--conn-id": arguments.conn_id,
    }
    words = ["airflow", "connect", "import", source, "NAME"]  # the name first: argparse accepts none after an option
    return shlex.join([*words, *(word for option, value in options.items() if value for word in (option, value))])


# ── the whole cluster ──


def _of_cluster(worker: Mapping[str, str], arguments: Any, verbs: Verbs) -> int:
    """The connectors of the cluster whose worker file has the settings ``worker``, from its REST API if ``--source-url`` names it, or else
    from its config topic."""
    if (arguments.handover or arguments.handback) and not arguments.source_url:
        raise BadRequestException("--handover and --handback need the running Kafka Connect: give its REST API as --source-url URL")
    application = application_for(worker, arguments.application)
    secrets = airflow_secrets(worker)
    settings = outcomes(worker, secrets)
    is_list = not (arguments.create or arguments.dags or arguments.handover or arguments.handback or arguments.takeover)
    if is_list and arguments.output == "table":
        print_rows(list(map(_setting, settings)), "table")
        print()
    if arguments.source_url and not arguments.takeover:
        with client_of(arguments.source_url, arguments.source_user, _RETRY) as there:
            found = list(_chosen(_of_server(there), arguments.names))
            code = _from(found, arguments, verbs, there, application, settings=settings, worker=worker)
    else:
        if wrong := [each for each in settings if each.here is Here.WRONG]:
            reasons = "; ".join(f"{each.key}: {each.reason}" for each in wrong)
            raise ConfigException(f"The config topic cannot be read with wrong settings: {reasons}. Correct them, or give --source-url URL")
        code = _of_topics(worker, WorkerSettings.of(worker, secrets), arguments, verbs, settings)
    if is_list and arguments.output == "table":
        named = [] if arguments.application is None else ["--application", arguments.application]
        command = shlex.join(["airflow", "connect", "import", arguments.source, "--takeover", *named])
        print(visible(_STEPS.format(file=Path(arguments.source).absolute(), command=command, application=application)))
        _print_engine(worker, application)
    return code


_STEPS: Final = """
To take over the whole cluster as application {application}: stop Kafka Connect, and set on each host of Airflow
   AIRFLOW__CONNECT__WORKER_PROPERTIES={file}
   AIRFLOW__CONNECT__AIRFLOW_ALLOWED_APPLICATIONS={application}
then: {command}"""


def _print_engine(worker: Mapping[str, str], application: str) -> None:
    key = application_key(application, "engine")
    if worker.get(key) != PROCESS:
        line = f"{key}={PROCESS}"
        print(visible(f"With Spark and a master such as local[2], each task needs a core. To run without Spark, add to the file: {line}"))


def _setting(outcome: SettingOutcome) -> dict[str, object]:
    return {"setting": cut(outcome.key, _LONGEST_KEY), "here": str(outcome.here), "reason": outcome.reason or None}


def _of_topics(worker: Mapping[str, str], there: WorkerSettings, arguments: Any, verbs: Verbs, settings: Sequence[SettingOutcome]) -> int:
    application = application_for(worker, arguments.application)
    hide = Mask(config_secrets(there.values))
    try:
        with ConfigStore(there) as store:
            is_here = _is_here(there, store.topic_id(), verbs, must=arguments.takeover)
            if arguments.takeover:
                _require_no_workers(there)
            state = store.read()  # after that: what workers have written is complete
    except ConnectException as error:
        raise ConfigException(hide(error.message)) from None
    found = [
        _found(name, config, state.target_state(name) or TargetState.STARTED) for name, config in sorted(state.connector_configs.items())
    ]
    chosen = list(_chosen(iter(found), arguments.names))
    code = _from(chosen, arguments, verbs, None, application, existing=set() if is_here else None, settings=settings, worker=worker)
    if arguments.takeover and arguments.output == "table":
        print(f"DAG {application_dag_id(application)} hosts them, as soon as Airflow has parsed it")
        _print_engine(worker, application)
    return code


def _is_here(there: WorkerSettings, topic_id: str, verbs: Verbs, *, must: bool) -> bool:
    """Whether the cluster ``there``, whose config topic has this id, is the one that ``verbs`` change. Raises an error if it ``must``."""
    if not isinstance(verbs, Herder):
        if must:
            raise BadRequestException("--takeover changes the Connect of this Airflow: leave out --url and --conn-id")
        return False
    here = verbs.settings
    names = zip(LOCATION, _location(there), _location(here), strict=True)
    for key, value, ours in names:
        if value != ours:
            if must:
                raise ConfigException.of(key, cut(value), f"this Airflow has {cut(ours)}. {_fix(key)}")
            return False
    with ConfigStore(here) as store:
        if store.topic_id() == topic_id:
            return True
    if must:
        raise ConfigException.of(
            "bootstrap.servers",
            there.bootstrap_servers,
            f"{here.bootstrap_servers}, which this Airflow has, are other brokers. {_fix('bootstrap.servers')}",
        )
    return False


def _fix(key: str) -> str:
    """How this Airflow gets the file's value of a setting. Names the sources that override the file."""
    sources = sources_above_file(key)
    return (
        "A takeover needs the settings of the file: name it in AIRFLOW__CONNECT__WORKER_PROPERTIES on each host of Airflow, and set "
        f"{key} in no other source"
    ) + (f": now it is set in {' and '.join(sources)}" if sources else "")


def _location(settings: WorkerSettings) -> tuple[str, ...]:
    return settings.group_id, settings.config_topic, settings.offset_topic, settings.status_topic


def _require_no_workers(there: WorkerSettings) -> None:
    """Raises ConflictException while workers of Kafka Connect are in the group: both sides would run the same connectors."""
    with contextlib.closing(GroupOffsets(there)) as groups:
        workers = groups.workers(there.group_id)
    if workers:
        shown = ", ".join(map(cut, workers[:3]))
        raise ConflictException(
            f"Kafka Connect is running: {GROUP} {cut(there.group_id)} has {len(workers)} workers ({shown}). Stop them first"
        )


def _join(found: Found, verbs: Verbs, application: str) -> str:
    """Have the connector join the application. It keeps its state, offsets and other settings."""
    if found.is_member:
        return f"is in application {application}"
    verbs.patch_connector_config(found.name, {**found.carried, APPLICATION: application})
    return f"joins application {application}"


def _candidate(found: Found) -> ImportCandidate:
    errors = found.errors or ([found.problem] if found.problem else [])
    return ImportCandidate(found.name, found.config.get("connector.class") or "", errors, found.warnings)


def _print_each(found: Sequence[Found], output: str, plugins: Sequence[PluginView]) -> None:
    print_rows([_row(each, plugins) for each in found], output)
    for each in found:
        _print_warnings(each)


def _print_warnings(found: Found) -> None:
    for warning in found.warnings:
        print(visible(f"{found.name}: {warning}"), file=sys.stderr)


def _row(found: Found, plugins: Sequence[PluginView]) -> dict[str, object]:
    verdict, reason = verdict_of(found.config, found.problem, found.warnings, plugins)
    state = next(word for word, state in INITIAL_STATES.items() if state is found.state)
    return {"name": found.name, "class": found.config.get("connector.class"), "state": state, "here": verdict, "reason": reason}


def _each(found: Sequence[Found], act: Callable[[Found], str]) -> int:
    """Act on each connector, even after a failure. Returns the exit code."""
    failed = 0
    for each in found:
        try:
            if each.problem:
                raise ConfigException(each.problem)
            print(visible(f"{each.name}: {act(each)}"))
            _print_warnings(each)
        except ConnectException as error:
            failed += 1
            print(visible(f"{each.name}: {error.message}"), file=sys.stderr)
    return 1 if failed else 0


# ── reading ──


def _of_server(there: ConnectClient) -> Iterator[Found]:
    for name, views in sorted(there.expanded().items()):
        info, status = views.get("info"), views.get("status")
        if isinstance(info, ConnectorInfo):
            state = status.connector.state if isinstance(status, ConnectorStatusView) else "RUNNING"
            config: Mapping[str, object] = info.config  # as received: values that are not text are refused below
            yield _found(name, config, _STATES.get(state, TargetState.STARTED))


def _found(name: str, config: Mapping[str, object], state: TargetState) -> Found:
    """A null value is left out. A connector with another value that is not text cannot run in this cluster."""
    wrong = [key for key, value in config.items() if value is not None and not _is_text(value)]
    found = Found(name, {key: value for key, value in config.items() if isinstance(value, str) and _is_text(key)}, state)
    if wrong or not all(map(_is_text, (name, *config))):
        shown = f", not those of {', '.join(map(str, wrong[:10]))}" if wrong else ""
        found.problem = f"its name, keys and values must be texts of whole characters{shown}"
    return found


def _is_text(value: object) -> bool:
    """Whether it is text without unpaired surrogates. JSON and YAML may contain them."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _of_file(path: Path) -> Iterator[Found]:
    """Strimzi's KafkaConnector resources of a YAML file, or one connector in a format of ``connect-standalone``."""
    if path.suffix not in _YAML:
        given = read_connector_file(path)
        yield Found(given.name, dict(given.config), given.initial_state or TargetState.STARTED)
        return
    try:
        documents = list(yaml.load_all(path.read_text(encoding="utf-8"), _Resources))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigException(f"{path} cannot be read: {error}") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:  # the error may quote a secret from the file
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f", in line {mark.line + 1}, column {mark.column + 1}"
        advice = "Values that begin with one of @ * & ! % ` { [ must be quoted."
        raise ConfigException(f"{path} cannot be read as YAML ({type(error).__name__}{where}). {advice}") from None
    resources = [each for each in documents if isinstance(each, dict) and each.get("kind") == "KafkaConnector"]
    if not resources:
        raise ConfigException(f"{path} has no resource of kind KafkaConnector")
    for resource in resources:
        yield _of_resource(resource, path)


class _Resources(yaml.SafeLoader):  # type: ignore[misc]  # yaml is not typed for us
    """Reads YAML. Keeps numbers and dates as text. Counts all nodes of an alias at each use, so that a small file cannot expand to
    gigabytes."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {  # by the first character of a value
        first: [(tag, pattern) for tag, pattern in found if tag.rpartition(":")[2] in ("bool", "null", "merge")]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._nodes = 0
        self._sizes: dict[int, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:  # yaml is not typed for us
        is_alias, before = self.check_event(yaml.AliasEvent), self._nodes
        node = super().compose_node(parent, index)
        self._nodes += self._sizes.get(id(node), 1) if is_alias else 1
        self._sizes.setdefault(id(node), self._nodes - before)
        if self._nodes > _MOST_NODES:
            raise yaml.YAMLError(f"more than {_MOST_NODES} values")
        return node


def _of_resource(resource: Mapping[str, Any], path: Path) -> Found:
    spec, metadata = resource.get("spec") or {}, resource.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not isinstance(spec, dict) or not isinstance(spec.get("config") or {}, dict):
        raise ConfigException(f"{path}: a KafkaConnector needs metadata.name, and spec.config as a mapping")
    named = {"connector.class": spec.get("class"), "tasks.max": spec.get("tasksMax"), "connector.plugin.version": spec.get("version")}
    config = {**(spec.get("config") or {}), **{key: value for key, value in named.items() if value is not None}, "name": name}
    word = "PAUSED" if spec.get("pause") is True else str(spec.get("state") or "running").upper()
    if word not in INITIAL_STATES:
        raise ConfigException(f"{path}: spec.state of {name} is {word.lower()}; it must be running, paused or stopped")
    return _found(name, {_word(key): _word(value) for key, value in config.items()}, INITIAL_STATES[word])


def _word(value: object) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _chosen(found: Iterator[Found], names: Sequence[str]) -> Iterator[Found]:
    """The connectors in ``names``, or all. Raises NotFoundException for an unknown name."""
    missing = set(names)
    for each in found:
        if not names or each.name in names:
            missing.discard(each.name)
            yield each
    if missing:
        raise NotFoundException(f"Connector {', '.join(sorted(missing))} not found")


def _let_stay(found: Found) -> None:
    """Add the schedule of runs that stay, if the connector's runs must stay and its config has neither a schedule nor an application."""
    reason = needs_continuous(found.config.get(CLASS_KEY) or "")
    if reason is not None and SCHEDULE not in found.config and APPLICATION not in found.config:
        found.config[SCHEDULE] = CONTINUOUS
        found.warnings = [f"{STAY} is added: {reason}"]


def _carry_converters(found: Found, worker: Mapping[str, str] | None, verbs: Verbs) -> None:
    """Add the converters of the other worker's file that the config does not name, if this worker's differ. None: there is no file."""
    if worker is None:
        return
    carried = []
    for key in (*_CONVERTERS, _HEADERS):
        there = _converter(worker, key)
        if key in found.config or key not in there or there == _converter_here(key, verbs):
            continue
        without_effect = [name for name in found.config if name.startswith(f"{key}.")]  # because the config does not name the class
        found.carried |= dict.fromkeys(without_effect) | there
        found.config = {name: value for name, value in found.config.items() if name not in without_effect} | there
        carried.append(key)
    if carried and not found.problem:
        keys = " and ".join(carried)
        found.warnings = [*found.warnings, f"{keys}: added, because this worker's differ from those of the file"]


def _converter(worker: Mapping[str, str], key: str) -> dict[str, str]:
    """The settings of a worker's converter. Without the class if Kafka Connect has no default for it."""
    default = {key: SIMPLE_HEADER_CONVERTER} if key == _HEADERS else {}
    return default | {name: value for name, value in worker.items() if name == key or name.startswith(f"{key}.")}


def _converter_here(key: str, verbs: Verbs) -> dict[str, str]:
    """The settings of this worker's converter. Of a server, only the default is known."""
    if not isinstance(verbs, Herder):
        return _converter({}, key)
    here = verbs.settings
    classes = {"key.converter": here.key_converter, "value.converter": here.value_converter, _HEADERS: here.header_converter}
    return {**_converter(here.values, key), key: classes[key]}


def _name_converters(found: Found, verbs: Verbs) -> None:
    """Warn of converters that only the other worker's file names, because with other ones the records change from here on."""
    missing = [key for key in _CONVERTERS if key not in found.config]
    if missing and not found.problem:
        keys, here = " and ".join(missing), dict.fromkeys(_converter_here(key, verbs).get(key, "") for key in missing)
        named = f" ({', '.join(here)})" if any(here) else ""
        text = (
            f"{keys}: not in the config, so the other worker's apply there, which its REST API does not tell, and this worker's here{named}"
        )
        advice = "Unless both are equal, add them to the config, as the other worker's properties file has them"
        found.warnings = [*found.warnings, f"{text}. {advice}"]


def _check(found: Found, verbs: Verbs, existing: set[str]) -> None:
    """Set ``problem`` if the connector cannot run in this cluster."""
    if found.problem:
        return
    if found.name in existing and not found.is_begun:
        found.problem = (
            f"a connector of this name exists here; to import it again, delete it first: airflow connect delete {shlex.quote(found.name)}"
        )
        return
    plugin = found.config.get("connector.class") or ""
    try:
        validation = verbs.validate(plugin, found.config)
    except ConnectException as error:
        found.problem = error.message
        return
    errors = [error if value.name in error else f"{value.name}: {error}" for _, value in validation.configs for error in value.errors]
    found.errors = list(dict.fromkeys(errors))
    found.problem = "; ".join(found.errors) or None
    found.warnings = [*found.warnings, *validation.warnings]


def _is_begun(found: Found, verbs: Verbs, there: ConnectClient) -> bool:
    """Whether an interrupted handover created the connector in this cluster. The connector is then STOPPED, with the same config, and has
    only offsets of the other cluster."""
    here = verbs.connector_info(found.name).config
    if here.keys() != found.config.keys() or any(value not in (found.config[key], HIDDEN) for key, value in here.items()):
        return False
    with contextlib.suppress(NotFoundException):  # the connector is new
        if verbs.connector_status(found.name).connector.state != "STOPPED":
            return False
    offsets = _by_partition(verbs.offsets(found.name))
    return not offsets or offsets.items() <= _by_partition(there.offsets(found.name)).items()


def _by_partition(offsets: Sequence[OffsetView]) -> dict[str, str]:
    texts = (
        (json.dumps(each.partition, sort_keys=True), json.dumps(each.offset, sort_keys=True)) for each in offsets if each.offset is not None
    )
    return dict(texts)


# ── actions ──


def _create(found: Found, verbs: Verbs, there: ConnectClient | None) -> str:
    if there is not None:
        _note_of(found, there).unlink(missing_ok=True)  # of a handover that was given up
    verbs.create_connector(found.name, found.config, TargetState.STOPPED)
    return "is created, STOPPED, without its offsets"


def _write_dag(found: Found, folder: Path, source: str, secrets: Secrets) -> str:
    """Write a DAG file, with Airflow Variables in place of secrets."""
    shown, config, variables = secrets.redacted(found.config), {}, dict[str, str]()
    for key, value in found.config.items():
        if key == "name":
            continue
        config[key] = value
        if shown[key] != value:
            variable = _variable(found.name, key, variables)
            config[key], variables[variable] = f"${{variable:{variable}}}", key
    lines = [f"\n  airflow variables set {variable} …    # {_plain(key)}" for variable, key in variables.items()]
    file = folder / f"{_file_name(found.name)}.py"
    quoted = "\n".join(f"        {_literal(key)}: {_literal(value)}," for key, value in config.items())
    text = _DAG_FILE.format(name=_plain(found.name), source=_plain(source), name_text=_literal(found.name), config=quoted)
    try:
        with file.open("x", encoding="utf-8") as written:
            written.write(text)
    except FileExistsError:
        raise ConfigException(f"{file} exists already; nothing was written") from None
    advice = "; set its secrets, and allow connectors to read them (config.providers.variable.access.…):" if lines else ""
    return f"is written to {file}{advice}{''.join(lines)}"


def _variable(connector: str, key: str, taken: Mapping[str, str]) -> str:
    """The name of a Variable, unique for the connector and the key."""
    name = f"{_file_name(connector)}.{re.sub(r'[^A-Za-z0-9_]', '_', key)[:100]}"
    others = (f"{name}_{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain([name], others) if each not in taken)


def _literal(text: str) -> str:
    """A Python literal in ASCII. JSON's escapes equal Python's up to U+FFFF."""
    return json.dumps(text) if max(text, default="") <= "\uffff" else ascii(text)


def _plain(text: str) -> str:
    """The text, safe for a docstring."""
    return re.sub(r"[^\w .:/@-]", "_", text)


def _file_name(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:100]
    return plain if plain == name else f"{plain}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def _note_of(found: Found, there: ConnectClient) -> Path:
    """The file of this host with the state that the connector had before its handover. It is removed when the handover is complete."""
    text = json.dumps([there.server.url, found.name])
    return run_directory() / f"handover-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _hand_over(found: Found, verbs: Verbs, there: ConnectClient) -> str:
    """(1) Note the connector's state on this host. (2) Create the connector STOPPED in this cluster. If the config is refused, it still
    runs in the other cluster. (3) Stop it in the other cluster. (4) Copy its offsets. (5) Restore its state. Resumes an interrupted
    handover. If the connector is then STOPPED in the other cluster and this host has no note, its previous state is unknown."""
    note = _note_of(found, there)
    state: TargetState | None = found.state
    if found.is_begun and state is TargetState.STOPPED:
        state = TargetState(note.read_text()) if note.exists() else None
    else:
        write_private(note, found.state)
    if not found.is_begun:
        verbs.create_connector(found.name, found.config, TargetState.STOPPED)
    try:
        count = _move(found.name, there, verbs)
        if state is TargetState.STARTED:
            _retried(lambda: verbs.resume(found.name))
        elif state is TargetState.PAUSED:
            _retried(lambda: verbs.pause(found.name))
    except ConnectException as error:
        back = f"airflow connect delete {shlex.quote(found.name)}; then resume it at the other side"
        advice = "It is STOPPED on both sides, or still runs there. To continue, repeat the command."
        raise ConnectException(f"{error.message}. {advice} To go back: {back}") from error
    note.unlink(missing_ok=True)
    if state is None:
        return f"is STOPPED on both sides, and has its {count} offsets here; airflow connect resume {shlex.quote(found.name)} starts it"
    return f"is STOPPED there, and continues here with {count} offsets"


def _hand_back(found: Found, verbs: Verbs, there: ConnectClient) -> str:
    verbs.connector_info(found.name)
    if found.state is not TargetState.STOPPED:
        raise BadRequestException("it is not STOPPED at the other side, so it was not handed over")
    count = _move(found.name, verbs, there)
    there.resume(found.name)
    _wait_until(found.name, there, stopped=False)  # its status follows later
    return f"is STOPPED here, and continues there with {count} offsets"


def _move(name: str, source: Verbs, target: Verbs) -> int:
    """Stop the connector at ``source`` and copy its offsets to ``target``, where it is STOPPED. Returns the number of offsets."""
    _retried(lambda: source.stop(name))
    for side in (source, target):
        _wait_until(name, side, stopped=True)
    found = _retried(lambda: source.offsets(name))
    offsets = [OffsetView(each.partition, each.offset) for each in found if each.offset is not None]
    if offsets:
        _retried(lambda: target.alter_offsets(name, offsets))
    return len(offsets)


def _retried(call: Callable[[], _T]) -> _T:
    """The answer of ``call``, which may be repeated. A call that fails because a server or broker is not available, such as the coordinator
    of a sink's group, is retried within ``_RETRY``."""
    started = time.monotonic()
    for attempt in itertools.count():
        try:
            return call()
        except ConnectException as error:
            wait = _RETRY.wait(attempt, random.random())
            if not is_outage(error) or time.monotonic() + wait - started > _RETRY.seconds:
                raise
        time.sleep(wait)
    raise AssertionError


def _wait_until(name: str, side: Verbs, *, stopped: bool) -> None:
    deadline = time.monotonic() + _STOP_SECONDS
    while True:
        try:
            status = _retried(lambda: side.connector_status(name))
        except NotFoundException:  # the connector is new
            status = None
        if status is not None and (status.connector.state == "STOPPED" and not status.tasks) is stopped:
            return
        if time.monotonic() > deadline:
            raise ConnectException(f"It was not {'STOPPED' if stopped else 'resumed'} within {_STOP_SECONDS:.0f} s")
        time.sleep(0.3)


_NO_PLUGIN: Final = "Failed to find any class that implements Connector"
_NO_VERSION: Final = "not found that matches the version range"


def verdict_of(
    config: Mapping[str, str], problem: str | None, warnings: Sequence[str], plugins: Sequence[PluginView]
) -> tuple[str, str | None]:
    """A short verdict and its reason. ``problem`` is the server's reason to refuse the config; ``plugins`` are the server's."""
    if problem is not None:
        return _problem(config.get(CLASS_KEY, ""), problem, plugins)
    word = "runs in Java" if _is_java(config, plugins) else "runs"
    counted = "1 warning" if len(warnings) == 1 else f"{len(warnings)} warnings"
    return f"{word}, {counted}" if warnings else word, None


def _problem(name: str, problem: str, plugins: Sequence[PluginView]) -> tuple[str, str]:
    if _NO_PLUGIN in problem:
        return "needs a plugin", f"no plugin of class {name} is installed: {next_step(name) or INSTALL}"
    command = installation_of(name)
    is_ours_alone = not any(plugin.location is not None for plugin in _named(name, plugins))
    if _NO_VERSION in problem and command is not None and is_ours_alone:
        own = "or leave connector.plugin.version out: this package has a connector of that class"
        return "needs a plugin", f"that version of {name} is not installed: {command} (or that version); {own}"
    return "cannot run", problem


def _named(name: str, plugins: Sequence[PluginView]) -> list[PluginView]:
    """The plugins that a config may refer to by ``name``."""
    kinds = {str(kind): kind for kind in CONNECTOR_KINDS}
    return [
        plugin
        for plugin in plugins
        if plugin.type in kinds and name in {plugin.class_name, *short_names(plugin.class_name, kinds[plugin.type])}
    ]


def _is_java(config: Mapping[str, str], plugins: Sequence[PluginView]) -> bool:
    """Whether the server would choose a Java plugin. It prefers a Python plugin of the same name, unless a location or version excludes
    it."""
    name, spec = config.get(CLASS_KEY, ""), config.get(VERSION_KEY)
    named = _named(name, plugins)
    java = [plugin for plugin in named if plugin.location is not None]
    python = [plugin.version for plugin in named if plugin.location is None and plugin.version is not None]
    if not python and name in built_in_connectors():  # by an alias
        python = [__version__]
    if not java or not python or config.get(LOCATION_KEY):
        return bool(java)
    try:
        choose_version(name, python, spec)
    except (ConfigException, PluginNotFoundException):
        return True
    return False
