"""The metadata for Airflow's provider discovery, generated from provider.yaml by ``python -m tests.contract.provider_info``.

Imports nothing of this package: it runs in every Airflow process, before Airflow is ready.
"""

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata. Airflow calls this through the entry point ``apache_airflow_provider``."""
    return {
        "package-name": "airflow-provider-connect",
        "name": "Kafka Connect",
        "description": "Kafka Connect's job, API and topics on Airflow and Spark: a connector is a DAG, its tasks are spark-submit jobs.",
        "integrations": [{"integration-name": "Kafka Connect", "external-doc-url": "https://kafka.apache.org/documentation/#connect"}],
        "operators": [
            {
                "integration-name": "Kafka Connect",
                "python-modules": [
                    "airflow_provider_connect.operators.backfill",
                    "airflow_provider_connect.operators.config",
                    "airflow_provider_connect.operators.connect",
                    "airflow_provider_connect.operators.control",
                    "airflow_provider_connect.operators.dead_letters",
                    "airflow_provider_connect.operators.plan",
                    "airflow_provider_connect.operators.upgrade",
                ],
            }
        ],
        "sensors": [{"integration-name": "Kafka Connect", "python-modules": ["airflow_provider_connect.sensors.connect"]}],
        "triggers": [
            {
                "integration-name": "Kafka Connect",
                "python-modules": ["airflow_provider_connect.triggers.connect", "airflow_provider_connect.triggers.hosted"],
            }
        ],
        "hooks": [{"integration-name": "Kafka Connect", "python-modules": ["airflow_provider_connect.hooks.connect"]}],
        "bundles": [{"integration-name": "Kafka Connect", "python-modules": ["airflow_provider_connect.dag_files.bundle"]}],
        "connection-types": [
            {
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
                        "schema": {"type": ["string", "null"], "enum": [None, "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]},
                    },
                    "sasl.mechanism": {
                        "label": "SASL mechanism",
                        "description": "PLAIN when there is a user name",
                        "schema": {"type": ["string", "null"], "enum": [None, "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]},
                    },
                    "ssl.truststore.location": {
                        "label": "Trust store",
                        "description": "A PEM file on every host that runs tasks",
                        "schema": {"type": ["string", "null"]},
                    },
                    "ssl.truststore.password": {
                        "label": "Trust store password",
                        "schema": {"type": ["string", "null"], "format": "password"},
                    },
                    "group.id": {
                        "label": "Group id",
                        "description": "Names this Connect cluster; part of every transactional id",
                        "schema": {"type": ["string", "null"], "default": "connect"},
                    },
                    "rest.url": {
                        "label": "URL of the Connect server",
                        "description": "Where the host names brokers; the Connect in Airflow's own API server when neither is set",
                        "schema": {"type": ["string", "null"]},
                    },
                    "rest.login": {"label": "User name for the Connect server", "schema": {"type": ["string", "null"]}},
                    "rest.password": {
                        "label": "Password for the Connect server",
                        "schema": {"type": ["string", "null"], "format": "password"},
                    },
                },
            }
        ],
        "extra-links": ["airflow_provider_connect.dag_files.links.ConnectorStatusLink"],
        "cli": ["airflow_provider_connect.cli.commands.get_connect_cli_commands"],
        "db-managers": ["airflow_provider_connect.runtime.sql_mirror.db_manager.ConnectDBManager"],
        "config": {
            "connect": {
                "description": "Worker settings of Kafka Connect. Every worker setting may be given, in Kafka Connect's spelling or with an underscore for each full stop, so that environment variables such as AIRFLOW__CONNECT__BOOTSTRAP_SERVERS work. The Connection connect_default, the Variable connect_worker_config and a connector's config win over this section, each over the one before it.",
                "options": {
                    "bootstrap_servers": {
                        "description": "Kafka's brokers, as host:port, with commas between them.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "kafka:9092",
                        "default": None,
                    },
                    "group_id": {
                        "description": "Names this Connect cluster. Kafka Connect's default here is 'connect'.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "connect",
                        "default": None,
                    },
                    "worker_properties": {
                        "description": "A worker.properties file; the other options of this section win over it.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "/etc/kafka/worker.properties",
                        "default": None,
                    },
                    "connect_conn_id": {
                        "description": "The Connection with Kafka's address and credentials; connect_default when not set.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "connect_default",
                        "default": None,
                    },
                    "spark_conn_id": {
                        "description": "The Spark connection to which applications are submitted; spark_default when not set.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "spark_default",
                        "default": None,
                    },
                    "python_archive": {
                        "description": "A packed Python environment (venv-pack, conda-pack) that executors of a Spark cluster unpack and run, where they have none of their own with this package's dependencies.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "/opt/connect/environment.tar.gz",
                        "default": None,
                    },
                    "run_directory": {
                        "description": "Where runs keep their files, on each host that runs tasks: a directory of Airflow's user with mode 0700. A directory of that user under the system's temporary directory when not set.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "/var/lib/airflow/connect",
                        "default": None,
                    },
                    "reconcile_interval_ms": {
                        "description": "How often the API server compares paused flags and target states; 1000 when not set.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "1000",
                        "default": None,
                    },
                    "mirror_history_days": {
                        "description": "How long the SQL mirror keeps history and metrics of runs; for ever when not set.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "365",
                        "default": None,
                    },
                    "plan_timeout_ms": {
                        "description": "With tasks.per.application, how long the process that plans a run may take; 60000 if not set.",
                        "version_added": "0.1.0",
                        "type": "string",
                        "example": "60000",
                        "default": None,
                    },
                },
            }
        },
    }
