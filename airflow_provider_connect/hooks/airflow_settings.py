"""The worker settings from Airflow, in layers: ``[connect]`` of airflow.cfg, the Connection, the Variable.

Reads Connections and Variables only through the task SDK, so it needs no access to Airflow's database and works in tasks and in the API
server. Reads nothing at import.
"""

import hashlib
import json
import logging
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from airflow.sdk import Connection, Variable
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.config_providers import airflow_variables
from airflow_provider_connect.runtime.config.dag_settings import SCHEDULE
from airflow_provider_connect.runtime.config.key_values import schedule_of
from airflow_provider_connect.runtime.config.layered_settings import Layer, SettingsInForce, settings_in_force
from airflow_provider_connect.runtime.config.properties import parse_properties
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.secret_keys import is_secret_key
from airflow_provider_connect.sdk.allowed_paths import DATA_FOLDER
from airflow_provider_connect.sdk.allowed_paths import SETTING as ALLOWED_PATHS

SECTION = "connect"
CONNECTION = "connect_default"
VARIABLE = "connect_worker_config"
SPARK_CONNECTION = "spark_default"
BUNDLE = "airflow_provider_connect.dag_files.bundle.ConnectorsBundle"
OWN_OPTIONS = (
    "worker_properties",
    "connect_conn_id",
    "spark_conn_id",
    "python_archive",
    "run_directory",
    "reconcile_interval_ms",
    "mirror_history_days",
    "plan_timeout_ms",
)
"""Options of the section that are not worker settings. All others are worker settings, in Connect's spelling or with _ for the full
stops."""

REST_KEYS = ("rest.url", "rest.login", "rest.password", "rest.token", "rest.ca.file")
"""Keys of a Connection's extra for Connect's REST API. They are not worker settings."""

_log = logging.getLogger(__name__)
_logged: set[str] = set()
_UNREADABLE = "its value must be text, a number, true or false, or a list of those"
_DEFAULT_PORT = 9092
_SECURITY = ("security.", "sasl.", "ssl.")
_LOGIN_MODULES = {"PLAIN": "plain.PlainLoginModule", "SCRAM-SHA-256": "scram.ScramLoginModule", "SCRAM-SHA-512": "scram.ScramLoginModule"}
_CONNECTION_FIELDS = ("host", "login", "password", "schema", "port", "conn_type")


def worker_settings() -> WorkerSettings:
    """The settings in force (see ``settings_now``)."""
    return settings_now().settings


def settings_now() -> SettingsInForce:
    """The settings in force, and the invalid settings. Each process logs each invalid setting once.

    The last valid settings are stored in a private file of this host, for every process of this Airflow and user, because most processes
    are too short-lived to keep them. If no valid settings exist, raises WorkerSettingsException, after which a retry may succeed.
    """
    file = _last_good_file()
    last_good = None if file is None else _read_last_good(file)
    found = settings_in_force(_layers(), last_good, secrets_of=airflow_secrets, check=_check_clients)
    if file is not None and found.values != last_good:
        _save_last_good(file, found.values)
    for text in map(str, found.faults):
        if text not in _logged:
            _log.warning("Worker setting %s", text)
    _logged.clear()
    _logged.update(map(str, found.faults))
    return found


def worker_variable_now() -> Mapping[str, str]:
    """The Variable's settings that are in force. Raises WorkerSettingsException like ``settings_now``."""
    return settings_now().values[f"Variable {VARIABLE}"]


def section_schedule() -> str | None:
    """``airflow.schedule`` of the section, for parsing DAG files. If the option or the section is invalid, the last valid schedule."""
    try:
        text = section_properties().get(SCHEDULE)
        if text is not None:
            schedule_of(text)
    except (ConfigException, ValueError):
        file = _last_good_file()
        good = None if file is None else _read_last_good(file)
        return (good or {}).get(f"section [{SECTION}]", {}).get(SCHEDULE)
    return text


def sources_above_file(key: str) -> list[str]:
    """The names of the sources that set a worker setting instead of the file ``worker_properties``, the highest first. Raises
    ConfigException for a source that cannot be read."""
    layers: list[tuple[str, Mapping[str, str]]] = [
        (f"Variable {VARIABLE}", worker_variable()),
        (f"Connection {own_option('connect_conn_id') or CONNECTION}", connection_properties()),
        (f"section [{SECTION}]", section_options()),
    ]
    return [source for source, values in layers if key in values]


def _layers() -> list[Layer]:
    """The layers, from the lowest to the highest."""
    return [
        Layer("the defaults", default_properties()),
        _layer(f"section [{SECTION}]", section_properties),
        _layer(f"Connection {own_option('connect_conn_id') or CONNECTION}", connection_properties),
        _layer(f"Variable {VARIABLE}", _worker_object, flat=False),
    ]


def _layer(source: str, read: Callable[[], Mapping[str, Any]], *, flat: bool = True) -> Layer:
    try:
        values = read()
    except ConfigException as error:
        return Layer(source, None, error.message)
    if flat:
        return Layer(source, values)
    found: dict[str, str] = {}
    refused: dict[str, str] = {}
    for key, value in values.items():
        try:
            found |= flattened({key: value}, source)
        except ConfigException as error:
            refused |= {name: _UNREADABLE if is_secret_key(name) else error.message for name in error.keys}
    return Layer(source, found, refused=refused)


def _check_clients(settings: WorkerSettings) -> None:
    # loads the Kafka client, so only if settings have changed
    from airflow_provider_connect.runtime.stores.client_check import check_clients

    check_clients(settings)


def _last_good_file() -> Path | None:
    """The file of the last valid settings. None: there is no private folder for it."""
    home = os.environ.get("AIRFLOW_HOME") or str(Path("~/airflow").expanduser())
    marks = "\0".join([os.path.realpath(home), own_option("connect_conn_id") or CONNECTION])
    try:
        return run_directory() / f"worker-settings-{hashlib.sha256(marks.encode()).hexdigest()[:16]}.json"
    except ConfigException:
        return None


def _read_last_good(file: Path) -> dict[str, dict[str, str]] | None:
    try:
        found: dict[str, dict[str, str]] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


def _save_last_good(file: Path, values: Mapping[str, Mapping[str, str]]) -> None:
    """Replace the whole file, which has mode 0600. If this fails, no valid value can later replace an invalid value."""
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as scratch:
            json.dump({source: dict(each) for source, each in values.items()}, scratch)
        Path(name).replace(file)
    except OSError as error:
        _log.debug("The last good worker settings cannot be kept in %s: %s", file, error)


def worker_properties() -> dict[str, str]:
    """All layers in one mapping, raw, by Connect's names. The Variable overrides the Connection, which overrides the section.

    Raises ConfigException for a layer that cannot be read.
    """
    return default_properties() | section_properties() | connection_properties() | worker_variable()


def default_properties() -> dict[str, str]:
    """The defaults of all layers: connectors may reach files of one folder below AIRFLOW_HOME."""
    home = os.path.expanduser(os.environ.get("AIRFLOW_HOME", "~/airflow"))
    return {ALLOWED_PATHS: os.path.join(os.path.abspath(home), DATA_FOLDER)}


def section_properties() -> dict[str, str]:
    """The settings of the ``[connect]`` section. They override the file that its option ``worker_properties`` names."""
    return properties_file() | section_options()


def section_options() -> dict[str, str]:
    """The ``[connect]`` section alone."""
    values = {key: conf.get(SECTION, option) for key, option in _section_keys().items()}
    return {key: value for key, value in values.items() if value not in (None, "")}


def section_sources() -> dict[str, str]:
    """Where each setting of ``section_options`` is set: an environment variable, which Airflow reads first, or airflow.cfg."""
    variables = {key: f"AIRFLOW__{SECTION.upper()}__{option.upper()}" for key, option in _section_keys().items()}
    return {key: f"environment variable {name}" if name in os.environ else f"airflow.cfg [{SECTION}]" for key, name in variables.items()}


def _section_keys() -> dict[str, str]:
    """The section's options for worker settings, by Connect's names of these."""
    return {option.replace("_", "."): option for option in conf.getsection(SECTION) or {} if option not in OWN_OPTIONS}


def properties_file() -> dict[str, str]:
    """The file that ``worker_properties`` of the section names. Raises ConfigException if it cannot be read."""
    path = own_option("worker_properties")
    if path is None:
        return {}
    try:
        return parse_properties(Path(path).read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigException(f"Option worker_properties of section [{SECTION}] names {path}, which cannot be read: {error}") from error


def own_option(name: str) -> str | None:
    """One of ``OWN_OPTIONS``; None if it is not set."""
    return conf.get(SECTION, name, fallback=None) or None


def connection_properties(conn_id: str | None = None) -> dict[str, str]:
    """The settings of the Connection. The default Connection may be missing, but a named Connection must exist."""
    name = conn_id or own_option("connect_conn_id")
    try:
        connection = Connection.get(name or CONNECTION)
    except AirflowNotFoundException as error:
        if name is None:
            return {}
        raise ConfigException(f"Connection {name} does not exist: create it with type 'connect', or correct connect_conn_id") from error
    return properties_of(connection)


def properties_of(connection: Any) -> dict[str, str]:
    """The worker settings in a Connection: host(s) and port, login and password, and its extra JSON as worker settings."""
    extra = {key: value for key, value in extra_properties(connection).items() if key not in REST_KEYS}
    found = _servers(connection.host, connection.port) if names_brokers(connection) else {}
    if connection.login and names_brokers(connection):
        mechanism = extra.get("sasl.mechanism", "PLAIN")
        found |= {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism}
        if mechanism in _LOGIN_MODULES:
            found["sasl.jaas.config"] = _jaas(mechanism, connection.login, connection.password or "")
    found |= extra
    # In Kafka Connect, a worker's own security settings do not apply to its connectors' clients. A Connection's settings apply to all
    # clients.
    security = {key: value for key, value in found.items() if key.startswith(_SECURITY)}
    return {f"{kind}.{key}": value for kind in ("producer", "consumer", "admin") for key, value in security.items()} | found


def extra_properties(connection: Any) -> dict[str, str]:
    """The extra of a Connection, flattened, without empty values, because Airflow's form sends empty text for empty fields."""
    where = f"the extra of Connection {connection.conn_id}"
    extra = flattened(_json_object(connection.extra, where), where) if connection.extra else {}
    return {key: value for key, value in extra.items() if value}


def names_brokers(connection: Any) -> bool:
    """Whether host, port, login and password belong to Kafka.

    Otherwise they belong to Connect's REST API: the host is a URL, or the Connection has only a ``rest.url``.
    """
    if not connection.host:
        return "rest.url" not in extra_properties(connection)
    return not is_url(connection.host)


def is_url(host: str) -> bool:
    """Whether a Connection's host is an HTTP URL."""
    return host.strip().lower().startswith(("http://", "https://"))


def _servers(host: str | None, port: int | None) -> dict[str, str]:
    servers = [server.strip() for server in (host or "").split(",") if server.strip()]
    if not servers:
        return {}
    return {"bootstrap.servers": ",".join(s if _has_port(s) else f"{s}:{port or _DEFAULT_PORT}" for s in servers)}


def _has_port(server: str) -> bool:
    return server.rpartition(":")[2].isdecimal() and ("]:" in server or server.count(":") == 1)


def _jaas(mechanism: str, login: str, password: str) -> str:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    module = f"org.apache.kafka.common.security.{_LOGIN_MODULES[mechanism]}"
    return f"{module} required username={quoted(login)} password={quoted(password)};"


def worker_variable() -> dict[str, str]:
    """The Variable ``connect_worker_config``; empty if it does not exist.

    Parses the raw text, because ``deserialize_json=True`` with a default would ignore text that is not valid JSON.
    """
    return flattened(_worker_object(), f"Variable {VARIABLE}")


def _worker_object() -> Mapping[str, object]:
    text = Variable.get(VARIABLE, default=None)
    if text is None or not str(text).strip():
        return {}
    return _json_object(str(text), f"Variable {VARIABLE}")


def _json_object(text: str, where: str) -> Mapping[str, object]:
    example = 'write an object such as {"bootstrap.servers": "kafka:9092"}'
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ConfigException(f"{where[:1].upper()}{where[1:]} is not JSON ({error}): {example}") from error
    if not isinstance(value, dict):
        raise ConfigException(f"{where[:1].upper()}{where[1:]} is not a JSON object but {type(value).__name__}: {example}")
    return value


def flattened(values: Mapping[str, object], where: str, prefix: str = "") -> dict[str, str]:
    """Nested names joined by full stops, values as text: ``{"a": {"b": 1}}`` is ``{"a.b": "1"}``. Null leaves a setting unset."""
    found: dict[str, str] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            found |= flattened(value, where, f"{name}.")
        elif value is not None:
            found[name] = _text(name, value, where)
    return found


def _text(name: str, value: object, where: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ",".join(_text(name, part, where) for part in value)
    if isinstance(value, str | int | float):
        return str(value)
    raise ConfigException.of(name, value, f"it comes from {where}; give text, a number, true or false, or a list of those")


def airflow_secrets(config: Mapping[str, str]) -> dict[str, str]:
    """The values of the variables ``${airflow:connection:field}`` and ``${variable:key}`` in ``config``.

    Raises ConfigException, which names the key, the variable and the missing part in Airflow.
    """
    return {text: _resolve(text, _keys_with(text, config)) for text in airflow_variables(config)}


def _keys_with(text: str, config: Mapping[str, str]) -> str:
    return ", ".join(sorted(key for key, value in config.items() if value and text in value))


def _resolve(text: str, keys: str) -> str:
    provider, _, rest = text[2:-1].partition(":")
    if provider == "variable":
        value = Variable.get(rest, default=None)
        if value is None:
            raise ConfigException.of(keys, text, f"Airflow has no Variable {rest}: create it or correct the key")
        return str(value)
    conn_id, _, field = rest.partition(":")
    try:
        connection = Connection.get(conn_id)
    except AirflowNotFoundException as error:
        raise ConfigException.of(keys, text, f"Airflow has no Connection {conn_id}: create it or correct the key") from error
    return _field(connection, field, keys, text)


def _field(connection: Any, field: str, keys: str, text: str) -> str:
    if field == "uri":
        return str(connection.get_uri())
    value = getattr(connection, field) if field in _CONNECTION_FIELDS else connection.extra_dejson.get(field.removeprefix("extra."))
    if value is None:
        known: Iterable[str] = ("uri", *_CONNECTION_FIELDS, *sorted(connection.extra_dejson))
        raise ConfigException.of(keys, text, f"Connection {connection.conn_id} has no {field!r}; there are {', '.join(known)}")
    return value if isinstance(value, str) else json.dumps(value)


def connectors_bundle() -> str | None:
    """The name of the Dag bundle that creates DAGs of stored connectors. None: ``dag_bundle_config_list`` has no such bundle."""
    bundles = conf.getjson("dag_processor", "dag_bundle_config_list", fallback=None) or []
    return next((str(bundle["name"]) for bundle in bundles if bundle.get("classpath") == BUNDLE), None)


def run_directory() -> Path:
    """The folder for files of this host's runs, created with mode 0700. Raises ConfigException if it belongs to another user."""
    given = own_option("run_directory")
    path = Path(given) if given else Path(tempfile.gettempdir()) / f"airflow-connect-{os.getuid()}"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise ConfigException(f"Option run_directory of section [{SECTION}]: {path} cannot be created: {error}") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise ConfigException(
            f"Option run_directory of section [{SECTION}]: {path} must be a directory of user {os.getuid()} with mode 0700, "
            "for it holds secrets"
        )
    return path
