"""What a config can and cannot make a converter send, open and load."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_connect.converters.registry.avro_converter import AvroConverter
from airflow_provider_connect.converters.registry.json_schema_converter import JsonSchemaConverter
from airflow_provider_connect.converters.registry.protobuf_converter import ProtobufConverter
from airflow_provider_connect.converters.registry.settings import client_settings
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.plugins.catalog.plugin_catalog import PluginCatalog
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths

URL = "schema.registry.url"
SECRET = "s3cret"


def settings_of(allowed: tuple[str, ...] = (), **settings: str) -> dict[str, object]:
    given = {key.replace("_", "."): value for key, value in settings.items()}
    return client_settings(AvroConverter.config_def.parse({URL: "http://registry:8081"} | given), AllowedPaths(allowed))


@pytest.mark.parametrize("converter", [AvroConverter, JsonSchemaConverter, ProtobufConverter])
def test_a_converter_is_found_by_its_names(converter: type[AvroConverter | JsonSchemaConverter | ProtobufConverter]) -> None:
    for name in (converter.class_name, *converter.aliases):
        [found] = PluginCatalog().named(str(name))
        assert found.load() is converter


@pytest.mark.parametrize(
    "address",
    [
        "",
        "registry:8081",
        "file:///etc/passwd",
        "mock://x",
        "http://",
        "http://a,ftp://b",
        "unix:///run/x",
        "http://a:99999",
        "http://[::1",
        "http://a,",
    ],
)
def test_an_address_is_one_of_http(address: str) -> None:
    with pytest.raises(ConfigException, match=r"for configuration schema\.registry\.url: Must be addresses such as http"):
        settings_of(schema_registry_url=address)


def test_several_addresses_are_taken() -> None:
    assert settings_of(schema_registry_url="http://a:1,https://b/path")["url"] == "http://a:1,https://b/path"


def test_an_address_holds_no_password_and_the_message_none_either() -> None:
    with pytest.raises(ConfigException, match=r"basic\.auth\.user\.info") as caught:
        settings_of(schema_registry_url=f"http://user:{SECRET}@registry")
    assert SECRET not in str(caught.value)


def test_secrets_are_hidden_and_reach_the_client() -> None:
    config = AvroConverter.config_def.parse({URL: "http://r", "basic.auth.user.info": f"user:{SECRET}"})
    shown = [value.describe() for value in AvroConverter.config_def.validate(config.originals)]
    assert SECRET not in str(shown) + repr(dict(config))
    assert client_settings(config, AllowedPaths())["basic.auth.user.info"] == f"user:{SECRET}"
    with pytest.raises(ConfigException, match=r"basic\.auth\.user\.info: Must be user:password") as caught:
        settings_of(basic_auth_user_info=SECRET)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("basic.auth.credentials.source", "SASL_INHERIT"),
        ("bearer.auth.credentials.source", "CUSTOM"),
        ("bearer.auth.credentials.source", "SASL_OAUTHBEARER_INHERIT"),
        ("bearer.auth.credentials.source", "OAUTHBEARER_AZURE_IMDS"),
        ("value.subject.name.strategy", "com.example.Strategy"),
        ("key.subject.name.strategy", "os.system"),
        ("schema.registry.ssl.keystore.type", "JKS"),
        ("schema.registry.ssl.truststore.type", "PKCS12"),
        ("bearer.auth.issuer.endpoint.url", "file:///etc/token"),
        ("max.retries", "1000"),
        ("schemas.cache.config", "0"),
        ("schema.registry.url", "null"),
    ],
)
def test_nothing_of_the_host_is_sent_and_nothing_is_loaded(key: str, value: str) -> None:
    with pytest.raises(ConfigException, match=f"for configuration {key}"):
        AvroConverter.config_def.parse({URL: "http://r", key: value})


def test_credentials_must_be_complete() -> None:
    with pytest.raises(ConfigException, match=r"bearer\.auth\.token: bearer\.auth\.credentials\.source=STATIC_TOKEN needs it"):
        settings_of(bearer_auth_credentials_source="STATIC_TOKEN")
    with pytest.raises(ConfigException, match=r"bearer\.auth\.client\.id"):
        settings_of(bearer_auth_credentials_source="OAUTHBEARER", bearer_auth_issuer_endpoint_url="https://idp")


def test_the_latest_schema_and_registration_exclude_each_other() -> None:
    with pytest.raises(ConfigException, match=r"use\.latest\.version: The latest schema is used only with auto\.register\.schemas=false"):
        settings_of(use_latest_version="true")


def test_files_are_those_that_the_worker_allows(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "ca.pem").write_text("x")
    (tmp_path / "in" / "link.pem").symlink_to("/etc/passwd")
    allowed = (str(tmp_path / "in"),)
    key = "schema_registry_ssl_truststore_location"
    assert settings_of(allowed, **{key: str(tmp_path / "in" / "ca.pem")})["ssl.ca.location"] == str(tmp_path / "in" / "ca.pem")
    for path in ("/etc/passwd", str(tmp_path / "in" / "link.pem"), str(tmp_path / "in" / ".." / "x")):
        with pytest.raises(ConfigException, match=r"schema\.registry\.ssl\.truststore\.location: Connectors of this worker may only use"):
            settings_of(allowed, **{key: path})
