"""``airflow connect list|get|create|put|patch|delete|status|tasks|pause|resume|stop|restart|topics|workers|offsets|loggers``."""

import json
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from airflow_provider_connect.cli.configs import given_connector, given_pairs, shown, unhidden, unhidden_patch
from airflow_provider_connect.cli.connection import Verbs, connect_command, server_command
from airflow_provider_connect.cli.overview import Overview
from airflow_provider_connect.cli.printing import print_rows, print_value, print_warnings, visible
from airflow_provider_connect.client.verbs import ConnectVerbs
from airflow_provider_connect.errors import BadRequestException, ConnectException, NotFoundException, UnauthorizedException, short_trace
from airflow_provider_connect.runtime.config.dag_settings import dag_keys
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.offsets import requested_offsets
from airflow_provider_connect.runtime.model.states import INITIAL_STATES, TargetState
from airflow_provider_connect.runtime.model.view_json import to_json
from airflow_provider_connect.runtime.model.views import ConnectorStatusView, HealthWord, OffsetView, StateView, TaskView

if TYPE_CHECKING:
    from airflow_provider_connect.cli.waiting import Waiting


@connect_command
def list_connectors(arguments: Any, verbs: Verbs) -> None:
    """Print one row per connector. A new connector may have no state yet."""
    known, rows = verbs.expanded(info=False, status=True), []
    for name in sorted(verbs.connectors()):
        status = known.get(name, {}).get("status")
        row: dict[str, object] = {"name": name, "type": None, "state": None, "tasks": None, "worker": None}
        if isinstance(status, ConnectorStatusView):
            states = [str(task.state) for task in status.tasks]
            counted = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
            row |= {"type": status.type, "state": str(status.connector.state), "tasks": counted, "worker": status.connector.worker_id}
        rows.append(row)
    print_rows(rows, arguments.output)
    if not rows and arguments.output == "table":
        print("No connectors yet: airflow connect create NAME connector.class=… creates one, airflow connect plugins list shows classes")


@connect_command
def get(arguments: Any, verbs: Verbs) -> None:
    """Print the config as ``key=value``, or the whole connector as JSON or YAML. A server omits ``airflow.*`` keys."""
    info = verbs.connector_info(arguments.name)
    steering = _steering_keys(verbs, arguments.name) if isinstance(verbs, Herder) else {}
    config = shown(verbs, {**info.config, **steering})
    if arguments.output == "table":
        print_value(config, arguments.output)
    else:
        tasks = [task.task for task in info.tasks]
        print_value({"name": info.name, "type": info.type, "tasks": tasks, "config": config}, arguments.output)


def _steering_keys(herder: Herder, name: str) -> dict[str, str]:
    """The keys of the connector's DAG."""
    return dag_keys(herder.config_state().connector_config(name) or {})


@connect_command
def create(arguments: Any, verbs: Verbs) -> None:
    given = given_connector(arguments)
    state = given.initial_state if arguments.initial_state is None else INITIAL_STATES[arguments.initial_state.upper()]
    if arguments.wait and state in (TargetState.PAUSED, TargetState.STOPPED):
        raise BadRequestException(f"--wait waits for a run, and a connector that begins {state} has none")
    waiting = _waiting(arguments, verbs, given.name, is_new=True)
    info = verbs.create_connector(given.name, given.config, state)
    print(f"Connector {info.name} is created", flush=True)
    print_warnings(info.warnings)
    if waiting is not None:
        waiting.finish()


def _waiting(arguments: Any, verbs: Verbs, *names: str, is_new: bool = False) -> "Waiting | None":
    """A wait, which must be created before the change. None without --wait."""
    if not arguments.wait:
        if arguments.timeout is not None:
            raise BadRequestException("--timeout is for --wait")
        return None
    if len(set(names)) != 1:
        raise BadRequestException("--wait is for one connector: name only that one")
    from airflow_provider_connect.cli.waiting import Waiting  # loads Airflow's models

    return Waiting(verbs, names[0], arguments.timeout, is_new=is_new)


@connect_command
def put(arguments: Any, verbs: Verbs) -> None:
    given = given_connector(arguments)
    info, is_new = verbs.put_connector_config(given.name, unhidden(verbs, given.name, given.config))
    print(f"Connector {info.name} {'is created' if is_new else 'has this config'}")
    print_warnings(info.warnings)


@connect_command
def patch(arguments: Any, verbs: Verbs) -> None:
    changes: dict[str, str | None] = {**given_pairs(arguments.pairs), **dict.fromkeys(arguments.remove or ())}
    if not changes:
        raise BadRequestException("Give what to change as KEY=VALUE, or --remove KEY")
    info = verbs.patch_connector_config(arguments.name, unhidden_patch(verbs, arguments.name, changes))
    print_value(shown(verbs, info.config), arguments.output)
    print_warnings(info.warnings)


@connect_command
def delete(arguments: Any, verbs: Verbs) -> None:
    def change(name: str) -> None:
        verbs.delete_connector(name)
        print(f"Connector {name} is deleted; its offsets are kept")

    _change_each(arguments.names, change)


@connect_command
def status(arguments: Any, verbs: Verbs) -> None:
    """Print one row for the connector and one per task, then the connector's health, and the traces of failures."""
    found = verbs.connector_status(arguments.name)
    if arguments.output != "table":
        print_value(to_json(found), arguments.output)
        return
    instances: list[tuple[str, StateView | TaskView]] = [("connector", found.connector), *((f"task {t.id}", t) for t in found.tasks)]
    rows = [{"what": what, "state": str(each.state), "worker": each.worker_id, "version": each.version} for what, each in instances]
    print_rows(rows, "table")
    if health := Overview(verbs).health(arguments.name):
        reason = "" if health.reason is None or health.word is HealthWord.FAILING else f": {health.reason}"  # a failure's trace follows
        print(visible(f"\nhealth: {health.word}{reason}"))
    for what, each in instances:
        if each.trace:
            print(visible(f"\n{what}: {each.trace.strip() if arguments.trace else _without_calls(each.trace)}"))


def _without_calls(trace: str) -> str:
    short = short_trace(trace)
    return short if short == trace.strip() else f"{short}\n(--trace prints all of it)"


@connect_command
def tasks(arguments: Any, verbs: Verbs) -> None:
    rows = [{"task": info.id.task, "config": shown(verbs, info.config)} for info in verbs.task_infos(arguments.name)]
    print_rows(rows, arguments.output)


def _change(verb: str, done: str) -> Callable[[Any], None]:
    """A command that carries out a verb on each connector and prints ``done`` with its name."""

    @connect_command
    def command(arguments: Any, verbs: Verbs) -> None:
        def change(name: str) -> None:
            getattr(verbs, verb)(name)
            print(done.format(name))

        _change_each(arguments.names, change)

    return command


pause = _change("pause", "Connector {} pauses")
stop = _change("stop", "Connector {} stops; its offsets may be changed once it is STOPPED")


@connect_command
def resume(arguments: Any, verbs: Verbs) -> None:
    waiting = _waiting(arguments, verbs, *arguments.names)

    def change(name: str) -> None:
        is_needless = waiting is not None and _is_started(verbs, name)
        verbs.resume(name)
        print(f"Connector {name} resumes", flush=True)
        if is_needless:
            print(f"Connector {name} was neither PAUSED nor STOPPED: no run starts for it now")
        elif waiting is not None:
            waiting.finish()

    _change_each(arguments.names, change)


def _is_started(verbs: Verbs, name: str) -> bool:
    """Whether the target state is STARTED. The state that is shown follows later: a run that was asked to pause is RUNNING until its batch
    ends, and a resume starts another run nevertheless."""
    return cast("Herder", verbs).config_state().target_state(name) is TargetState.STARTED  # only this Airflow's herder can be waited for


@connect_command
def restart(arguments: Any, verbs: Verbs) -> None:
    waiting = _waiting(arguments, verbs, *arguments.names)

    def change(name: str) -> None:
        _require_started(verbs, name)
        plan = verbs.restart_connector(name, include_tasks=arguments.include_tasks, only_failed=arguments.only_failed)
        concerned = [] if plan is None else [f"task {task.id}" for task in plan.tasks if task.state == "RESTARTING"]
        if plan is None or plan.connector.state == "RESTARTING":
            concerned.insert(0, "connector")
        print(f"{name}: {', '.join(concerned)} restarts" if concerned else f"{name}: nothing to restart", flush=True)
        if concerned and waiting is not None:
            waiting.finish()

    if arguments.task is None:
        _change_each(arguments.names, change)
        return
    name, *others = arguments.names
    if others:
        raise BadRequestException("--task is for one connector: name only that one")
    _require_started(verbs, name)
    verbs.restart_task(name, arguments.task)
    print(f"Task {name}-{arguments.task} restarts", flush=True)
    if waiting is not None:
        waiting.finish()


def _require_started(verbs: Verbs, name: str) -> None:
    """Raise BadRequestException for a paused or stopped connector without FAILED tasks: a restart would not start it."""
    try:
        found = verbs.connector_status(name)
    except NotFoundException:  # the restart reports the problem
        return
    state = found.connector.state
    if state in (TargetState.PAUSED, TargetState.STOPPED) and not any(task.state == "FAILED" for task in found.tasks):
        command = f"airflow connect resume {shlex.quote(name)}"
        raise BadRequestException(f"Connector {name} is {state}, and a restart would not start it: {command}")


@connect_command
def topics(arguments: Any, verbs: Verbs) -> None:
    verbs.connector_info(arguments.name)  # Connect returns no topics for an unknown connector
    if arguments.reset:
        verbs.reset_active_topics(arguments.name)
        print(f"The active topics of connector {arguments.name} are forgotten")
        return
    print_rows([{"topic": topic} for topic in verbs.active_topics(arguments.name)], arguments.output)


@connect_command
def workers(arguments: Any, verbs: Verbs) -> None:
    """Print the running Spark applications."""
    print_rows(to_json(verbs.workers()), arguments.output)


@connect_command
def validate(arguments: Any, verbs: Verbs) -> None:
    """Print one row per error; the exit code is 1 if there is one. Warnings, such as unknown settings, go to standard error."""
    given = given_connector(arguments)
    plugin = given.config.get("connector.class")
    if not plugin:
        raise BadRequestException("The config names no connector.class: give the connector's class or alias")
    validation = verbs.validate(plugin, unhidden(verbs, given.name, given.config))
    rows = [{"key": value.name, "error": error} for _, value in validation.configs for error in value.errors]
    if rows or arguments.output != "table":
        print_rows(rows, arguments.output)
    else:
        print("valid")
    print_warnings(validation.warnings)
    if rows:
        sys.exit(1)


@server_command
def list_loggers(arguments: Any, verbs: ConnectVerbs) -> None:
    rows = [{"logger": name, "level": view.level, "last_modified": view.last_modified} for name, view in verbs.loggers().items()]
    print_rows(rows, arguments.output)


@server_command
def set_level(arguments: Any, verbs: ConnectVerbs) -> None:
    changed = verbs.set_logger_level(arguments.logger, arguments.level, whole_cluster=arguments.cluster)
    print_rows([{"logger": name} for name in ([arguments.logger] if arguments.cluster else changed)], arguments.output)


# ── offsets ──


@connect_command
def get_offsets(arguments: Any, verbs: Verbs) -> None:
    print_rows(to_json(verbs.offsets(arguments.name)), arguments.output)


@connect_command
def alter_offsets(arguments: Any, verbs: Verbs) -> None:
    """Set the offsets in ``--file``, or one ``--offset`` of a ``--partition``. The file is like ``get -o json`` or Connect's PATCH."""
    print(visible(verbs.alter_offsets(arguments.name, _wanted(arguments))))


@connect_command
def reset_offsets(arguments: Any, verbs: Verbs) -> None:
    print(visible(verbs.reset_offsets(arguments.name)))


def _wanted(arguments: Any) -> list[OffsetView]:
    if (arguments.file is None) == (arguments.partition is None):
        raise BadRequestException("Give --file FILE, or --partition JSON with --offset JSON")
    if arguments.file is None:
        entries: object = [{"partition": _json(arguments.partition, "--partition"), "offset": _json(arguments.offset, "--offset")}]
    else:
        entries = _json(_text(arguments.file), arguments.file)
    pairs = requested_offsets(entries if isinstance(entries, dict) else {"offsets": entries})
    return [OffsetView(_object(partition), _object(offset)) for partition, offset in pairs]


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequestException(f"{file} cannot be read: {error}") from error


def _json(text: str, where: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadRequestException(f"{where} is not JSON: {error}") from error


def _object(value: object) -> dict[str, object] | None:
    if value is None or isinstance(value, dict):
        return value
    raise BadRequestException(f"A partition or offset is a JSON object or null, not {json.dumps(value)}")


def _change_each(names: Sequence[str], change: Callable[[str], None]) -> None:
    """Change each connector. A refusal goes to standard error; the other connectors are changed, and the exit code is 1.

    If there is only one connector, raises its refusal. Stops and raises at an error that concerns all connectors: no answer, or a user
    without access.
    """
    left, is_refused = list(dict.fromkeys(names)), False
    is_single = len(left) == 1
    while left:
        name = left.pop(0)
        try:
            change(name)
        except ConnectException as error:
            if is_single or error.retriable or isinstance(error, UnauthorizedException):
                if left:
                    print(visible(f"Not tried: {', '.join(left)}"), file=sys.stderr)
                raise
            print(visible(f"{name}: {error.message}"), file=sys.stderr)
            is_refused = True
    if is_refused:
        sys.exit(1)
