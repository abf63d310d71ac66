"""The Dag bundle of connectors that only the config topic defines, such as connectors created over REST. Each becomes a DAG. Also has the
DAGs of shared applications.

Internals of Airflow 3.3.2: ``BaseDagBundle``. The dag-processor refreshes the bundle at intervals, and at once for a priority parsing
request of the API server. Tasks find the file of their DAG in the bundle. The files have names and the keys that define the DAGs, but no
config (see ``connector_files``). Add the bundle to ``dag_bundle_config_list`` of section ``[dag_processor]``, in addition to the bundle of
the DAGs folder.
"""

import json
import logging
import os
import time
from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.base import BaseDagBundle
from airflow.sdk import get_parsing_context

from airflow_provider_connect.dag_files.connector_files import (
    APPLICATIONS_FILE,
    FILES,
    application_marks,
    applications_text,
    file_text,
    file_texts,
    names_in,
    stored_connectors,
)
from airflow_provider_connect.dag_files.dag_checks import dag_check  # imports ``dag`` once, not in each process forked for a file
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.hooks.airflow_settings import run_directory, worker_settings
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.config_snapshot import ConfigSnapshot
from airflow_provider_connect.runtime.model.ids import connector_for, dag_id_for, is_shortened
from airflow_provider_connect.runtime.model.states import TargetState
from airflow_provider_connect.runtime.stores.config_cache import ConfigCache
from airflow_provider_connect.runtime.stores.config_store import ConfigStore
from airflow_provider_connect.runtime.stores.kafka_errors import TopicMissingException

_REFRESH_SECONDS = 30
_READ_SECONDS = 5.0
_KNOWN_SECONDS = 3600.0  # a process that slept for longer may have missed a deletion that compaction removed

_log = logging.getLogger(__name__)


class ConnectorsBundle(BaseDagBundle):  # type: ignore[misc]  # Airflow is not typed for us
    """Creates the DAGs of stored connectors. ``refresh_interval`` is in seconds. The other arguments are those of every Dag bundle.

    If Kafka cannot be read, the files do not change.
    """

    supports_versioning = False

    def __init__(self, *, refresh_interval: int = _REFRESH_SECONDS, **arguments: Any) -> None:
        super().__init__(refresh_interval=refresh_interval, **arguments)
        self._paused: dict[str, bool] | None = None
        self._known: ConfigSnapshot | None = None
        self._known_at = 0.0

    @property
    def path(self) -> Path:
        """The folder of the files."""
        return Path(self.base_dir) / "files"

    def initialize(self) -> None:
        """Write the files unless they exist and are recent. Called by the dag-processor at its start, and by each task."""
        if not self._is_current():
            self.refresh()
        super().initialize()

    def refresh(self) -> None:
        """Write changed files. The consumer is closed before this returns, because the dag-processor forks."""
        with self.lock():
            self.path.mkdir(parents=True, exist_ok=True)
            try:
                settings = worker_settings()
                state = self._read(settings)
            except TopicMissingException:
                return  # no connector exists yet
            except ConnectException as error:
                _log.warning("The files of bundle %s stay as they are, for the config topic cannot be read: %s", self.name, error.message)
                return
            self._write(state, settings)
            self._stamp.touch()

    def _read(self, settings: WorkerSettings) -> ClusterConfigState:
        """The topic's state, read from the position of this process's last refresh. Records that were read before a timeout count.

        The first refresh of a process continues from a snapshot that other processes of this host have written.
        """
        if self._known is None or time.monotonic() - self._known_at > _KNOWN_SECONDS:
            self._known = ConfigCache(run_directory()).read(settings, None, timeout_seconds=_READ_SECONDS)
        with ConfigStore(settings, timeout_seconds=_READ_SECONDS, known=self._known) as store:
            try:
                return store.read()
            finally:
                self._known, self._known_at = store.snapshot() or self._known, time.monotonic()

    def get_current_version(self) -> None:
        """Only the newest version exists. The config topic has the history."""

    @property
    def _stamp(self) -> Path:
        """A file whose time is that of the files' content."""
        return Path(self.base_dir) / "written"

    @property
    def _first_seen_file(self) -> Path:
        """Has the connectors that were paused when they were first seen, so that a restart does not create new versions of their DAGs."""
        return Path(self.base_dir) / "first-seen.json"

    def _first_seen(self) -> dict[str, bool]:
        try:
            found: dict[str, bool] = json.loads(self._first_seen_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return found

    def _is_current(self) -> bool:
        """Whether the files are recent. They are if the dag-processor runs on this host, because it refreshes them."""
        try:
            age_seconds = time.time() - self._stamp.stat().st_mtime
        except FileNotFoundError:
            return False
        dag_id = get_parsing_context().dag_id
        return age_seconds < 2 * self.refresh_interval and (dag_id is None or self._contains_dag(dag_id))

    def _contains_dag(self, dag_id: str) -> bool:
        """Whether a file creates this DAG. True for a DAG of no connector, because the topic cannot have it."""
        texts = (file.read_text(encoding="utf-8") for file in self.path.glob(FILES))
        if is_shortened(dag_id):
            return any(dag_id_for(name) == dag_id for text in texts for name in names_in(text))
        connector = connector_for(dag_id)
        return connector is None or any(f"{connector!r}: " in text for text in texts)

    def _write(self, state: ClusterConfigState, settings: WorkerSettings) -> None:
        check = dag_check(settings.dag_limits)
        connectors = stored_connectors(state.connector_configs, settings.schedule, check)
        # Keep the first state of each connector, so that its file does not change whenever it is paused.
        before = self._first_seen() if self._paused is None else self._paused
        self._paused = {name: before.get(name, state.target_state(name) is not TargetState.STARTED) for name in connectors}
        if self._paused != before:
            _write_whole(self._first_seen_file, json.dumps(self._paused, sort_keys=True))
        texts = dict(file_texts(connectors, {name for name, is_paused in self._paused.items() if is_paused}))
        for file in self.path.glob(FILES):
            texts.setdefault(file.name, file_text({}))
        texts[APPLICATIONS_FILE] = applications_text(application_marks(state.connector_configs, settings.originals, check))
        for name, text in texts.items():
            _write_whole(self.path / name, text)


def _write_whole(file: Path, text: str) -> None:
    """Write ``text`` unless the file already has it. A reader sees the old or the new text.

    The file's time increases by at least a second, because Python detects outdated bytecode by the source's size and its time in whole
    seconds.
    """
    scratch = file.with_name(f".{file.name}.new")
    if file.exists():
        if file.read_text(encoding="utf-8") == text:
            return
        scratch.write_text(text, encoding="utf-8")
        seconds = max(scratch.stat().st_mtime, file.stat().st_mtime + 1)
        os.utime(scratch, (seconds, seconds))
    else:
        scratch.write_text(text, encoding="utf-8")
    scratch.rename(file)
