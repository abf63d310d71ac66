"""The list of ``airflow connect …``. Airflow reads it in every CLI process: what a command needs is loaded when that one runs."""

from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand, lazy_load_command

_PACKAGE = __name__.rpartition(".")[0]
_TEXT_OR_JSON = Arg(("-o", "--output"), help="How to print: text or json", choices=("text", "json"), default="text")
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
                        _command("up", "Start the stack, in the background", "dev.up", _WORKER),
                        _command("status", "Say what runs, and where", "dev.status", _TEXT_OR_JSON),
                        _command("down", "End the stack", "dev.down"),
                    ),
                ),
                _command(
                    "settings",
                    "Print the effective worker settings, each with where it comes from",
                    "settings.print_settings",
                    _TEXT_OR_JSON,
                ),
            ),
        )
    ]


def _command(name: str, text: str, function: str, *arguments: Arg) -> ActionCommand:
    """``function`` is a module of this package and its function."""
    return ActionCommand(name=name, help=text, func=lazy_load_command(f"{_PACKAGE}.{function}"), args=arguments)
