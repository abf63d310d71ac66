"""Maven coordinates of widely used connectors, for ``airflow connect plugins install maven:…``.

Only for messages, because a class that is not listed is installed in the same way. Each listed version was fetched from Maven's central
repository, and contains the class. ``next_step`` lists connectors that are published elsewhere.
"""

from __future__ import annotations

from typing import Final

_DEBEZIUM: Final = {
    "db2.Db2Connector": "db2:3.6.1.Final",
    "jdbc.JdbcSinkConnector": "jdbc:3.6.0.Final",
    "mariadb.MariaDbConnector": "mariadb:3.5.0.Final",
    "mongodb.MongoDbConnector": "mongodb:3.6.1.Final",
    "mongodb.MongoDbSinkConnector": "mongodb:3.6.1.Final",
    "mysql.MySqlConnector": "mysql:3.6.1.Final",
    "postgresql.PostgresConnector": "postgres:3.6.1.Final",
    "spanner.SpannerConnector": "spanner:3.6.1.Final",
    "sqlserver.SqlServerConnector": "sqlserver:3.6.1.Final",
}
_JCUSTENBORDER: Final = "com.github.jcustenborder.kafka.connect"
_OF_KAFKA: Final = {
    **{f"file.FileStream{kind}Connector": "connect-file" for kind in ("Source", "Sink")},
    **{f"mirror.Mirror{kind}Connector": "connect-mirror" for kind in ("Source", "Checkpoint", "Heartbeat")},
}
_MAVEN: Final = {
    **{f"org.apache.kafka.connect.{name}": f"org.apache.kafka:{artifact}:4.3.1" for name, artifact in _OF_KAFKA.items()},
    **{
        f"{_JCUSTENBORDER}.rabbitmq.RabbitMQ{kind}Connector": f"{_JCUSTENBORDER}:kafka-connect-rabbitmq:0.0.2.16"
        for kind in ("Source", "Sink")
    },
    **{f"io.debezium.connector.{name}": f"io.debezium:debezium-connector-{artifact}" for name, artifact in _DEBEZIUM.items()},
    **{f"com.mongodb.kafka.connect.Mongo{kind}Connector": "org.mongodb.kafka:mongo-kafka-connect:2.0.1" for kind in ("Source", "Sink")},
    **{
        f"com.google.pubsub.kafka.{kind.lower()}.CloudPubSub{kind}Connector": "com.google.cloud:pubsub-group-kafka-connector:1.3.3"
        for kind in ("Source", "Sink")
    },
    "com.snowflake.kafka.connector.SnowflakeSinkConnector": "com.snowflake:snowflake-kafka-connector:2.5.0",
    "org.apache.iceberg.connect.IcebergSinkConnector": "org.apache.iceberg:iceberg-kafka-connect:1.11.0",
}


def coordinates_of(class_name: str) -> str | None:
    """The ``maven:…`` coordinates of this connector class, in a version that contains it. None: unknown.

    ``class_name`` is a full name, because only installed plugins have aliases.
    """
    found = _MAVEN.get(class_name)
    return None if found is None else f"maven:{found}"


def installation_of(class_name: str) -> str | None:
    """The command that installs this connector class. None: unknown."""
    found = coordinates_of(class_name)
    return None if found is None else f"airflow connect plugins install {found}"
