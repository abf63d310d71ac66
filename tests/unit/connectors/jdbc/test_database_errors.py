"""Which errors of databases and their drivers may pass by themselves. One that is not known does not; none shows a secret."""

import pytest

from airflow_provider_connect.connectors.jdbc.database.database_errors import (
    StatementException,
    connection_error,
    error_number,
    statement_error,
)
from airflow_provider_connect.connectors.jdbc.database.database_url import parse_url
from airflow_provider_connect.errors import ConfigException, ConnectException, RetriableException

URLS = {
    "postgresql": "postgresql://u:p%40ss@h/d?sslkey=/k&sslpassword=hush",
    "mariadb": "mariadb://u:p%40ss@h/d",
    "mysql": "mysql://u:p%40ss@h/d",
    "sqlite": "sqlite:////d",
    "mssql": "mssql://u:p%40ss@h/d",
    "oracle": "oracle://u:p%40ss@h/d",
}
# dialect, message, SQLSTATE, the server's number
PASSING: list[tuple[str, str, str | None, int | None]] = [
    ("postgresql", "ERROR: canceling statement due to conflict with recovery", "40001", None),
    ("postgresql", "[libpq] Fetch failed: ERROR: canceling statement due to conflict with recovery", None, None),
    ("postgresql", "ERROR: deadlock detected", "40P01", None),
    ("postgresql", "ERROR: canceling statement due to lock timeout", "55P03", None),
    ("postgresql", "FATAL: terminating connection due to administrator command", "57P01", None),
    ("postgresql", "FATAL: sorry, too many clients already", "53300", None),
    ("mariadb", "(1213, 'Deadlock found when trying to get lock')", None, 1213),
    ("mariadb", "(1205, 'Lock wait timeout exceeded')", None, 1205),
    ("mariadb", "(1927, 'Connection was killed')", None, 1927),
    ("mysql", "(2013, 'Lost connection to MySQL server during query')", None, 2013),
    ("mysql", "(4031, 'The client was disconnected by the server because of inactivity.')", None, 4031),
    ("sqlite", "database is locked", None, None),
    ("sqlite", "database table is locked: orders", None, None),
    ("mssql", "(1205, b'Transaction (Process ID 52) was deadlocked …')", None, 1205),
    ("mssql", "(20003, b'DB-Lib error message 20003, severity 6: Adaptive Server connection timed out')", None, 20003),
    ("oracle", "ORA-00060: deadlock detected while waiting for resource", None, None),
    ("oracle", "ORA-01555: snapshot too old: rollback segment number 3", None, None),
    ("oracle", "DPY-4011: the database or network closed the connection", None, None),
    ("oracle", "ORA-03113: end-of-file on communication channel", None, None),
]
FINAL: list[tuple[str, str, str | None, int | None]] = [
    ("postgresql", 'ERROR: relation "orders" does not exist', "42P01", None),
    ("postgresql", "ERROR: permission denied for table orders", "42501", None),
    ("postgresql", 'ERROR: invalid input syntax for type integer: "deadlock detected"', "22P02", None),
    ("postgresql", "ERROR: canceling statement due to statement timeout", "57014", None),
    ("mariadb", "(1146, \"Table 'deadlock found' doesn't exist\")", None, 1146),
    ("mariadb", "(1064, 'You have an error in your SQL syntax')", None, 1064),
    ("sqlite", "no such table: orders", None, None),
    ("sqlite", "database disk image is malformed", None, None),
    ("mssql", "(208, b\"Invalid object name 'orders'.\")", None, 208),
    ("oracle", "ORA-00942: table or view does not exist", None, None),
    ("oracle", "DPY-3006: Oracle data type 120 is not supported", None, None),
    ("oracle", "something that no list has", None, None),
]


@pytest.mark.parametrize(("dialect", "text", "state", "number"), PASSING)
def test_these_errors_of_statements_may_pass(dialect: str, text: str, state: str | None, number: int | None) -> None:
    assert isinstance(statement_error(parse_url(URLS[dialect]), text, state, number), RetriableException)


@pytest.mark.parametrize(("dialect", "text", "state", "number"), FINAL)
def test_all_others_are_final(dialect: str, text: str, state: str | None, number: int | None) -> None:
    found = statement_error(parse_url(URLS[dialect]), text, state, number)
    assert (type(found), found.retriable) == (StatementException, False)
    assert "refuses a statement" in found.message


CONNECTIONS: list[tuple[str, str, int | None, type[ConnectException], str]] = [
    ("postgresql", 'connection to server at "h", port 5432 failed: Connection refused', None, RetriableException, "No connection"),
    ("postgresql", 'could not translate host name "h" to address: Name or service not known', None, RetriableException, "No connection"),
    ("postgresql", "connection to server at h failed: timeout expired", None, RetriableException, "No connection"),
    ("postgresql", "FATAL: the database system is starting up", None, RetriableException, "No connection"),
    ("postgresql", "FATAL: remaining connection slots are reserved", None, RetriableException, "No connection"),
    ("postgresql", "failed: session is read-only", None, RetriableException, "No connection"),
    ("postgresql", "SSL error: certificate verify failed", None, ConfigException, "begin with ssl"),
    ("postgresql", "server does not support SSL, but SSL was required", None, ConfigException, "begin with ssl"),
    ("postgresql", 'FATAL: unsupported startup parameter: "geqo"', None, ConnectException, "not known to be temporary"),
    ("mysql", "(2003, \"Can't connect to MySQL server on 'h' (timed out)\")", 2003, RetriableException, "No connection"),
    ("mysql", "(2003, \"Can't connect to MySQL server on 'h' ([SSL: CERTIFICATE_VERIFY_FAILED] …)\")", 2003, ConfigException, "ssl"),
    ("mysql", "(1040, 'Too many connections')", 1040, RetriableException, "No connection"),
    ("mysql", "(1045, \"Access denied for user 'u'@'h'\")", 1045, ConfigException, "user and password in connection.url"),
    ("mysql", "(1049, \"Unknown database 'd'\")", 1049, ConfigException, "no such database"),
    ("mysql", "(1251, 'Client does not support authentication protocol')", 1251, ConnectException, "not known to be temporary"),
    ("mssql", "(20009, b'Unable to connect: Adaptive Server is unavailable or does not exist')", 20009, RetriableException, "No conn"),
    ("mssql", "(18456, b\"Login failed for user 'u'.\")", 18456, ConfigException, "user and password in connection.url"),
    ("oracle", "DPY-6005: cannot connect to database. [Errno 111] Connection refused", None, RetriableException, "No connection"),
    ("oracle", 'DPY-6001: Service "d" is not registered with the listener', None, ConfigException, "no such database"),
    ("oracle", "ORA-28000: The account is locked.", None, ConfigException, "user and password in connection.url"),
    ("oracle", "ORA-12519: no appropriate service handler found", None, RetriableException, "No connection"),
    (
        "oracle",
        "DPY-3010: connections to this database server version are not supported",
        None,
        ConnectException,
        "not known to be temporary",
    ),
]


@pytest.mark.parametrize(("dialect", "text", "number", "kind", "message"), CONNECTIONS)
def test_why_there_is_no_connection(dialect: str, text: str, number: int | None, kind: type[ConnectException], message: str) -> None:
    found = connection_error(parse_url(URLS[dialect]), text, number)
    assert type(found) is kind
    assert message in found.message


LOGINS = [
    # URL, connection.user, connection.password; the named setting and its shown value; the settings to change
    (("jdbc:postgresql://u:p@h/d", None, None), "connection.url", "postgresql://h:5432/d", "the user and password in connection.url"),
    (("jdbc:postgresql://h/d?user=u&password=p", None, None), "connection.url", "postgresql://h:5432/d", "the user and password in conn"),
    (("jdbc:postgresql://h/d", "u", "p"), "connection.password", "[hidden]", "connection.user and connection.password"),
    (("jdbc:postgresql://u:x@h/d", None, "p"), "connection.password", "[hidden]", "the user in connection.url and connection.password"),
    (("jdbc:postgresql://x:p@h/d", "u", None), "connection.url", "postgresql://h:5432/d", "connection.user and the password in connecti"),
    (("jdbc:postgresql://u@h/d", None, None), "connection.password", "null", "the user in connection.url and connection.password"),
    (("jdbc:postgresql://h/d", "u", None), "connection.password", "null", "connection.user and connection.password"),
]


@pytest.mark.parametrize(("login", "key", "shown", "advice"), LOGINS)
def test_a_refused_login_names_the_setting_with_the_password(
    login: tuple[str, str | None, str | None], key: str, shown: str, advice: str
) -> None:
    url, user, password = login
    found = connection_error(parse_url(url).with_credentials(user, password), 'password authentication failed for user "u"')
    assert isinstance(found, ConfigException)
    assert found.keys == [key]
    assert found.message.startswith(f"Invalid value {shown} for configuration {key}: postgresql://h:5432/d refuses user 'u'")
    assert f". Set {advice}" in found.message


@pytest.mark.parametrize("secret", ["p@ss", "p%40ss", "hush"])
def test_no_secret_of_the_url_is_shown(secret: str) -> None:
    url = parse_url(URLS["postgresql"])
    for found in (connection_error(url, f"bad {secret}!"), statement_error(url, f"bad {secret}!", None)):
        assert secret not in found.message
        assert "[hidden]!" in found.message
    assert secret not in repr(url)


def test_the_number_is_where_each_driver_has_it() -> None:
    assert error_number(RuntimeError(1205, "lock")) == 1205
    assert error_number(RuntimeError((18456, b"login"))) == 18456
    assert error_number(RuntimeError("ORA-00060")) is None
    assert error_number(None) is None
