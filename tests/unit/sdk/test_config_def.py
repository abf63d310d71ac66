"""Parsing and validation of settings, with Connect's messages."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_connect.data.java_text import text_of
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.config_def import (
    REQUIRED,
    Config,
    ConfigDef,
    ConfigKey,
    Importance,
    ListOf,
    NonEmptyString,
    OneOf,
    Password,
    Range,
    Type,
    Width,
    display_text,
    parse_type,
)

GOLDEN = Path(__file__).parents[2] / "contract" / "golden" / "rest"

GOOD = [
    (Type.BOOLEAN, " TRUE ", True),
    (Type.BOOLEAN, "False", False),
    (Type.BOOLEAN, True, True),
    (Type.STRING, "  a b ", "a b"),
    (Type.STRING, "", ""),
    (Type.INT, " 2147483647 ", 2**31 - 1),
    (Type.INT, "-2147483648", -(2**31)),
    (Type.INT, "+7", 7),
    (Type.INT, 7, 7),
    (Type.SHORT, "32767", 32767),
    (Type.LONG, "-9223372036854775808", -(2**63)),
    (Type.DOUBLE, "1.5", 1.5),
    (Type.DOUBLE, ".5e3", 500.0),
    (Type.DOUBLE, "1.f", 1.0),
    (Type.DOUBLE, "-Infinity", float("-inf")),
    (Type.DOUBLE, 3, 3.0),
    (Type.LIST, "a ,b,, c ", ["a", "b", "", "c"]),
    (Type.LIST, "  ", []),
    (Type.LIST, ("a", "b"), ["a", "b"]),
    (Type.CLASS, " org.example.A ", "org.example.A"),
    (Type.CLASS, ConfigDef, "airflow_provider_connect.sdk.config_def.ConfigDef"),
    (Type.PASSWORD, " secret ", Password("secret")),
    (Type.PASSWORD, Password("s"), Password("s")),
    *((type, None, None) for type in Type),
]


@pytest.mark.parametrize(("type", "raw", "value"), GOOD)
def test_text_becomes_a_value(type: Type, raw: object, value: object) -> None:
    assert parse_type("k", raw, type) == value


BAD = [
    (Type.BOOLEAN, "yes", "Invalid value yes for configuration k: Expected value to be either true or false"),
    (Type.BOOLEAN, 1, "Invalid value 1 for configuration k: Expected value to be either true or false"),
    (Type.INT, "2147483648", "Invalid value 2147483648 for configuration k: Not a number of type INT"),
    (Type.INT, " 1_000", "Invalid value  1_000 for configuration k: Not a number of type INT"),
    (Type.INT, "", "Invalid value  for configuration k: Not a number of type INT"),
    (Type.INT, True, "Invalid value true for configuration k: Not a number of type INT"),
    (Type.SHORT, "-32769", "Invalid value -32769 for configuration k: Not a number of type SHORT"),
    (Type.LONG, "1.0", "Invalid value 1.0 for configuration k: Not a number of type LONG"),
    (Type.LONG, "٣", "Invalid value ٣ for configuration k: Not a number of type LONG"),
    (Type.DOUBLE, "1,5", "Invalid value 1,5 for configuration k: Not a number of type DOUBLE"),
    (Type.DOUBLE, "inf", "Invalid value inf for configuration k: Not a number of type DOUBLE"),
    (Type.STRING, 5, "Invalid value 5 for configuration k: Expected value to be a string, but it was a int"),
    (Type.LIST, 5, "Invalid value 5 for configuration k: Expected a comma separated list."),
]


@pytest.mark.parametrize(("type", "raw", "message"), BAD)
def test_wrong_text_is_refused_in_connects_words(type: Type, raw: object, message: str) -> None:
    with pytest.raises(ConfigException) as caught:
        parse_type("k", raw, type)
    assert str(caught.value) == message


TEXTS = [
    (None, None),
    (True, "true"),
    (5, "5"),
    (1.0, "1.0"),
    (1e7, "1.0E7"),
    (1.5e-7, "1.5E-7"),
    (123456789.0, "1.23456789E8"),
    (0.001, "0.001"),
    (float("nan"), "NaN"),
    (float("inf"), "Infinity"),
    (["a", "b"], "a,b"),
    ([], ""),
    (Password("p"), "[hidden]"),
]


@pytest.mark.parametrize(("value", "text"), TEXTS)
def test_values_are_shown_as_java_shows_them(value: object, text: str | None) -> None:
    assert display_text(value) == text


def test_lists_and_null_within_messages() -> None:
    assert text_of(["a", None, True]) == "[a, null, true]"


LIMITS = [
    (Range(at_least=1), 0, "Invalid value 0 for configuration k: Value must be at least 1"),
    (Range(at_most=9), 10, "Invalid value 10 for configuration k: Value must be no more than 9"),
    (Range(1, 9), None, "Invalid value null for configuration k: Value must be non-null"),
    (Range(at_least=0.5), 0.25, "Invalid value 0.25 for configuration k: Value must be at least 0.5"),
    (OneOf("none", "all"), "ALL", "Invalid value ALL for configuration k: String must be one of: none, all"),
    (OneOf("none", "all"), None, "Invalid value null for configuration k: String must be one of: none, all"),
    (OneOf("a", "b", case_sensitive=False), "c", "Invalid value c for configuration k: String must be one of (case insensitive): A, B"),
    (NonEmptyString(), "", "Invalid value  for configuration k: String must be non-empty"),
    (ListOf("a", "b"), ["a", "c"], "Invalid value c for configuration k: String must be one of: a, b"),
    (ListOf(unique=True), ["a", "b", "a"], "Invalid value [a, b, a] for configuration k: Duplicate alias provided."),
]


@pytest.mark.parametrize(("validator", "value", "message"), LIMITS)
def test_limits_are_worded_as_in_connect(validator: Any, value: object, message: str) -> None:
    with pytest.raises(ConfigException) as caught:
        validator("k", value)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("validator", "value"),
    [
        (Range(1, 9), 1),
        (Range(1, 9), 9),
        (Range(), -5),
        (OneOf("a", case_sensitive=False), "A"),
        (OneOf("a"), "a"),
        (NonEmptyString(), None),
        (NonEmptyString(), "x"),
        (ListOf("a"), None),
        (ListOf("a"), ["a", "a"]),
        (ListOf(unique=True), ["b", "a"]),
    ],
)
def test_good_values_pass(validator: Any, value: object) -> None:
    validator("k", value)


def file_source() -> ConfigDef:
    """The settings of Connect's FileStreamSource."""
    return ConfigDef(
        ConfigKey("file", default=None, importance=Importance.HIGH, doc="Source filename. If not "
                  "specified, the standard input will be used"),
        ConfigKey("topic", validator=NonEmptyString(), importance=Importance.HIGH, doc="The topic to publish data to"),
        ConfigKey("batch.size", Type.INT, 2000, importance=Importance.LOW, doc="The maximum number of records the source task "
                  "can read from the file each time it is polled"),
    )  # fmt: skip


def test_description_is_connects() -> None:
    steps = json.loads((GOLDEN / "plugin-config.json").read_text())["steps"]
    theirs = next(step["answer"]["body"] for step in steps if step["id"] == "source")[:3]
    assert file_source().describe() == theirs


def test_values_and_errors_are_connects() -> None:
    for step in json.loads((GOLDEN / "validate-source.json").read_text())["steps"]:
        configs = {c["value"]["name"]: c["value"] for c in step["answer"]["body"]["configs"]}
        for value in file_source().validate(step["json"]):
            assert value.describe() == configs[value.name], step["id"]


def test_missing_number_with_a_range_has_two_errors() -> None:
    [value] = ConfigDef(ConfigKey("n", Type.INT, validator=Range(at_least=1))).validate({})
    assert value.errors == [
        'Missing required configuration "n" which has no default value.',
        "Invalid value null for configuration n: Value must be non-null",
    ]


def test_parse_reports_every_mistake_at_once() -> None:
    with pytest.raises(ConfigException) as caught:
        file_source().parse({"topic": "", "batch.size": "x"})
    assert caught.value.errors == [
        "Invalid value  for configuration topic: String must be non-empty",
        "Invalid value x for configuration batch.size: Not a number of type INT",
    ]


def test_config_has_typed_values_defaults_and_originals() -> None:
    config = file_source().parse({"topic": " t ", "batch.size": "5", "other": "x"})
    assert dict(config) == {"file": None, "topic": "t", "batch.size": 5}
    assert config.originals == {"topic": " t ", "batch.size": "5", "other": "x"}
    assert len(config) == 3
    assert repr(config) == "Config(['batch.size', 'file', 'topic'])"


def test_config_can_be_parsed_again() -> None:
    config = file_source().parse({"topic": "t", "batch.size": "5", "other": "x"})
    again = file_source().parse(config)
    assert (dict(again), again.originals) == (dict(config), config.originals)


def test_defaults_may_be_text() -> None:
    definition = ConfigDef(ConfigKey("n", Type.INT, "7"), ConfigKey("l", Type.LIST, "a,b"))
    assert dict(definition.parse({})) == {"n": 7, "l": ["a", "b"]}


def test_wrong_default_is_refused_where_it_is_written() -> None:
    with pytest.raises(ConfigException, match="Not a number of type INT"):
        ConfigKey("n", Type.INT, "seven")


def test_key_given_twice_is_refused() -> None:
    with pytest.raises(ConfigException, match=r"Configuration a is defined twice\."):
        ConfigDef(ConfigKey("a"), ConfigKey("b"), ConfigKey("a"))


def test_more_keys_follow_and_replace() -> None:
    definition = file_source().with_keys(ConfigKey("topic", default="t"), ConfigKey("more", default=None))
    assert list(definition.keys) == ["file", "topic", "batch.size", "more"]
    assert definition.parse({})["topic"] == "t"


def test_older_name_is_read_where_the_newer_is_missing() -> None:
    definition = ConfigDef(ConfigKey("table.include", alias="table.whitelist"))
    assert definition.parse({"table.whitelist": "a"})["table.include"] == "a"
    assert definition.parse({"table.whitelist": "a", "table.include": "b"})["table.include"] == "b"


def test_validator_may_be_a_function() -> None:
    def check(name: str, value: object) -> None:
        if value == "x":
            raise ConfigException.of(name, value, "not x")

    definition = ConfigDef(ConfigKey("k", validator=check))
    assert definition.parse({"k": "y"})["k"] == "y"
    with pytest.raises(ConfigException, match="not x"):
        definition.parse({"k": "x"})


class Tables:
    """Recommends tables of the database that is set."""

    def valid_values(self, name: str, parsed: Any) -> list[object]:
        if parsed["database"] == "down":
            raise ConfigException.of(name, "down", "cannot be reached")
        return [f"{parsed['database']}.{table}" for table in ("a", "b")]

    def visible(self, name: str, parsed: Any) -> bool:
        return parsed["database"] is not None


def test_recommender_sees_all_parsed_values() -> None:
    definition = ConfigDef(
        ConfigKey("table", default=None, recommender=Tables()), ConfigKey("database", default=None, dependents=("table",))
    )
    [table, _] = definition.validate({"database": "shop"})
    assert (table.recommended_values, table.visible) == (["shop.a", "shop.b"], True)
    assert definition.validate({})[0].visible is False
    assert definition.validate({"database": "down"})[0].errors == ["Invalid value down for configuration table: cannot be reached"]


def test_dependent_that_does_not_exist_is_an_error() -> None:
    found = ConfigDef(ConfigKey("a", default=None, dependents=("b", "a"))).validate({})
    assert [value.describe() for value in found[1:]] == [
        {
            "name": "b",
            "value": None,
            "recommended_values": [],
            "errors": ["b is referred in the dependents, but not defined."],
            "visible": False,
        }
    ]


def test_password_never_shows_itself() -> None:
    config = ConfigDef(ConfigKey("p", Type.PASSWORD)).parse({"p": "canary"})
    texts = f"{config} {config['p']} {config['p']!r} {dict(config)} {display_text(config['p'])}"
    assert "canary" not in texts
    assert config["p"].value == "canary"


def test_full_description() -> None:
    key = ConfigKey("k", Type.LIST, "a,b", group="g", order=2, width=Width.LONG, display_name="K", dependents=("x",), doc="d")
    assert key.describe() == {
        "name": "k", "type": "LIST", "required": False, "default_value": "a,b", "importance": "MEDIUM", "documentation": "d",
        "group": "g", "order_in_group": 2, "width": "LONG", "display_name": "K", "dependents": ["x"],
    }  # fmt: skip
    assert ConfigDef(key, ConfigKey("l", group="h"), ConfigKey("m", group="g")).groups() == ["g", "h"]
    assert repr(REQUIRED) == "REQUIRED"
    assert not isinstance(Config({}, {}), dict)
