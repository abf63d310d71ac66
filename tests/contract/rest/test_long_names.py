"""Names of a length that Kafka takes, and what the Location of a new connector leads to."""

import re
from urllib.parse import quote, urlsplit

import pytest

from tests.contract.rest.server import Server

_LEFT_AS_IT_IS = re.compile(r"[/;]|%[0-9A-Fa-f]{2}")
"""What Kafka Connect does not encode in ``Location``."""
CONFIG = {"connector.class": "FileStreamSource", "topic": "t", "file": "none"}


@pytest.mark.parametrize("name", ["n" * 251, "n" * 1000, "ü" * 700, "a/b" * 200, "%41", "a%2Fb", "a b%20c", "100%", "x;y=z"])
def test_a_connector_of_any_name_is_made_found_by_its_path_and_deleted(server: Server, name: str) -> None:
    made = server.call({"method": "POST", "path": "/connectors", "json": {"name": name, "config": CONFIG, "initial_state": "STOPPED"}})
    assert made["status"] == 201, made
    path = f"/connectors/{quote(name, safe='')}"
    assert server.call({"method": "GET", "path": path})["body"]["name"] == name
    where = urlsplit(str(made["location"])).path
    if not _LEFT_AS_IT_IS.search(name):
        assert where.removeprefix("/connectors/").replace("%3B", ";") == quote(name, safe="!$&'()*+,=~:@")
        assert server.call({"method": "GET", "path": where})["body"]["name"] == name
    assert server.call({"method": "DELETE", "path": path})["status"] == 204
