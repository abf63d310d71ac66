"""Which Connect server a Connection means: the one whose URL it holds, or the one in Airflow's own API server. Looks no Connection up."""

from typing import Any

from airflow.sdk.configuration import conf

from airflow_provider_connect.client.server import Server
from airflow_provider_connect.hooks.airflow_settings import extra_properties, is_url, names_brokers

_MOUNTED_AT = "/connect"


def rest_server(connection: Any | None) -> Server:
    """The server for an Airflow Connection of type ``connect``; None: there is no Connection.

    The URL is the host, if that begins with ``http``, or ``rest.url`` in the extra. Then login and password are that server's, unless the
    host names Kafka's brokers; ``rest.login`` with ``rest.password``, or ``rest.token``, win. Raises ConfigException for what is no URL.
    """
    if connection is None:
        return Server.of(own_url())
    extra = extra_properties(connection)
    login, password = (None, None) if names_brokers(connection) else (connection.login or None, connection.password)
    if "rest.login" in extra:
        login, password = extra["rest.login"], extra.get("rest.password", "")
    return Server.of(
        _url(connection, extra.get("rest.url")),
        login=login,
        password=password,
        token=extra.get("rest.token"),
        ca_file=extra.get("rest.ca.file"),
    )


def has_url(connection: Any) -> bool:
    """Whether the Connection itself says where the server is."""
    return "rest.url" in extra_properties(connection) or is_url(connection.host or "")


def _url(connection: Any, given: str | None) -> str:
    if given is not None:
        return given
    if not is_url(connection.host or ""):
        return own_url()
    host = connection.host.strip()
    scheme, _, rest = host.partition("://")
    place, slash, path = rest.partition("/")
    has_port = place.rpartition(":")[2].isdecimal() and not place.endswith("]")
    return host if has_port or not connection.port else f"{scheme}://{place}:{connection.port}{slash}{path}"


def own_url() -> str:
    """Where Airflow's own API server serves Connect: at the address by which tasks reach it already, else at its public one."""
    public = conf.get("api", "base_url", fallback="") or f"http://localhost:{conf.get('api', 'port', fallback='8080')}"
    if public.startswith("/"):  # Airflow takes a mere path so, too
        public = f"http://localhost:{conf.get('api', 'port', fallback='8080')}{public}"
    execution = conf.get("core", "execution_api_server_url", fallback="") or ""
    reached = execution.rstrip("/").removesuffix("/execution") if is_url(execution) else public
    return f"{reached.rstrip('/')}{_MOUNTED_AT}"
