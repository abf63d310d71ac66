"""Log levels as Kafka Connect 4.3.1 sets and shows them."""

import logging
import uuid

import pytest

from airflow_provider_connect.errors import BadRequestException, NotFoundException
from airflow_provider_connect.rest.server_routes import Loggers
from airflow_provider_connect.runtime.model.cluster_state import ConfigLog
from airflow_provider_connect.runtime.model.records import LoggerRecord
from airflow_provider_connect.runtime.model.views import LoggerView


@pytest.fixture
def name() -> str:
    """A logger that no other test has."""
    return f"test.{uuid.uuid4().hex}"


def test_a_level_is_set_for_all_whose_names_begin_alike_and_those_that_changed_are_named(name: str) -> None:
    loggers = Loggers(lambda: 12.5)
    assert loggers.put(f"{name}.a", "debug") == [f"{name}.a"]
    assert loggers.put(f"{name}.b", "ERROR") == [f"{name}.b"]
    assert loggers.put(name, "DEBUG") == [name, f"{name}.b"]
    assert loggers.put(name, "DEBUG") == []
    assert loggers.one(f"{name}.a") == LoggerView("DEBUG", 12500)
    assert logging.getLogger(f"{name}.b").level == logging.DEBUG


def test_a_logger_that_had_the_level_already_was_not_modified(name: str) -> None:
    loggers = Loggers()
    level = loggers.one("root").level
    assert level is not None
    assert loggers.put(name, level) == []
    assert loggers.one(name) == LoggerView(level, None)


@pytest.mark.parametrize("level", ["OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE", "ALL"])
def test_each_of_the_levels_reads_back(name: str, level: str) -> None:
    loggers = Loggers()
    loggers.put(name, f" {level.lower()} ")
    assert loggers.one(name).level == level


def test_what_is_wrong_is_reported(name: str) -> None:
    with pytest.raises(NotFoundException, match=r"^Logger .* not found\.$"):
        Loggers().one(name)
    with pytest.raises(NotFoundException, match=r"^invalid log level 'LOUD'\.$"):
        Loggers().put(name, "LOUD")
    with pytest.raises(BadRequestException, match="empty"):
        Loggers().put(name, " ")


def test_the_root_is_listed_under_its_name() -> None:
    assert Loggers().all()["root"].level == Loggers().one("ROOT").level


def test_what_is_asked_of_all_workers_is_done_by_those_that_are_up(name: str) -> None:
    loggers, log = Loggers(), ConfigLog()
    log.apply(LoggerRecord(f"{name}.early", "DEBUG", offset=4))
    loggers.follow(log.state)
    log.apply(LoggerRecord(name, "trace", offset=5))
    log.apply(LoggerRecord(f"{name}.odd", "LOUD", offset=6))
    loggers.follow(log.state)
    assert loggers.one(name).level == "TRACE"
    with pytest.raises(NotFoundException):
        loggers.one(f"{name}.early")
    loggers.put(name, "WARN")
    loggers.follow(log.state)
    assert loggers.one(name).level == "WARN"
