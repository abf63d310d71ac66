"""DeltaSink: writes records to a Delta table. With exactly once, a commit of the table contains rows, offsets and claim.

Only tasks import deltalake.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from airflow_provider_connect.connectors.lake.delta_settings import CONFIG_DEF, EVOLVE, PATH, DeltaSettings, mistakes
from airflow_provider_connect.connectors.lake.lake_sink import LakeSink
from airflow_provider_connect.data.records import TopicPartition
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.config_def import Config
from airflow_provider_connect.sdk.offset_row import scope_of
from airflow_provider_connect.sdk.task import SinkTask
from airflow_provider_connect.sdk.transactional_sink import TransactionalSinkTask

if TYPE_CHECKING:
    from airflow_provider_connect.connectors.lake.delta_session import DeltaSession


class DeltaSinkTask(TransactionalSinkTask):
    """Passes the texts of the task's claim and topic ids to the sink, because the table stores these only as numbers."""

    required_columns: ClassVar[frozenset[str]] = LakeSink.required_columns

    def start(self, config: Config) -> None:
        super().start(config)
        self._sink.known = (scope_of(self.context.claim), *self.context.topic_ids.values())  # type: ignore[attr-defined]  # a DeltaSinkConnector


class DeltaSinkConnector(LakeSink):
    """Appends the records of topics to a Delta table, or updates its rows by key.

    Values must be structs with a schema. Each task handles a share of the topics' partitions.
    """

    task_class: ClassVar[type[SinkTask]] = DeltaSinkTask
    config_def = CONFIG_DEF
    evolve_setting = EVOLVE
    known: Collection[str] = ()
    """The scope of the task's claim, and the ids of its topics."""
    _checks_rows = _sets_offsets = False

    def start(self, config: Config) -> None:
        super().start(config)
        DeltaSettings.of(config, self.allowed_paths)

    def mistakes(self, config: Config) -> Iterable[ConfigException]:
        return mistakes(config, self.allowed_paths)

    def open(self) -> DeltaSession:
        from airflow_provider_connect.connectors.lake.delta_offsets import DeltaOffsets
        from airflow_provider_connect.connectors.lake.delta_session import DeltaSession

        settings = DeltaSettings.of(self.config, self.allowed_paths)
        offsets = DeltaOffsets(self.config.originals.get("name", ""), self.known)
        return DeltaSession(
            settings, self.allowed_paths, offsets, self.unwritten, checks_rows=self._checks_rows, sets_offsets=self._sets_offsets
        )

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        self._sets_offsets = True
        return super().alter_offsets(config, offsets)

    def commit(self, connection: DeltaSession) -> None:  # type: ignore[override]  # opened by this class
        """After a failed commit, rows are checked before the next commit."""
        self._checks_rows = True
        super().commit(connection)
        self._checks_rows = False

    def translate_library_error(self, error: Exception) -> Exception:
        from airflow_provider_connect.connectors.lake.delta_errors import translate_error

        return translate_error(error, self.config[PATH])
