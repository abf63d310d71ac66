"""The commands of ``airflow connect``. Airflow loads this module in every CLI process, so a command's own imports wait until it runs."""

from typing import Any

from airflow.cli.cli_config import ARG_VERBOSE, ActionCommand, Arg, GroupCommand, lazy_load_command

from airflow_provider_connect.skeleton.new import ABOUT, ARGUMENTS

_PACKAGE = __name__.partition(".")[0]

_TEXT_OR_JSON = Arg(("-o", "--output"), help="How to print: text or json", choices=("text", "json"), default="text")
_WORKER = Arg(("--worker",), help="A worker.properties file with settings for the stack's Airflow", metavar="FILE")
_ONLY_BROKER = Arg(("--only-broker",), help="Start a Kafka broker, and no Airflow", action="store_true")

_OUTPUT = Arg(("-o", "--output"), help="How to print", choices=("table", "json", "yaml"), default="table")
_WHERE = (
    Arg(("--url",), help="A Connect server's REST API, such as http://connect:8083; default: the Connect of this Airflow", metavar="URL"),
    Arg(("--user",), help="The user for --url; without a password, the command asks for it", metavar="NAME[:PASSWORD]"),
    Arg(("--conn-id",), help="An Airflow Connection of type connect that names the server", metavar="ID"),
    ARG_VERBOSE,
)
_NAME = Arg(("name",), help="The connector")
_NAMES = Arg(("names",), help="The connector, or several", nargs="+", metavar="name")
_CONFIG = (
    Arg(("name",), help="The connector; optional if the file names it", nargs="?"),
    Arg(("pairs",), help="Its config; overrides the file's", nargs="*", metavar="KEY=VALUE"),
    Arg(("-f", "--file"), help="Its config as JSON or Java properties; - is standard input", metavar="FILE"),
)
_WAIT = (
    Arg(
        ("--wait",),
        help="Follow the run that starts until it ends, or a run that stays until the tasks are RUNNING; the exit code is 0 if it succeeds",
        action="store_true",
    ),
    Arg(("--timeout",), help="Maximum time to wait; then exit with 1; default: no limit", type=float, metavar="SECONDS"),
)


def get_connect_cli_commands() -> list[GroupCommand]:
    """Called by Airflow, through the provider's ``cli``."""
    subcommands = (*_connector_commands(), *_detail_commands(), *_server_commands())
    return [GroupCommand(name="connect", help="Kafka Connect on Airflow", subcommands=subcommands)]


def _connector_commands() -> tuple[ActionCommand, ...]:
    initial = Arg(("--initial-state",), help="The initial state; default: running", choices=("running", "paused", "stopped"))
    remove = Arg(("--remove",), help="A key to remove; repeatable", action="append", metavar="KEY")
    pairs = Arg(("pairs",), help="Settings to change", nargs="*", metavar="KEY=VALUE")
    only_failed = Arg(("--only-failed",), help="Only FAILED instances", action="store_true")
    include_tasks = Arg(("--include-tasks",), help="Also the connector's tasks", action="store_true")
    trace = Arg(("--trace",), help="Print complete traces", action="store_true")
    task = Arg(("--task",), help="Only this task", type=int, metavar="NUMBER")
    records = Arg(("--records",), help="Maximum number of records; default: 10", type=int, default=10, metavar="N")
    file = Arg(("-f", "--file", "--config"), help="A config to preview instead of the connector's own; - is standard input", metavar="FILE")
    version = Arg(("--plugin-version",), help="A version or range of its plugin to preview", metavar="RANGE")
    steps = Arg(
        ("--steps",),
        help="Print the first records before and after each transformation; JSON and YAML always have them",
        action="store_true",
    )
    about = (
        "A running Kafka Connect, such as http://connect:8083; or a file: Strimzi YAML, JSON, properties, or connect-distributed.properties"
    )
    source = Arg(("source",), help=about)
    logged = (
        Arg(("--task",), help="Only the applications that run this task of the connector", type=int, metavar="NUMBER"),
        Arg(
            ("--run",),
            help="The id of a run; default: the last started one that was not skipped, with --follow the newest",
            metavar="RUN_ID",
        ),
        Arg(("--follow",), help="Follow until the run ends", action="store_true"),
        Arg(("--lines",), help="Only the last lines; default: all", type=int, metavar="N"),
    )
    some = Arg(("names",), help="Only these connectors; default: all", nargs="*", metavar="name")
    charged = (
        Arg(("name",), help="Only this connector, by day; default: all, by connector and day", nargs="?"),
        Arg(("--days",), help="Number of UTC days, including today, from 1 to 366; default: 7", type=int, default=7, metavar="N"),
        Arg(("--runs",), help="Print the connector's runs instead of its days", action="store_true"),
    )
    shown = (
        Arg(("--interval",), help="Seconds between two frames; default: 2", type=float, default=2.0, metavar="SECONDS"),
        Arg(("--once",), help="Print one frame and exit, as without a terminal", action="store_true"),
        Arg(
            ("--sort",),
            help="Sort order: by state (failed, then running), by name, or by the largest number",
            choices=("state", "name", "lag", "rate", "records"),
            default="state",
        ),
    )
    return (
        _verb("list", "List the connectors with their states", "connectors.list_connectors", _OUTPUT),
        _verb("top", "Show all connectors live: states, runs in progress, rates, lags, failures", "top.top", some, *shown),
        _verb("get", "Print a connector's config, secrets hidden", "connectors.get", _NAME, _OUTPUT),
        _verb("create", "Create a connector", "connectors.create", *_CONFIG, initial, *_WAIT),
        _verb("put", "Replace a connector's config; creates the connector if it does not exist", "connectors.put", *_CONFIG),
        _verb("patch", "Change keys of a connector's config", "connectors.patch", _NAME, pairs, remove, _OUTPUT),
        _verb("delete", "Delete connectors; their offsets are kept", "connectors.delete", _NAMES),
        _verb("status", "Print the states of a connector and its tasks", "connectors.status", _NAME, trace, _OUTPUT),
        _verb("tasks", "Print the configs of a connector's tasks", "connectors.tasks", _NAME, _OUTPUT),
        _verb("lag", "Print the lags of sinks in records, by partition and in total", "lag.lag", some, _OUTPUT),
        _verb("cost", "Print the resources that runs have used, and their cost if prices are set", "costs.cost", *charged, _OUTPUT),
        _command("logs", "Print the log of a connector's run from Airflow", "logs.logs", _NAME, *logged, ARG_VERBOSE),
        _verb("pause", "Pause connectors", "connectors.pause", _NAMES),
        _verb("resume", "Resume paused or stopped connectors", "connectors.resume", _NAMES, *_WAIT),
        _verb("stop", "Stop connectors, so that their offsets can be changed", "connectors.stop", _NAMES),
        _verb("restart", "Restart connectors, or a task of one", "connectors.restart", _NAMES, include_tasks, only_failed, task, *_WAIT),
        _verb(
            "backfill",
            "Deliver ranges of a sink's topics again, next to the live connector",
            "backfills.backfill",
            _NAME,
            *_backfill(),
            _OUTPUT,
        ),
        _verb("backfills", "List a connector's backfills with their progress", "backfills.backfills", _NAME, _OUTPUT),
        _verb(
            "preview",
            "Read a connector's next records without committing",
            "upgrades.preview",
            _NAME,
            records,
            file,
            version,
            steps,
            _OUTPUT,
        ),
        _verb(
            "upgrade",
            "Upgrade a connector's plugin, with a comparison and a trial run first",
            "upgrades.upgrade",
            _NAME,
            *_upgrade(),
            _OUTPUT,
        ),
        _verb(
            "import",
            "Show which connectors of another Kafka Connect can run here, or import them",
            "imports.import_connectors",
            source,
            some,
            *_import(),
            _OUTPUT,
        ),
        _verb("validate", "Validate a config; the exit code is 1 if it is invalid", "connectors.validate", *_CONFIG, _OUTPUT),
    )


def _backfill() -> tuple[Arg, ...]:
    bound = "an offset, or a time such as 2026-01-31T14:00"
    return (
        Arg(("--topic",), help="Its topic; optional if the sink reads only one", metavar="TOPIC"),
        Arg(("--partition",), help="A partition; repeatable; default: all", type=int, action="append", metavar="N"),
        Arg(("--from",), help=f"Start: {bound}; default: the beginning", metavar="OFFSET|TIME", dest="first"),
        Arg(("--to",), help=f"End (exclusive): {bound}; default: the current end", metavar="OFFSET|TIME"),
        Arg(("--set",), help="A setting that differs; repeatable", action="append", metavar="KEY=VALUE"),
        Arg(("--remove",), help="A setting to leave out; repeatable", action="append", metavar="KEY"),
        Arg(("--id",), help="The end of its name, NAME.backfill.ID; default: the time", metavar="ID"),
        Arg(("--dry-run",), help="Print the ranges, and create nothing", action="store_true"),
        *_WAIT,
    )


def _upgrade() -> tuple[Arg, ...]:
    return (
        Arg(("--to",), help="The version or range; without it, print the state of the last upgrade", metavar="RANGE"),
        Arg(("--canary",), help="Number of records to compare first; default: 100, 0: none", type=int, default=100, metavar="N"),
        Arg(("--accept-schema-change",), help="Continue if fields, types or topics differ", action="store_true"),
        Arg(
            ("--dry-run",),
            help="Compare now, and change nothing; the exit code is 1 if something prevents the upgrade",
            action="store_true",
        ),
        Arg(("--forget",), help="Remove the upgrade: only the config decides which version runs", action="store_true"),
    )


def _import() -> tuple[Arg, ...]:
    return (
        Arg(("--source-user",), help="The user of the other Kafka Connect", metavar="NAME[:PASSWORD]"),
        Arg(("--create",), help="Create them here, STOPPED", action="store_true"),
        Arg(("--dags",), help="Write a DAG file for each, without secrets", metavar="DIR"),
        Arg(("--handover",), help="Stop them there and continue here, at their offsets", action="store_true"),
        Arg(("--handback",), help="Stop them here and continue there, at their offsets", action="store_true"),
        Arg(
            ("--application",),
            help="The shared application that they join; default for connect-distributed.properties: its group.id",
            metavar="NAME",
        ),
        Arg(("--source-url",), help="The REST API of the cluster that connect-distributed.properties describes", metavar="URL"),
        Arg(
            ("--takeover",),
            help="Continue all of a stopped cluster here, from its own topics, in the application",
            action="store_true",
        ),
    )


def _replay() -> tuple[Arg, ...]:
    return (
        Arg(("--offsets",), help="Only these records of the queue, such as 0:5-20 or 1:7", nargs="+", metavar="PARTITION:RANGE"),
        Arg(("--from-topic",), help="Only records that failed on this topic; repeatable", action="append", metavar="TOPIC"),
        Arg(
            ("--exception",),
            help="Only this exception class, full or simple name; repeatable",
            action="append",
            metavar="CLASS",
        ),
        Arg(("--to-topic",), help="The topic for the records; default: the topic on which each failed", metavar="TOPIC"),
        Arg(
            ("--edits",),
            help='New keys and values as JSON: {"PARTITION:OFFSET": {"key": …, "value": …}}; - is standard input',
            metavar="FILE",
        ),
        Arg(
            ("--set",),
            help="A setting of transformations, such as transforms=a or transforms.a.type=…; repeatable",
            action="append",
            metavar="KEY=VALUE",
        ),
        Arg(("--dry-run",), help="Print the records, and write nothing", action="store_true"),
        Arg(("--records",), help="Maximum number of records of a dry run; default: 10", type=int, default=10, metavar="N"),
        Arg(("--status",), help="Print the progress of the last replay instead", action="store_true"),
        *_WAIT,
    )


def _undo() -> tuple[Arg, ...]:
    return (
        Arg(("--to",), help="A time, such as 2026-01-31T14:00, or milliseconds since 1970", metavar="TIME"),
        Arg(("--entry",), help="The number of a change from history: undo it and all later changes", type=int, metavar="N"),
        Arg(("--dry-run",), help="Print the records that would be read again or skipped, and change nothing", action="store_true"),
        Arg(("--stop",), help="Stop the connector first, and restore its state afterwards", action="store_true"),
        Arg(("--yes",), help="Do not ask for confirmation", action="store_true"),
    )


def _detail_commands() -> tuple[ActionCommand | GroupCommand, ...]:
    reset = Arg(("--reset",), help="Reset them instead", action="store_true")
    every = Arg(("--all",), help="Also converters, transformations and predicates", action="store_true")
    plugin, version = Arg(("plugin",), help="Class or alias"), Arg(("--plugin-version",), help="A version or range", metavar="VERSION")
    package = Arg(
        ("plugin",),
        help="A distribution's name, with or without a version, or the path of a wheel; of Java: maven:GROUP:ARTIFACT:VERSION, or the path "
        "of a zip, tar or jar; to remove one: its location's name",
        metavar="PLUGIN",
    )
    packages = Arg(("plugins",), help="As for remove; one or more, in order", nargs="+", metavar="PLUGIN")
    libraries = Arg(
        ("--with",),
        dest="libraries",
        help="An additional library from Maven, such as a JDBC driver; repeatable",
        action="append",
        metavar="GROUP:ARTIFACT:VERSION",
    )
    ivy = Arg(("--ivy-settings",), help="Ivy's settings file, which names repositories; default: Maven Central", metavar="FILE")
    locations = Arg(("locations",), help="Names of locations; default: all in the directory", nargs="*", metavar="LOCATION")
    path = Arg(("--path",), help="A directory of plugin.path; optional if it has only one", metavar="DIR")
    installer = Arg(("--installer",), help="uv or pip; default: uv if it is installed and pip has no configuration", choices=("uv", "pip"))
    file = Arg(("-f", "--file"), help='A JSON list of {"partition": …, "offset": …}, as get prints it; - is standard input', metavar="FILE")
    partition = Arg(("--partition",), help='One partition, such as {"kafka_topic": "t", "kafka_partition": 0}', metavar="JSON")
    offset = Arg(
        ("--offset",), help='Its offset, such as {"kafka_offset": 7}; null, the default, removes it', default="null", metavar="JSON"
    )
    logger, level = Arg(("logger",), help="Name, or root"), Arg(("level",), help="Such as DEBUG")
    page = (
        Arg(("--limit",), help="Maximum number of entries; default: 50", type=int, default=50, metavar="N"),
        Arg(("--before",), help="Only entries below this number, for older ones", type=int, metavar="N"),
    )
    number = Arg(("revision",), help="The number of a revision from history", type=int)
    compared = Arg(
        ("revision",), help="The revision to compare with the current config; default: print the last change", nargs="?", type=int
    )
    last = Arg(
        ("--limit",),
        help="Maximum number of records, the newest of all partitions, up to 1000; default: 10",
        type=int,
        default=10,
        metavar="N",
    )
    cluster = Arg(("--cluster",), help="On all workers of the cluster", action="store_true")
    return (
        _group(
            "offsets",
            "Offsets of connectors",
            _verb("get", "Print a connector's offsets", "connectors.get_offsets", _NAME, _OUTPUT),
            _verb("alter", "Set offsets of a stopped connector", "connectors.alter_offsets", _NAME, file, partition, offset),
            _verb("reset", "Remove all offsets of a stopped connector", "connectors.reset_offsets", _NAME),
            _verb(
                "history", "Print the changes of a connector's offsets by runs and users", "history.offsets_history", _NAME, *page, _OUTPUT
            ),
            _verb("undo", "Restore the offsets of an earlier instant", "history.undo", _NAME, *_undo(), _OUTPUT),
        ),
        _group(
            "dlq",
            "Dead-letter records of sinks",
            _verb(
                "get",
                "Print the last dead-letter records of a sink with their errors",
                "dead_letters.dead_letters",
                _NAME,
                last,
                _OUTPUT,
            ),
            _verb("replay", "Write dead-letter records of a sink back, each once", "replays.replay", _NAME, *_replay(), _OUTPUT),
        ),
        _group(
            "config",
            "Revisions of connectors' configs",
            _verb("history", "Print the revisions of a connector's config", "history.config_history", _NAME, *page, _OUTPUT),
            _verb("diff", "Print the changes since a revision", "history.config_diff", _NAME, compared, _OUTPUT),
            _verb("rollback", "Restore a connector's config from a revision", "history.rollback", _NAME, number),
        ),
        _verb("topics", "List the topics that a connector has used", "connectors.topics", _NAME, reset, _OUTPUT),
        _group(
            "plugins",
            "Connectors, converters and transformations",
            _verb("list", "List the installed plugins", "plugins.list_plugins", every, _OUTPUT),
            _verb("config", "Print the settings of a plugin", "plugins.config", plugin, version, _OUTPUT),
            _command(
                "install",
                "Install a plugin next to its other versions, with uv or pip; Java plugins with Ivy",
                "plugins.install",
                packages,
                path,
                installer,
                libraries,
                ivy,
            ),
            _command("scan", "List Java plugins with a JVM, and record their versions next to the jars", "plugins.scan", locations, path),
            _command("remove", "Remove an installed version of a plugin", "plugins.remove", package, path),
            _command("broken", "List unusable files on plugin.path; the exit code is 1 if there are any", "plugins.broken", path, _OUTPUT),
        ),
        _verb("workers", "List the running Spark applications", "connectors.workers", _OUTPUT),
        _group(
            "loggers",
            "Log levels of a Connect server",
            _verb("list", "List the server's loggers with their effective levels", "connectors.list_loggers", _OUTPUT),
            _verb("set", "Set the level of a logger and its children", "connectors.set_level", logger, level, cluster, _OUTPUT),
        ),
    )


def _server_commands() -> tuple[ActionCommand | GroupCommand, ...]:
    host = Arg(("--host",), help="The address to listen on; default: that of the worker settings, or loopback", metavar="HOST")
    port = Arg(("--port",), help="The port; default: that of the worker settings, or 8083", type=int, metavar="PORT")
    anonymous = Arg(("--anonymous",), help="No authentication: every client may do everything", action="store_true")
    worker = Arg(("worker",), help="The worker's settings", metavar="worker.properties")
    connectors = Arg(("connectors",), help="Connectors to start with, as properties or JSON", nargs="*", metavar="connector.properties")
    drop = Arg(("--drop-history",), help="Also drop the history: only what the topics still hold remains", action="store_true")
    findings = Arg(("-o", "--output"), help="How to print", choices=("text", "table", "json", "yaml"), default="text")
    return (
        _command(
            "doctor",
            "Check this host and the cluster, and report what is missing; the exit code is 1 if anything is wrong",
            "doctor.doctor",
            findings,
            ARG_VERBOSE,
        ),
        _command("rest", "Serve Connect's REST API in this process", "servers.serve_rest", host, port, anonymous),
        _command(
            "standalone", "Run connectors in this process, without Airflow's scheduler", "servers.serve_standalone", worker, connectors
        ),
        _command("new", ABOUT, "skeleton/new.new", *(Arg(flags, **rest) for flags, rest in ARGUMENTS)),
        _group(
            "mirror",
            "The tables that mirror Connect's topics",
            _command("rebuild", "Read them again from the topics", "servers.rebuild", drop),
        ),
        _group(
            "dev",
            "A complete stack on this machine, a Kafka broker and Airflow, without Docker",
            _command("up", "Start the stack, in the background", "servers.up", _WORKER, _ONLY_BROKER),
            _command("status", "Print the running processes and their addresses", "servers.status", _TEXT_OR_JSON),
            _command("down", "Stop the stack", "servers.down"),
        ),
        _command("settings", "Print the effective worker settings and their sources", "settings.print_settings", _TEXT_OR_JSON),
    )


def _verb(name: str, text: str, function: str, *arguments: Arg) -> ActionCommand:
    """A command that calls a Connect server or herder."""
    return _command(name, text, function, *arguments, *_WHERE)


def _command(name: str, text: str, function: str, *arguments: Arg) -> ActionCommand:
    """``function`` names a module and its function. The module is in ``cli``, or after a slash in another package."""
    path = function.replace("/", ".") if "/" in function else f"cli.{function}"
    return ActionCommand(name=name, help=text, func=lazy_load_command(f"{_PACKAGE}.{path}"), args=arguments)


def _group(name: str, text: str, *commands: Any) -> GroupCommand:
    return GroupCommand(name=name, help=text, subcommands=commands)
