"""RegexRouter, Filter and the predicates on whole batches."""

from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_connect.converters.json.converter import JsonConverter
from airflow_provider_connect.errors import ConfigException, DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.transforms.cast import CastValue
from airflow_provider_connect.transforms.predicates import Filter, HasHeaderKey, RecordIsTombstone, TopicNameMatches
from airflow_provider_connect.transforms.routing import RegexRouter, TimestampRouter


def made(plugin: Any, **config: str) -> Any:
    plugin.configure(plugin.config_def.parse(config))
    return plugin


@pytest.mark.parametrize(
    ("regex", "replacement", "topic", "routed"),
    [
        ("(.*)-(.*)", "$2.$1", "shop-orders", "orders.shop"),
        ("(?P<left>.*)-.*", "${left}", "shop-orders", "shop"),
        ("orders", "x", "shop-orders", "shop-orders"),  # the whole name has to match
        ("(a)b*", "$10\\$", "abb", "a0$"),  # there is no group 10, so it is group 1 and a nought
        ("(a)|(b)", "[$2]", "a", "[]"),
        ("a*?", "-", "aa", "-aa"),  # matches as a whole, but replaceFirst finds the empty text first
    ],
)
def test_a_topic_is_routed_as_java_would(regex: str, replacement: str, topic: str, routed: str) -> None:
    assert made(RegexRouter(), regex=regex, replacement=replacement).apply_batch(Batch.of(topic, pa.array(["v"]))).topic == routed


@pytest.mark.parametrize(
    "router",
    [
        lambda: made(RegexRouter(), regex="(.*)", replacement="$1$1"),
        lambda: made(TimestampRouter(), **{"topic.format": "${topic}${topic}"}),
        lambda: made(TimestampRouter(), **{"topic.format": "${topic}" + "${timestamp}" * 2000}),
    ],
    ids=["RegexRouter", "TimestampRouter", "its time"],
)
def test_a_chain_of_routers_that_double_a_name_ends_with_a_bad_record(router: Any) -> None:
    with pytest.raises(DataException, match="characters; the limit is 10000"):
        chained(router, 40)


def chained(router: Any, times: int) -> None:
    batch = Batch.of("shop", pa.array(["v"]), timestamp=pa.array([0], pa.int64()))
    for _ in range(times):
        routed = router().apply_batch(batch)
        batch = routed[0] if isinstance(routed, list) else routed


def test_a_time_of_any_length_is_refused() -> None:
    with pytest.raises(ConfigException, match=r"timestamp\.format: 1001 characters; the limit is 1000"):
        made(TimestampRouter(), **{"timestamp.format": "y" * 1001})


@pytest.mark.parametrize(
    ("replacement", "reason"), [("$3", "No group 3"), ("${x}", "No group with name {x}"), ("a$", "Illegal group"), ("\\", "missing")]
)
def test_a_replacement_that_is_none_is_refused(replacement: str, reason: str) -> None:
    with pytest.raises(ConfigException, match=reason.replace("{", r"\{")):
        made(RegexRouter(), regex="(a)", replacement=replacement)


def test_an_expression_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigException, match="for configuration regex: Invalid regex"):
        made(RegexRouter(), regex="(", replacement="x")
    errors = [error for value in TopicNameMatches.config_def.validate({}) for error in value.errors]
    assert errors == [
        'Missing required configuration "pattern" which has no default value.',
        "Invalid value null for configuration pattern: Invalid regex: null",
    ]


@pytest.mark.parametrize(
    ("regex", "message"),
    [
        ("(", "Unclosed group near index 1\n("),
        ("a(b", "Unclosed group near index 3\na(b"),
        ("[", "Unclosed character class near index 0\n[\n^"),
        ("[abc", "Unclosed character class near index 3\n[abc\n   ^"),
        ("*", "Dangling meta character '*' near index 0\n*\n^"),
        ("a++*", "Dangling meta character '*' near index 3\na++*\n   ^"),
        ("a)", "Unmatched closing ')' near index 0\na)\n^"),
        (")", "Unmatched closing ')'\n)"),
    ],
)
def test_what_is_wrong_with_an_expression_is_reported_in_javas_words(regex: str, message: str) -> None:
    with pytest.raises(ConfigException) as refused:
        made(RegexRouter(), regex=regex, replacement="x")
    assert refused.value.message == f"Invalid value {regex} for configuration regex: Invalid regex: {message}"


@pytest.mark.parametrize("spec", ["a:nothing", "nothing"])
def test_a_type_that_is_none_is_reported_in_connects_words(spec: str) -> None:
    with pytest.raises(ConfigException) as refused:
        made(CastValue(), spec=spec)
    assert refused.value.message == (
        "Invalid value java.lang.IllegalArgumentException: No enum constant org.apache.kafka.connect.data.Schema.Type.NOTHING "
        "for configuration Invalid type found in casting spec: nothing"
    )


def test_the_words_for_decimals_stand_in_javas_order() -> None:
    refused = [error for value in JsonConverter.config_def.validate({"decimal.format": "TEXT"}) for error in value.errors]
    assert refused[-1] == "Invalid value TEXT for configuration decimal.format: String must be one of (case insensitive): NUMERIC, BASE64"


def test_filter_drops_all() -> None:
    assert made(Filter()).apply_batch(Batch.of("t", pa.array(["v"]))) is None


def test_predicates_read_topic_header_and_value() -> None:
    headers = pa.array(
        [[("a", b"1"), ("b", b"2")], [], [("a", b"3")]], type=pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    )
    batch = Batch.of("orders", pa.array(["x", None, "z"]), headers=headers)
    assert made(TopicNameMatches(), pattern="ord.*").test_batch(batch).to_pylist() == [True] * 3
    assert made(TopicNameMatches(), pattern="ord").test_batch(batch).to_pylist() == [False] * 3
    assert made(HasHeaderKey(), name="a").test_batch(batch).to_pylist() == [True, False, True]
    assert made(HasHeaderKey(), name="b").test_batch(batch.slice(1)).to_pylist() == [False, False]
    assert RecordIsTombstone().test_batch(batch).to_pylist() == [False, True, False]
    assert RecordIsTombstone().test_batch(Batch.of("orders", key=pa.array(["k"]))).to_pylist() == [True]
