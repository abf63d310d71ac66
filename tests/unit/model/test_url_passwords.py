"""Passwords in URLs are hidden whatever characters they hold, at least where our own reader of URLs finds one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import cast
from urllib.parse import quote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_provider_connect.cli import configs
from airflow_provider_connect.cli import settings as cli_settings
from airflow_provider_connect.cli.connection import Verbs
from airflow_provider_connect.connectors.jdbc.database.database_url import parse_url
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.rest.secrets import Secrets
from airflow_provider_connect.runtime.config.layered_settings import Layer, settings_in_force
from airflow_provider_connect.runtime.config.masking import Mask, config_secrets
from airflow_provider_connect.runtime.model.secret_keys import SHORTEST
from airflow_provider_connect.runtime.model.url_passwords import text_without_url_passwords, url_passwords, without_url_passwords
from airflow_provider_connect.runtime.sql_mirror.config_rows import masked
from tests.unit.test_patterns import HOSTILE, LENGTH, is_slow

SECRETS = Secrets(lambda plugin, version: [])
SHOWN: Mapping[str, Callable[[str], str]] = {
    "REST": lambda url: SECRETS.redacted({"connection.url": url})["connection.url"],
    "mirror": lambda url: masked({"connection.url": url})["connection.url"],
    "command line": lambda url: configs.shown(cast(Verbs, SimpleNamespace(plugin_config=lambda plugin, version: [])), {"url": url})["url"],
    "worker settings": lambda url: cli_settings.masked("connection.url", url),
    "run": lambda url: Mask(config_secrets({"connection.url": url}))(url),
}
"""How each reader is shown a setting that holds a URL."""

ODD = {
    "jdbc:postgresql://bob:pa'SECRET1@h/db": "jdbc:postgresql://bob:[hidden]@h/db",
    "jdbc:postgresql://bob:my SECRET1@h/db": "jdbc:postgresql://bob:[hidden]@h/db",
    'jdbc:postgresql://bob:my"SECRET1@h/db': "jdbc:postgresql://bob:[hidden]@h/db",
    "jdbc:postgresql://bob:my<SECRET1>@h/db": "jdbc:postgresql://bob:[hidden]@h/db",
    "jdbc:postgresql://bob:my\nSECRET1@h/db": "jdbc:postgresql://bob:[hidden]@h/db",
    "jdbc:postgresql://h/db?user=a&p%61ssword=SECRET2": "jdbc:postgresql://h/db?user=a&p%61ssword=[hidden]",
    "jdbc:postgresql://h/db?user=a&p%2561ssword=SECRET2": "jdbc:postgresql://h/db?user=a&p%2561ssword=[hidden]",
    "jdbc:postgresql://h/db?user=a&password=ab;SECRET3": "jdbc:postgresql://h/db?user=a&password=[hidden]",
    "jdbc:postgresql://h/db?user=a&password=ab;x=SECRET3&ssl=true": "jdbc:postgresql://h/db?user=a&password=[hidden]&ssl=true",
    "postgresql://u#x:SECRET4@h/db": "postgresql://u#x:[hidden]@h/db",
    "postgresql://u?x:SECRET4@h/db": "postgresql://u?x:[hidden]@h/db",
    "postgresql://u?x=1:P@h/db?password=my SECRET4": "postgresql://u?x=1:[hidden]@h/db?password=[hidden]",
    "jdbc:postgresql://h/db?user=a&password=my SECRET5 pw": "jdbc:postgresql://h/db?user=a&password=[hidden]",
    "jdbc:postgresql://h/db?user=a&password='SECRET6'": "jdbc:postgresql://h/db?user=a&password=[hidden]",
    "jdbc:postgresql:db?password=my SECRET7": "jdbc:postgresql:db?password=[hidden]",
    "postgresql://u:1234/SECRET@h/db": "postgresql://u:[hidden]@h/db",
    "postgresql://u:1234?user=SECRET@h/db": "postgresql://u:[hidden]@h/db",
    "jdbc:postgresql://h:5432/db?user=me@corp&password=SECRET": "jdbc:postgresql://h:5432/db?user=me@corp&password=[hidden]",
    "jdbc:postgresql://[::1]:5432/db?user=me@corp": "jdbc:postgresql://[::1]:5432/db?user=me@corp",
    "jdbc:mysql://h1:1,h2:2/db?user=me@corp": "jdbc:mysql://h1:1,h2:2/db?user=me@corp",
    "jdbc:mysql://u:SECRET@h/db": "jdbc:mysql://u:[hidden]@h/db",
    "jdbc:mysql://address=(host=h)(user=u)(password=my SECRET)/db": "jdbc:mysql://address=(host=h)(user=u)(password=[hidden]",
    "jdbc:mariadb://(host=h,user=u,password=SE)C,RET)/db": "jdbc:mariadb://(host=h,user=u,password=[hidden]",
    "jdbc:sqlserver://h;user=a;password=my SECRET;a=b": "jdbc:sqlserver://h;user=a;password=[hidden];a=b",
    "jdbc:sqlserver://h:1433;user=a@corp;password={my;SECRET};a=b": "jdbc:sqlserver://h:1433;user=a@corp;password=[hidden];a=b",
    "jdbc:oracle:thin:u/SECRET@h": "jdbc:oracle:thin:u/[hidden]@h",
    "jdbc:oracle:oci:u/my SECRET@h": "jdbc:oracle:oci:u/[hidden]@h",
    "jdbc:oracle:thin:@//h:1521/x": "jdbc:oracle:thin:@//h:1521/x",
    "jdbc:sqlite:/data/x.db?mode=ro": "jdbc:sqlite:/data/x.db?mode=ro",
    "mongodb://u:SECRET@h1,h2/": "mongodb://u:[hidden]@h1,h2/",
    "amqp://u:SECRET@h/vhost": "amqp://u:[hidden]@h/vhost",
    "redis://:SECRET@h": "redis://:[hidden]@h",
    "http://u:a@h1,http://u:SECRET@h2": "http://u:[hidden]@h2",
    "http://h:80/a,http://u:SECRET@h2": "http://h:80/a,http://u:[hidden]@h2",
    "mssql+pyodbc:///?odbc_connect=UID%3Du%3BPWD%3DSECRET": "mssql+pyodbc:///?odbc_connect=[hidden]",
    "https://h/x#access_token=SECRET&a=b": "https://h/x#access_token=[hidden]&a=b",
    "postgresql://u:${SECRET}@h/db": "postgresql://u:[hidden]@h/db",
    "postgresql://u${:SECRET@h/db?a=}": "postgresql://u${:[hidden]@h/db?a=}",
    "jdbc:postgresql://${env:HOST}:5432/db?user=${env:A}&password=${env:B}": (
        "jdbc:postgresql://${env:HOST}:5432/db?user=${env:A}&password=${env:B}"
    ),
}


@pytest.mark.parametrize("url", ODD)
def test_passwords_of_odd_characters_are_hidden(url: str) -> None:
    assert without_url_passwords(url) == ODD[url]
    assert without_url_passwords(ODD[url]) == ODD[url]
    for reader, shown in SHOWN.items():
        assert "SECRET" not in shown(url), reader


@pytest.mark.parametrize("url", [url for url, shown in ODD.items() if "[hidden]" in shown])
def test_they_come_back_and_go_to_no_other_host(url: str) -> None:
    known = {"connector.class": "Shop", "connection.url": url, "colour": "red"}
    shown: dict[str, str | None] = {**SECRETS.redacted(known)}
    assert SECRETS.restore({**shown, "colour": "blue"}, known) == {**known, "colour": "blue"}
    with pytest.raises(ConfigException, match="give the secret itself"):
        SECRETS.restore({**shown, "connection.url": f"{shown['connection.url']}x?password=[hidden]"}, known)
    with pytest.raises(ConfigException, match="give the secret again"):
        SECRETS.restore_patch({"proxy.host": "thief"}, known)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("cannot reach postgresql://bob:pa'SECRET@h/db: refused", "cannot reach postgresql://bob:[hidden]@h/db: refused"),
        ("cannot reach postgresql://bob:my SECRET@h/db: refused", "cannot reach postgresql://bob:[hidden]@h/db: refused"),
        ("cannot reach postgresql://bob:a@b SECRET@h/db: refused", "cannot reach postgresql://bob:[hidden]@h/db: refused"),
        ("cannot reach 'redis://:SECRET@h:6379/0' (mail me@corp.com)", "cannot reach 'redis://:[hidden]@h:6379/0' (mail me@corp.com)"),
        ("cannot reach mysql://h:3306/db, mail me@corp.com", "cannot reach mysql://h:3306/db, mail me@corp.com"),
        ("cannot reach mysql://bob:12 SECRET@h/db", "cannot reach mysql://bob:[hidden]@h/db"),
        ("(mysql://h:3306) mail me@corp.com", "(mysql://h:3306) mail me@corp.com"),
        ("jdbc:x?p%61ssword=ab;SECRET&a=b is bad", "jdbc:x?p%61ssword=[hidden]&a=b is bad"),
        ("jdbc:x?password='my SECRET' is bad", "jdbc:x?password='[hidden]' is bad"),
        ('{"url":"jdbc:x?password=SECRET","a":1}', '{"url":"jdbc:x?password=[hidden]","a":1}'),
        ("jdbc:sqlserver://h;password={a b;SECRET};a=b is bad", "jdbc:sqlserver://h;password=[hidden];a=b is bad"),
        ("Source(host=h,user=u,password=SECRET)", "Source(host=h,user=u,password=[hidden]"),
        ("jdbc:oracle:thin:u/SECRET@h is bad, me@corp", "jdbc:oracle:thin:u/[hidden]@h is bad, me@corp"),
        ("at https://h:80/a@b:c and https://u:SECRET@h", "at https://h:80/a@b:c and https://u:[hidden]@h"),
    ],
)
def test_urls_in_texts_hide_rather_more(text: str, shown: str) -> None:
    assert text_without_url_passwords(text) == shown
    assert Mask()(text) == shown


def test_a_run_hides_what_the_driver_takes_for_the_password() -> None:
    mask = Mask(config_secrets({"connection.url": "postgresql://u:canary@h/db?application_name=me@corp", "b": "x://h/?password=a+b;c%20d"}))
    assert mask("FATAL: canary is wrong, a b;c d too") == "FATAL: [hidden] is wrong, [hidden] too"


def test_a_wrong_worker_setting_is_named_without_the_password() -> None:
    layers = [Layer("Variable", {"offset.flush.interval.ms": "http://u:my SECRET@h"})]
    found = settings_in_force(layers, None, secrets_of=lambda _: {})
    assert [fault.key for fault in found.faults] == ["offset.flush.interval.ms"]
    assert "http://u:[hidden]@h" in str(found.faults[0])


FORMS = (
    *(
        "postgresql://zq:{}@zh/zdb",
        "jdbc:mysql://zq:{}@zh:3306/zdb?user=zu",
        "jdbc:mariadb://zq:{}@zh/zdb?password={}",
        "mysql+pymysql://:{}@zh",
    ),
    *("jdbc:postgresql://zh/zdb?user=zq&password={}", "jdbc:postgresql://zh/?PassWord={}&user=zq@zh", "jdbc:postgresql:zdb?p%61ssword={}"),
    *(
        "  postgres://zq:{}@zh:5432/?application_name=a@b",
        "mssql://z#q:{}@zh",
        "mssql://z?q:{}@zh/zdb?password={}",
        "sqlserver://zq:{}@zh;password={}",
    ),
)
ODD_CHARACTERS = st.text(
    st.sampled_from(list("aB19 '\"<>;:?#@/&=+%{}()[],.$\\|^`~!-_\t\n\x00\u00e4\u2028\ud83d")) | st.characters(), min_size=3, max_size=24
)


@settings(max_examples=1500, deadline=None, derandomize=True)
@given(st.sampled_from(FORMS), st.one_of(ODD_CHARACTERS, ODD_CHARACTERS.map(lambda text: quote(text, safe="", errors="replace"))))
@example(FORMS[4], "ab;SECRET")
def test_what_our_reader_takes_for_a_password_is_never_shown(form: str, given: str) -> None:
    url = form.replace("{}", given)
    with suppress(ConfigException):
        password = parse_url(url).password or ""
        if len(password) < 3 or password in form.replace("{}", "\x01") or password in "[hidden]":
            return
        for reader, shown in SHOWN.items():
            if reader == "run" and len(password) < SHORTEST:
                continue
            text = shown(url)
            assert password not in text, reader
            assert given not in text or given in form + "[hidden]", reader
        assert password in url_passwords(url)


@pytest.mark.parametrize(
    "part", [*HOSTILE, *("oracle:x:", ";password={", "://a:b c@h/", "?a=%40", "(password=", "?password='\\", "a://h/?user=@&", "[:]")]
)
@pytest.mark.parametrize("start", ["", "x:", "jdbc:sqlserver://h:1;", "x ://u:p "])
def test_hiding_takes_linear_time(start: str, part: str) -> None:
    for end in ("", "@h/"):
        text = start + part * (LENGTH // len(part)) + end
        for hide in (without_url_passwords, text_without_url_passwords, url_passwords):
            assert not is_slow(functools.partial(hide, text)), f"{hide.__name__} {start}{part}…{end}"


@pytest.mark.parametrize(
    "url",
    [
        "jdbc:postgresql://h/d?sslkey=/k&sslPassword=hush1&sslmode=require",
        "jdbc:mysql://h/d?trustCertificateKeyStorePassword=hush1",
        "jdbc:mysql://h/d?clientCertificateKeyStorePassword=hush1&password2=hush1",
        "jdbc:mariadb://h/d?keyPassword=hush1&trustStorePassword=hush1",
        "jdbc:sqlserver://h:1433;databaseName=d;trustStorePassword=hush1;encrypt=true",
        "jdbc:sqlserver://h;keyStoreSecret=hush1;clientKeyPassword={hush1;};keyVaultProviderClientKey=hush1;accessToken=hush1",
        "jdbc:oracle:thin:@tcps://h:2484/s?wallet_password=hush1",
        "jdbc:oracle:thin:u/hush1@//h/s?javax.net.ssl.keyStorePassword=hush1&oracle.net.wallet_password=hush1",
        "jdbc:oracle:thin:@(DESCRIPTION=(ADDRESS=(PROTOCOL=tcps)(HOST=h)(PORT=1))(SECURITY=(WALLET_PASSWORD=hush1)))",
        "jdbc:snowflake://h/?passcode=hush1&private_key_pwd=hush1",
        "jdbc:db2://h:1/d:user=u;password=hush1;",
    ],
)
def test_secret_options_of_each_driver_are_hidden(url: str) -> None:
    for text in (without_url_passwords(url), text_without_url_passwords(f"cannot open {url} now")):
        assert "hush1" not in text
    try:
        shown = repr(parse_url(url))
    except ConfigException as error:
        shown = str(error)
    assert "hush1" not in shown
