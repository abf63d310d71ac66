"""The verbs of Kafka Connect's REST API, and our own: one table for routes, clients, hooks and command line (contract §3).

A verb's name is the name of its method in the herder and in the clients. The table determines the route (``rest.routes``) and the request
(``client.calls``) of a verb. These two modules define the exceptions themselves.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from airflow_provider_connect.errors import BadRequestException
from airflow_provider_connect.runtime.model.backfill_request import Backfill
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.cost import DEFAULT_DAYS, MOST_DAYS, ConnectorCosts, Costs
from airflow_provider_connect.runtime.model.history import ConfigHistory, OffsetHistory, OffsetUndo
from airflow_provider_connect.runtime.model.preview_comparison import Comparison
from airflow_provider_connect.runtime.model.previews import Preview
from airflow_provider_connect.runtime.model.replays import Replay
from airflow_provider_connect.runtime.model.upgrades import Upgrade
from airflow_provider_connect.runtime.model.views import (
    ActiveTopics,
    ConfigKeyView,
    ConnectorInfo,
    ConnectorOffsets,
    ConnectorStatusView,
    ExpandedConnector,
    HealthView,
    LoggerView,
    Message,
    PluginView,
    ServerView,
    TaskDetail,
    TaskInfo,
    TaskView,
    Validation,
    WorkerView,
)

WARNINGS_HEADER: Final = "X-Config-Warnings"
"""The response header of ``validate`` and of the verbs that write a config: the warnings as a JSON list in ASCII. The header is absent if
there are no warnings."""


_MOST_DIGITS: Final = 18


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter. ``about`` is for the OpenAPI document. ``default`` is the value if the parameter is missing, or has no value.
    ``span`` has the first and last allowed number."""

    about: str
    kind: type[str] | type[int] | type[bool] = str
    default: str | int | bool | None = None
    span: tuple[int, int] | None = None

    def read(self, name: str, texts: Sequence[str]) -> str | int | bool | None:
        """The value of the first of the texts in a query, as Kafka Connect reads it. Raises BadRequestException."""
        text = texts[0] if texts else None
        if self.kind is str and text is not None:
            return text
        if not text:
            return self.default
        if self.kind is bool:
            return text.lower() == "true"  # as Java reads a boolean
        number = int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None
        if self.span is not None and (number is None or not self.span[0] <= number <= self.span[1]):
            raise BadRequestException(f"'{name}' must be a number from {self.span[0]} to {self.span[1]}, not {cut(text)}")
        if number is None:
            raise BadRequestException(f"'{name}' must be a whole number, not {cut(text)}")
        return number


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb. ``path`` has the names of its parameters in braces. ``about`` is for the OpenAPI document.

    ``answer`` is a type for ``view_json``. None: an empty response. ``also`` has the types of further statuses. Statuses from 400 on in
    ``also`` are responses, not errors. ``query`` has the query parameters by name. ``is_repeatable``: a request whose response was lost may
    be sent again. ``removes``: status 404 to such a repeated request means that the first request was carried out. ``is_trial``: the verb
    changes nothing, whatever its method.
    """

    name: str
    method: str
    path: str
    answer: Any  # a type, or a form such as ``list[str]``
    about: str
    status: int = 200
    also: Mapping[int, Any] = field(default_factory=dict)
    query: Mapping[str, Parameter] = field(default_factory=dict)
    is_repeatable: bool = True
    removes: bool = False
    is_admin: bool = False
    is_trial: bool = False

    @property
    def changes(self) -> bool:
        """Whether the herder's method takes an ``author``, because it changes something."""
        return self.method != "GET" and not self.is_trial

    @property
    def path_names(self) -> list[str]:
        """The names of the parameters in the path, in order."""
        return re.findall(r"{(\w+)}", self.path)

    def arguments(self, texts: Mapping[str, Sequence[str]]) -> dict[str, str | int | bool | None]:
        """The values of the query parameters as arguments of the verb's methods, from the texts in a query by name. Raises
        BadRequestException."""
        return {argument_of(name): each.read(name, texts.get(name, ())) for name, each in self.query.items()}

    def query_of(self, arguments: Mapping[str, object]) -> list[tuple[str, str]]:
        """The inverse of ``arguments``: names and texts of a query. None is left out. A list becomes one text for each of its entries."""
        named = [(name, arguments[argument]) for name in self.query if (argument := argument_of(name)) in arguments]
        if len(named) < len(arguments):
            raise TypeError(f"{self.name} has the query parameters {list(self.query)}, not {list(arguments)}")
        pairs = [(name, one) for name, value in named for one in (value if isinstance(value, list) else [value])]
        return [(name, str(one).lower() if isinstance(one, bool) else str(one)) for name, one in pairs if one is not None]


def argument_of(parameter: str) -> str:
    """The name that a query parameter has as an argument of the verb's methods: ``only_failed`` for ``onlyFailed``."""
    return re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", parameter)


_CONNECTOR: Final = "/connectors/{connector}"
_PLUGIN: Final = "/connector-plugins/{plugin}/config"
_PAGE: Final = {
    "limit": Parameter(
        "Maximum number, from 1 to 1000; default: 50. For offsets it counts changed partitions. An answer has fewer entries if they would "
        "be more than 1 MiB of configs or offsets",
        int,
        50,
        (1, 1000),
    ),
    "before": Parameter("Only entries below this number, which is 'next_before' of the previous answer", int),
}
_DAYS: Final = {
    "days": Parameter(
        f"Number of UTC days, including today, from 1 to {MOST_DAYS}; default: {DEFAULT_DAYS}", int, DEFAULT_DAYS, (1, MOST_DAYS)
    )
}
_VERBS = (
    Verb("server_info", "GET", "/", ServerView, "This server's version and its Kafka cluster."),
    Verb(
        "health",
        "GET",
        "/health",
        HealthView,
        "Whether the topics with the state can be read now (KIP-1017); and what an admin has to correct, such as settings without effect.",
        also={500: HealthView, 503: HealthView},
    ),
    Verb(
        "connectors",
        "GET",
        "/connectors",
        list[str] | dict[str, ExpandedConnector],
        "The connectors that the user may read.",
        query={"expand": Parameter("'info' or 'status', repeatable: an object by name instead of a list of names")},
    ),
    Verb(
        "create_connector",
        "POST",
        "/connectors",
        ConnectorInfo,
        "Create a connector; it runs at once unless ``initial_state`` is PAUSED or STOPPED.",
        status=201,
        is_repeatable=False,
    ),
    Verb("connector_info", "GET", _CONNECTOR, ConnectorInfo, "The connector with its config, its secrets hidden."),
    Verb("delete_connector", "DELETE", _CONNECTOR, None, "Delete the connector; its offsets are kept.", status=204, removes=True),
    Verb(
        "connector_config",
        "GET",
        f"{_CONNECTOR}/config",
        dict[str, str],
        "The config as it was written, variables unresolved, secrets hidden.",
    ),
    Verb(
        "put_connector_config",
        "PUT",
        f"{_CONNECTOR}/config",
        ConnectorInfo,
        "Replace the config, or create the connector. A secret that is sent back hidden keeps its value.",
        also={201: ConnectorInfo},
    ),
    Verb("patch_connector_config", "PATCH", f"{_CONNECTOR}/config", ConnectorInfo, "Change some settings (KIP-477)."),
    Verb(
        "config_history",
        "GET",
        f"{_CONNECTOR}/config/history",
        ConfigHistory,
        "The revisions of the config, the newest first: when, who, and which keys changed. Secrets and their changes are hidden.",
        query=_PAGE,
    ),
    Verb(
        "rollback_config",
        "POST",
        f"{_CONNECTOR}/config/rollback",
        ConnectorInfo,
        "Restore the config of an earlier revision, validated like any other. Hidden values keep their current value.",
    ),
    Verb("connector_status", "GET", f"{_CONNECTOR}/status", ConnectorStatusView, "The states of the connector and its tasks."),
    Verb(
        "restart_connector",
        "POST",
        f"{_CONNECTOR}/restart",
        None,
        "Restart the connector; if a parameter is true, the answer has the states of all instances that restart (KIP-745).",
        status=204,
        also={202: ConnectorStatusView},
        query={
            "includeTasks": Parameter("'true': its tasks too", bool, False),
            "onlyFailed": Parameter("'true': only FAILED instances", bool, False),
        },
        is_repeatable=False,
    ),
    Verb("pause", "PUT", f"{_CONNECTOR}/pause", None, "Pause the connector after the batch in progress.", status=202),
    Verb("resume", "PUT", f"{_CONNECTOR}/resume", None, "Let the connector run again.", status=202),
    Verb(
        "stop",
        "PUT",
        f"{_CONNECTOR}/stop",
        None,
        "End and remove the connector's tasks; then its offsets can be altered (KIP-875).",
        status=204,
    ),
    Verb("task_infos", "GET", f"{_CONNECTOR}/tasks", list[TaskInfo], "The tasks with their committed configs, secrets hidden."),
    Verb("task", "GET", f"{_CONNECTOR}/tasks/{{task}}", TaskDetail, "One task: its config, and its state if it has one (KIP-26)."),
    Verb("task_status", "GET", f"{_CONNECTOR}/tasks/{{task}}/status", TaskView, "The state of one task."),
    Verb("restart_task", "POST", f"{_CONNECTOR}/tasks/{{task}}/restart", None, "Restart one task.", status=204, is_repeatable=False),
    Verb(
        "active_topics",
        "GET",
        f"{_CONNECTOR}/topics",
        dict[str, ActiveTopics],
        "The topics that the connector has used since it was created, or since they were reset (KIP-558).",
    ),
    Verb("reset_active_topics", "PUT", f"{_CONNECTOR}/topics/reset", None, "Forget the topics that the connector has used."),
    Verb(
        "offsets",
        "GET",
        f"{_CONNECTOR}/offsets",
        ConnectorOffsets,
        "The connector's committed offsets: by source partition, or by topic and partition in the sink's group (KIP-875).",
    ),
    Verb(
        "alter_offsets",
        "PATCH",
        f"{_CONNECTOR}/offsets",
        Message,
        "Set offsets of a STOPPED connector; null removes one. Other partitions are kept.",
    ),
    Verb("reset_offsets", "DELETE", f"{_CONNECTOR}/offsets", Message, "Remove all offsets of a STOPPED connector."),
    Verb(
        "offsets_history",
        "GET",
        f"{_CONNECTOR}/offsets/history",
        OffsetHistory,
        "The changes of the offsets by runs and users, the newest first: when, who, and each partition before and after.",
        query=_PAGE,
    ),
    Verb(
        "undo_offsets",
        "POST",
        f"{_CONNECTOR}/offsets/undo",
        OffsetUndo,
        "Set the offsets of a STOPPED connector to those of an earlier instant, or to those before one change. With 'dry_run', in any "
        "state: the records that would be read again or skipped.",
    ),
    Verb(
        "dead_letter_replay",
        "GET",
        f"{_CONNECTOR}/dead-letters/replay",
        Replay,
        "The last requested replay of the sink's dead-letter records; 404 if there was none.",
    ),
    Verb(
        "replay_dead_letters",
        "POST",
        f"{_CONNECTOR}/dead-letters/replay",
        Replay,
        "Write dead-letter records of a sink back to the topics on which they failed, or to another, each once: a run of the connector "
        "«c»-replay does it. With 'dry_run' nothing is written, and the answer has the first records that would be.",
        status=202,
        also={200: Replay},
        is_repeatable=False,
    ),
    Verb(
        "backfills",
        "GET",
        f"{_CONNECTOR}/backfills",
        list[Backfill],
        "The backfills of the connector with their progress, by name; 100 at most.",
    ),
    Verb(
        "create_backfill",
        "POST",
        f"{_CONNECTOR}/backfills",
        Backfill,
        "Deliver ranges of a sink's topics again, by offset or time, as another connector; the offsets of this one do not change. With "
        "'dry_run' (status 200): what would be delivered. For users who may change this connector and create the other.",
        status=201,
        also={200: Backfill},
        is_repeatable=False,
    ),
    Verb(
        "preview",
        "POST",
        f"{_CONNECTOR}/preview",
        Preview,
        "What the connector's next run would plan and read first, optionally with another config or version. Nothing is committed. With a "
        "config in the body, the connector need not exist.",
        is_trial=True,
    ),
    Verb(
        "connector_costs",
        "GET",
        f"{_CONNECTOR}/costs",
        ConnectorCosts,
        "The usage of the connector's runs, by day and by run: records, bytes, seconds, CPU-seconds; and the cost if prices are set. At "
        "most the newest 1000 runs.",
        query=_DAYS,
    ),
    Verb("upgrade", "GET", f"{_CONNECTOR}/upgrade", Upgrade, "The state of the last requested upgrade; 404 if there was none."),
    Verb(
        "request_upgrade",
        "PUT",
        f"{_CONNECTOR}/upgrade",
        Upgrade,
        "Have the next run compare the versions by their next records and, if nothing prevents it, use the new one. If its first run "
        "fails, the old one is used again.",
        status=202,
    ),
    Verb(
        "forget_upgrade",
        "DELETE",
        f"{_CONNECTOR}/upgrade",
        None,
        "Remove the upgrade: only the config decides which version runs.",
        status=204,
        removes=True,
    ),
    Verb(
        "compare_versions",
        "POST",
        f"{_CONNECTOR}/upgrade/comparison",
        Comparison,
        "The comparison that an upgrade would make; nothing is requested or changed.",
        is_trial=True,
    ),
    Verb(
        "plugins",
        "GET",
        "/connector-plugins",
        list[PluginView],
        "The installed plugins, by kind, class and version.",
        query={"connectorsOnly": Parameter("'true', the default: only connectors", bool, True)},
    ),
    Verb(
        "plugin_config",
        "GET",
        _PLUGIN,
        list[ConfigKeyView],
        "The settings of a plugin.",
        query={
            "version": Parameter("A version or range of versions"),
            "location": Parameter("The name of a location in plugin.path"),
        },
    ),
    Verb(
        "validate",
        "PUT",
        f"{_PLUGIN}/validate",
        Validation,
        "The errors of a config, by setting. Calls the plugin, so it is for users who may create such a connector.",
        is_trial=True,
    ),
    Verb("workers", "GET", "/workers", list[WorkerView], "The running applications of connectors that the user may read."),
    Verb(
        "costs",
        "GET",
        "/costs",
        Costs,
        "The usage and costs by connector and day, of the connectors that the user may read; 400 for more than 50000 rows.",
        query=_DAYS,
    ),
    Verb(
        "loggers",
        "GET",
        "/admin/loggers",
        dict[str, LoggerView],
        "Every logger that this process has used, and the root, with their effective levels.",
        is_admin=True,
    ),
    Verb("logger", "GET", "/admin/loggers/{logger}", LoggerView, "The effective level of one logger.", is_admin=True),
    Verb(
        "set_logger_level",
        "PUT",
        "/admin/loggers/{logger}",
        list[str],
        "Set the level of a logger and its children, until this server is restarted.",
        also={204: None},
        query={"scope": Parameter("'worker', the default: this server process; 'cluster': all of them", str, "worker")},
        is_admin=True,
    ),
)
VERBS: Final[Mapping[str, Verb]] = {verb.name: verb for verb in _VERBS}
