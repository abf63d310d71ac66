"""Credentials of buckets: those of the config or none. A library that is given a part of them asks the host for its own."""

from __future__ import annotations

import itertools

import pytest

from airflow_provider_connect.connectors.bucket_access import ACCESS_KEY, SECRET_KEY, SESSION_TOKEN, STORE_URL
from airflow_provider_connect.connectors.filesystem.stores.location import (
    _CREDENTIALS,
    AZURE_ACCOUNT,
    STORE_KEYS,
    URL,
    _library_settings,
    check_location,
)
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.config_def import Config, ConfigDef

WHOLE = {"s3": [{"access_key_id", "secret_access_key"}], "gs": [{"service_account_key"}], "az": [{"account_key"}, {"sas_key"}]}


def config(scheme: str, **more: str) -> Config:
    given = {URL: f"{scheme}://bucket/folder", STORE_URL: "https://evil.example", AZURE_ACCOUNT: "account", **more}
    return ConfigDef(*STORE_KEYS).parse(given)


@pytest.mark.parametrize("scheme", WHOLE)
def test_the_library_has_whole_credentials_or_does_not_sign(scheme: str) -> None:
    keys = list(_CREDENTIALS[scheme].values())
    for values in itertools.product([None, "", "text"], repeat=len(keys)):
        given = {key: value for key, value in zip(keys, values, strict=True) if value is not None}
        settings = _library_settings(scheme, config(scheme, **given))
        has_whole = any(names <= settings.keys() and all(settings[name] for name in names) for names in WHOLE[scheme])
        assert has_whole is not settings.get("skip_signature", False), given
        assert has_whole or not set(_CREDENTIALS[scheme]) & settings.keys(), given


@pytest.mark.parametrize(
    "given",
    [
        {SESSION_TOKEN: "token"},
        {SESSION_TOKEN: "token", ACCESS_KEY: "", SECRET_KEY: ""},
        {ACCESS_KEY: "key"},
        {ACCESS_KEY: "key", SECRET_KEY: ""},
        {SECRET_KEY: "secret", SESSION_TOKEN: "token"},
    ],
    ids=str,
)
def test_a_part_of_the_credentials_is_refused_on_its_setting(given: dict[str, str]) -> None:
    with pytest.raises(ConfigException, match=r"belongs? to"):
        check_location(config("s3", **given), AllowedPaths(()))


@pytest.mark.parametrize(
    "given", [{}, {ACCESS_KEY: "key", SECRET_KEY: "secret"}, {ACCESS_KEY: "key", SECRET_KEY: "s", SESSION_TOKEN: "t"}], ids=str
)
def test_whole_credentials_and_none_are_taken(given: dict[str, str]) -> None:
    check_location(config("s3", **given), AllowedPaths(()))
