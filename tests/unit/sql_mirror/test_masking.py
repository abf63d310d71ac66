"""What is hidden of a config from users who may read the database."""

import pytest

from airflow_provider_connect.runtime.sql_mirror.config_rows import holds_hidden, masked


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("topic", "lines", "lines"),
        ("connection.password", "hunter2", "[hidden]"),
        ("connection.password", "", ""),
        ("connection.password", "${env:PASSWORD}", "${env:PASSWORD}"),
        ("connection.password", "${env:A}${env:B}", "${env:A}${env:B}"),
        ("connection.password", "half${env:B}", "[hidden]"),
        ("consumer.override.sasl.jaas.config", 'x required password="p";', "[hidden]"),
        ("connection.url", "jdbc:postgresql://user:hunter2@host:5432/db?a=b", "jdbc:postgresql://user:[hidden]@host:5432/db?a=b"),
        ("connection.url", "postgresql://user@host/db", "postgresql://user@host/db"),
        ("url", "http://host:80/a@b:c", "http://host:80/a@b:c"),
        ("url", "jdbc:postgresql://host/db?user=me&password=hunter2&a=b", "jdbc:postgresql://host/db?user=me&password=[hidden]&a=b"),
        ("url", "jdbc:sqlserver://host;user=me;password=hunter2;a=b", "jdbc:sqlserver://host;user=me;password=[hidden];a=b"),
        ("url", "jdbc:oracle:thin:me/hunter2@//host:1521/x", "jdbc:oracle:thin:me/[hidden]@//host:1521/x"),
        ("url", "postgresql://me:${airflow:shop:password}@host/db", "postgresql://me:${airflow:shop:password}@host/db"),
        ("dsn", "host=h user=me password=hunter2", "host=h user=me password=[hidden]"),
        ("value.converter.basic.auth.user.info", "me:hunter2", "[hidden]"),
    ],
)
def test_what_is_shown_of_a_setting(key: str, value: str, shown: str) -> None:
    assert masked({key: value}) == {key: shown}
    assert holds_hidden(masked({key: value})) == ("[hidden]" in shown)


def test_nothing_hides_nothing() -> None:
    assert not holds_hidden(None)
