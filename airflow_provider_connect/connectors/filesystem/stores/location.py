"""The location of files in the settings that file sinks and sources share, and the store at that location.

Credentials come only from settings. The host's credentials are never used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import SplitResult, quote, unquote, urlsplit

from airflow_provider_connect.connectors.bucket_access import (
    S3_CREDENTIALS,
    S3_KEYS,
    STORE_URL,
    check_endpoint,
    check_s3,
    given_options,
    s3_options,
    text_of,
    without_user,
)
from airflow_provider_connect.connectors.filesystem.stores.local_store import LocalStore
from airflow_provider_connect.connectors.filesystem.stores.store import Store, join_path
from airflow_provider_connect.data.schema import Schema
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from airflow_provider_connect.sdk.config_def import Config, ConfigKey, Importance, Range, Type
from airflow_provider_connect.sdk.datasets import Dataset
from airflow_provider_connect.sdk.required_packages import RequiredPackages

URL: Final = "url"
S3_BUCKET: Final = "s3.bucket.name"
GCS_BUCKET, GCS_CREDENTIALS = "gcs.bucket.name", "gcs.credentials.json"
AZURE_CONTAINER, AZURE_ACCOUNT = "azblob.container.name", "azblob.account.name"
AZURE_KEY, AZURE_SAS = "azblob.account.key", "azblob.sas.token"
HDFS_URL, HDFS_USER, HDFS_WEB_PORT = "hdfs.url", "hdfs.user", "hdfs.web.port"
SFTP_USER, SFTP_PASSWORD, SFTP_KNOWN_HOSTS = "sftp.username", "sftp.password", "sftp.known.hosts"
SFTP_KEY, SFTP_PASSPHRASE = "sftp.private.key", "sftp.private.key.passphrase"

_BUCKETS: Final = {S3_BUCKET: "s3", GCS_BUCKET: "gs", AZURE_CONTAINER: "az"}
_CREDENTIALS: Final = {  # by the library's option names
    "s3": S3_CREDENTIALS,
    "gs": {"service_account_key": GCS_CREDENTIALS},
    "az": {"account_key": AZURE_KEY, "sas_key": AZURE_SAS},
}
_OTHER_SERVER: Final = (
    "Address of an S3 server other than Amazon's, https://host:port, or of an account in an Azure cloud other than the public one, "
    "https://account.blob.core.chinacloudapi.cn."
)
_HDFS: Final = ("hdfs", "webhdfs")
_SFTP: Final = "sftp"
_PACKAGES: Final = {
    **dict.fromkeys(_BUCKETS.values(), RequiredPackages("A bucket", ("obstore",), "filesystem")),
    **dict.fromkeys(_HDFS, RequiredPackages("HDFS", ("fsspec", "requests"), "filesystem")),
    _SFTP: RequiredPackages("SFTP", ("asyncssh",), "sftp"),
}
_FORMS: Final = (
    "a folder's absolute path, s3://bucket/folder, gs://bucket/folder, az://container/folder, hdfs://host/folder, "
    "webhdfs://host:port/folder or sftp://host:port/folder"
)

STORE_KEYS: Final = (
    ConfigKey(
        URL,
        default=None,
        importance=Importance.HIGH,
        doc=f"Where the files are: {_FORMS}. A folder of the host must be below connectors.allowed.paths.",
    ),
    ConfigKey(S3_BUCKET, default=None, doc="Instead of url: a bucket of S3."),
    *(replace(key, doc=_OTHER_SERVER) if key.name == STORE_URL else key for key in S3_KEYS),
    ConfigKey(GCS_BUCKET, default=None, doc="Instead of url: a bucket of Google Cloud Storage."),
    ConfigKey(GCS_CREDENTIALS, Type.PASSWORD, None, doc="Key of a service account: the content of its JSON file."),
    ConfigKey(AZURE_CONTAINER, default=None, doc="Instead of url: a container of Azure Blob Storage."),
    ConfigKey(AZURE_ACCOUNT, default=None, doc="The storage account of the container."),
    ConfigKey(AZURE_KEY, Type.PASSWORD, None, doc="The key of the storage account."),
    ConfigKey(AZURE_SAS, Type.PASSWORD, None, doc="A shared access signature, instead of the key."),
    ConfigKey(
        HDFS_URL,
        default=None,
        doc="Instead of url: address of a name node, hdfs://host:8020, or of several, separated by commas. store.url works too.",
    ),
    ConfigKey(HDFS_USER, default=None, doc="The user who writes to HDFS."),
    ConfigKey(
        HDFS_WEB_PORT,
        Type.INT,
        9870,
        validator=Range(at_least=1, at_most=65535),
        doc="Port of WebHDFS on the name nodes for hdfs:// addresses.",
    ),
    ConfigKey(SFTP_USER, default=None, doc="The user of the SFTP server."),
    ConfigKey(SFTP_PASSWORD, Type.PASSWORD, None, doc="The user's password."),
    ConfigKey(
        SFTP_KEY, Type.PASSWORD, None, doc="The user's private key, instead of or in addition to the password: the content of its file."
    ),
    ConfigKey(SFTP_PASSPHRASE, Type.PASSWORD, None, doc="The passphrase of an encrypted private key."),
    ConfigKey(
        SFTP_KNOWN_HOSTS,
        default=None,
        doc="The keys of the SFTP server: lines as in a known_hosts file, or fingerprints SHA256:…. No other server gets the credentials.",
    ),
)


@dataclass(frozen=True, slots=True)
class Location:
    """A parsed address. For a folder of the host, ``scheme`` is ``file``, and ``folder`` is its path. For other schemes, ``host`` is the
    bucket or server, and ``folder`` has no slash at either end. ``key`` is the setting with the value ``given``."""

    key: str
    given: str
    scheme: str
    host: str
    folder: str


def parse_location(config: Config) -> Location:
    """Parse an address. Raises ConfigException, which names the setting, for an invalid address."""
    key, given = _address(config)
    if given.startswith("/"):
        return Location(key, given, "file", "", given)
    try:
        parts = urlsplit(given)
        is_plain = not (parts.query or parts.fragment or "@" in parts.netloc) and _has_valid_ports(parts)
    except ValueError:
        parts, is_plain = urlsplit(""), False
    folder = unquote(parts.path)
    schemes = ("file", *_BUCKETS.values(), *_HDFS, _SFTP)
    is_complete = not parts.netloc and folder.startswith("/") if parts.scheme == "file" else bool(parts.netloc)
    if not is_plain or not is_complete or parts.scheme not in schemes:
        raise ConfigException.of(key, without_user(given), f"It must be {_FORMS}, without credentials.")
    if not {".", ".."}.isdisjoint(folder.split("/")):
        raise ConfigException.of(key, given, "The path must not have the parts . or ... Remove them.")
    return Location(key, given, parts.scheme, parts.netloc, folder if parts.scheme == "file" else folder.strip("/"))


def _has_valid_ports(address: SplitResult) -> bool:
    """Whether all ports are valid. Raises ValueError for a port that is not a number."""
    servers = _name_nodes(address.netloc) if address.scheme in _HDFS else [address]
    return all(server.port != 0 for server in servers) and (len(servers) == 1 or all(server.netloc for server in servers))


def _name_nodes(hosts: str) -> list[SplitResult]:
    return [urlsplit(f"//{host}") for host in hosts.split(",")]


def dataset_at(config: Config, path: str, schema: Schema | None = None) -> Dataset:
    """A folder of the store, for lineage events. ``path`` is relative to the address in the config."""
    location = parse_location(config)
    if location.scheme == "file":
        return Dataset("file", os.path.join(os.path.abspath(location.folder), path).rstrip("/") or "/", schema)
    scheme, host = location.scheme, location.host.partition(",")[0]
    if scheme == "az":
        scheme, host = "abfss", f"{host}@{config[AZURE_ACCOUNT]}.dfs.core.windows.net"
        return Dataset(f"{scheme}://{host}", join_path(location.folder, path) or "/", schema)
    return Dataset.at(f"{scheme}://{host}/{quote(join_path(location.folder, path))}", schema)


def check_location(config: Config, allowed_paths: AllowedPaths) -> None:
    """Raise ConfigException for an invalid or disallowed address, and if packages for its store are not installed. Opens nothing."""
    location = parse_location(config)
    if location.scheme in _PACKAGES:
        _PACKAGES[location.scheme].require(location.key, location.given)
    if location.scheme == "file" and os.path.isfile(allowed_paths.resolve(location.key, location.folder)):
        raise ConfigException.of(location.key, location.given, "This is a file. Set it to the path of a folder.")
    if location.scheme == "s3":
        check_s3(config)
    if location.scheme == "az":
        check_endpoint(config)
    if location.scheme == "az" and not config[AZURE_ACCOUNT]:
        raise ConfigException.of(AZURE_ACCOUNT, "null", "A container belongs to a storage account. Set its name.")
    if location.scheme == _SFTP:
        _check_login(config)


def open_store(config: Config, allowed_paths: AllowedPaths) -> Store:
    """Open the store of a config. Raises ConfigException for an invalid or disallowed address."""
    check_location(config, allowed_paths)
    location = parse_location(config)
    if location.scheme == "file":
        return LocalStore(allowed_paths.folder(location.key, location.folder))
    opened = {_SFTP: _server, **dict.fromkeys(_HDFS, _cluster)}.get(location.scheme, _bucket)
    return opened(location, config)


def _cluster(location: Location, config: Config) -> Store:
    from airflow_provider_connect.connectors.filesystem.stores.web_hdfs_store import WebHdfsStore

    is_web = location.scheme == "webhdfs"  # its ports are WebHDFS ports
    nodes = [(node.hostname or "", (is_web and node.port) or config[HDFS_WEB_PORT]) for node in _name_nodes(location.host)]
    return WebHdfsStore(nodes, config[HDFS_USER], location.folder, key=location.key, given=location.given)


def _check_login(config: Config) -> None:
    needed = {SFTP_USER: "Set the user of the server.", SFTP_KNOWN_HOSTS: "Set the keys of the server: ssh-keyscan prints them."}
    for key, reason in needed.items():
        if not config[key]:
            raise ConfigException.of(key, "null", reason)
    if config[SFTP_PASSWORD] is None and config[SFTP_KEY] is None:
        raise ConfigException.of(f"{SFTP_PASSWORD}, {SFTP_KEY}", "null", "The user logs in with a password or a key. Set one of the two.")


def _server(location: Location, config: Config) -> Store:
    from airflow_provider_connect.connectors.filesystem.stores.sftp_connection import SftpLogin, WrongLoginError
    from airflow_provider_connect.connectors.filesystem.stores.sftp_store import SftpStore

    parts = urlsplit(location.given)
    settings = {"host_keys": SFTP_KNOWN_HOSTS, "password": SFTP_PASSWORD, "private_key": SFTP_KEY, "passphrase": SFTP_PASSPHRASE}
    texts = {name: text_of(config[key]) for name, key in settings.items()}
    host_keys = texts.pop("host_keys") or ""
    try:
        login = SftpLogin(parts.hostname or "", parts.port or 22, config[SFTP_USER], host_keys, **texts)
    except WrongLoginError as error:
        raise ConfigException.of(settings[error.name], "[hidden]", str(error)) from error
    credentials = f"{SFTP_USER}, {SFTP_PASSWORD}, {SFTP_KEY}"
    return SftpStore(login, location.folder, location.given, keys=(location.key, credentials, SFTP_KNOWN_HOSTS))


def _bucket(location: Location, config: Config) -> Store:
    from airflow_provider_connect.connectors.filesystem.stores.object_store import ObjectStore, open_bucket
    from airflow_provider_connect.connectors.filesystem.stores.s3_listing import S3Listing

    credentials = _CREDENTIALS[location.scheme]
    keys = location.key, ", ".join(credentials.values())
    options = _library_settings(location.scheme, config)
    try:
        bucket = open_bucket(location.scheme, location.host, location.folder, options)
    except Exception as error:  # an error of the library, whose message may contain a secret
        reason = f"The library rejects these settings ({type(error).__name__}). Check {keys[1]}."
        raise ConfigException.of(location.key, location.given, reason) from None
    listing = S3Listing(location.host, options) if location.scheme == "s3" else None
    return ObjectStore(bucket, location.given, keys=keys, listing=listing)


def check_writable(config: Config, allowed_paths: AllowedPaths) -> None:
    """Raise ConfigException, with a remedy, if the folder of the host does not exist or is not writable."""
    location = parse_location(config)
    folder = allowed_paths.folder(location.key, location.folder)
    if not os.path.isdir(folder.path):
        reason = f"There is no folder {folder.path}. Create it, or set another path."
        raise ConfigException.of(location.key, location.given, reason)
    if not folder.is_writable():
        reason = f"User {os.geteuid()} may not write to {folder.path}. Grant write access, or set another path."
        raise ConfigException.of(location.key, location.given, reason)


def names_have_last_offset(config: Config) -> bool:
    """Whether file names also contain the last offset, as in the well-known sinks for HDFS."""
    return parse_location(config).scheme in _HDFS


def _address(config: Config) -> tuple[str, str]:
    """The setting that has the address, and the address."""
    for key in (URL, HDFS_URL):
        if config[key]:
            return key, config[key]
    if (config[STORE_URL] or "").startswith("hdfs://"):
        return STORE_URL, config[STORE_URL]
    for key, scheme in _BUCKETS.items():
        if config[key]:
            return key, f"{scheme}://{config[key]}"
    raise ConfigException.of(URL, "null", f"Set it to where the files are: {_FORMS}.")


def _library_settings(scheme: str, config: Config) -> Mapping[str, object]:
    """The arguments of obstore's store for ``scheme``. With incomplete credentials, the library would use the host's, so requests are not
    signed."""
    if scheme == "s3":
        return s3_options(config)
    found: dict[str, object] = given_options(config, _CREDENTIALS[scheme]) or {"skip_signature": True}
    if scheme == "az":
        found["account_name"] = config[AZURE_ACCOUNT]
        if config[STORE_URL]:
            found["endpoint"] = config[STORE_URL]
    return found
