"""Ports for servers that start some seconds later: none that a client's connection may be given meanwhile."""

import socket
from pathlib import Path

import pytest

from airflow_provider_connect.dev.own_server import LOOPBACK, free_ports

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
LOWEST = int(RANGE.read_text().split()[0]) if RANGE.exists() else 0


@pytest.mark.skipif(LOWEST < 20_000, reason="connections may be given nearly all ports, or the kernel does not report which")
def test_free_ports_are_not_those_of_connections() -> None:
    ports = free_ports(20)
    assert len(set(ports)) == 20
    assert max(ports) < LOWEST


def test_a_port_on_which_a_process_listens_is_not_free(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, other = free_ports(2)
    monkeypatch.setattr("random.SystemRandom.sample", lambda *_: [taken, other])
    with socket.create_server((LOOPBACK, taken)):
        assert free_ports(1) == [other]
