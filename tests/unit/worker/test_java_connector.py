"""A Java connector's config on its way to Kafka Connect."""

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.worker.task.java_connector import guarded_source, java_config


def test_the_guard_of_internal_topics_has_no_key_of_the_configs_author() -> None:
    given = {
        "transforms": "internal",
        "transforms.internal.type": "X",
        "transforms.internal_.predicate": "never",
        "transforms.internal__.negate": "true",
    }
    guarded = guarded_source(given, ["connect-configs"])
    assert guarded["transforms"] == "internal,internal___"
    assert {key for key in guarded if key.startswith("transforms.internal___.")} == {
        "transforms.internal___.type",
        "transforms.internal___.regex",
        "transforms.internal___.replacement",
    }


def test_a_key_that_no_java_connector_may_have_stops_the_run() -> None:
    with pytest.raises(ConfigException, match=r"config\.providers"):
        java_config("c", {"config.providers": "x"})
