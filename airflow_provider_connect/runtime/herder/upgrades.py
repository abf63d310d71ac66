"""Requests for upgrades of connectors. The connector's next run decides on each. See ``model.upgrades``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from airflow_provider_connect.errors import (
    BadRequestException,
    ConfigException,
    ConflictException,
    NotFoundException,
    PluginVersionException,
)
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.herder.ports import Previewer
from airflow_provider_connect.runtime.herder.snapshot import Topics, config_of
from airflow_provider_connect.runtime.model.cluster_state import ClusterConfigState
from airflow_provider_connect.runtime.model.connector_keys import LOCATION_KEY
from airflow_provider_connect.runtime.model.preview_comparison import Comparison, compare_previews
from airflow_provider_connect.runtime.model.records import ConfigRecord, UpgradeRecord
from airflow_provider_connect.runtime.model.upgrades import CLASS_KEY, VERSION_KEY, Upgrade, UpgradeState
from airflow_provider_connect.runtime.model.versions import UNDEFINED
from airflow_provider_connect.runtime.plugins.catalog.chosen_plugins import PluginChoice
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import CONNECTOR_KINDS, PluginCatalog, versions_of

MOST_RECORDS = 10_000


class Upgrades:
    """``previewer`` returns the previewer, or raises ConnectException if there is none. ``are_taken``: whether runs carry out upgrades."""

    def __init__(
        self,
        topics: Topics,
        settings: WorkerSettings,
        catalog: PluginCatalog,
        previewer: Callable[[], Previewer],
        *,
        are_taken: bool = True,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._configs, self._reader = topics
        self._settings = settings
        self._catalog = catalog
        self._previewer = previewer
        self._are_taken = are_taken
        self._now = now

    def get(self, name: str) -> Upgrade:
        """The last requested upgrade. Raises NotFoundException if there was no request."""
        return _upgrade_of(self._reader.configs(), name)

    def request(self, name: str, to: str, *, canary: int, accept_schema_change: bool, author: str | None = None) -> Upgrade:
        """Have the next run compare the versions on ``canary`` records and, if nothing prevents it, use the new version. Java connectors
        have no previews, so their next run tries the new version directly. ``author``, here and below, is the user.

        Raises NotFoundException, BadRequestException for a range without a version and for the version in use, ConflictException while a
        run tries an earlier upgrade.
        """
        if not 0 <= canary <= MOST_RECORDS:
            raise BadRequestException(f"'canary' must be a number of records from 0 to {MOST_RECORDS}, not {canary}")
        if not self._are_taken:
            raise BadRequestException("A worker that never ends its tasks carries out no upgrades: change connector.plugin.version instead")
        now_ms = int(self._now() * 1000)
        config = config_of(self._reader.configs(), name)
        old, new = self._versions(name, to)
        asked = Upgrade(
            UpgradeState.REQUESTED,
            to=to,
            old=old,
            new=new,
            class_name=config.get(CLASS_KEY, ""),
            named=config.get(VERSION_KEY),
            canary=0 if self._is_java(config, old, new) else canary,
            accepts_schema_change=accept_schema_change,
            requested_ms=now_ms,
            changed_ms=now_ms,
        )

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            if config_of(state, name) != config:
                raise ConflictException(f"The config of connector {name} was changed by another process meanwhile; retry")
            known = state.upgrades.get(name)
            if known is not None and known.state is UpgradeState.TRIAL and known.concerns(config):
                raise ConflictException(
                    f"Connector {name} is trying version {known.new}; wait for the end of that run, or forget the upgrade"
                )
            return [UpgradeRecord(name, asked, author=author)]

        self._configs.change(decide)
        return asked

    def compare(self, name: str, to: str, *, records: int) -> Comparison:
        """The comparison that the next run would make. Nothing is requested or changed. Raises the exceptions of ``request`` and
        ``Previewer``."""
        config = config_of(self._reader.configs(), name)
        old, new = self._versions(name, to)
        if self._is_java(config, old, new):
            raise BadRequestException(
                f"Java connectors have no previews, so versions {old} and {new} of {name} cannot be compared: the next run after a request "
                "tries the new version, and goes back where that fails"
            )
        previewer = self._previewer()
        before = previewer.preview(name, config, records=records, version=old)
        return compare_previews(before, previewer.preview(name, config, records=records, version=new))

    def forget(self, name: str, author: str | None = None) -> None:
        """Remove the request, so that only the config decides which version runs. Raises NotFoundException if there is no request."""

        def decide(state: ClusterConfigState) -> list[ConfigRecord]:
            _upgrade_of(state, name)
            return [UpgradeRecord(name, None, author=author)]

        self._configs.change(decide)

    def _versions(self, name: str, to: str) -> tuple[str, str]:
        """The version in use, and the one that the range ``to`` selects."""
        config = config_of(self._reader.configs(), name)
        try:
            new = self._catalog.find_connector(config.get(CLASS_KEY, ""), to, config.get(LOCATION_KEY)).version
        except (PluginVersionException, ConfigException) as error:
            raise BadRequestException(error.message) from error
        old = self._in_use(name)
        if UNDEFINED in (old, new):
            raise BadRequestException(f"Connector {name} cannot be upgraded: its plugin has no version in one of its locations")
        if old == new:
            raise BadRequestException(f"Connector {name} runs in version {old} already")
        return old, new

    def _is_java(self, config: Mapping[str, str], *versions: str) -> bool:
        """Whether one of these versions of the connector's plugin is a Java plugin."""
        known = self._catalog.named(config.get(CLASS_KEY, ""), CONNECTOR_KINDS)
        return any(plugin.is_java for plugin in known if plugin.version in versions)

    def _in_use(self, name: str) -> str:
        """The version of the last run if it is still installed, else the version that a run would choose."""
        snapshot = self._reader.read()
        config = config_of(snapshot.configs, name)
        installed = versions_of(self._catalog.named(config.get(CLASS_KEY, ""), CONNECTOR_KINDS))
        ran = [status for status in snapshot.statuses.task_map(name).values() if status.claim is not None and status.version in installed]
        newest = max(ran, key=lambda status: status.claim.offset if status.claim is not None else -1, default=None)
        if newest is not None and newest.version is not None:
            return newest.version
        version = snapshot.configs.version_in_force(name, is_trying=False)
        return PluginChoice(self._catalog, self._settings, version=version).connector(name, config).version


def _upgrade_of(state: ClusterConfigState, name: str) -> Upgrade:
    config_of(state, name)
    if name not in state.upgrades:
        raise NotFoundException(f"No upgrade of connector {name} was requested")
    return state.upgrades[name]
