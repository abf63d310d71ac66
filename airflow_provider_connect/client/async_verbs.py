"""The verbs of Kafka Connect's REST API as methods to be awaited: the twin of ``verbs``."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeVar

from airflow_provider_connect.client import calls
from airflow_provider_connect.client.calls import Call
from airflow_provider_connect.model.preview_comparison import Comparison
from airflow_provider_connect.model.previews import Preview
from airflow_provider_connect.model.states import TargetState
from airflow_provider_connect.model.upgrades import Upgrade
from airflow_provider_connect.model.views import (
    ConfigKeyView,
    ConnectorInfo,
    ConnectorStatusView,
    HealthView,
    LoggerView,
    OffsetView,
    PluginView,
    ServerView,
    TaskInfo,
    TaskView,
    Validation,
    WorkerView,
)

T = TypeVar("T")


class AsyncConnectVerbs(ABC):
    """Raise the exceptions of ``errors`` with the server's own message."""

    @abstractmethod
    async def carry_out(self, call: Call[T]) -> T:
        """Send the request and read its answer."""

    async def server_info(self) -> ServerView:
        """Which Kafka Connect answers, and the Kafka cluster behind it."""
        return await self.carry_out(calls.server_info())

    async def health(self) -> HealthView:
        """Whether the worker can serve (Kafka Connect 3.9 and later)."""
        return await self.carry_out(calls.health())

    async def connectors(self) -> list[str]:
        """The names of all connectors."""
        return await self.carry_out(calls.connectors())

    async def expanded(self, info: bool = True, status: bool = True) -> dict[str, dict[str, ConnectorInfo | ConnectorStatusView]]:
        """All connectors, each with its ``info``, ``status`` or both, in one request."""
        return await self.carry_out(calls.expanded(info=info, status=status))

    async def statuses(self) -> dict[str, ConnectorStatusView]:
        """The states of all connectors and their tasks, in one request; a connector that has no status yet is left out."""
        return await self.carry_out(calls.statuses())

    async def connector_info(self, name: str) -> ConnectorInfo:
        """Config, tasks and type. NotFoundException for a connector that is not there, as of all verbs below."""
        return await self.carry_out(calls.connector_info(name))

    async def connector_config(self, name: str) -> dict[str, str]:
        """The config as it was given, variables unresolved."""
        return await self.carry_out(calls.connector_config(name))

    async def connector_status(self, name: str) -> ConnectorStatusView:
        """The states of the connector and its tasks. One made a moment ago may have none yet: NotFoundException."""
        return await self.carry_out(calls.connector_status(name))

    async def create_connector(
        self, name: str, config: Mapping[str, str | None], initial_state: TargetState | None = None
    ) -> ConnectorInfo:
        """A new connector. AlreadyExistsException when there is one of this name."""
        return await self.carry_out(calls.create_connector(name, config, initial_state))

    async def put_connector_config(self, name: str, config: Mapping[str, str | None]) -> tuple[ConnectorInfo, bool]:
        """The whole config; the connector is created where there is none, and the second value says whether it was."""
        return await self.carry_out(calls.put_connector_config(name, config))

    async def patch_connector_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        """Some keys of the config; None removes a key (Kafka Connect 3.9 and later)."""
        return await self.carry_out(calls.patch_connector_config(name, patch))

    async def delete_connector(self, name: str) -> None:
        """Remove the connector. Its offsets stay."""
        await self.carry_out(calls.delete_connector(name))

    async def pause(self, name: str) -> None:
        """Ask for PAUSED; returns before it is reached."""
        await self.carry_out(calls.pause(name))

    async def resume(self, name: str) -> None:
        """Ask for STARTED; returns before it is reached."""
        await self.carry_out(calls.resume(name))

    async def stop(self, name: str) -> None:
        """Ask for STOPPED, in which offsets may be altered; returns before it is reached (Kafka Connect 3.5 and later)."""
        await self.carry_out(calls.stop(name))

    async def restart_connector(self, name: str, *, include_tasks: bool = False, only_failed: bool = False) -> ConnectorStatusView | None:
        """Restart the connector. With a flag: what will restart, at once. Without: None, when it has restarted."""
        return await self.carry_out(calls.restart_connector(name, include_tasks=include_tasks, only_failed=only_failed))

    async def task_infos(self, name: str) -> list[TaskInfo]:
        """The tasks with their configs."""
        return await self.carry_out(calls.task_infos(name))

    async def task_status(self, name: str, task: int) -> TaskView:
        """The state of one task."""
        return await self.carry_out(calls.task_status(name, task))

    async def restart_task(self, name: str, task: int) -> None:
        """Restart one task."""
        await self.carry_out(calls.restart_task(name, task))

    async def active_topics(self, name: str) -> list[str]:
        """The topics that the connector has used, sorted. Empty for one that is not there."""
        return await self.carry_out(calls.active_topics(name))

    async def reset_active_topics(self, name: str) -> None:
        """Forget the topics that the connector has used."""
        await self.carry_out(calls.reset_active_topics(name))

    async def offsets(self, name: str) -> list[OffsetView]:
        """How far the connector has come, by partition (Kafka Connect 3.5 and later)."""
        return await self.carry_out(calls.offsets(name))

    async def alter_offsets(self, name: str, changes: Sequence[OffsetView]) -> str:
        """Set the offsets of some partitions of a STOPPED connector, None removes one; the server's message (3.6 and later)."""
        return await self.carry_out(calls.alter_offsets(name, changes))

    async def reset_offsets(self, name: str) -> str:
        """Remove all offsets of a STOPPED connector; the server's message (3.6 and later)."""
        return await self.carry_out(calls.reset_offsets(name))

    async def plugins(self, connectors_only: bool = True) -> list[PluginView]:
        """The installed plugins."""
        return await self.carry_out(calls.plugins(connectors_only=connectors_only))

    async def plugin_config(self, plugin: str, version: str | None = None) -> list[ConfigKeyView]:
        """The keys that a plugin knows, of a version or range where one is given (KIP-891)."""
        return await self.carry_out(calls.plugin_config(plugin, version))

    async def validate(self, plugin: str, config: Mapping[str, str | None]) -> Validation:
        """What is wrong with the config. Writes nothing."""
        return await self.carry_out(calls.validate(plugin, config))

    async def loggers(self) -> dict[str, LoggerView]:
        """The loggers that have a level of their own."""
        return await self.carry_out(calls.loggers())

    async def logger(self, name: str) -> LoggerView:
        """The level of one logger."""
        return await self.carry_out(calls.logger(name))

    async def set_logger_level(self, name: str, level: str, *, whole_cluster: bool = False) -> list[str]:
        """Set a level; the loggers that changed, or none where the whole cluster was asked for."""
        return await self.carry_out(calls.set_logger_level(name, level, whole_cluster=whole_cluster))

    async def preview(
        self, name: str, config: Mapping[str, str] | None = None, *, records: int = 10, version: str | None = None
    ) -> Preview:
        """The connector's next records, as its next run would read them, without a commit; of ``config`` where one is given, and in
        another ``version`` of its plugin. A real Kafka Connect has no such route: NotFoundException."""
        return await self.carry_out(calls.preview(name, config, records=records, version=version))

    async def upgrade(self, name: str) -> Upgrade:
        """What has become of the upgrade of the connector's plugin that was asked for last; NotFoundException where none was."""
        return await self.carry_out(calls.upgrade(name))

    async def request_upgrade(self, name: str, to: str, *, canary: int = 100, accept_schema_change: bool = False) -> Upgrade:
        """Have the next run go to another version of the connector's plugin, if that reads ``canary`` records as the old one does."""
        return await self.carry_out(calls.request_upgrade(name, to, canary=canary, accept_schema_change=accept_schema_change))

    async def forget_upgrade(self, name: str) -> None:
        """From now on the config alone says which version runs."""
        return await self.carry_out(calls.forget_upgrade(name))

    async def compare_versions(self, name: str, to: str, *, records: int = 100) -> Comparison:
        """What an upgrade would compare. Changes nothing."""
        return await self.carry_out(calls.compare_versions(name, to, records=records))

    async def workers(self) -> list[WorkerView]:
        """The Spark applications that run now. A real Kafka Connect has no such route: NotFoundException."""
        return await self.carry_out(calls.workers())
