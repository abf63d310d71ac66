from pathlib import Path

import pytest

from airflow_provider_connect.config_providers import (
    DirectoryConfigProvider,
    EnvVarConfigProvider,
    FileConfigProvider,
    airflow_variables,
    providers_of,
    resolve,
    variables,
)
from airflow_provider_connect.errors import ConfigException


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


def test_worker_settings_declare_providers() -> None:
    found = providers_of(
        {
            "config.providers": "file, env,d",
            "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
            "config.providers.file.param.allowed.paths": "/a,/b",
            "config.providers.env.class": "EnvVarConfigProvider",
            "config.providers.env.param.allowlist.pattern": "X.*",
            "config.providers.d.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
        }
    )
    assert found == {
        "file": FileConfigProvider(("/a", "/b")),
        "env": EnvVarConfigProvider("X.*"),
        "d": DirectoryConfigProvider(),
    }


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, 'Missing required configuration "config.providers.x.class"'),
        ({"config.providers.x.class": "com.acme.Vault"}, "com.acme.Vault"),
        ({"config.providers.x.class": "EnvVarConfigProvider", "config.providers.x.param.allowlist.pattern": "("}, "Invalid regex"),
        ({"config.providers.x.class": "FileConfigProvider", "config.providers.x.param.allowed.paths": "etc"}, "Path must be absolute"),
    ],
)
def test_wrong_declaration_is_refused(changes: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigException, match=text.replace("(", "\\(")):
        providers_of({"config.providers": "x", **changes})
