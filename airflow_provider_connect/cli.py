"""``airflow connect …``. Airflow reads the list of commands in every CLI process, so what they need is loaded when one runs."""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand, lazy_load_command

_OUTPUT = Arg(("-o", "--output"), help="How to print: text or json", choices=("text", "json"), default="text")
_WORKER = Arg(("--worker",), help="A worker.properties file whose settings the stack's Airflow shall use", metavar="FILE")


def get_connect_cli_commands() -> list[GroupCommand]:
    """Called by Airflow, through the provider's ``cli``."""
    return [
        GroupCommand(
            name="connect",
            help="Kafka Connect on Airflow",
            subcommands=(
                GroupCommand(
                    name="dev",
                    help="A whole stack on this machine: a Kafka broker and Airflow, without Docker",
                    subcommands=(
                        _command("up", "Start the stack, in the background", "dev_up", _WORKER),
                        _command("status", "Say what runs, and where", "dev_status", _OUTPUT),
                        _command("down", "End the stack", "dev_down"),
                    ),
                ),
                _command("settings", "Print the effective worker settings, each with where it comes from", "print_settings", _OUTPUT),
            ),
        )
    ]


def _command(name: str, text: str, function: str, *arguments: Arg) -> ActionCommand:
    return ActionCommand(name=name, help=text, func=lazy_load_command(f"{__name__}.{function}"), args=arguments)


def print_settings(arguments: Any) -> None:
    """``airflow connect settings``: secrets are masked."""
    os.environ["_AIRFLOW_PROCESS_CONTEXT"] = "server"  # as Airflow's own commands: Variables and Connections come from the database
    from airflow_provider_connect.airflow_settings import VARIABLE, connection_properties, section_properties, worker_variable
    from airflow_provider_connect.errors import ConnectException
    from airflow_provider_connect.settings import WorkerSettings

    layers = {
        "airflow.cfg [connect]": section_properties,
        "Connection": connection_properties,
        f"Variable {VARIABLE}": worker_variable,
    }
    try:
        read = {layer: properties() for layer, properties in layers.items()}
        merged = {key: (value, layer) for layer, values in read.items() for key, value in values.items()}
        WorkerSettings.of({key: value for key, (value, _) in merged.items() if "${" not in value})
    except ConnectException as error:
        sys.exit(error.message)
    _print(arguments.output, {key: {"value": masked(key, value), "from": layer} for key, (value, layer) in sorted(merged.items())})


def masked(key: str, value: str) -> str:
    """``value``, or ``[hidden]`` if ``key`` is named like a secret and the value is written out."""
    from airflow_provider_connect.dag_settings import literal_secrets

    return "[hidden]" if literal_secrets({key: value}) else value


def _print(output: str, settings: Mapping[str, Mapping[str, str]]) -> None:
    if output == "json":
        print(json.dumps(settings, indent=2))
        return
    for key, found in settings.items():
        print(f"{key}={found['value']}    # {found['from']}")


def dev_up(arguments: Any) -> None:
    """``airflow connect dev up``."""
    from airflow_provider_connect.dev.stack import up

    sys.exit(up(worker=arguments.worker))


def dev_status(arguments: Any) -> None:
    """``airflow connect dev status``."""
    from airflow_provider_connect.dev.stack import status

    sys.exit(status(output=arguments.output))


def dev_down(arguments: Any) -> None:
    """``airflow connect dev down``."""
    from airflow_provider_connect.dev.stack import down

    sys.exit(down())
