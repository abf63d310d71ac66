import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from airflow_provider_connect.errors import ConfigException, RetriableException
from airflow_provider_connect.runtime.config.built_in_providers import DirectoryConfigProvider, EnvVarConfigProvider, FileConfigProvider
from airflow_provider_connect.runtime.config.config_providers import (
    airflow_variables,
    create_providers,
    open_file_providers,
    resolve,
    shortest_ttl_ms,
    unresolved_warnings,
    variables,
    warn_open_file_providers,
    with_public_values,
)
from airflow_provider_connect.runtime.config.masking import secret_values
from airflow_provider_connect.sdk import ConfigData, ConfigProvider


@pytest.fixture
def secrets_file(tmp_path: Path) -> Path:
    file = tmp_path / "secrets.properties"
    file.write_text("user=anna\npassword=pa:ss}word\nnested=${file:x:y}\n")
    return file


def test_variables_are_found_in_order_and_once() -> None:
    config = {"a": "x ${env:A} ${file:/p:k} ${env:A}", "b": "${airflow:shop:password}", "c": "plain $ {x}"}
    assert variables(config) == ["${env:A}", "${file:/p:k}", "${airflow:shop:password}"]
    assert airflow_variables(config) == ["${airflow:shop:password}"]


def test_values_of_a_file_stand_in_for_its_variables(secrets_file: Path) -> None:
    config = {"url": f"//${{file:{secrets_file}:user}}@${{file:{secrets_file}:password}}"}
    assert resolve(config, {"file": FileConfigProvider()}) == {"url": "//anna@pa:ss}word"}


def test_a_variable_is_replaced_once_only(secrets_file: Path) -> None:
    assert resolve({"a": f"${{file:{secrets_file}:nested}}"}, {"file": FileConfigProvider()}) == {"a": "${file:x:y}"}


def test_what_cannot_be_resolved_is_left_as_it_is(secrets_file: Path) -> None:
    config = {"a": "${vault:x:y}", "b": f"${{file:{secrets_file}:nobody}}", "c": "${env:A}"}
    assert resolve(config, {"file": FileConfigProvider()}) == config


def test_unreadable_file_is_an_error_that_names_it() -> None:
    with pytest.raises(ConfigException, match="Could not read properties from file /nowhere/x"):
        resolve({"a": "${file:/nowhere/x:k}"}, {"file": FileConfigProvider()})


def test_paths_that_are_not_allowed_give_nothing(tmp_path: Path, secrets_file: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "link").symlink_to(secrets_file)
    allowed = (str(tmp_path / "open"),)
    for path in (secrets_file, tmp_path / "open" / ".." / "secrets.properties", tmp_path / "open" / "link"):
        config = {"a": f"${{file:{path}:user}}"}
        assert resolve(config, {"file": FileConfigProvider(allowed)}) == config
    outside = {"a": f"${{dir:{tmp_path}:secrets.properties}}", "b": f"${{dir:{tmp_path}/open:link}}"}
    assert resolve(outside, {"dir": DirectoryConfigProvider(allowed)}) == outside


def test_files_of_a_directory_are_values(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret\n")
    config = {"a": f"${{dir:{tmp_path}:password}}", "b": f"${{dir:{tmp_path}:../{tmp_path.name}/password}}"}
    assert resolve(config, {"dir": DirectoryConfigProvider()}) == {"a": "s3cret\n", "b": config["b"]}


def test_environment_is_limited_by_its_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_A", "1")
    monkeypatch.setenv("HOME_B", "2")
    provider = EnvVarConfigProvider("CONNECT_.*")
    assert resolve({"a": "${env:CONNECT_A}", "b": "${env:HOME_B}"}, {"env": provider}) == {"a": "1", "b": "${env:HOME_B}"}
    with pytest.raises(ConfigException, match="Path is not supported for EnvVarConfigProvider, invalid value 'x'"):
        resolve({"a": "${env:x:CONNECT_A}"}, {"env": provider})


def test_values_of_airflow_are_handed_in() -> None:
    config = {"a": "${airflow:shop:password}", "b": "${variable:region}"}
    assert resolve(config, {}, {"${airflow:shop:password}": "p", "${variable:region}": "eu"}) == {"a": "p", "b": "eu"}


@pytest.mark.parametrize("variable", ["${airflow:shop:password}", "${variable:region}"])
def test_missing_value_of_airflow_names_key_and_variable(variable: str) -> None:
    with pytest.raises(ConfigException) as refused:
        resolve({"connection.password": variable})
    assert "connection.password" in str(refused.value)
    assert variable in str(refused.value)


def test_worker_settings_declare_providers(secrets_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = "org.apache.kafka.common.config.provider."
    found = create_providers(
        {
            "config.providers": "file, e,d",
            "config.providers.file.class": f"{kafka}FileConfigProvider",
            "config.providers.file.param.allowed.paths": f"/a,{secrets_file.parent}",
            "config.providers.e.class": "EnvVarConfigProvider",
            "config.providers.e.param.allowlist.pattern": "X.*",
            "config.providers.d.class": f"{kafka}DirectoryConfigProvider",
        }
    )
    assert found.keys() == {"file", "e", "d", "airflow", "variable"}
    monkeypatch.setenv("XY", "1")
    config = {"a": f"${{file:{secrets_file}:user}}", "b": "${e:XY}", "c": "${e:HOME}", "d": f"${{d:{secrets_file.parent}:nobody}}"}
    assert resolve(config, found) == {**config, "a": "anna", "b": "1"}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, 'Missing required configuration "config.providers.x.class"'),
        ({"config.providers.x.class": "com.acme.Vault"}, "com.acme.Vault"),
        ({"config.providers.x.class": "com.acme.FileConfigProvider"}, "No module named 'com'"),
        ({"config.providers.x.class": "pathlib.Path"}, "it is not a class that extends"),
        ({"config.providers.x.class": "EnvVarConfigProvider", "config.providers.x.param.ttl.ms": "0"}, "at least 1"),
        ({"config.providers.x.class": "EnvVarConfigProvider", "config.providers.x.access.(": "y"}, "Invalid regex"),
        ({"config.providers.x.class": "EnvVarConfigProvider", "config.providers.airflow.class": "X"}, "airflow is Airflow's own"),
        ({"config.providers.x.class": "EnvVarConfigProvider", "config.providers.x.param.allowlist.pattern": "("}, "Invalid regex"),
        ({"config.providers.x.class": "FileConfigProvider", "config.providers.x.param.allowed.paths": "etc"}, "Path must be absolute"),
    ],
)
def test_wrong_declaration_is_refused(changes: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigException, match=text.replace("(", "\\(")):
        create_providers({"config.providers": "x", **changes})


class Vault(ConfigProvider):
    """Counts how often it was asked; a value is new each time."""

    asked: ClassVar[list[tuple[str, tuple[str, ...]]]] = []

    def configure(self, config: Mapping[str, str]) -> None:
        self.address = config["address"]

    def get(self, path: str, keys: Iterable[str]) -> ConfigData:
        keys = tuple(keys)
        self.asked.append((path, keys))
        if path == "sealed":
            raise OSError(f"{self.address} is sealed")
        return ConfigData({key: f"{key}-{len(self.asked)}" for key in keys if key != "nobody"}, ttl_ms=5000 if path == "leased" else None)


VAULT = {
    "config.providers": "vault",
    "config.providers.vault.class": f"{Vault.__module__}.Vault",
    "config.providers.vault.param.address": "https://vault",
}


def test_a_provider_of_ones_own_is_asked_once_a_path_and_config() -> None:
    Vault.asked.clear()
    providers = create_providers(VAULT)
    config = {"a": "${vault:p:x}", "b": "${vault:p:y}${vault:p:x}", "c": "${vault:q:x}", "d": "${vault:p:nobody}"}
    found = resolve(config, providers)
    assert found == {"a": "x-1", "b": "y-1x-1", "c": "x-2", "d": "${vault:p:nobody}"}
    assert resolve({"task": "${vault:p:x}"}, providers) == {"task": "x-1"}, "one value as long as the providers live"
    assert Vault.asked == [("p", ("x", "y", "nobody")), ("q", ("x",))]
    assert resolve({"a": "${vault:p:x}"}, create_providers(VAULT)) == {"a": "x-3"}, "and a new one for the next"
    with pytest.raises(RetriableException, match=r"^Config provider vault could not resolve k: OSError: https://vault is sealed$"):
        resolve({"a": "${vault:sealed:k}"}, providers)


def test_the_shortest_life_of_what_was_resolved_is_known() -> None:
    more = {"config.providers.vault.param.ttl.ms": "60000", "config.providers.airflow.param.ttl.ms": "700"}
    providers = create_providers(VAULT)
    resolve({"a": "${vault:p:x}"}, providers)
    assert shortest_ttl_ms(providers) is None
    resolve({"a": "${vault:leased:x}"}, providers)
    assert shortest_ttl_ms(providers) == 5000
    providers = create_providers(VAULT | more)
    assert shortest_ttl_ms(providers) is None, "nothing was resolved"
    resolve({"a": "${vault:p:x}"}, providers)
    assert shortest_ttl_ms(providers) == 60000
    resolve({"a": "${airflow:shop:password}"}, providers, {"${airflow:shop:password}": "p"})
    assert shortest_ttl_ms(providers) == 700


def test_connectors_resolve_what_the_worker_lets_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PASSWORD", "canary-of-the-shop")
    for team in ("shop", "staff"):
        (tmp_path / team).mkdir()
        (tmp_path / team / "db").write_text(f"canary-of-{team}")
    (tmp_path / "shop" / "link").symlink_to(tmp_path / "staff" / "db")
    settings = {
        "config.providers": "env,dir",
        "config.providers.env.class": "EnvVarConfigProvider",
        "config.providers.env.access.shop-.*": "SHOP_.*",
        "config.providers.env.access.admin": ".*",
        "config.providers.dir.class": "DirectoryConfigProvider",
        "config.providers.dir.access.shop-.*": f"{tmp_path}/shop(/.*)?:.*",
        "config.providers.airflow.param.allowlist.pattern": "shop_.*:(login|password)",
        "config.providers.variable.access.shop-.*": "region",
    }
    secrets = {"${airflow:shop_db:password}": "canary-of-the-db", "${airflow:core:uri}": "canary-of-core", "${variable:region}": "eu-west"}

    def refusal(connector: str, variable: str) -> str:
        try:
            return "" if resolve({"key": variable}, create_providers(settings, connector), secrets)["key"] != variable else "left as it is"
        except ConfigException as error:
            return error.message

    inside, climbing = f"${{dir:{tmp_path}/shop:db}}", f"${{dir:{tmp_path}/shop/../staff:db}}"
    linked, beside = f"${{dir:{tmp_path}/shop:link}}", f"${{dir:{tmp_path}/staff:db}}"
    allowed = [("shop-1", "${env:SHOP_PASSWORD}"), ("admin", "${env:SHOP_PASSWORD}"), ("shop-1", inside), ("shop-1", "${variable:region}")]
    allowed += [("staff", "${airflow:shop_db:password}")]
    denied = [("shop-1", "${env:HOME}"), ("staff", "${env:SHOP_PASSWORD}"), ("x-shop-1", "${variable:region}"), ("", inside)]
    denied += [("staff", inside), ("shop-1", climbing), ("shop-1", linked), ("shop-1", beside), ("shop-1", "${airflow:core:uri}")]
    assert [pair for pair in allowed if refusal(*pair)] == []
    for connector, variable in denied:
        message = refusal(connector, variable)
        assert f"Invalid value {variable} for configuration key: " in message
        assert "canary" not in message
    assert resolve({"key": "${airflow:core:uri}"}, create_providers(settings), secrets) == {"key": "canary-of-core"}, "as the worker's own"


def test_airflows_own_environment_and_what_is_no_file_are_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", "canary")
    assert EnvVarConfigProvider().get("", ["AIRFLOW__CORE__FERNET_KEY", "PATH"]).values.keys() == {"PATH"}
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigException, match="Could not read properties from file"):
        FileConfigProvider().get(str(tmp_path / "pipe"), ["k"])
    assert DirectoryConfigProvider().get(str(tmp_path), ["pipe"]).values == {}
    assert "canary" not in repr(ConfigData({"k": "canary"}))


def test_what_the_kernel_shows_of_a_process_is_no_file(tmp_path: Path) -> None:
    """The environment of the API server has Airflow's keys, and the provider of the environment leaves them out."""
    (tmp_path / "link").symlink_to("/proc/self")
    for folder in ("/proc/self", "/proc/thread-self", f"{tmp_path}/link"):
        with pytest.raises(ConfigException, match="Could not read file"):
            DirectoryConfigProvider().get(folder, ["environ"])
        with pytest.raises(ConfigException, match="Could not read properties from file"):
            FileConfigProvider().get(f"{folder}/environ", ["PATH"])


def test_a_file_that_is_too_long_for_secrets_is_not_read_into_memory(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        file.truncate(1 << 40)  # takes no room on the disk
    with pytest.raises(ConfigException, match="Could not read properties from file"):
        FileConfigProvider().get(str(tmp_path / "log"), ["k"])
    with pytest.raises(ConfigException, match="Could not read file"):
        DirectoryConfigProvider().get(str(tmp_path), ["log"])


@pytest.mark.parametrize("access", [{}, {"access..*": "/x.*"}, {"param.allowed.paths": "/x"}], ids=str)
@pytest.mark.parametrize("variable", ["file:/x\0y:k", "file:/x:k\0", "dir:/x\0:k", "dir:/x:k\0", "dir:/x:" + "k" * 5000])
def test_a_path_that_there_cannot_be_is_refused_on_its_key(variable: str, access: dict[str, str]) -> None:
    alias, text = variable.partition(":")[0], f"${{{variable}}}"
    kind = {"file": "FileConfigProvider", "dir": "DirectoryConfigProvider"}[alias]
    settings = {"config.providers": alias, f"config.providers.{alias}.class": kind}
    settings |= {f"config.providers.{alias}.{key}": value for key, value in access.items()}
    with pytest.raises(ConfigException, match=r"null character" if "\0" in text else r"Could not read file"):
        resolve({"key": text}, create_providers(settings, "c"))


HOST = {
    "config.providers": "env,file",
    "config.providers.env.class": "EnvVarConfigProvider",
    "config.providers.file.class": "FileConfigProvider",
}
STRUCTURAL = [
    *("name", "connector.class", "connector.plugin.version", "topics", "topics.regex", "topic", "topic.prefix", "transforms", "predicates"),
    *("key.converter", "value.converter.plugin.version", "transforms.t.type", "transforms.t.predicate", "predicates.p.type"),
    *("errors.deadletterqueue.topic.name", "consumer.override.group.id", "offsets.storage.topic"),
]


@pytest.mark.parametrize("key", STRUCTURAL)
def test_no_variable_stands_where_names_and_classes_do(key: str, secrets_file: Path) -> None:
    """They are shown: as groups of a validation, in statuses, as topics."""
    variable = f"${{file:{secrets_file}:user}}"
    with pytest.raises(ConfigException, match=r"this setting (holds|names) .* and allows no (secret|variable)") as refused:
        resolve({key: f"a,{variable}"}, create_providers(HOST, "orders"))
    assert f"Invalid value {variable} for configuration {key}: " in refused.value.message
    if "topic" not in key:
        assert resolve({key: "a,${nobody:x}"}, create_providers(HOST, "orders")) == {key: "a,${nobody:x}"}, "no variable of ours"
    assert resolve({"transforms.t.static.value": variable}, create_providers(HOST, "orders")) == {"transforms.t.static.value": "anna"}
    assert resolve({key: variable}, create_providers(HOST)) == {key: "anna"}, "the worker's own settings"


@pytest.mark.parametrize("value", ["abc", "7", " ab\n"])
def test_a_value_too_short_to_be_hidden_is_refused(value: str, tmp_path: Path) -> None:
    (tmp_path / "pin").write_text(value)
    settings = {"config.providers": "dir", "config.providers.dir.class": "DirectoryConfigProvider"}
    variable = f"${{dir:{tmp_path}:pin}}"
    with pytest.raises(ConfigException, match="its value has fewer than 4 characters") as refused:
        resolve({"pin": variable}, create_providers(settings, "orders"))
    assert f"Invalid value {variable} for configuration pin: " in refused.value.message
    assert resolve({"pin": variable}, create_providers(settings | {"config.providers.access.default": "allow"}, "orders")) == {"pin": value}


IDENTITY = (
    "name",
    "connector.class",
    "connector.plugin.version",
    "consumer.override.group.id",
    "offsets.storage.topic",
    "transforms.t.type",
)


@pytest.fixture
def team_file(tmp_path: Path) -> Path:
    file = tmp_path / "env.properties"
    file.write_text("topic=orders\nbatch.size=20\nqueue=late\npassword=canary-of-the-team\n")
    return file


@pytest.mark.parametrize("declared", [{"secret": "false"}, {"public.keys": "topic|batch\\..*|queue"}, {"secret": " FALSE "}], ids=str)
def test_values_that_are_declared_public_stand_in_every_setting_and_are_shown(declared: dict[str, str], team_file: Path) -> None:
    settings = HOST | {f"config.providers.file.{key}": value for key, value in declared.items()}
    at = f"file:{team_file}"
    config = {
        "topics": f"${{{at}:topic}},x",
        "batch.size": f"${{{at}:batch.size}}",
        "errors.deadletterqueue.topic.name": f"${{{at}:queue}}",
    }
    providers = create_providers(settings, "orders")
    assert list(resolve(config, providers).values()) == ["orders,x", "20", "late"]
    assert secret_values(config, providers, {}) == set()
    assert with_public_values(config, providers) == resolve(config, providers)


def test_values_that_no_pattern_declares_public_stay_secrets(team_file: Path) -> None:
    settings = HOST | {"config.providers.file.public.keys": "topic"}
    providers, password = create_providers(settings, "orders"), f"${{file:{team_file}:password}}"
    both = {"url": f"//${{file:{team_file}:topic}}:{password}@h", "topics": f"${{file:{team_file}:topic}}"}
    assert secret_values(both, providers, {}) >= {"canary-of-the-team"}
    assert "orders" not in secret_values(both, providers, {})
    assert with_public_values(both, providers) == {"url": f"//orders:{password}@h", "topics": "orders"}
    with pytest.raises(
        ConfigException, match=r"ask for the worker setting config\.providers\.file\.public\.keys=password if it is not a secret"
    ):
        resolve({"topics": password}, providers)
    with pytest.raises(
        ConfigException, match=r"fewer than 4 characters.* config\.providers\.file\.public\.keys=batch\.size if it is not a secret"
    ):
        resolve({"batch.size": f"${{file:{team_file}:batch.size}}"}, providers)


def test_a_public_value_in_a_setting_that_is_named_like_a_secret_is_hidden(team_file: Path) -> None:
    providers = create_providers(HOST | {"config.providers.file.secret": "false"}, "orders")
    config = {"connection.password": f"${{file:{team_file}:password}}", "topics": f"${{file:{team_file}:topic}}"}
    assert secret_values(config, providers, {}) == {"canary-of-the-team"}
    assert with_public_values(config, providers) == config | {"topics": "orders"}


@pytest.mark.parametrize("key", IDENTITY)
def test_what_names_the_connector_takes_no_public_value_either(key: str, team_file: Path) -> None:
    """It is read where no provider is asked, and decides which rules hold and which settings are passwords."""
    providers = create_providers(HOST | {"config.providers.file.secret": "false"}, "orders")
    with pytest.raises(ConfigException, match="names the connector, its plugins or its exclusive resources, and allows no variable"):
        resolve({key: f"${{file:{team_file}:topic}}"}, providers)


def test_public_values_of_the_host_need_no_rule_but_obey_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH", "20")
    public = HOST | {"config.providers.env.public.keys": "BATCH"} | {"config.providers.variable.secret": "false"}
    given = {"${variable:region}": "eu"}
    config = {"batch.size": "${env:BATCH}", "topics": "${variable:region}"}
    assert resolve(config, create_providers(public, "orders"), given) == {"batch.size": "20", "topics": "eu"}
    with pytest.raises(ConfigException, match=r"no config\.providers\.env\.access setting"):
        resolve({"x": "${env:HOME}"}, create_providers(public, "orders"))
    with pytest.raises(ConfigException, match=r"no config\.providers\.env\.access setting"):
        resolve(config, create_providers(public | {"config.providers.env.access.staff": ".*"}, "orders"), given)


@pytest.mark.parametrize(
    ("declared", "text"),
    [({"secret": "no"}, r"Invalid value no for configuration config\.providers\.file\.secret"), ({"public.keys": "("}, "Invalid regex")],
)
def test_a_wrong_declaration_of_public_values_is_refused(declared: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigException, match=text):
        create_providers(HOST | {f"config.providers.file.{key}": value for key, value in declared.items()}, "orders")


@pytest.mark.parametrize("key", [key for key in STRUCTURAL if "topic" in key])
def test_a_topic_of_a_provider_that_is_not_declared_is_refused(key: str) -> None:
    with pytest.raises(ConfigException) as refused:
        resolve({key: "shop,${vault:TOPIC}"}, create_providers(HOST, "orders"))
    assert refused.value.message.startswith(f"Invalid value ${{vault:TOPIC}} for configuration {key}: ")
    expected = "allows no variable" if key == "offsets.storage.topic" else "no worker setting declares a config provider 'vault'"
    assert expected in refused.value.message
    unchanged = {key: "shop.${resource}", "topic.pattern": "${vault:TOPIC}"}
    assert resolve(unchanged, create_providers(HOST, "orders")) == unchanged


def test_a_topic_of_a_provider_that_is_not_declared_is_warned_about_with_the_settings_that_declare_it() -> None:
    (text,) = unresolved_warnings({"topics": "${env:TOPIC}"}, {}, {})
    assert "config.providers=env and config.providers.env.class=EnvVarConfigProvider, with config.providers.env.public.keys=TOPIC" in text
    (text,) = unresolved_warnings({"connection.url": "${env:URL}"}, {}, {})
    assert "public.keys" not in text


def test_files_without_allowed_paths_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    assert open_file_providers(HOST) == ["file"]
    warn_open_file_providers(HOST)
    (text,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert text.startswith(
        "Config provider file gives every connector every file that the worker may read: set config.providers.file.param"
    )
    caplog.clear()
    warn_open_file_providers(HOST | {"config.providers.file.param.allowed.paths": "/etc/shop"})
    assert not caplog.records
    assert open_file_providers(HOST | {"config.providers.file.param.allowed.paths": "/etc/shop"}) == []
    assert open_file_providers(HOST | {"config.providers.file.access.shop": "/etc/shop/.*"}) == []


def test_the_default_of_access_is_checked() -> None:
    with pytest.raises(ConfigException, match=r"Invalid value yes for configuration config\.providers\.access\.default: give deny"):
        create_providers({"config.providers.access.default": "yes"})
