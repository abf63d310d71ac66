"""What Airflow's provider discovery reads. Imports nothing: it runs in every Airflow process, before Airflow is ready."""

from typing import Any

_TEXT = {"type": ["string", "null"]}
_SECRET = {"type": ["string", "null"], "format": "password"}


def get_provider_info() -> dict[str, Any]:
    """Called by Airflow, through the entry point ``apache_airflow_provider``."""
    return {
        "package-name": "airflow-provider-connect",
        "name": "Kafka Connect",
        "description": "Kafka Connect's job, API and topics on Airflow and Spark: a connector is a DAG, its tasks are spark-submit jobs.",
        "integrations": [{"integration-name": "Kafka Connect", "external-doc-url": "https://kafka.apache.org/documentation/#connect"}],
        "operators": [
            {
                "integration-name": "Kafka Connect",
                "python-modules": [
                    "airflow_provider_connect.operators.config",
                    "airflow_provider_connect.operators.connect",
                    "airflow_provider_connect.operators.control",
                    "airflow_provider_connect.operators.plan",
                    "airflow_provider_connect.operators.upgrade",
                ],
            }
        ],
        "sensors": [{"integration-name": "Kafka Connect", "python-modules": ["airflow_provider_connect.sensors.connect"]}],
        "triggers": [{"integration-name": "Kafka Connect", "python-modules": ["airflow_provider_connect.triggers.connect"]}],
        "hooks": [{"integration-name": "Kafka Connect", "python-modules": ["airflow_provider_connect.hooks.connect"]}],
        "bundles": [{"integration-name": "Kafka Connect", "python-modules": ["airflow_provider_connect.dag_files.bundle"]}],
        "connection-types": [_connection_type()],
        "extra-links": ["airflow_provider_connect.dag_files.links.ConnectorStatusLink"],
        "cli": ["airflow_provider_connect.cli.commands.get_connect_cli_commands"],
        "db-managers": ["airflow_provider_connect.sql_mirror.db_manager.ConnectDBManager"],
        "config": {"connect": {"description": _SECTION, "options": _options()}},
    }


def _connection_type() -> dict[str, Any]:
    return {
        "connection-type": "connect",
        "hook-class-name": "airflow_provider_connect.hooks.connect.ConnectHook",
        "hook-name": "Kafka Connect",
        "ui-field-behaviour": {
            "hidden-fields": ["schema"],
            "relabeling": {
                "host": "Bootstrap servers, or URL of a Connect server",
                "login": "User name (SASL, or of the Connect server)",
                "password": "Password (SASL, or of the Connect server)",
                "extra": "Worker settings",
            },
            "placeholders": {
                "host": "kafka-1:9092,kafka-2:9092 or http://connect:8083",
                "port": "9092",
                "extra": '{"group.id": "connect"}',
            },
        },
        "conn-fields": {
            "security.protocol": {
                "label": "Security protocol",
                "description": "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; SASL_SSL when there is a user name",
                "schema": {**_TEXT, "enum": [None, "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]},
            },
            "sasl.mechanism": {
                "label": "SASL mechanism",
                "description": "PLAIN when there is a user name",
                "schema": {**_TEXT, "enum": [None, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]},
            },
            "ssl.truststore.location": {"label": "Trust store", "description": "A PEM file on every host that runs tasks", "schema": _TEXT},
            "ssl.truststore.password": {"label": "Trust store password", "schema": _SECRET},
            "group.id": {
                "label": "Group id",
                "description": "Names this Connect cluster; part of every transactional id",
                "schema": {**_TEXT, "default": "connect"},
            },
            "rest.url": {
                "label": "URL of the Connect server",
                "description": "Where the host names brokers; the Connect in Airflow's own API server when neither says otherwise",
                "schema": _TEXT,
            },
            "rest.login": {"label": "User name for the Connect server", "schema": _TEXT},
            "rest.password": {"label": "Password for the Connect server", "schema": _SECRET},
        },
    }


_SECTION = (
    "Worker settings of Kafka Connect. Every worker setting may be given, in Kafka Connect's spelling or with an underscore for each full "
    "stop, so that environment variables such as AIRFLOW__CONNECT__BOOTSTRAP_SERVERS work. The Connection connect_default, the Variable "
    "connect_worker_config and a connector's config win over this section, each over the one before it."
)


def _options() -> dict[str, Any]:
    return {
        "bootstrap_servers": _option("Kafka's brokers, as host:port, with commas between them.", "kafka:9092"),
        "group_id": _option("Names this Connect cluster. Kafka Connect's default here is 'connect'.", "connect"),
        "worker_properties": _option(
            "A worker.properties file; the other options of this section win over it.", "/etc/kafka/worker.properties"
        ),
        "connect_conn_id": _option("The Connection with Kafka's address and credentials; connect_default when not set.", "connect_default"),
        "spark_conn_id": _option("The Spark connection to which applications are submitted; spark_default when not set.", "spark_default"),
        "python_archive": _option(
            "A packed Python environment (venv-pack, conda-pack) that executors of a Spark cluster unpack and run, where they have none of "
            "their own with this package's dependencies.",
            "/opt/connect/environment.tar.gz",
        ),
        "run_directory": _option(
            "Where runs keep their files, on each host that runs tasks: a directory of Airflow's user with mode 0700. "
            "A directory of that user under the system's temporary directory when not set.",
            "/var/lib/airflow/connect",
        ),
        "reconcile_interval_ms": _option("How often the API server compares paused flags and target states; 1000 when not set.", "1000"),
        "mirror_history_days": _option("How long the SQL mirror keeps history and figures of runs; for ever when not set.", "365"),
        "plan_timeout_ms": _option("How long a connector may take to make its task configs; 60000 when not set.", "60000"),
    }


def _option(description: str, example: str) -> dict[str, Any]:
    return {"description": description, "version_added": "0.1.0", "type": "string", "example": example, "default": None}
