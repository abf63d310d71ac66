"""The airflow.* keys, the checks that need no broker, and the spread of schedules."""

import random
import re
import time
from collections import Counter

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.dag_settings import (
    ApplicationSettings,
    DagLimits,
    application_errors,
    application_settings,
    asset_seconds,
    check_definition,
    dag_settings,
    default_schedule,
    lag_errors,
    literal_secrets,
    steering_errors,
)
from airflow_provider_connect.runtime.config.key_values import duration_seconds
from airflow_provider_connect.runtime.herder.checks import own_errors

CONFIG = {"connector.class": "FileStreamSource", "file": "/in.txt", "topic": "lines"}


@pytest.mark.parametrize(
    ("text", "seconds"), [("10", 10), ("10s", 10), ("500ms", 0.5), ("5m", 300), ("2h", 7200), ("1d", 86400), (" 1.5 s ", 1.5)]
)
def test_durations(text: str, seconds: float) -> None:
    assert duration_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "ten", "-5s", "5 weeks", "s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="duration such as"):
        duration_seconds(text)


@pytest.mark.parametrize(
    ("key", "text", "attribute", "value"),
    [
        ("airflow.schedule", "*/5 * * * *", "schedule", "*/5 * * * *"),
        ("airflow.schedule", "@hourly", "schedule", "@hourly"),
        ("airflow.schedule", "0 0 * MAR,APR FRI,THU", "schedule", "0 0 * MAR,APR FRI,THU"),
        ("airflow.schedule", "30s", "schedule", 30.0),
        ("airflow.schedule", "none", "schedule", None),
        ("airflow.tags", "orders, shop,orders", "tags", ("orders", "shop")),
        ("airflow.owner", "shop team", "owner", "shop team"),
        ("airflow.retries", "7", "retries", 7),
        ("airflow.retry.delay", "1m", "retry_delay_seconds", 60.0),
        ("airflow.pool", "kafka", "pool", "kafka"),
        ("airflow.pool.slots", "2", "pool_slots", 2),
        ("airflow.queue", "spark", "queue", "spark"),
        ("airflow.engine", "process", "engine", "process"),
        ("airflow.on.failure", "shop, admins,shop", "on_failure", ("shop", "admins")),
        ("airflow.priority.weight", "5", "priority_weight", 5),
        ("airflow.description", "Orders", "description", "Orders"),
        ("airflow.display.name", "Bestellungen", "display_name", "Bestellungen"),
        ("airflow.doc", "# Orders", "doc", "# Orders"),
        ("airflow.max.duration", "10m", "max_duration_seconds", 600.0),
        ("airflow.java.memory", "1G", "java_memory", "1G"),
        ("tasks.per.application", "2", "tasks_per_application", 2),
    ],
)
def test_a_key_steers_the_dag(key: str, text: str, attribute: str, value: object) -> None:
    assert getattr(dag_settings("orders", {**CONFIG, key: text}), attribute) == value


@pytest.mark.parametrize(
    ("key", "text", "fix"),
    [
        ("airflow.schedule", "often", "cron expression"),
        ("airflow.schedule", "0s", "longer than 0"),
        ("airflow.retries", "-1", "whole number from 0"),
        ("airflow.retry.delay", "soon", "duration such as"),
        ("airflow.retry.delay.multiplier", "0.5", "number from 1"),
        ("airflow.retry.delay.jitter", "nan", "number from 0 to 1"),
        ("airflow.engine", "flink", "give one of spark, process"),
        ("airflow.max.duration", "0", "longer than 0"),
        ("airflow.java.memory", "2gb", "give a size such as 512m or 2g, from 64m to 1024g"),
        ("airflow.java.memory", "63m", "from 64m to 1024g"),
        ("airflow.java.memory", "1g -XX:+Help", "from 64m to 1024g"),
        ("airflow.java.memory", "1025g", "from 64m to 1024g"),
        ("airflow.pool", " ", "must not be empty"),
        ("tasks.per.application", "0", "whole number from 1 to 1024"),
        ("tasks.per.application", "1025", "whole number from 1 to 1024"),
    ],
)
def test_a_wrong_value_is_refused_with_key_and_fix(key: str, text: str, fix: str) -> None:
    with pytest.raises(ConfigException, match=f"Invalid value {re.escape(text)} for configuration {re.escape(key)}: .*{fix}"):
        dag_settings("orders", {**CONFIG, key: text})


@pytest.mark.parametrize(
    ("key", "text", "reason"),
    [
        ("airflow.pool", "p" * 300, "300 characters long; give no more than 256"),
        ("airflow.queue", "q" * 257, "257 characters long; give no more than 256"),
        ("airflow.owner", "o" * 251, "no more than 250"),
        ("airflow.description", "d" * 5001, "no more than 5000"),
        ("airflow.display.name", "n" * 2001, "no more than 2000"),
        ("airflow.doc", "n" * 50_001, "no more than 50000"),
        ("airflow.doc", "a\0b", "control characters"),
        ("airflow.pool", "a\ud800", "control characters"),
        ("airflow.tags", "t" * 101, "101 characters long; give no more than 100"),
        ("airflow.tags", "good,a\0b", "control characters"),
        ("airflow.tags", ",".join(map(str, range(101))), "101 tags"),
        ("airflow.on.failure", ",".join(map(str, range(11))), "11 notifiers"),
        ("airflow.retry.delay", "31d", "no longer than 30d"),
        ("airflow.retry.delay.max", "999999999999d", "no longer than 30d"),
        ("airflow.max.duration", "367d", "no longer than 366d"),
        ("airflow.max.duration", f"{'9' * 400}d", "no longer than 366d"),
        ("airflow.schedule", "367d", "no longer than 366d"),
        ("airflow.schedule", "0.001ms", "a second apart"),
        ("airflow.schedule", "* " * 200, "expected a cron expression"),
        ("airflow.schedule", "* * * * * R", "R and H in a cron expression"),
        ("airflow.schedule", "1,r(0-5)/2 * * * *", "R and H in a cron expression"),
        ("airflow.schedule", "H/5 * * * *", "R and H in a cron expression"),
    ],
)
def test_what_airflow_and_its_database_do_not_keep_is_refused(key: str, text: str, reason: str) -> None:
    with pytest.raises(ConfigException, match=reason) as raised:
        dag_settings("orders", {**CONFIG, key: text})
    assert key in str(raised.value)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    ("key", "text", "limits", "reason"),
    [
        ("airflow.pool", "kafka", {}, "airflow.allowed.pools does not name it"),
        ("airflow.queue", "gpu", {"queues": frozenset({"spark"})}, "airflow.allowed.queues does not name it"),
        ("airflow.engine", "process", {}, "airflow.allowed.engines does not name it"),
        ("airflow.on.failure", "shop", {}, "no notifier has this name; the worker settings airflow.notifiers.… define none"),
        ("airflow.on.failure", "a,shop", {"notifiers": frozenset("ba")}, "value shop .*airflow.notifiers.… define a, b"),
        ("airflow.on.failure", "*", {"notifiers": frozenset({"*a"})}, "no notifier has this name"),
        ("airflow.pool.slots", "9", {}, "airflow.max.pool.slots allows 8"),
        ("airflow.priority.weight", "101", {}, "airflow.max.priority.weight allows 100"),
        ("airflow.schedule", "@continuous", {}, "the worker setting airflow.allowed.continuous is false"),
        (
            "airflow.run.idle.timeout",
            "30s",
            {},
            "the worker setting airflow.allowed.continuous is false; ask an admin to set it to true, or omit",
        ),
        ("airflow.application", "crm", {"applications": frozenset({"erp"})}, "airflow.allowed.applications does not name it"),
        ("airflow.schedule", "9s", {}, "9s apart, and the worker setting airflow.min.schedule.interval is 10s"),
    ],
)
def test_what_is_beyond_the_workers_limits_names_their_setting(key: str, text: str, limits: dict[str, object], reason: str) -> None:
    (error,) = steering_errors("orders", {**CONFIG, key: text}, DagLimits(**limits))[key]  # type: ignore[arg-type]
    assert re.search(re.escape(reason).replace(r"\.\*", ".*"), error)
    assert dag_settings("orders", {**CONFIG, key: text}).tags == ()  # a DAG file's author is not bound by them


@pytest.mark.parametrize(
    ("key", "text", "limits"),
    [
        ("airflow.pool", "default_pool", {}),
        ("airflow.queue", "default", {}),
        ("airflow.pool", "kafka", {"pools": frozenset({"kafka"})}),
        ("airflow.queue", "gpu", {"queues": frozenset({"*"})}),
        ("airflow.engine", "spark", {}),
        ("airflow.engine", "process", {"engines": frozenset({"process"})}),
        ("airflow.on.failure", "a,b", {"notifiers": frozenset("abc")}),
        ("airflow.pool.slots", "8", {}),
        ("airflow.priority.weight", "100", {}),
        ("airflow.schedule", "10s", {}),
        ("airflow.schedule", "@continuous", {"continuous": True}),
        ("airflow.run.idle.timeout", "30s", {"continuous": True}),
        ("airflow.application", "crm", {"applications": frozenset({"crm"})}),
        ("airflow.schedule", "1s", {"min_interval_seconds": 0.0}),
        ("airflow.schedule", "none", {}),
        ("airflow.tags", "t" * 100, {}),
        ("airflow.doc", "# A title\n\ttext", {}),
    ],
)
def test_what_is_within_the_limits_is_taken(key: str, text: str, limits: dict[str, object]) -> None:
    assert steering_errors("orders", {**CONFIG, key: text}, DagLimits(**limits)) == {}  # type: ignore[arg-type]


NOTIFIED = {"airflow.on.deadline": "shop"}


def test_deadlines_are_read_with_their_notifiers() -> None:
    keys = {"duration": "5m", "silence": "2h", "lag": "1000", "lag.duration": "0"}
    config = {**CONFIG, "airflow.on.deadline": "shop, admins,shop", **{f"airflow.deadline.{key}": text for key, text in keys.items()}}
    found = dag_settings("orders", config)
    assert found.on_deadline == ("shop", "admins")
    assert (found.longest_run_seconds, found.longest_silence_seconds, found.most_lag, found.longest_lag_seconds) == (300, 7200, 1000, 0)
    assert dag_settings("orders", {**CONFIG, **NOTIFIED, "airflow.deadline.lag": "0"}).longest_lag_seconds == 600
    assert steering_errors("orders", config, DagLimits(notifiers=frozenset({"shop", "admins"}))) == {}


@pytest.mark.parametrize(
    ("keys", "wrong", "fix"),
    [
        ({**NOTIFIED, "airflow.deadline.duration": "9s"}, "airflow.deadline.duration", "give a duration from 10s to 366d"),
        ({**NOTIFIED, "airflow.deadline.duration": "367d"}, "airflow.deadline.duration", "give a duration from 10s to 366d"),
        ({**NOTIFIED, "airflow.deadline.duration": "soon"}, "airflow.deadline.duration", "expected a duration such as"),
        ({**NOTIFIED, "airflow.deadline.silence": "59s"}, "airflow.deadline.silence", "give a duration from 60s to 366d"),
        ({**NOTIFIED, "airflow.deadline.lag": "-1"}, "airflow.deadline.lag", "give a whole number from 0 to 2147483647"),
        ({**NOTIFIED, "airflow.deadline.lag": "1e3"}, "airflow.deadline.lag", "give a whole number"),
        (
            {**NOTIFIED, "airflow.deadline.lag.duration": "5m"},
            "airflow.deadline.lag.duration",
            "without airflow.deadline.lag",
        ),
        ({"airflow.deadline.silence": "1h"}, "airflow.deadline.silence", "name notifiers in airflow.on.deadline"),
        ({"airflow.deadline.silence": "1h", "airflow.on.deadline": " ,"}, "airflow.deadline.silence", "name notifiers in"),
        (NOTIFIED, "airflow.on.deadline", "set one of airflow.deadline.duration, airflow.deadline.silence, airflow.deadline.lag"),
    ],
)
def test_a_deadline_that_would_never_be_noticed_is_refused_with_the_fix(keys: dict[str, str], wrong: str, fix: str) -> None:
    with pytest.raises(ConfigException) as raised:
        dag_settings("orders", {**CONFIG, **keys})
    (error,) = raised.value.errors
    assert f"for configuration {wrong}: " in error
    assert fix in error


@pytest.mark.parametrize("topics", [{}, {"topics": " "}])
def test_a_source_has_no_lag_to_limit(topics: dict[str, str]) -> None:
    config = {**CONFIG, **NOTIFIED, "airflow.deadline.lag": "5"}
    with pytest.raises(ConfigException, match=r"value 5 for configuration airflow\.deadline\.lag: a source has no lag: omit it"):
        check_definition("orders", {**config, **topics})
    no_topics = lag_errors({**config, **topics})
    assert own_errors("orders", {**config, **topics}, lambda *_: {"airflow.deadline.lag": ["first"]}) == {
        "airflow.deadline.lag": ["first", *no_topics]
    }
    for sink in ({"topics": "a"}, {"topics.regex": "a.*"}):
        check_definition("orders", {**config, **sink})
        assert own_errors("orders", {**config, **sink}, lambda *_: {}) == {}


def test_notifiers_of_deadlines_are_those_of_the_worker_settings() -> None:
    config = {**CONFIG, "airflow.on.deadline": "shop,os.system", "airflow.deadline.duration": "5m"}
    (error,) = steering_errors("orders", config, DagLimits(notifiers=frozenset({"shop"})))["airflow.on.deadline"]
    assert "value os.system for" in error
    assert "airflow.notifiers.… define shop" in error
    eleven = {"airflow.on.deadline": ",".join(map(str, range(11))), "airflow.deadline.duration": "5m"}
    with pytest.raises(ConfigException, match="11 notifiers"):
        dag_settings("orders", {**CONFIG, **eleven})


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigException, match=r"Unknown configuration airflow\.shedule: did you mean airflow\.schedule\?"):
        dag_settings("orders", {**CONFIG, "airflow.shedule": "@daily"})


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(ConfigException) as raised:
        dag_settings("orders", {**CONFIG, "airflow.retries": "x", "airflow.pool": "", "airflow.nonsense": "1"})
    assert len(raised.value.errors) == 3


def test_the_defaults_retry_at_least_three_times_after_a_short_delay() -> None:
    settings = dag_settings("orders", CONFIG)
    assert (settings.retries, settings.retry_delay_seconds) == (3, 10.0)


def test_the_default_schedule_is_every_five_minutes_and_spread_over_them() -> None:
    schedules = [default_schedule(f"connector-{number}") for number in range(3000)]
    assert default_schedule("connector-7") == schedules[7]
    assert all(re.fullmatch(r"[0-4]-59/5 \* \* \* \* [1-5]?\d", schedule) for schedule in schedules)
    most = Counter(schedules).most_common(1)[0][1]
    assert most < 30  # of 3,000 on 300 seconds, ten each on average


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"file": "/in.txt"}, r'Missing required configuration "connector\.class".*FileStreamSource'),
        ({**CONFIG, "connector.class": " "}, r'Missing required configuration "connector\.class"'),
        ({**CONFIG, "tasks.max": "0"}, r"Invalid value 0 for configuration tasks\.max: give a whole number from 1 to 1024"),
        ({**CONFIG, "tasks.max": "1025"}, r"Invalid value 1025 for configuration tasks\.max"),
        ({**CONFIG, "tasks.max": "two"}, r"Invalid value two for configuration tasks\.max"),
        ({**CONFIG, "tasks.max": 2}, r'Invalid value 2 for configuration tasks\.max: values are text; write "2"'),
        ({**CONFIG, "enabled": True}, r'for configuration enabled: values are text; write "true"'),
        ({**CONFIG, "topics": ["a", "b"]}, r'for configuration topics: values are text; write "a,b"'),
        ({**CONFIG, 1: "x"}, "configuration key 1 must be text"),  # type: ignore[misc]
        ({**CONFIG, "name": "other"}, "Invalid value other for configuration name: the DAG is of connector orders"),
        ({**CONFIG, "topics": "a", "topics.regex": "b.*"}, r"topics and topics\.regex are mutually exclusive"),
        ({**CONFIG, "airflow.defined.in": "x.py"}, r"airflow\.defined\.in: it is set from the DAG's file"),
    ],
)
def test_a_wrong_definition_is_refused_with_key_and_fix(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigException, match=message):
        check_definition("orders", config)


@pytest.mark.parametrize("name", ["", "  ", "a\nb"])
def test_a_connector_needs_a_name(name: str) -> None:
    with pytest.raises(ConfigException, match="configuration name"):
        check_definition(name, CONFIG)


def test_secrets_written_out_are_found_and_variables_are_not() -> None:
    config = {
        "connection.password": "hunter2",
        "api.key": "${airflow:shop:password}",
        "consumer.override.sasl.jaas.config": "x",
        "oauth.token": "",
        "topic": "passwords",
        "auth_secret": "${env:SECRET}",
    }
    assert literal_secrets(config) == ["connection.password", "consumer.override.sasl.jaas.config"]


def test_thousands_of_unknown_keys_are_refused_at_once() -> None:
    chance = random.Random(1)
    keys = {f"airflow.{''.join(chance.sample('retry.delay.max.multiplier', 26))}" for _ in range(10_000)}
    started = time.thread_time()
    errors = steering_errors("c", dict.fromkeys(keys, ""), DagLimits())
    assert time.thread_time() - started < 10.0  # a tenth of a second, or a minute if each key is compared with all known ones
    assert errors.keys() == keys


def test_a_run_stays_with_the_schedule_continuous_alone() -> None:
    assert dag_settings("orders", CONFIG).stays_seconds is None
    assert dag_settings("orders", {**CONFIG, "airflow.schedule": "@hourly"}).stays_seconds is None
    assert dag_settings("orders", CONFIG, "@continuous").stays_seconds == 86_400
    assert dag_settings("orders", {**CONFIG, "airflow.schedule": "@continuous", "airflow.run.max.duration": "2h"}).stays_seconds == 7200


@pytest.mark.parametrize(
    ("keys", "fix"),
    [
        ({"tasks.per.application": "2"}, "all tasks of a run that stays share one application: omit it"),
        ({"airflow.max.duration": "1h"}, "airflow.run.max.duration ends it in good order: omit it"),
        ({"airflow.deadline.duration": "1h", "airflow.on.deadline": "shop"}, "limit airflow.deadline.silence or airflow.deadline.lag"),
        ({"airflow.run.max.duration": "59s"}, "airflow.run.max.duration"),
    ],
)
def test_what_only_runs_that_end_can_have_is_refused_for_one_that_stays(keys: dict[str, str], fix: str) -> None:
    with pytest.raises(ConfigException, match=next(iter(keys))) as raised:
        dag_settings("orders", {**CONFIG, "airflow.schedule": "@continuous", **keys})
    assert fix in str(raised.value)


def test_how_long_a_run_stays_has_no_effect_on_one_that_ends() -> None:
    with pytest.raises(ConfigException, match=r"airflow\.run\.max\.duration: it has no effect without airflow\.schedule=@continuous"):
        dag_settings("orders", {**CONFIG, "airflow.run.max.duration": "2h"})


def test_asset_events_of_a_run_that_stays_have_an_interval() -> None:
    stays = {**CONFIG, "airflow.schedule": "@continuous"}
    assert (dag_settings("orders", stays).asset_seconds, asset_seconds(stays)) == (60.0, 60.0)
    assert dag_settings("orders", {**stays, "airflow.asset.interval": "5m"}).asset_seconds == 300.0
    assert asset_seconds({**stays, "airflow.asset.interval": "5m"}) == 300.0
    assert asset_seconds({**stays, "airflow.asset.interval": "9s"}) == 60.0  # as another worker may have accepted it
    assert steering_errors("orders", {**stays, "airflow.asset.interval": "10s"}, DagLimits(continuous=True)) == {}
    with pytest.raises(ConfigException, match=r"Invalid value 9s for configuration airflow\.asset\.interval"):
        dag_settings("orders", {**stays, "airflow.asset.interval": "9s"})
    with pytest.raises(ConfigException, match=r"airflow\.asset\.interval: a run that ends has its asset events at its end: .* or omit it"):
        dag_settings("orders", {**CONFIG, "airflow.asset.interval": "5m"})


def test_runs_of_a_member_of_a_shared_application_stay() -> None:
    settings = dag_settings("orders", {**CONFIG, "airflow.application": "crm-2"}, "5m")
    assert (settings.application, settings.schedule, settings.stays_seconds) == ("crm-2", "@continuous", 86_400.0)
    assert dag_settings("orders", {**CONFIG, "airflow.application": "crm", "airflow.schedule": "@continuous"}).application == "crm"


@pytest.mark.parametrize(
    ("keys", "key", "reason"),
    [
        ({"airflow.application": "a" * 300}, "airflow.application", "1 to 100 letters"),
        ({"airflow.application": "../crm"}, "airflow.application", "1 to 100 letters"),
        ({"airflow.application": "crm", "airflow.schedule": "5m"}, "airflow.schedule", "omit it, or write @continuous"),
        ({"airflow.application": "crm", "airflow.engine": "process"}, "airflow.engine", "airflow.application.crm.engine"),
        ({"airflow.application": "crm", "tasks.per.application": "1"}, "tasks.per.application", "share one application"),
    ],
)
def test_what_a_member_of_a_shared_application_cannot_have_is_refused(keys: dict[str, str], key: str, reason: str) -> None:
    with pytest.raises(ConfigException, match=reason) as raised:
        dag_settings("orders", {**CONFIG, **keys})
    assert key in str(raised.value)
    assert len(str(raised.value)) < 600


def test_worker_settings_configure_a_shared_application() -> None:
    worker = {
        "airflow.application.crm.engine": "process",
        "airflow.application.crm.spark.connection": "big",
        "airflow.application.crm.run.max.duration": "12h",
        "airflow.application.erp.pool": "p",
    }
    assert application_settings("crm", worker) == ApplicationSettings(engine="process", spark_conn_id="big", run_seconds=43_200)
    assert application_settings("hr", worker) == ApplicationSettings()
    wrong = {
        "airflow.application.crm.engine": "fast",
        "airflow.application.crm.size": "2",
        "airflow.application.crm.run.max.duration": "1s",
    }
    assert sorted(application_errors(wrong)) == sorted(wrong)


def test_a_run_on_a_schedule_may_wait_for_new_records() -> None:
    settings = dag_settings("orders", {**CONFIG, "airflow.run.idle.timeout": "30s", "airflow.run.max.duration": "2h"})
    assert (settings.idle_seconds, settings.run_seconds, settings.stays_seconds) == (30.0, 7200.0, None)
    with pytest.raises(ConfigException, match=r"airflow\.run\.idle\.timeout: with airflow\.schedule=@continuous.*without a limit: omit it"):
        dag_settings("orders", {**CONFIG, "airflow.run.idle.timeout": "30s", "airflow.schedule": "@continuous"})
