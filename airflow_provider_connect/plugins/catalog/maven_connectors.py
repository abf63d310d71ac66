"""Where connectors that many clusters have are published: the coordinates that ``airflow connect plugins install maven:…`` takes.

Only for messages: a class that is not here is installed in the same way. Those whose makers publish archives elsewhere are not here, nor
sources that no run of this package can end.
"""

from __future__ import annotations

from typing import Final

_DEBEZIUM: Final = {
    "jdbc.JdbcSinkConnector": "jdbc",
    "mariadb.MariaDbConnector": "mariadb",
    "mongodb.MongoDbSinkConnector": "mongodb",
    "mysql.MySqlConnector": "mysql",
    "postgresql.PostgresConnector": "postgres",
}
_JCUSTENBORDER: Final = "com.github.jcustenborder.kafka.connect"
_OF_KAFKA: Final = {
    **{f"file.FileStream{kind}Connector": "connect-file" for kind in ("Source", "Sink")},
    **{f"mirror.Mirror{kind}Connector": "connect-mirror" for kind in ("Source", "Checkpoint", "Heartbeat")},
}
_MAVEN: Final = {
    **{f"org.apache.kafka.connect.{name}": f"org.apache.kafka:{artifact}" for name, artifact in _OF_KAFKA.items()},
    f"{_JCUSTENBORDER}.rabbitmq.RabbitMQSinkConnector": f"{_JCUSTENBORDER}:kafka-connect-rabbitmq",
    **{f"io.debezium.connector.{name}": f"io.debezium:debezium-connector-{artifact}" for name, artifact in _DEBEZIUM.items()},
    "com.azure.cosmos.kafka.connect.CosmosSinkConnector": "com.azure.cosmos.kafka:azure-cosmos-kafka-connect",
    "com.azure.cosmos.kafka.connect.CosmosSourceConnector": "com.azure.cosmos.kafka:azure-cosmos-kafka-connect",
    "com.couchbase.connect.kafka.CouchbaseSinkConnector": "com.couchbase.client:kafka-connect-couchbase",
    "com.couchbase.connect.kafka.CouchbaseSourceConnector": "com.couchbase.client:kafka-connect-couchbase",
    "com.mongodb.kafka.connect.MongoSinkConnector": "org.mongodb.kafka:mongo-kafka-connect",
    "com.mongodb.kafka.connect.MongoSourceConnector": "org.mongodb.kafka:mongo-kafka-connect",
    "com.snowflake.kafka.connector.SnowflakeSinkConnector": "com.snowflake:snowflake-kafka-connector",
}


def installation_of(class_name: str) -> str | None:
    """The command that installs the connector of this class, but for its version; None: it is not known.

    ``class_name`` is a whole name: an alias is that of an installed plugin.
    """
    found = _MAVEN.get(class_name)
    return None if found is None else f"airflow connect plugins install maven:{found}:VERSION"
