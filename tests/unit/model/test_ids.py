"""Names and partitions."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.model.ids import (
    ConnectorTaskId,
    check_name,
    config_leader_id,
    connector_for,
    consumer_group,
    dag_id_for,
    is_shortened,
    murmur2,
    offsets_change_id,
    partition_for,
    transactional_id,
)


@pytest.mark.parametrize(
    ("key", "signed"),
    [  # the vectors of Kafka's own test
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed % 2**32


@given(st.binary(max_size=50), st.integers(1, 100))
def test_every_key_has_a_partition(key: bytes, partitions: int) -> None:
    assert 0 <= partition_for(key, partitions) < partitions


@pytest.mark.parametrize(
    ("connector", "dag_id"),
    [
        ("orders", "connect.orders"),
        ("Orders_2.all-new", "connect.Orders_2.all-new"),
        ("a b", "connect.a--20b"),
        ("a/b", "connect.a--2fb"),
        ("ü", "connect.--c3--bc"),
        ("a--b", "connect.a--2d-b"),
        ("a-", "connect.a-"),
        ("-", "connect.-"),
        ("a-/", "connect.a--2d--2f"),
        ("a..b", "connect.a--2e.b"),
        (".a", "connect.--2ea"),
        ("a.", "connect.a."),
        ("~", "connect.--7e"),
        ("--2f", "connect.--2d-2f"),
    ],
)
def test_dag_id_quotes_what_airflow_does_not_take(connector: str, dag_id: str) -> None:
    assert dag_id_for(connector) == dag_id
    assert connector_for(dag_id) == connector


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=25) | st.text("-.~_aA0 2f", max_size=25))
def test_dag_id_is_taken_by_airflow_and_leads_back_to_its_connector(connector: str) -> None:
    dag_id = dag_id_for(connector)
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", dag_id)
    assert ".." not in dag_id
    assert connector_for(dag_id) == connector


@given(st.text("connect.-2fe_a", max_size=12))
def test_only_the_id_that_a_connector_gets_is_read(quoted: str) -> None:
    connector = connector_for("connect." + quoted)
    assert connector is None or dag_id_for(connector) == "connect." + quoted


@pytest.mark.parametrize(
    "dag_id", ["orders", "connect", "connect.--zz", "connect.--61", "connect.--ff", "connect.a b", "connect.--2F", "connect." + "a" * 250]
)
def test_other_dag_ids_belong_to_no_connector(dag_id: str) -> None:
    assert connector_for(dag_id) is None


@pytest.mark.parametrize("name", ["x" * 241, "x" * 300, "/" * 300, "ü/.-" * 90, "{{ macros }}" * 30, "-" * 1000, "a.-" * 2000])
def test_a_long_name_has_a_dag_id_that_is_short_enough_for_airflow_and_for_its_log_folder(name: str) -> None:
    dag_id = dag_id_for(name)
    assert is_shortened(dag_id)
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", dag_id)
    assert ".." not in dag_id
    assert len(f"dag_id={dag_id}") <= 255
    assert connector_for(dag_id) is None
    assert dag_id_for(name + "x") != dag_id


@given(st.text("-.~_aA0 2f", min_size=200, max_size=400), st.integers(1, 8))
def test_a_shortened_id_is_unique(name: str, cut: int) -> None:
    dag_id = dag_id_for(name)
    assert is_shortened(dag_id) != (connector_for(dag_id) == name)
    assert dag_id_for(name[:-cut]) != dag_id
    assert dag_id_for(dag_id.removeprefix("connect.")) != dag_id or not is_shortened(dag_id)


def test_the_longest_id_is_as_it_is() -> None:
    assert dag_id_for("x" * 240) == "connect." + "x" * 240


@pytest.mark.parametrize(("name", "message"), [("x" * 8001, "8001 bytes; at most 8000 are allowed"), ("\ud800", "encoded in UTF-8")])
def test_what_no_topic_could_hold_is_no_name(name: str, message: str) -> None:
    with pytest.raises(ConfigException, match=message):
        check_name(name)
    assert len(dag_id_for(name)) <= 248


def test_ids_are_connects_own() -> None:
    assert transactional_id("connect", "a-b", 3) == "connect-a-b-3"
    assert config_leader_id("g") == "connect-cluster-g"
    assert str(ConnectorTaskId("a-b", 3)) == "a-b-3"


def test_group_of_a_sink_is_its_own_unless_overridden() -> None:
    assert consumer_group("c") == "connect-c"
    assert consumer_group("c", {"consumer.override.group.id": "mine", "group.id": "no"}) == "mine"
    assert consumer_group("c", {}, {"consumer.group.id": "ours", "group.id": "no"}) == "ours"
    assert consumer_group("c", {"consumer.override.group.id": "mine"}, {"consumer.group.id": "ours"}) == "mine"


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("a-0", ConnectorTaskId("a", 0)),
        ("a-b--07", ConnectorTaskId("a-b-", 7)),
        ("a", None),
        ("-0", None),
        ("a-", None),
        ("a-+1", None),
        ("a-2147483648", None),
    ],
)
def test_task_id_is_parsed_from_its_text(text: str, task: ConnectorTaskId | None) -> None:
    assert ConnectorTaskId.parse(text) == task


def test_a_change_of_offsets_fences_no_task_of_a_connector_whose_name_is_alike() -> None:
    names = ["orders", "orders-0", "orders-offsets", "orders-offsets-0", "cluster-connect", "offsets"]
    tasks = {transactional_id("connect", name, task) for name in names for task in range(12)}
    changes = {offsets_change_id("connect", name) for name in names}
    assert len(changes) == len(names)
    assert not tasks & changes
    assert config_leader_id("connect") not in tasks | changes
