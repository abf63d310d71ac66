"""Databases without a dialect here: their names, and the Java connector and driver that read and write them. Only handles text."""

from __future__ import annotations

from typing import Final, NamedTuple

from airflow_provider_connect.connectors.jdbc.dialects.registry import DIALECTS


class _Product(NamedTuple):
    name: str
    driver: str
    """The coordinates of the JDBC driver in Maven's central repository, or else the vendor's location."""
    sink: str = ""
    """The class of the product's own Java sink."""


_CONFLUENT: Final = "io.confluent.connect."
_CLICKHOUSE: Final = _Product("ClickHouse", "com.clickhouse:clickhouse-jdbc", "com.clickhouse.kafka.connect.ClickHouseSinkConnector")
_PRODUCTS: Final = {
    "as400": _Product("IBM i", "that of IBM i"),
    "athena": _Product("Amazon Athena", "a jar of Amazon's"),
    "awsathena": _Product("Amazon Athena", "a jar of Amazon's"),
    "bigquery": _Product("Google BigQuery", "a jar of Google's", "com.wepay.kafka.connect.bigquery.BigQuerySinkConnector"),
    **dict.fromkeys(("ch", "clickhouse"), _CLICKHOUSE),
    "databricks": _Product(
        "Databricks", "com.databricks:databricks-jdbc", f"{_CONFLUENT}databricks.deltalake.DatabricksDeltaLakeSinkConnector"
    ),
    "datadirect": _Product("a driver of DataDirect", "a jar of Progress"),
    "db2": _Product("IBM Db2", "com.ibm.db2:jcc"),
    "derby": _Product("Apache Derby", "that of Apache Derby"),
    "firebirdsql": _Product("Firebird", "that of Firebird"),
    "h2": _Product("H2", "that of H2"),
    "hive2": _Product("Apache Hive", "org.apache.hive:hive-jdbc"),
    "hsqldb": _Product("HyperSQL", "that of HyperSQL"),
    "informix": _Product("Informix", "that of Informix"),
    "informix-sqli": _Product("Informix", "that of Informix"),
    "netezza": _Product("Netezza", "a jar of IBM's", f"{_CONFLUENT}netezza.NetezzaSinkConnector"),
    "redshift": _Product("Amazon Redshift", "com.amazon.redshift:redshift-jdbc42", f"{_CONFLUENT}aws.redshift.RedshiftSinkConnector"),
    "sap": _Product("SAP HANA", "com.sap.cloud.db.jdbc:ngdbc", "com.sap.kafka.connect.sink.hana.HANASinkConnector"),
    "snowflake": _Product("Snowflake", "net.snowflake:snowflake-jdbc", "com.snowflake.kafka.connector.SnowflakeSinkConnector"),
    "spark": _Product("Spark's SQL server", "org.apache.hive:hive-jdbc"),
    "sybase": _Product("SAP ASE (Sybase)", "net.sourceforge.jtds:jtds"),
    "teradata": _Product("Teradata", "com.teradata.jdbc:terajdbc"),
    "vertica": _Product("Vertica", "com.vertica.jdbc:vertica-jdbc", "io.confluent.vertica.VerticaSinkConnector"),
}
JAVA_ONLY: Final = frozenset({"as400", "db2", "derby", "firebirdsql", "h2", "hsqldb", "informix", "informix-sqli", "sybase", "teradata"})
"""Products for which no Python driver is used, even if one is installed."""
_INSTALL: Final = (
    "Java's JDBC connector has it: download the zip of confluentinc/kafka-connect-jdbc from Confluent Hub, "
    "airflow connect plugins install confluentinc-kafka-connect-jdbc-VERSION.zip, copy the driver's jar ({driver}) into the folder "
    "kafka-connect-jdbc-VERSION that this makes, and set connector.plugin.location to that folder's name (docs/java-connectors.md)."
)


def unsupported_reason(dialect: str) -> str:
    """The reason why a database is not supported, and how a Java connector reads and writes it."""
    product = _PRODUCTS.get(dialect)
    name = f" ({product.name})" if product is not None else ""
    sink = f" A sink in Java of its own is connector.class={product.sink}." if product is not None and product.sink else ""
    driver = product.driver if product is not None else f"that of {dialect}"
    return (
        f"There is no dialect for {dialect} here{name}: known are {_titles(is_tested=True)}, and, untested on their servers, "
        f"{_titles(is_tested=False)}. {_INSTALL.format(driver=driver)}{sink}"
    )


def _titles(*, is_tested: bool) -> str:
    *titles, last = (dialect.title for dialect in DIALECTS if dialect.is_tested is is_tested)
    return f"{', '.join(titles)} and {last}"
