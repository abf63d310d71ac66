"""Where executors reach the driver's StopServer."""

import select

import pytest

from airflow_provider_connect.runtime.worker.application.driver import own_address
from airflow_provider_connect.runtime.worker.task.stop_signal import StopConnection, StopServer


@pytest.mark.parametrize(
    "servers", ["127.0.0.1:9092", "PLAINTEXT://127.0.0.1:9092,other:1", "localhost:9092", "", "no port", "no.such.host.invalid:1"]
)
def test_address_is_the_one_on_the_way_to_the_broker(servers: str) -> None:
    assert own_address(servers) in {"127.0.0.1", "::1"}


def test_switch_listens_on_the_address_that_it_is_given() -> None:
    switch = StopServer("127.0.0.1")
    connection = StopConnection(switch.address, switch.token)
    assert not connection.is_closed()
    switch.request_stop()
    assert select.select([connection._socket], [], [], 5)[0]
    assert connection.is_closed()
    connection.close()
