"""This Airflow's Connect cluster, in the command's process: the herder, and the rows of the page."""

import getpass
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager

from airflow.utils.session import create_session

from airflow_provider_connect.api_server.launcher import AirflowLauncher, airflow_backing
from airflow_provider_connect.api_server.mirror import MirroredRuns, recorded_history
from airflow_provider_connect.api_server.runs import hosted_connectors
from airflow_provider_connect.cli.settings import use_database
from airflow_provider_connect.dag_files.dag_checks import dag_check
from airflow_provider_connect.hooks.airflow_settings import airflow_secrets, worker_settings
from airflow_provider_connect.runtime.config import config_providers
from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.health import health_of
from airflow_provider_connect.runtime.model.page import ConnectorRow, row_of
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from airflow_provider_connect.runtime.stores.topic_admin import TopicAdmin
from airflow_provider_connect.runtime.worker.preview.runner import PreviewRunner


@contextmanager
def airflow_herder() -> Iterator[Herder]:
    """The herder of the cluster that Airflow's settings describe, with Airflow's own database. Creates missing internal topics."""
    use_database()
    settings = worker_settings()
    with closing(TopicAdmin(settings)) as admin:
        admin.ensure_internal_topics()

    def resolve(config: Mapping[str, str]) -> Mapping[str, str]:
        providers = settings.config_providers(config["name"])
        return config_providers.resolve(config, providers, config_providers.airflow_values(config, providers, airflow_secrets))

    launcher = AirflowLauncher(create_session, lambda: hosted_connectors(herder.config_state()))
    check, backing = dag_check(settings.dag_limits), airflow_backing(settings)
    with PluginProbe(settings, secrets=_secrets) as probe:
        previewer = PreviewRunner(settings, secrets=airflow_secrets, passwords=probe.passwords)
        with Herder(
            settings,
            launcher,
            probe=probe,
            previewer=previewer,
            backing=backing,
            resolve=resolve,
            dag_check=check,
            recorded=recorded_history(),
            author=getpass.getuser(),
        ) as herder:
            yield herder


def _secrets(config: Mapping[str, str | None]) -> Mapping[str, str]:
    return airflow_secrets({key: value for key, value in config.items() if value is not None})


def own_rows(herder: Herder, names: Collection[str]) -> list[ConnectorRow]:
    """The page's rows of the connectors in ``names``, or of all connectors if ``names`` is empty."""
    herder.task_metrics()  # reads the batch log to its end, for lags, and for statuses: a run may have left out records
    runs, listed = MirroredRuns(), [(info, status) for info, status in herder.listed() if not names or info.name in names]
    last = {name: found[0] for name in names if (found := runs.of(name))} if names else runs.last()
    planned, distances, now_ms = runs.planned(), herder.distances([info.name for info, _ in listed]), time.time() * 1000
    return [
        row_of(
            info,
            status,
            may_change=True,
            last_run=last.get(info.name),
            distance=distances.get(info.name),
            planned=planned,
            health=health_of(status, distances.get(info.name), herder.pace(info.name), now_ms=now_ms),
        )
        for info, status in listed
    ]
