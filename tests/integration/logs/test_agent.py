"""LogSource in ``connect-standalone``: an agent that follows files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.integration.standalone.agent import Agent, properties
from tests.integration.worker.environment import make_topic
from tests.waiting import wait_until

FILES = 1000


@pytest.fixture
def agent(tmp_path: Path, bootstrap: str, unique: str) -> Iterator[Agent]:
    (tmp_path / "logs").mkdir()
    config = {"name": "logs", "connector.class": "LogSource", "paths": f"{tmp_path}/logs/*.log", "topic": unique, "follow": "true"}
    (tmp_path / "logs.properties").write_text(properties(config))
    agent = Agent(tmp_path, bootstrap)
    yield agent
    agent.stop()


def received(consumer: Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []

    def is_enough() -> bool:
        found.extend(message.value() or b"" for message in consumer.consume(100, 0.01))
        return len(found) >= count

    wait_until(is_enough)
    return found


@pytest.mark.soak
def test_an_agent_follows_a_thousand_files_and_a_rotation(agent: Agent, bootstrap: str, unique: str) -> None:
    make_topic(bootstrap, unique)
    folder = agent.folder / "logs"
    for number in range(FILES):
        (folder / f"{number}.log").write_text("first\n")
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": unique})
    consumer.assign([TopicPartition(unique, 0, 0)])
    try:
        agent.start(agent.folder / "logs.properties")
        assert received(consumer, FILES) == [b"first"] * FILES
        with (folder / "7.log").open("a") as file:
            file.write("second\n")
        assert received(consumer, 1) == [b"second"]
        (folder / "7.log").rename(folder / "7.log.1")
        (folder / "7.log").write_text("new\n")
        assert received(consumer, 1) == [b"new"]
    finally:
        print(agent.log[-3000:])
        consumer.close()
    assert agent.end() == 0, agent.log


def test_a_task_that_follows_carries_out_connects_verbs_and_goes_on_at_altered_offsets(agent: Agent, bootstrap: str, unique: str) -> None:
    make_topic(bootstrap, unique)
    log = agent.folder / "logs" / "app.log"
    log.write_text("one\ntwo\n")
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": unique})
    consumer.assign([TopicPartition(unique, 0, 0)])

    def write(line: str) -> None:
        with log.open("a") as file:
            file.write(f"{line}\n")

    def ask(method: str, path: str, body: object = None) -> Any:  # Any: JSON
        code, answer = agent.request(method, f"/connectors/logs{path}", body)
        assert code in (200, 202, 204), answer
        return answer

    try:
        agent.start(agent.folder / "logs.properties")
        assert received(consumer, 2) == [b"one", b"two"]
        ask("PUT", "/pause")
        wait_until(lambda: agent.states("logs") == ["PAUSED", "PAUSED"])
        write("three")
        log.rename(f"{log}.1")
        write("four")
        ask("PUT", "/resume")
        assert received(consumer, 2) == [b"three", b"four"]

        ask("POST", "/restart?includeTasks=true")
        write("five")
        assert received(consumer, 1) == [b"five"]
        wait_until(lambda: agent.states("logs") == ["RUNNING", "RUNNING"])

        ask("PUT", "/stop")
        assert agent.states("logs") == ["STOPPED"]
        write("six")
        offsets = ask("GET", "/offsets")["offsets"]
        [current] = [each for each in offsets if each["offset"].get("path") == str(log)]
        assert current["offset"]["position"] == len("four\nfive\n")
        refused = agent.request("PATCH", "/connectors/logs/offsets", {"offsets": [{**current, "offset": {"position": -1}}]})
        assert refused[0] == 400
        assert "position" in refused[1]["message"]
        ask("PATCH", "/offsets", {"offsets": [{**current, "offset": {"position": len("four\n")}}]})
        ask("PUT", "/resume")
        assert received(consumer, 2) == [b"five", b"six"]

        ask("PUT", "/stop")
        ask("DELETE", "/offsets")
        assert ask("GET", "/offsets") == {"offsets": []}
        ask("PUT", "/resume")
        assert sorted(received(consumer, 6)) == sorted([b"one", b"two", b"three", b"four", b"five", b"six"])
    finally:
        print(agent.log[-3000:])
        consumer.close()
    assert agent.end() == 0, agent.log
