"""Access to buckets with only the settings of a config: S3's keys, and the options of obstore and deltalake. Both use the same library.

The library reads environment variables when it opens a store. So the variables are hidden during that call.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.config_def import Config, ConfigKey, Type

S3_REGION, STORE_URL = "s3.region", "store.url"
ACCESS_KEY, SECRET_KEY, SESSION_TOKEN = "aws.access.key.id", "aws.secret.access.key", "aws.session.token"
S3_NEEDS_KEYS: Final = "S3 needs an access key and its secret: those of the host are not used. Set both."
MISSING_BUCKET: Final = ("NoSuchBucket", "NO_SUCH_BUCKET", "ContainerNotFound", "bucket does not exist")
ACCESS_DENIED: Final = ("401 Unauthorized", "403 Forbidden")
"""Parts of messages of obstore, deltalake and pyarrow, which have no exception classes for these errors."""
_HOST_PREFIXES: Final = ("AWS_", "AZURE_", "GOOGLE_", "IDENTITY_", "MSI_")
_ENVIRONMENT: Final = threading.Lock()
S3_CREDENTIALS: Final = {"access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY, "session_token": SESSION_TOKEN}
"""The library's option names, and the settings from which their values are read."""

S3_KEYS: Final = (
    ConfigKey(S3_REGION, default="us-west-2", doc="The bucket's region."),
    ConfigKey(STORE_URL, default=None, doc="Address of an S3 server other than Amazon's: https://host:port."),
    ConfigKey(ACCESS_KEY, default=None, doc="Access key for S3. Without it, requests are not signed: keys of the host are never used."),
    ConfigKey(SECRET_KEY, Type.PASSWORD, None, doc="Its secret."),
    ConfigKey(SESSION_TOKEN, Type.PASSWORD, None, doc="The token of a temporary access key."),
)


def check_s3(config: Config) -> None:
    """Raise ConfigException for an invalid endpoint, and for settings that contradict each other."""
    check_endpoint(config)
    if bool(text_of(config[ACCESS_KEY])) != bool(text_of(config[SECRET_KEY])):
        raise ConfigException.of(f"{ACCESS_KEY}, {SECRET_KEY}", "null", "A key and its secret belong together. Set both, or neither.")
    if text_of(config[SESSION_TOKEN]) and not text_of(config[ACCESS_KEY]):
        reason = "A session token belongs to an access key. Set the key and its secret too, or leave the token out."
        raise ConfigException.of(SESSION_TOKEN, "[hidden]", reason)


def check_endpoint(config: Config) -> None:
    """Raise ConfigException unless the endpoint is the URL of a server."""
    endpoint = config[STORE_URL]
    if endpoint and scheme_of(endpoint) not in ("http", "https"):
        raise ConfigException.of(STORE_URL, endpoint, "It must be the address of a server: https://host:port.")


def scheme_of(address: str) -> str:
    """The scheme of a URL; empty for an invalid URL such as ``http://[``."""
    try:
        return urlsplit(address).scheme
    except ValueError:
        return ""


def s3_options(config: Config) -> dict[str, str | bool]:
    """The library's options. Without complete credentials, requests are not signed, because the library would otherwise use the host's
    credentials."""
    found: dict[str, str | bool] = given_options(config, S3_CREDENTIALS)
    if not {"access_key_id", "secret_access_key"} <= found.keys():
        found = {"skip_signature": True}
    found["region"] = config[S3_REGION]
    if config[STORE_URL]:
        found["endpoint"] = config[STORE_URL]
    return found


def client_options(endpoint: str) -> dict[str, str | bool]:
    """The library's connection options. ``endpoint`` is the URL in the config, or empty."""
    return {"allow_http": endpoint.startswith("http://"), "timeout": "60s", "connect_timeout": "10s"}


def given_options(config: Config, keys: Mapping[str, str]) -> dict[str, Any]:
    """The options that the config sets. ``keys`` maps option names to settings."""
    return {name: value for name, key in keys.items() if (value := text_of(config[key]))}


def text_of(value: Any) -> str | None:  # Any: a text or a password
    return value if value is None or isinstance(value, str) else str(value.value)


def without_user(address: str) -> str:
    """A URL or path for a message, without the URL's user, password and query."""
    scheme, separator, rest = address.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2].partition('?')[0]}"


@contextmanager
def hide_environment() -> Iterator[None]:
    """Hide the variables of cloud providers while a store is opened. Other threads wait until the block ends."""
    with _ENVIRONMENT:
        hidden = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith(_HOST_PREFIXES)}
        try:
            yield
        finally:
            os.environ.update(hidden)
