"""Checks of a whole Connect cluster: settings, brokers, internal topics, rights, clocks, Airflow's processes.

``airflow connect doctor`` prints the findings, and the API server reports them in ``/health``. Nothing is created or changed.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum

from airflow.api.common.airflow_health import HEALTHY, get_airflow_health
from airflow.configuration import conf
from airflow.exceptions import AirflowConfigException
from airflow.utils.session import create_session
from sqlalchemy import text as sql
from sqlalchemy.exc import SQLAlchemyError

from airflow_provider_connect.api_server.launcher import NO_BUNDLE
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.hooks.airflow_settings import connectors_bundle, settings_now
from airflow_provider_connect.runtime.config.internal_topics import COMPACTED_SOON, InternalTopic, missing_text
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.stores.admin_connection import AdminConnection, kafka_cluster_id
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.stores.topic_warnings import cleanup_policy, compaction_warning

_TIMEOUT_SECONDS = 10.0
_CLOCK_SECONDS = 10.0
_COMMANDS = {"scheduler": "airflow scheduler", "dag_processor": "airflow dag-processor", "triggerer": "airflow triggerer"}


class Outcome(StrEnum):
    """WARNING: connectors run, but there is a risk, or a feature is missing that some installations need."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check. ``text`` is a sentence. Unless the outcome is OK, ``fix`` is the command to run or the setting to change."""

    subject: str
    outcome: Outcome
    text: str
    fix: str = ""


def ok(subject: str, text: str) -> Finding:
    return Finding(subject, Outcome.OK, text)


def warning(subject: str, text: str, fix: str = "") -> Finding:
    return Finding(subject, Outcome.WARNING, text, fix)


def wrong(subject: str, text: str, fix: str = "") -> Finding:
    return Finding(subject, Outcome.WRONG, text, fix)


def settings_findings() -> tuple[WorkerSettings | None, list[Finding]]:
    """The settings in force (None if there are no valid ones), and findings about them. Reads Airflow's Connections and Variables."""
    fix = "airflow connect settings    # where each setting comes from"
    try:
        found = settings_now()
    except ConnectException as error:
        return None, [wrong("settings", error.message, fix)]
    faults = [wrong("settings", f"Worker setting {fault}", fix) for fault in found.faults]
    return found.settings, faults or [ok("settings", f"group.id={found.settings.group_id}")]


def bundle_findings() -> list[Finding]:
    bundle = connectors_bundle()
    if bundle is not None:
        return [ok("bundle", f"Dag bundle {bundle} creates the DAGs of stored connectors")]
    text, _, fix = NO_BUNDLE.partition(": ")
    return [warning("bundle", f"{text}.", fix)]


def kafka_findings(settings: WorkerSettings, now: Callable[[], float] = time.time) -> list[Finding]:
    """Checks brokers, the internal topics and their settings, the worker's rights on these topics, and clocks."""
    try:
        cluster = kafka_cluster_id(settings, _TIMEOUT_SECONDS)
    except ConnectException as error:
        where = f"bootstrap.servers={settings.bootstrap_servers}"
        return [
            wrong("kafka", error.message, f"correct {where}, or start the brokers; this host must reach every broker's advertised listener")
        ]
    findings = [ok("kafka", f"cluster {cluster} at {settings.bootstrap_servers}")]
    with closing(TopicAdmin(settings, connection=AdminConnection.of(settings, timeout_seconds=_TIMEOUT_SECONDS))) as admin:
        for check in (_topics, _rights, _clocks):
            try:
                findings += check(settings, admin, now)
            except ConnectException as error:
                findings.append(warning(check.__name__.strip("_"), f"Check failed: {error.message}"))
    return findings


def _topics(settings: WorkerSettings, admin: TopicAdmin, _: Callable[[], float]) -> Iterator[Finding]:
    topics = {topic.name: topic for topic in settings.internal_topics}
    partitions = admin.partitions(topics)
    for name in topics.keys() - partitions.keys():
        if not settings.internal_topics_creation_enable:
            text = missing_text(name, topics[name].setting, topics[name].partitions)
            yield wrong("topics", text, _creation_command(topics[name], settings.bootstrap_servers))
            continue
        yield warning(
            "topics", f"Topic {name} ({topics[name].setting}) does not exist yet; the API server creates it", "airflow api-server"
        )
    for name, configs in admin.configs(partitions).items() if partitions else ():
        servers = settings.bootstrap_servers
        alter = f"kafka-configs.sh --bootstrap-server {servers} --alter --entity-type topics --entity-name {name} --add-config "
        if (policy := cleanup_policy(configs)) != "compact":
            text = f"Topic {name} has cleanup.policy={policy}, and loses {topics[name].purpose}"
            yield wrong("topics", text, alter + "cleanup.policy=compact")
        elif slow := compaction_warning(name, configs):
            wanted = ",".join(f"{key}={value}" for key, value in COMPACTED_SOON.items())
            yield warning("topics", slow, alter + wanted)
    if (count := partitions.get(settings.config_topic, 1)) != 1:
        fix = "name another topic in config.storage.topic, or one of one partition"
        yield wrong("topics", f"Topic {settings.config_topic} has {count} partitions; the order of configs needs exactly one", fix)
    for text in admin.single_replicas(partitions) if partitions else ():
        yield warning("topics", text)
    if len(partitions) == len(topics):
        yield ok("topics", ", ".join(f"{name} ({count})" for name, count in sorted(partitions.items())))


def _creation_command(topic: InternalTopic, servers: str) -> str:
    """The command that creates the topic."""
    given = "".join(f" --config {key}={value}" for key, value in topic.configs.items())
    counts = {"partitions": topic.partitions, "replication-factor": topic.replication_factor}
    wanted = "".join(f" --{key} {count}" for key, count in counts.items() if count > 0)
    return f"kafka-topics.sh --bootstrap-server {servers} --create --topic {topic.name}{wanted}{given}"


def _rights(settings: WorkerSettings, admin: TopicAdmin, _: Callable[[], float]) -> Iterator[Finding]:
    lacking = admin.missing_rights(topic.name for topic in settings.internal_topics)
    for topic, operations in lacking.items():
        command = f"kafka-acls.sh --bootstrap-server {settings.bootstrap_servers} --add --allow-principal User:… --topic {topic} "
        fix = command + " ".join(f"--operation {name}" for name in operations)
        yield wrong("rights", f"The worker's user may not {', '.join(operations)} topic {topic}", fix)
    if not lacking:
        yield ok("rights", "the worker's user may read and write the internal topics")


def _clocks(settings: WorkerSettings, admin: TopicAdmin, now: Callable[[], float]) -> Iterator[Finding]:
    """A record from the future means that the writing host's clock is ahead, or this host's clock is behind."""
    ahead = (admin.newest_time(settings.status_topic) or 0.0) - now()
    if ahead > _CLOCK_SECONDS:
        text = f"Topic {settings.status_topic} has a record from {ahead:.0f} s in the future: the clocks of Airflow's hosts differ"
        yield warning("clock", text, "timedatectl    # on every host: 'System clock synchronized: yes'")
    else:
        yield ok("clock", "no record is from the future")


def airflow_findings() -> list[Finding]:
    """Whether each Airflow process is running, by its heartbeats in the database."""
    health = get_airflow_health()
    if health["metadatabase"]["status"] != HEALTHY:
        return [wrong("airflow", "Airflow's database does not respond, or has no tables", "airflow db migrate")]
    missing = [name for name in _COMMANDS if health[name]["status"] != HEALTHY]
    findings = [_not_running(name) for name in missing]
    return findings or [ok("airflow", "scheduler, dag-processor and triggerer are running")]


def _not_running(process: str) -> Finding:
    if process == "triggerer":
        text = "No triggerer is running: deferred operators and sensors wait without end, and overdue runs send no notice"
        return warning("airflow", text, _COMMANDS[process])
    return wrong("airflow", f"No {process.replace('_', '-')} is running: no connector runs", _COMMANDS[process])


def page_findings() -> list[Finding]:
    """Whether users see the page. Airflow's UI finds it with ``GET /api/v2/plugins``; FAB's roles for users may not read this route."""
    try:
        manager = conf.getimport("core", "auth_manager")
    except AirflowConfigException as error:
        return [wrong("page", f"auth_manager in section [core] cannot be used: {error}", "correct it, or install its package")]
    if not any(base.__module__.startswith(_FAB) for base in manager.__mro__):
        return []
    try:
        with create_session() as session:
            known, granted = (set(session.scalars(sql(statement))) for statement in (_ROLES, _GRANTED))
    except SQLAlchemyError as error:
        return [warning("page", f"FAB's roles could not be checked: {type(error).__name__}", "airflow db migrate")]
    lacking = sorted(known - granted)
    if not lacking:
        return [ok("page", "FAB's roles Viewer and User see Connect's page in Airflow's UI")]
    return [
        warning(
            "page",
            f"Users of FAB's {' and '.join(lacking)} do not see Connect's page in Airflow's UI: these roles lack 'can read on Plugins'",
            f"airflow roles add-perms {' '.join(lacking)} -a can_read -r Plugins",
        )
    ]


_FAB = "airflow.providers.fab."
_ROLES = "SELECT name FROM ab_role WHERE name IN ('User', 'Viewer')"
_GRANTED = (
    "SELECT ab_role.name FROM ab_role JOIN ab_permission_view_role held ON held.role_id = ab_role.id "
    "JOIN ab_permission_view pair ON pair.id = held.permission_view_id JOIN ab_permission ON ab_permission.id = pair.permission_id "
    "JOIN ab_view_menu ON ab_view_menu.id = pair.view_menu_id WHERE ab_permission.name = 'can_read' AND ab_view_menu.name = 'Plugins'"
)
"""Reads FAB's tables by SQL, because importing FAB's models would add them to Airflow's own models."""


def problems(findings: Sequence[Finding]) -> list[str]:
    """A sentence for each finding that is not OK, with its fix, for ``/health``."""
    return [f"{each.text.rstrip('.')}{f': {each.fix}' if each.fix else ''}." for each in findings if each.outcome is not Outcome.OK]
