"""What a herder keeps so that lists are fast: nothing of connectors that are gone, and few of the plugins that configs name."""

from __future__ import annotations

from typing import cast

from airflow_provider_connect.runtime.herder.plugin_facts import KnownPlugins
from airflow_provider_connect.runtime.model.states import State, TargetState
from airflow_provider_connect.runtime.model.views import ConnectorInfo, Health, HealthWord, RetainedWalView
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from tests.unit.herder.conftest import CONFIG, RunEnvironment


def test_the_configs_of_connectors_that_are_gone_do_not_fill_the_memory(environment: RunEnvironment) -> None:
    """As metrics and lists are asked for all the while."""
    herder = environment.herder
    for number in range(5):
        herder.create_connector(f"c{number}", {**CONFIG, "note": "x"}, TargetState.STOPPED)
        for views in herder.expanded(info=True, status=True).values():
            herder.chosen_plugins(cast("ConnectorInfo", views["info"]))
        assert {len(herder._views._infos), len(herder._chosen._known)} <= {1, 2}
        herder.delete_connector(f"c{number}")
    assert herder.expanded(info=True, status=True) == {}
    assert (herder._views._infos, herder._views._statuses, herder._chosen._known) == ({}, {}, {})


def test_what_a_database_holds_back_is_a_note_of_the_status_until_it_is_found_otherwise(environment: RunEnvironment) -> None:
    herder = environment.herder
    for name in ("orders", "other"):
        herder.create_connector(name, CONFIG, TargetState.STOPPED)
    notes: list[list[str | None]] = []
    for found in (
        {"orders": RetainedWalView(7, "seven bytes")},
        {"orders": RetainedWalView(None, "lost")},
        {"orders": RetainedWalView(0)},
        {},
    ):
        herder.retained_wal.replace(found)
        notes.append([herder.connector_status(name).note for name in ("orders", "other")])
    assert notes == [["seven bytes", None], ["lost", None], [None, None], [None, None]]
    herder.retained_wal.replace({"orders": RetainedWalView(7), "other": RetainedWalView(None, "lost")})
    assert herder.retained_wal.retained_bytes() == {"orders": 7}


def test_a_failure_comes_before_all_that_is_noted_and_is_read_once(environment: RunEnvironment) -> None:
    herder = environment.herder
    herder.create_connector("c", CONFIG, TargetState.STARTED)
    environment.run("c", State.RUNNING)
    herder.retained_wal.replace({"c": RetainedWalView(7, "seven bytes")})
    assert herder.connector_status("c").trouble == Health(HealthWord.BEHIND, "seven bytes")
    environment.run("c", State.FAILED)
    assert herder.connector_status("c").trouble == Health(HealthWord.FAILING, "it broke")
    assert herder.connector_status("c") is herder.connector_status("c")


def test_classes_and_versions_that_configs_name_do_not_fill_the_memory() -> None:
    now = [0.0]
    plugins = KnownPlugins(PluginCatalog(()), now=lambda: now[0])
    for number in range(3000):
        now[0] += 0.1
        plugins.of({"connector.class": f"{number}" * 1000, "connector.plugin.version": "1" * 10_000})
    assert len(plugins._known) <= 1001
    assert max(len(part or "") for key in plugins._known for part in key) < 200


def test_the_classes_of_which_users_make_connectors_have_summaries_and_lack_the_one_that_replays_are_made_of() -> None:
    classes = KnownPlugins(PluginCatalog(())).classes()
    by_name = {each.class_name.rpartition(".")[2]: each for each in classes}
    assert "text file" in (by_name["FileStreamSinkConnector"].summary or "")
    assert by_name["FileStreamSinkConnector"].type == "sink"
    assert "DeadLetterReplayConnector" not in by_name
