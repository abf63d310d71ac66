"""What is hidden of a config, and what comes back."""

from collections.abc import Sequence

import pytest

from airflow_provider_connect.errors import ConfigException, NotFoundException
from airflow_provider_connect.model.views import ConfigKeyView
from airflow_provider_connect.rest.secrets import HIDDEN, Secrets


def key(name: str, kind: str) -> ConfigKeyView:
    return ConfigKeyView(name, kind, False, None, "LOW", "", None, "NONE", name, [], -1)


class Plugins:
    """The definitions of one connector and one transformation, with how often they were asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.are_there = True

    def keys(self, plugin: str, version: str | None) -> Sequence[ConfigKeyView]:
        self.asked.append((plugin, version))
        if not self.are_there:
            raise NotFoundException(f"Unknown plugin {plugin}.")
        return [key("pin", "PASSWORD"), key("url", "STRING")]


@pytest.fixture
def plugins() -> Plugins:
    return Plugins()


def test_values_of_password_keys_and_of_keys_named_like_secrets_are_hidden(plugins: Plugins) -> None:
    config = {
        "connector.class": "Shop",
        "url": "http://shop",
        "pin": "1234",
        "db.password": "x",
        "transforms": "t",
        "transforms.t.type": "Sign",
        "transforms.t.pin": "5678",
        "producer.override.sasl.jaas.config": "x",
        "consumer.override.ssl.keystore.key": "-----",
    }
    shown = Secrets(plugins.keys).shown(config)
    hidden = {"pin", "db.password", "transforms.t.pin", "producer.override.sasl.jaas.config", "consumer.override.ssl.keystore.key"}
    assert {name for name, value in shown.items() if value == HIDDEN} == hidden
    assert {name: value for name, value in shown.items() if name not in hidden} == {k: v for k, v in config.items() if k not in hidden}


@pytest.mark.parametrize("value", ["${airflow:shop:password}", "${file:/a:b}${file:/a:c}", "", "true", "False"])
def test_what_tells_no_secret_is_shown(plugins: Plugins, value: str) -> None:
    assert Secrets(plugins.keys).shown({"db.password": value}) == {"db.password": value}


def test_a_value_that_is_a_variable_in_part_is_hidden(plugins: Plugins) -> None:
    assert Secrets(plugins.keys).shown({"db.password": "x${file:/a:b}"}) == {"db.password": HIDDEN}


def test_what_was_shown_hidden_comes_back_as_it_was(plugins: Plugins) -> None:
    secrets = Secrets(plugins.keys)
    known = {"connector.class": "Shop", "pin": "1234", "url": "u"}
    given: dict[str, str | None] = {**secrets.shown(known), "url": "v"}
    assert secrets.restored(given, known) == {"connector.class": "Shop", "pin": "1234", "url": "v"}
    assert secrets.restored({"connector.class": "Shop", "pin": "9"}, known)["pin"] == "9"
    assert secrets.restored({"url": HIDDEN}, known) == {"url": HIDDEN}


def test_a_hidden_secret_of_another_connector_is_refused_by_its_key(plugins: Plugins) -> None:
    with pytest.raises(ConfigException, match=r"for configuration pin: this stands for a secret"):
        Secrets(plugins.keys).restored({"connector.class": "Shop", "pin": HIDDEN}, None)


def test_a_plugin_is_asked_once_in_a_while(plugins: Plugins) -> None:
    now = [0.0]
    secrets = Secrets(plugins.keys, lambda: now[0])
    for _ in range(3):
        secrets.shown({"connector.class": "Shop"})
    assert plugins.asked == [("Shop", None)]
    now[0] = 1000.0
    secrets.shown({"connector.class": "Shop", "connector.plugin.version": "1"})
    assert plugins.asked == [("Shop", None), ("Shop", "1")]


def test_what_was_known_of_a_plugin_holds_while_it_does_not_answer(plugins: Plugins) -> None:
    now = [0.0]
    secrets = Secrets(plugins.keys, lambda: now[0])
    secrets.shown({"connector.class": "Shop"})
    now[0], plugins.are_there = 1000.0, False
    assert secrets.shown({"connector.class": "Shop", "pin": "1"})["pin"] == HIDDEN
    assert Secrets(plugins.keys).shown({"connector.class": "Shop", "pin": "1", "my.token": "1"})["my.token"] == HIDDEN


def test_it_tells_when_more_is_known(plugins: Plugins) -> None:
    now = [0.0]
    plugins.are_there = False
    secrets = Secrets(plugins.keys, lambda: now[0])
    secrets.shown({"connector.class": "Shop"})
    before = secrets.learned
    now[0], plugins.are_there = 1000.0, True
    assert secrets.shown({"connector.class": "Shop", "pin": "1"})["pin"] == HIDDEN
    assert secrets.learned != before
