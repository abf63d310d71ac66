"""The lag of a sink in lists and on the tab, which is the same number in every state."""

from __future__ import annotations

from airflow_provider_connect.runtime.herder.herder import Herder
from airflow_provider_connect.runtime.model.offsets import OFFSET, sink_partition
from airflow_provider_connect.runtime.model.views import OffsetView
from tests.integration.worker.environment import RunEnvironment, make_topic, send


def lag(environment: RunEnvironment, herder: Herder) -> int:
    """The lag on the tab, which is also that of the list."""
    found = herder.partition_lags(environment.connector).lag
    listed = herder.current_distances()[environment.connector].left
    assert listed == herder.sink_lags([environment.connector])[environment.connector]["records-lag"] == found
    return found


def test_the_lag_is_the_same_in_lists_and_on_the_tab(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    make_topic(environment.bootstrap, unique, 2)
    send(environment.bootstrap, unique, [str(number) for number in range(24)], partitions=2)
    herder.put_connector_config(environment.connector, environment.file_sink(unique))
    assert lag(environment, herder) == 24
    environment.run()
    assert lag(environment, herder) == 0
    send(environment.bootstrap, unique, ["one"])
    assert lag(environment, herder) == 1
    herder.pause(environment.connector)
    assert lag(environment, herder) == 1
    herder.stop(environment.connector)
    assert lag(environment, herder) == 1
    herder.alter_offsets(environment.connector, [OffsetView(sink_partition(unique, 0), {OFFSET: 10})])
    assert lag(environment, herder) == 3
    herder.alter_offsets(environment.connector, [OffsetView(sink_partition(unique, 1), None)])
    assert lag(environment, herder) == 15
    herder.reset_offsets(environment.connector)
    assert lag(environment, herder) == 25
    herder.resume(environment.connector)
    environment.run()
    assert lag(environment, herder) == 0


def test_an_offset_beyond_the_end_has_no_lag_in_lists_and_on_the_tab(environment: RunEnvironment, herder: Herder, unique: str) -> None:
    make_topic(environment.bootstrap, unique, 2)
    send(environment.bootstrap, unique, ["one", "two"])
    herder.put_connector_config(environment.connector, environment.file_sink(unique))
    environment.run()
    herder.stop(environment.connector)
    herder.alter_offsets(environment.connector, [OffsetView(sink_partition(unique, 0), {OFFSET: 100})])
    assert environment.connector not in herder.current_distances()
    assert herder.sink_lags([environment.connector]) == {}
    found = herder.partition_lags(environment.connector)
    assert (found.lag, [each.lag for each in found.partitions]) == (None, [None, 0])
    herder.resume(environment.connector)
    environment.run()
    assert lag(environment, herder) == 0
