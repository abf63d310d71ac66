"""What is hidden of a config, and what comes back."""

from collections.abc import Callable, Sequence
from functools import partial

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from airflow_provider_connect.errors import ConfigException, ConnectException, PluginNotFoundException
from airflow_provider_connect.rest.access import OpenToAll, Right
from airflow_provider_connect.rest.app import create_app
from airflow_provider_connect.rest.secrets import Secrets
from airflow_provider_connect.runtime.model.secret_keys import HIDDEN
from airflow_provider_connect.runtime.model.views import ConfigKeyView
from airflow_provider_connect.runtime.stores.admin_connection import server_info
from tests.unit.herder.conftest import CONFIG, RunEnvironment


def key(name: str, kind: str) -> ConfigKeyView:
    return ConfigKeyView(name, kind, False, None, "LOW", "", None, -1, "NONE", name, [])


class Plugins:
    """The definitions of one connector and one transformation, with how often they were asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.are_there = True
        self.trouble: ConnectException | None = None

    def keys(self, plugin: str, version: str | None) -> Sequence[ConfigKeyView]:
        self.asked.append((plugin, version))
        if self.trouble is not None:
            raise self.trouble
        if not self.are_there:
            raise PluginNotFoundException(f"Unknown plugin {plugin}.")
        return [key("pin", "PASSWORD"), key("url", "STRING")]


@pytest.fixture
def plugins() -> Plugins:
    return Plugins()


def app_of(environment: RunEnvironment) -> FastAPI:
    return create_app(herder=lambda: environment.herder, access=OpenToAll(), info=lambda: server_info(environment.settings))


def test_a_patch_takes_no_secret_to_the_address_that_a_put_has_set_meanwhile(plugins: Plugins) -> None:
    environment, known = RunEnvironment(), {**CONFIG, "connection.url": "jdbc:postgresql://shop/db", "connection.password": "topsecret"}
    environment.herder.create_connector("c", known)
    validate, app = environment.probe.validate, app_of(environment)
    elsewhere = {**CONFIG, "connection.url": "jdbc:postgresql://evil/db", "connection.password": "mine"}

    def meanwhile(plugin: str, config: object) -> object:
        environment.probe.validate = validate  # type: ignore[method-assign]
        environment.herder.put_connector_config("c", elsewhere)
        return validate(plugin, config)  # type: ignore[arg-type]

    environment.probe.validate = meanwhile  # type: ignore[assignment, method-assign]
    with TestClient(app) as client:
        refused = client.patch("/connectors/c/config", json={"connection.password": HIDDEN})
    stored = environment.herder.connector_config("c")
    assert (stored["connection.url"], stored["connection.password"]) == ("jdbc:postgresql://evil/db", "mine")
    assert "topsecret" not in refused.text


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
    shown = Secrets(plugins.keys).redacted(config)
    hidden = {"pin", "db.password", "transforms.t.pin", "producer.override.sasl.jaas.config", "consumer.override.ssl.keystore.key"}
    assert {name for name, value in shown.items() if value == HIDDEN} == hidden
    assert {name: value for name, value in shown.items() if name not in hidden} == {k: v for k, v in config.items() if k not in hidden}


@pytest.mark.parametrize("value", ["${airflow:shop:password}", "${file:/a:b}${file:/a:c}", "", "true", "False"])
def test_what_reveals_no_secret_is_shown(plugins: Plugins, value: str) -> None:
    assert Secrets(plugins.keys).redacted({"db.password": value}) == {"db.password": value}


def test_a_value_that_is_a_variable_in_part_is_hidden(plugins: Plugins) -> None:
    assert Secrets(plugins.keys).redacted({"db.password": "x${file:/a:b}"}) == {"db.password": HIDDEN}


def test_what_was_shown_hidden_comes_back_as_it_was(plugins: Plugins) -> None:
    secrets = Secrets(plugins.keys)
    known = {"connector.class": "Shop", "pin": "1234", "colour": "red"}
    given: dict[str, str | None] = {**secrets.redacted(known), "colour": "blue"}
    assert secrets.restore(given, known) == {"connector.class": "Shop", "pin": "1234", "colour": "blue"}
    assert secrets.restore({"connector.class": "Shop", "pin": "9"}, known)["pin"] == "9"


def test_passwords_in_urls_are_hidden_and_come_back(plugins: Plugins) -> None:
    secrets = Secrets(plugins.keys)
    known = {"connector.class": "Shop", "url": "jdbc:postgresql://me:s3cr/et@host/db?password=x1y2&ssl=true", "colour": "red"}
    shown: dict[str, str | None] = {**secrets.redacted(known)}
    assert shown["url"] == "jdbc:postgresql://me:[hidden]@host/db?password=[hidden]&ssl=true"
    assert secrets.restore({**shown, "colour": "blue"}, known) == {**known, "colour": "blue"}
    for there in (known, None):
        with pytest.raises(ConfigException, match="give the secret itself"):
            secrets.restore({**shown, "url": "jdbc:postgresql://me:[hidden]@thief/db"}, there)


ELSEWHERE = [
    {"url": "https://thief"},
    {"connector.class": "Thief"},
    {"proxy.host": "thief"},
    {"whatever": "thief:9092"},
    {"more.options": "to=https://thief/"},
    {"transforms": "t", "transforms.t.type": "Thief"},
    {"value.converter": "Thief"},
    {"producer.override.bootstrap.servers": "thief"},
]


@pytest.mark.parametrize("change", ELSEWHERE)
def test_a_hidden_secret_goes_to_no_other_class_or_address(plugins: Plugins, change: dict[str, str]) -> None:
    """A thief who may change the config would have the secret, which he may not see, sent to his own host."""
    secrets = Secrets(plugins.keys)
    known = {"connector.class": "Shop", "pin": "1234", "url": "https://shop", "my.password": "5678"}
    shown: dict[str, str | None] = {**secrets.redacted(known)}
    attempts: tuple[Callable[[], object], ...] = (
        lambda: secrets.restore({**shown, **change}, known),
        lambda: secrets.restore_patch(dict(change), known),
    )
    for attempt in attempts:
        with pytest.raises(ConfigException) as refused:
            attempt()
        assert "give the secret again" in refused.value.message
        assert sorted(change)[-1] in refused.value.message
        assert "1234" not in refused.value.message
    given: dict[str, str | None] = {**known, **change, "pin": "new", "my.password": "new"}
    assert secrets.restore(given, known) == given, "with secrets of its own it may go anywhere"
    assert secrets.restore_patch({"colour": "red", "pin": HIDDEN}, known) == {"colour": "red", "pin": "1234"}


DEBEZIUM = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "database.hostname": "shop",
    "database.dbname": "shop",
    "database.password": "1234",
    "table.include.list": "public.orders",
}


@pytest.mark.parametrize(
    "change",
    [
        {"database.dbname": "shop?PGHOST=evil.example&PGPORT=5432"},
        {"database.dbname": "other"},
        {"database.PGHOST": "evil"},
        {"database.service": "evil.example"},
        {"database.sslmode": "disable"},
        {"driver.anything": "a=b"},
        {"database.query": "x"},
        {"snapshot.select.statement.overrides.public.orders": "SELECT dblink('x')"},
        {"signal.data.collection": "public.signals"},  # it is not known what another author's plugin makes of it
    ],
)
def test_a_secret_of_another_authors_connector_goes_with_no_change_that_may_be_an_address(plugins: Plugins, change: dict[str, str]) -> None:
    secrets = Secrets(plugins.keys)
    shown: dict[str, str | None] = {**secrets.redacted(DEBEZIUM)}
    attempts: tuple[Callable[[], object], ...] = (
        lambda: secrets.restore({**shown, **change}, DEBEZIUM),
        lambda: secrets.restore_patch(dict(change), DEBEZIUM),
        lambda: secrets.restore(shown, {**DEBEZIUM, **change}),
    )
    for attempt in attempts:
        with pytest.raises(ConfigException, match="give the secret again"):
            attempt()
    assert secrets.restore_patch({**change, "database.password": "new"}, DEBEZIUM) == {**change, "database.password": "new"}


@pytest.mark.parametrize(
    "change",
    [
        {"tasks.max": "3"},
        {"poll.interval.ms": "250"},
        {"table.include.list": "public.orders,public.lines"},
        {"topics": "a.b", "topic.prefix": "shop.eu"},
        {"snapshot.mode": "no_data"},
        {"transforms": "t", "errors.tolerance": "all", "errors.deadletterqueue.topic.name": "shop.dead"},
        {"value.converter.schemas.enable": "false"},
        {"airflow.schedule": "*/5 * * * *"},
        {"sampling.rate": "0.5"},
    ],
)
def test_a_secret_of_another_authors_connector_stays_with_a_change_that_is_no_address(plugins: Plugins, change: dict[str, str]) -> None:
    secrets = Secrets(plugins.keys)
    assert secrets.restore_patch(dict(change), DEBEZIUM) == change
    shown: dict[str, str | None] = {**secrets.redacted(DEBEZIUM), **change}
    assert secrets.restore(shown, DEBEZIUM) == {**DEBEZIUM, **change}


def test_of_a_built_in_connector_it_is_known_what_an_address_is(plugins: Plugins) -> None:
    known = {"connector.class": "JdbcSource", "connection.url": "jdbc:postgresql://shop/db", "connection.password": "1234"}
    change = {"query": "select * from orders where id > 5"}
    secrets = Secrets(plugins.keys)
    assert secrets.restore_patch(dict(change), known) == change
    with pytest.raises(ConfigException, match="give the secret again"):
        secrets.restore_patch(dict(change), {**known, "connector.plugin.version": "10.8.4"})
    with pytest.raises(ConfigException, match="give the secret again"):
        secrets.restore_patch({"anything": "shop?host=evil"}, known)


def test_a_secret_of_a_converter_goes_with_no_change_of_that_converter_alone(plugins: Plugins) -> None:
    known = {"connector.class": "FileStreamSource", "value.converter": "Own", "value.converter.token": "1234", "file": "/a.txt"}
    secrets = Secrets(plugins.keys)
    assert secrets.restore_patch({"file": "/b.txt"}, known) == {"file": "/b.txt"}
    with pytest.raises(ConfigException, match=r"value\.converter\.strategy has changed"):
        secrets.restore_patch({"value.converter.strategy": "a.b"}, known)


def test_a_secret_taken_away_is_not_sent_anywhere(plugins: Plugins) -> None:
    known = {"connector.class": "Shop", "pin": "1234", "url": "https://shop"}
    assert Secrets(plugins.keys).restore_patch({"url": "https://other", "pin": None}, known) == {"url": "https://other", "pin": None}


def test_what_stays_for_good_shows_nothing_of_a_plugin_that_does_not_answer(plugins: Plugins) -> None:
    plugins.trouble = ConnectException("the plugin's process does not answer")
    config = {"connector.class": "Shop", "pin": "1234", "colour": "red", "tasks.max": "1"}
    assert Secrets(plugins.keys, hides_unknown=True).redacted(config) == {**config, "pin": HIDDEN, "colour": HIDDEN}
    plugins.trouble = None
    assert Secrets(plugins.keys, hides_unknown=True).redacted(config) == {**config, "pin": HIDDEN}


def test_a_tasks_config_is_hidden_as_its_connectors(plugins: Plugins) -> None:
    assert Secrets(plugins.keys).redacted({"pin": "1234", "part": "1"}, {"connector.class": "Shop"}) == {"pin": HIDDEN, "part": "1"}


def test_a_hidden_secret_of_another_connector_is_refused_by_its_key(plugins: Plugins) -> None:
    with pytest.raises(ConfigException, match=r"for configuration pin: this stands for a secret"):
        Secrets(plugins.keys).restore({"connector.class": "Shop", "pin": HIDDEN}, None)


@pytest.mark.parametrize("value", ["[hidden]hunter2", "hunter2[hidden]", "[hidden][hidden]"])
def test_the_mark_within_a_secret_is_refused_by_its_key(plugins: Plugins, value: str) -> None:
    """A form that shows the mark as the password's own text has what one types appended to it."""
    known = {"connector.class": "Shop", "pin": "1234", "my.password": "5678"}
    for key in ("pin", "my.password"):
        given: dict[str, str | None] = {**known, key: value}
        attempts: tuple[Callable[[], object], ...] = (
            partial(Secrets(plugins.keys).restore, given, known),
            partial(Secrets(plugins.keys).restore_patch, {key: value}, known),
        )
        for attempt in attempts:
            with pytest.raises(ConfigException, match=f"for configuration {key}: .*give the secret itself") as refused:
                attempt()
            assert "hunter2" not in refused.value.message
        damaged = {**known, key: value}
        assert Secrets(plugins.keys).restore_patch({"colour": "red"}, damaged) == {"colour": "red"}, "another setting can still be changed"


def test_the_mark_within_a_secret_is_refused_by_each_verb() -> None:
    environment, known, wrong = RunEnvironment(), {**CONFIG, "my.password": "topsecret"}, {**CONFIG, "my.password": "[hidden]hunter2"}
    environment.herder.create_connector("c", known)
    plugin = CONFIG["connector.class"]
    with TestClient(app_of(environment)) as client:
        answers = [
            client.post("/connectors", json={"name": "new", "config": wrong}),
            client.put("/connectors/c/config", json=wrong),
            client.patch("/connectors/c/config", json={"my.password": "[hidden]hunter2"}),
            client.put(f"/connector-plugins/{plugin}/config/validate", json={**wrong, "name": "c"}),
            client.put(f"/connector-plugins/{plugin}/config/validate", json=wrong),
        ]
    for answer in answers:
        assert answer.status_code == 400, answer.text
        assert "my.password" in answer.json()["message"]
    assert environment.herder.connector_config("c")["my.password"] == "topsecret"


def test_a_validation_has_the_secrets_that_the_connector_has() -> None:
    """A plugin may log in to validate: with the mark for a password it would fail, and lock the account."""
    environment = RunEnvironment()
    known = {**CONFIG, "name": "c", "connection.url": "jdbc:postgresql://shop/db", "my.password": "topsecret"}
    environment.herder.create_connector("c", known)
    environment.probe.asked.clear()
    path, given = f"/connector-plugins/{CONFIG['connector.class']}/config/validate", {**known, "my.password": HIDDEN}
    with TestClient(app_of(environment)) as client:
        assert client.put(path, json={**given, "topic": "others"}).status_code == 200
        assert [each["my.password"] for each in environment.probe.asked] == ["topsecret"]
        for elsewhere in ({"connection.url": "jdbc:postgresql://thief/db"}, {"name": "other"}, {"connector.class": "Thief"}):
            refused = client.put(path, json={**given, **elsewhere})
            assert refused.status_code == 400, elsewhere
            assert "my.password" in refused.json()["message"]
            assert "topsecret" not in refused.text
        del given["name"]
        assert client.put(path, json=given).status_code == 400
    assert len(environment.probe.asked) == 1, "no plugin's code was called"


def test_no_secret_comes_back_for_who_may_not_change_the_connector() -> None:
    environment = RunEnvironment()
    environment.herder.create_connector("c", {**CONFIG, "my.password": "topsecret"})
    environment.probe.asked.clear()
    app = create_app(herder=lambda: environment.herder, access=OfOthers(), info=lambda: server_info(environment.settings))
    path = f"/connector-plugins/{CONFIG['connector.class']}/config/validate"
    with TestClient(app) as client:
        assert client.put(path, json={**CONFIG, "name": "c", "my.password": HIDDEN}).status_code == 403
    assert environment.probe.asked == []


class OfOthers(OpenToAll):
    """A user who may change no connector but those that are named otherwise."""

    def may(self, user: object, right: Right, connector: str) -> bool:
        return connector != "c"


def test_a_plugin_is_asked_once_in_a_while(plugins: Plugins) -> None:
    now = [0.0]
    secrets = Secrets(plugins.keys, lambda: now[0])
    for _ in range(3):
        secrets.redacted({"connector.class": "Shop"})
    assert plugins.asked == [("Shop", None)]
    now[0] = 1000.0
    secrets.redacted({"connector.class": "Shop", "connector.plugin.version": "1"})
    assert plugins.asked == [("Shop", None), ("Shop", "1")]


def test_what_was_known_of_a_plugin_holds_while_it_does_not_answer(plugins: Plugins) -> None:
    now = [0.0]
    secrets = Secrets(plugins.keys, lambda: now[0])
    secrets.redacted({"connector.class": "Shop"})
    now[0], plugins.are_there = 1000.0, False
    assert secrets.redacted({"connector.class": "Shop", "pin": "1"})["pin"] == HIDDEN
    assert Secrets(plugins.keys).redacted({"connector.class": "Shop", "pin": "1", "my.token": "1"})["my.token"] == HIDDEN


def test_it_reports_when_more_is_known(plugins: Plugins) -> None:
    now = [0.0]
    plugins.are_there = False
    secrets = Secrets(plugins.keys, lambda: now[0])
    secrets.redacted({"connector.class": "Shop"})
    before = secrets.generation
    now[0], plugins.are_there = 1000.0, True
    assert secrets.redacted({"connector.class": "Shop", "pin": "1"})["pin"] == HIDDEN
    assert secrets.generation != before


def test_plugins_are_forgotten_for_want_of_room_and_no_secret_is_shown_for_it(plugins: Plugins) -> None:
    secrets = Secrets(plugins.keys, most_plugins=2)
    config = {"connector.class": "A", "pin": "1234", "topic": "t"}
    assert secrets.redacted(config) == {**config, "pin": HIDDEN}
    for name in ("B", "C"):
        secrets.redacted({"connector.class": name})
    assert len(plugins.asked) == 3
    secrets.redacted({"connector.class": "C"})
    assert len(plugins.asked) == 3
    plugins.trouble = ConnectException("The plugin does not answer")
    shown = secrets.redacted(config)
    assert plugins.asked[3:] == [("A", None)]
    assert (shown["connector.class"], shown["pin"]) == ("A", HIDDEN)


def test_the_versions_that_configs_name_do_not_fill_the_memory(plugins: Plugins) -> None:
    secrets = Secrets(plugins.keys)
    for number in range(5000):
        secrets.redacted({"connector.class": "A", "connector.plugin.version": str(number)})
    assert len(secrets._known) < 5000


def test_long_texts_that_configs_name_as_plugins_are_not_kept(plugins: Plugins) -> None:
    """A body may name classes and versions of hundreds of kilobytes, and what is known of each is remembered."""
    secrets = Secrets(plugins.keys)
    for number in range(50):
        config = {"connector.class": "A" * 100_000 + str(number), "connector.plugin.version": "1" * 100_000}
        assert secrets.redacted({**config, "pin": "1234"})["pin"] == HIDDEN
        secrets.redacted(config)
    assert len(plugins.asked) == 50
    assert sum(len(part or "") for named in secrets._known for part in named) < 10_000
