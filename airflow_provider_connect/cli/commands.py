"""The list of ``airflow connect …``. Airflow reads it in every CLI process: what a command needs is loaded when that one runs."""

from typing import Any

from airflow.cli.cli_config import ARG_VERBOSE, ActionCommand, Arg, GroupCommand, lazy_load_command

from airflow_provider_connect.skeleton.new import ABOUT, ARGUMENTS

_PACKAGE = __name__.partition(".")[0]

_TEXT_OR_JSON = Arg(("-o", "--output"), help="How to print: text or json", choices=("text", "json"), default="text")
_WORKER = Arg(("--worker",), help="A worker.properties file whose settings the stack's Airflow shall use", metavar="FILE")

_OUTPUT = Arg(("-o", "--output"), help="How to print", choices=("table", "json", "yaml"), default="table")
_WHERE = (
    Arg(("--url",), help="A Connect server's REST API, such as http://connect:8083; else the Connect of this Airflow", metavar="URL"),
    Arg(("--user",), help="The user for --url; the password is asked for where it is not given", metavar="NAME[:PASSWORD]"),
    Arg(("--conn-id",), help="An Airflow Connection of type connect that names the server", metavar="ID"),
    ARG_VERBOSE,
)
_NAME = Arg(("name",), help="The connector")
_NAMES = Arg(("names",), help="The connector; may be several", nargs="+", metavar="name")
_CONFIG = (
    Arg(("name",), help="The connector; not needed where the file names it", nargs="?"),
    Arg(("pairs",), help="Its config; wins over the file's", nargs="*", metavar="KEY=VALUE"),
    Arg(("-f", "--file"), help="Its config as JSON or Java properties; - is standard input", metavar="FILE"),
)
_WAIT = (
    Arg(("--wait",), help="Show the run that begins until it ends; the exit code is 0 if it succeeded", action="store_true"),
    Arg(("--timeout",), help="Wait no longer than this, and exit with 1; without limit when not given", type=float, metavar="SECONDS"),
)


def get_connect_cli_commands() -> list[GroupCommand]:
    """Called by Airflow, through the provider's ``cli``."""
    subcommands = (*_connector_commands(), *_detail_commands(), *_server_commands())
    return [GroupCommand(name="connect", help="Kafka Connect on Airflow", subcommands=subcommands)]


def _connector_commands() -> tuple[ActionCommand, ...]:
    initial = Arg(("--initial-state",), help="The state to begin with; running when not given", choices=("running", "paused", "stopped"))
    remove = Arg(("--remove",), help="A key to remove; may be given several times", action="append", metavar="KEY")
    pairs = Arg(("pairs",), help="What to change", nargs="*", metavar="KEY=VALUE")
    only_failed = Arg(("--only-failed",), help="Only what has FAILED", action="store_true")
    include_tasks = Arg(("--include-tasks",), help="The connector's tasks too", action="store_true")
    trace = Arg(("--trace",), help="Print traces whole", action="store_true")
    task = Arg(("--task",), help="This task alone", type=int, metavar="NUMBER")
    records = Arg(("--records",), help="How many records; 10 when not given", type=int, default=10, metavar="N")
    file = Arg(("-f", "--file", "--config"), help="A config to try instead of the connector's own; - is standard input", metavar="FILE")
    version = Arg(("--plugin-version",), help="A version or range of its plugin to try", metavar="RANGE")
    steps = Arg(
        ("--steps",), help="Print the first records before and after each transformation; JSON and YAML have them", action="store_true"
    )
    source = Arg(("source",), help="A running Kafka Connect, such as http://connect:8083; or a file: YAML of Strimzi, JSON, properties")
    logged = (
        Arg(("--task",), help="The applications that run this task of the connector alone", type=int, metavar="NUMBER"),
        Arg(("--run",), help="The id of a run; the last one that was started when not given", metavar="RUN_ID"),
        Arg(("--follow",), help="Go on until the run ends", action="store_true"),
        Arg(("--lines",), help="The last lines alone; all when not given", type=int, metavar="N"),
    )
    some = Arg(("names",), help="These connectors alone; all when not given", nargs="*", metavar="name")
    charged = (
        Arg(("name",), help="This connector alone, by day; all when not given, by connector and day", nargs="?"),
        Arg(("--days",), help="How many days of UTC, today's the last; 7 when not given, at most 366", type=int, default=7, metavar="N"),
        Arg(("--runs",), help="The runs of the connector, instead of its days", action="store_true"),
    )
    shown = (
        Arg(("--interval",), help="Seconds between two frames; 2 when not given", type=float, default=2.0, metavar="SECONDS"),
        Arg(("--once",), help="Print one frame and end, as without a terminal", action="store_true"),
        Arg(
            ("--sort",),
            help="What comes first: the state (what has failed, then what runs), or the largest number",
            choices=("state", "name", "lag", "rate", "records"),
            default="state",
        ),
    )
    return (
        _verb("list", "List the connectors with their states", "connectors.list_connectors", _OUTPUT),
        _verb("top", "Show all connectors live: states, runs in progress, rates, lags, failures", "top.top", some, *shown),
        _verb("get", "Print a connector's config, secrets hidden", "connectors.get", _NAME, _OUTPUT),
        _verb("create", "Create a connector", "connectors.create", *_CONFIG, initial, *_WAIT),
        _verb("put", "Give a connector a whole config; creates it where there is none", "connectors.put", *_CONFIG),
        _verb("patch", "Change some keys of a connector's config", "connectors.patch", _NAME, pairs, remove, _OUTPUT),
        _verb("delete", "Delete connectors; their offsets are kept", "connectors.delete", _NAMES),
        _verb("status", "Print the states of a connector and its tasks", "connectors.status", _NAME, trace, _OUTPUT),
        _verb("tasks", "Print the configs of a connector's tasks", "connectors.tasks", _NAME, _OUTPUT),
        _verb("lag", "Print how many records sinks are behind their topics, by partition and in all", "lag.lag", some, _OUTPUT),
        _verb("cost", "Print what runs have used, and what that costs where prices are set", "costs.cost", *charged, _OUTPUT),
        _command("logs", "Print what a run of a connector has logged in Airflow", "logs.logs", _NAME, *logged, ARG_VERBOSE),
        _verb("pause", "Pause connectors", "connectors.pause", _NAMES),
        _verb("resume", "Resume connectors that are paused or stopped", "connectors.resume", _NAMES, *_WAIT),
        _verb("stop", "Stop connectors, so that their offsets may be changed", "connectors.stop", _NAMES),
        _verb("restart", "Restart connectors, or a task of one", "connectors.restart", _NAMES, include_tasks, only_failed, task, *_WAIT),
        _verb(
            "backfill",
            "Deliver ranges of a sink's topics again, beside the live connector",
            "backfills.backfill",
            _NAME,
            *_backfill(),
            _OUTPUT,
        ),
        _verb("backfills", "List the backfills of a connector, with how far each has come", "backfills.backfills", _NAME, _OUTPUT),
        _verb(
            "preview", "Read a connector's next records without a commit", "upgrades.preview", _NAME, records, file, version, steps, _OUTPUT
        ),
        _verb("upgrade", "Go to another version of a connector's plugin, with a net", "upgrades.upgrade", _NAME, *_upgrade(), _OUTPUT),
        _verb(
            "import",
            "Show which connectors of another Kafka Connect run here; or take them",
            "imports.import_connectors",
            source,
            some,
            *_import(),
            _OUTPUT,
        ),
        _verb("validate", "Check a config; the exit code is 1 where something is wrong", "connectors.validate", *_CONFIG, _OUTPUT),
    )


def _backfill() -> tuple[Arg, ...]:
    bound = "an offset, or a time such as 2026-01-31T14:00"
    return (
        Arg(("--topic",), help="Its topic; not needed where the sink reads one alone", metavar="TOPIC"),
        Arg(("--partition",), help="A partition; may be given several times; all when not given", type=int, action="append", metavar="N"),
        Arg(("--from",), help=f"Where to begin: {bound}; the beginning when not given", metavar="OFFSET|TIME", dest="first"),
        Arg(("--to",), help=f"Where to end, itself not delivered: {bound}; the end as it is now when not given", metavar="OFFSET|TIME"),
        Arg(("--set",), help="A setting that differs; may be given several times", action="append", metavar="KEY=VALUE"),
        Arg(("--remove",), help="A setting to leave out; may be given several times", action="append", metavar="KEY"),
        Arg(("--id",), help="The end of its name, NAME.backfill.ID; the time when not given", metavar="ID"),
        Arg(("--dry-run",), help="Print what would be delivered, and create nothing", action="store_true"),
        *_WAIT,
    )


def _upgrade() -> tuple[Arg, ...]:
    return (
        Arg(("--to",), help="The version or range; without it, the state of the last upgrade is printed", metavar="RANGE"),
        Arg(("--canary",), help="How many records to compare first; 100 when not given, 0: none", type=int, default=100, metavar="N"),
        Arg(("--accept-schema-change",), help="Other fields, types and topics do not stop it", action="store_true"),
        Arg(("--dry-run",), help="Compare now, and change nothing; the exit code is 1 where something is in the way", action="store_true"),
        Arg(("--forget",), help="Forget the upgrade: the config alone decides which version runs", action="store_true"),
    )


def _import() -> tuple[Arg, ...]:
    return (
        Arg(("--source-user",), help="The user of the other Kafka Connect", metavar="NAME[:PASSWORD]"),
        Arg(("--create",), help="Create them here, STOPPED", action="store_true"),
        Arg(("--dags",), help="Write a DAG file for each, without secrets", metavar="DIR"),
        Arg(("--handover",), help="Stop them there and go on here, at their offsets", action="store_true"),
        Arg(("--handback",), help="Stop them here and go on there, at their offsets", action="store_true"),
    )


def _replay() -> tuple[Arg, ...]:
    return (
        Arg(("--offsets",), help="Only these records of the queue, such as 0:5-20 or 1:7", nargs="+", metavar="PARTITION:RANGE"),
        Arg(("--from-topic",), help="Only records that failed on this topic; may be given several times", action="append", metavar="TOPIC"),
        Arg(
            ("--exception",),
            help="Only this class of exceptions, whole or its last part; may be given several times",
            action="append",
            metavar="CLASS",
        ),
        Arg(("--to-topic",), help="Where the records go; each to the topic on which it failed when not given", metavar="TOPIC"),
        Arg(
            ("--edits",),
            help='New keys and values as JSON: {"PARTITION:OFFSET": {"key": …, "value": …}}; - is standard input',
            metavar="FILE",
        ),
        Arg(
            ("--set",),
            help="A setting of transformations, such as transforms=a or transforms.a.type=…; may be given several times",
            action="append",
            metavar="KEY=VALUE",
        ),
        Arg(("--dry-run",), help="Print what would be written, and write nothing", action="store_true"),
        Arg(("--records",), help="Of a dry run, how many records; 10 when not given", type=int, default=10, metavar="N"),
        Arg(("--status",), help="Print how far the last replay is instead", action="store_true"),
        *_WAIT,
    )


def _undo() -> tuple[Arg, ...]:
    return (
        Arg(("--to",), help="A time, such as 2026-01-31T14:00, or milliseconds since 1970", metavar="TIME"),
        Arg(("--entry",), help="A change, as history prints it: it is undone, and all that came after it", type=int, metavar="N"),
        Arg(("--dry-run",), help="Print what would be read again and what skipped, and change nothing", action="store_true"),
        Arg(("--stop",), help="Stop the connector for it, and give it its state back", action="store_true"),
        Arg(("--yes",), help="Do not ask", action="store_true"),
    )


def _detail_commands() -> tuple[ActionCommand | GroupCommand, ...]:
    reset = Arg(("--reset",), help="Forget them instead", action="store_true")
    every = Arg(("--all",), help="Converters, transformations and predicates too", action="store_true")
    plugin, version = Arg(("plugin",), help="Class or alias"), Arg(("--plugin-version",), help="A version or range", metavar="VERSION")
    package = Arg(
        ("plugin",),
        help="A distribution's name, with or without a version, or the path of a wheel; of Java: maven:GROUP:ARTIFACT:VERSION, or the path "
        "of a zip, tar or jar; to remove one: its location's name",
        metavar="PLUGIN",
    )
    packages = Arg(("plugins",), help="As for remove; several, one after the other", nargs="+", metavar="PLUGIN")
    libraries = Arg(
        ("--with",),
        dest="libraries",
        help="A further library of Maven's beside the plugin's own, such as a JDBC driver; may be given several times",
        action="append",
        metavar="GROUP:ARTIFACT:VERSION",
    )
    ivy = Arg(("--ivy-settings",), help="Ivy's settings, which name repositories; Maven's central one if not given", metavar="FILE")
    locations = Arg(("locations",), help="Names of locations; all of the directory when not given", nargs="*", metavar="LOCATION")
    path = Arg(("--path",), help="A directory of plugin.path; not needed where that names one only", metavar="DIR")
    installer = Arg(("--installer",), help="uv or pip; uv if it is there and pip has no configuration", choices=("uv", "pip"))
    file = Arg(("-f", "--file"), help='A JSON list of {"partition": …, "offset": …}, as get prints it; - is standard input', metavar="FILE")
    partition = Arg(("--partition",), help='One partition, such as {"kafka_topic": "t", "kafka_partition": 0}', metavar="JSON")
    offset = Arg(
        ("--offset",), help='Its offset, such as {"kafka_offset": 7}; null, and when not given, removes it', default="null", metavar="JSON"
    )
    logger, level = Arg(("logger",), help="Name, or root"), Arg(("level",), help="Such as DEBUG")
    page = (
        Arg(("--limit",), help="How many at the most; 50 when not given", type=int, default=50, metavar="N"),
        Arg(("--before",), help="Only those below this number, for older ones", type=int, metavar="N"),
    )
    number = Arg(("revision",), help="The number of a revision, as history prints it", type=int)
    compared = Arg(("revision",), help="Compared with the config of now; when not given: the last change", nargs="?", type=int)
    last = Arg(
        ("--limit",),
        help="How many at the most, the newest of all partitions; 10 when not given, at most 1000",
        type=int,
        default=10,
        metavar="N",
    )
    cluster = Arg(("--cluster",), help="On all workers of the cluster", action="store_true")
    return (
        _group(
            "offsets",
            "How far connectors have come",
            _verb("get", "Print a connector's offsets", "connectors.get_offsets", _NAME, _OUTPUT),
            _verb("alter", "Set offsets of a stopped connector", "connectors.alter_offsets", _NAME, file, partition, offset),
            _verb("reset", "Remove all offsets of a stopped connector", "connectors.reset_offsets", _NAME),
            _verb(
                "history", "Print what runs and users have done to a connector's offsets", "history.offsets_history", _NAME, *page, _OUTPUT
            ),
            _verb("undo", "Go back to the offsets of an earlier instant", "history.undo", _NAME, *_undo(), _OUTPUT),
        ),
        _group(
            "dlq",
            "The records that sinks have refused",
            _verb(
                "get",
                "Print the last dead-letter records of a sink, with what went wrong",
                "dead_letters.dead_letters",
                _NAME,
                last,
                _OUTPUT,
            ),
            _verb("replay", "Write dead-letter records of a sink back, each once", "replays.replay", _NAME, *_replay(), _OUTPUT),
        ),
        _group(
            "config",
            "The configs that connectors had",
            _verb("history", "Print the revisions of a connector's config", "history.config_history", _NAME, *page, _OUTPUT),
            _verb("diff", "Print what has changed since a revision", "history.config_diff", _NAME, compared, _OUTPUT),
            _verb("rollback", "Give a connector the config of a revision", "history.rollback", _NAME, number),
        ),
        _verb("topics", "List the topics that a connector has used", "connectors.topics", _NAME, reset, _OUTPUT),
        _group(
            "plugins",
            "What connectors, converters and transformations there are",
            _verb("list", "List the installed plugins", "plugins.list_plugins", every, _OUTPUT),
            _verb("config", "Print the keys that a plugin knows", "plugins.config", plugin, version, _OUTPUT),
            _command(
                "install",
                "Install a plugin beside its other versions, by uv or pip; of Java, by Ivy",
                "plugins.install",
                packages,
                path,
                installer,
                libraries,
                ivy,
            ),
            _command("scan", "List Java plugins by a JVM, and record their versions beside the jars", "plugins.scan", locations, path),
            _command("remove", "Remove a version of a plugin that was installed so", "plugins.remove", package, path),
            _command("broken", "List what lies on plugin.path and cannot be used; exit code 1 if any", "plugins.broken", path, _OUTPUT),
        ),
        _verb("workers", "List the Spark applications that run now", "connectors.workers", _OUTPUT),
        _group(
            "loggers",
            "Log levels of a Connect server",
            _verb("list", "List the loggers that the server has used, with the levels in force", "connectors.list_loggers", _OUTPUT),
            _verb("set", "Set the level of a logger and those below it", "connectors.set_level", logger, level, cluster, _OUTPUT),
        ),
    )


def _server_commands() -> tuple[ActionCommand | GroupCommand, ...]:
    host = Arg(("--host",), help="Where to listen; loopback unless this or the worker settings name another", metavar="HOST")
    port = Arg(("--port",), help="The port; 8083 unless this or the worker settings name another", type=int, metavar="PORT")
    anonymous = Arg(("--anonymous",), help="Ask for no users: all who reach the port may do everything", action="store_true")
    worker = Arg(("worker",), help="The worker's settings", metavar="worker.properties")
    connectors = Arg(("connectors",), help="Connectors to begin with, as properties or JSON", nargs="*", metavar="connector.properties")
    drop = Arg(("--drop-history",), help="Drop the history too: it is then what the topics still hold", action="store_true")
    findings = Arg(("-o", "--output"), help="How to print", choices=("text", "table", "json", "yaml"), default="text")
    return (
        _command(
            "doctor",
            "Check this host and the cluster, and say what is missing; exit code 1 if anything is wrong",
            "doctor.doctor",
            findings,
            ARG_VERBOSE,
        ),
        _command("rest", "Serve Connect's REST API in a process of its own", "servers.serve_rest", host, port, anonymous),
        _command(
            "standalone", "Run connectors in this process, without Airflow's scheduler", "servers.serve_standalone", worker, connectors
        ),
        _command("new", ABOUT, "skeleton/new.new", *(Arg(flags, **rest) for flags, rest in ARGUMENTS)),
        _group(
            "mirror",
            "The tables that mirror Connect's topics",
            _command("rebuild", "Read them anew from the topics", "servers.rebuild", drop),
        ),
        _group(
            "dev",
            "A whole stack on this machine: a Kafka broker and Airflow, without Docker",
            _command("up", "Start the stack, in the background", "servers.up", _WORKER),
            _command("status", "Print what runs, and where", "servers.status", _TEXT_OR_JSON),
            _command("down", "End the stack", "servers.down"),
        ),
        _command(
            "settings", "Print the effective worker settings, each with where it comes from", "settings.print_settings", _TEXT_OR_JSON
        ),
    )


def _verb(name: str, text: str, function: str, *arguments: Arg) -> ActionCommand:
    """A command that speaks to a Connect."""
    return _command(name, text, function, *arguments, *_WHERE)


def _command(name: str, text: str, function: str, *arguments: Arg) -> ActionCommand:
    """``function`` is a module and its function, in ``cli`` or, after a slash, in another package."""
    path = function.replace("/", ".") if "/" in function else f"cli.{function}"
    return ActionCommand(name=name, help=text, func=lazy_load_command(f"{_PACKAGE}.{path}"), args=arguments)


def _group(name: str, text: str, *commands: Any) -> GroupCommand:
    return GroupCommand(name=name, help=text, subcommands=commands)
