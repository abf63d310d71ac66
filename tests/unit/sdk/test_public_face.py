"""The example of the documentation as it stands there, what an import costs, and the rule that authors import the sdk alone."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from airflow_provider_connect import sdk
from airflow_provider_connect.runtime.spark.code_archives import code_archive
from airflow_provider_connect.sdk import Batch, Config, ConfigDef, ConfigKey, Range, SourceConnector, SourceTask, Type, pa
from airflow_provider_connect.sdk.config_def import class_name_of
from airflow_provider_connect.sdk.testing import MemoryConnectorContext, SourceConnectorSuite

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = "airflow_provider_connect"
FOR_AUTHORS = {PACKAGE, f"{PACKAGE}.sdk", f"{PACKAGE}.sdk.testing"}
FOR_DAGS = {
    f"{PACKAGE}.{unit}" for unit in ("hooks.connect", "operators.backfill", "operators.config", "operators.control", "sensors.connect")
}
EXAMPLES = (
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "README.md",
    *sorted((ROOT / PACKAGE / "skeleton" / "templates").glob("*.py.tmpl")),
    *sorted((ROOT / "dags").glob("*.py")),
)
OF_CONNECTS_OWN_BYTES = (
    "sdk.java_text",
    "sdk.json_text",
    *(f"sdk.json.{module}" for module in ("base64_column", "reader", "values", "writer")),
    *(f"sdk.avro.{module}" for module in ("avro_type", "connect_schemas", "decoder", "encoder")),
    "sdk.expansion",
    "sdk.record_bytes",
    "sdk.dead_letters",
)
"""Modules for those who print or parse exactly what Kafka Connect's and Confluent's Java does; what replays share with the herder; and what
our readers count."""
NOT_FOR_AUTHORS = {
    "FILES",  # for those who check client settings of strangers
    "TRANSLATABLE",
    "LazyModule",
    "NO_JAVA",
    "client_config_def",  # for connectors whose clients have Kafka's own settings
    "names_java_code",
    "KafkaBatch",  # for a replay, which has records decoded again
    "INTEGER_BITS",
    "LONGEST",  # of a text that an expression makes
    "LONGEST_NAME",  # of a file, for the sink of files
    "LOST_AND_FOUND",  # of a file system, for sources of files
    "PACKED",  # for the client of registries
    "limit_responses",
    "check_rows",  # for converters, as sdk.expansion
    "count_fields",  # likewise
    "check_expression",  # for an expression that another engine matches
    "fill_nulls",  # for converters that write defaults
    "Match",  # in annotations
    "NOTHING_ALLOWED",
    "NO_TOPIC_ID",  # for mirrors, whose clients are their own
    "topic_id_text",
    "may_be_same_topic",
    "ADOPT",  # for FileStreamSink, which keeps offsets of its own kind
    "PRECISION",
    "SCALE",
    "SETTING",
    "StoreException",  # ConnectException will do
    "TransactionalSinkTask",  # for JdbcSink, which asks the database for the refused rows
    "as_data_exception",
    "np",  # an author imports numpy, and polars
    "pl",
    "scope_of",  # for FileStreamSink's own order of claims
}
"""What our own connectors, converters and transformations import, and an author of such plugins does not need."""


class NumbersTask(SourceTask):
    def start(self, config: Config) -> None:
        self.config, self.partition = config, {"numbers": "all"}
        self.next = self.context.offset(self.partition, default={"next": 0})["next"]

    def poll(self) -> Batch | None:  # None: nothing more in this run
        if self.next >= self.config["until"]:
            return None
        first, self.next = self.next, min(self.next + 1000, self.config["until"])
        return Batch.of(
            self.config["topic"],
            value=pa.array(range(first, self.next)),
            source_partition=self.partition,
            source_offset={"next": self.next},
        )


class NumbersSource(SourceConnector):
    """The numbers from 0 up, a thousand a poll."""

    config_def = ConfigDef(
        ConfigKey("topic", Type.STRING, doc="Where the numbers go."),
        ConfigKey("until", Type.LONG, default=10_000, validator=Range(at_least=1), doc="The first number that is not written."),
    )
    task_class = NumbersTask

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        return [self.config]


class TestNumbersSource(SourceConnectorSuite):
    connector_class = NumbersSource
    until = 0

    def config(self) -> dict[str, str]:
        return {"topic": "t", "until": str(self.until or 1)}

    def write_to_source(self, count: int) -> None:
        self.until += count

    def test_empty_source_delivers_nothing(self) -> None:
        """There are always numbers."""
        assert [record.value for record in self.read_all()] == [0]

    def test_batches_of_a_thousand(self) -> None:
        self.write_to_source(2500)
        [task] = self.tasks()
        sizes = []
        while (batch := task.poll()) is not None:
            assert isinstance(batch, Batch)
            sizes.append((len(batch), batch.source_offset))
        assert sizes == [(1000, {"next": 1000}), (1000, {"next": 2000}), (500, {"next": 2500})]


def test_connector_keeps_context_and_config() -> None:
    connector, context = NumbersSource(), MemoryConnectorContext("n", {'{"numbers": "all"}': {"next": 5}})
    connector.initialize(context)
    connector.start(NumbersSource.config_def.parse({"topic": "t"}))
    assert connector.context.offset({"numbers": "all"}) == {"next": 5}
    assert connector.context.offset({"numbers": "none"}) is None
    connector.context.request_task_reconfiguration()
    error = ValueError("x")
    connector.context.raise_error(error)
    assert (context.reconfigurations, context.errors) == (1, [error])
    assert connector.config["until"] == 10_000
    connector.stop()


def test_defaults_of_connectors_promise_nothing() -> None:
    source, sink = NumbersSource(), sdk.SinkConnector()
    assert source.exactly_once_support({}) is None
    assert sink.exactly_once_support({}) is None
    assert source.can_define_transaction_boundaries({}) is False
    assert source.has_new_data(sdk.Config({}, {}), lambda partition: None) is None
    assert source.alter_offsets({}, {}) is False


def test_public_name_of_a_class() -> None:
    assert class_name_of(NumbersSource).endswith("test_public_face.NumbersSource")

    class Named(NumbersSource):
        class_name = "org.example.Named"

    assert class_name_of(Named) == "org.example.Named"


def test_all_public_names_are_there() -> None:
    assert [name for name in sdk.__all__ if not hasattr(sdk, name)] == []


def test_names_load_from_the_archive_of_executors(tmp_path: Path) -> None:
    archive = code_archive(tmp_path)
    program = (
        "import airflow_provider_connect, airflow_provider_connect.sdk as sdk\n"
        f"assert airflow_provider_connect.__file__.startswith({str(archive)!r})\n"
        "assert sdk.ConfigKey.__name__ in sdk.__all__ and 'Connect' in airflow_provider_connect.__all__\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, env={"PYTHONPATH": str(archive)})


def test_import_loads_nothing_heavy() -> None:
    program = (
        "import sys, airflow_provider_connect.sdk as sdk\n"
        "from airflow_provider_connect.sdk import pa, pc\n"
        "class C(sdk.SourceConnector): config_def = sdk.ConfigDef(sdk.ConfigKey('a', default='b'))\n"
        "C().validate({}); sdk.Schema.struct({'a': sdk.STRING_SCHEMA})\n"
        "heavy = {'pyarrow', 'numpy', 'pandas', 'polars', 'pytest', 'airflow', 'pyspark', 'confluent_kafka'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert pa.int8() == pa.int8() and pc.add(1, 2).as_py() == 3 and 'pyarrow' in sys.modules\n"
        "assert not hasattr(pa, '__wrapped__')\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def _imports(text: str) -> Iterator[tuple[str, str]]:
    """The modules of ours that ``text`` imports from, each with a name."""
    for module, whole, line in re.findall(rf"^ *from ({PACKAGE}[\w.]*) import (?:\(([^)]*)\)|(.*))$", text, re.MULTILINE):
        yield from ((module, name) for name in re.findall(r"\w+", whole or line.partition("#")[0]))
    yield from ((module, "") for module in re.findall(rf"^ *import ({PACKAGE}[\w.]*)", text, re.MULTILINE))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_import_the_sdk_alone(example: Path) -> None:
    allowed = FOR_AUTHORS | (FOR_DAGS if example.name in ("hooks.md", "backfills.md") or example.parent.name == "dags" else set())
    found = list(_imports(example.read_text(encoding="utf-8")))
    assert [module for module, _ in found if module not in allowed] == []
    assert [name for module, name in found if module == f"{PACKAGE}.sdk" and name not in sdk.__all__] == []


def test_the_check_of_examples_finds_imports() -> None:
    names = "from airflow_provider_connect.runtime.model.ids import (\n    A,\n    B,\n)\n"
    text = f"{names}import airflow_provider_connect.runtime.worker.metrics\n"
    assert list(_imports(text)) == [
        ("airflow_provider_connect.runtime.model.ids", "A"),
        ("airflow_provider_connect.runtime.model.ids", "B"),
        ("airflow_provider_connect.runtime.worker.metrics", ""),
    ]
    assert sum(len(list(_imports(example.read_text(encoding="utf-8")))) for example in EXAMPLES) > 50


@pytest.mark.parametrize("unit", ["connectors", "converters", "transforms"])
def test_what_our_plugins_import_authors_can_import(unit: str) -> None:
    private = set()
    for file in (ROOT / PACKAGE / unit).rglob("*.py"):
        froms = (node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.ImportFrom))
        for node in froms:
            module = node.module or ""
            if module.startswith((f"{PACKAGE}.sdk", f"{PACKAGE}.errors")) and not module.endswith(OF_CONNECTS_OWN_BYTES):
                private |= {alias.name for alias in node.names} - set(sdk.__all__)
    assert private - NOT_FOR_AUTHORS == set()


def test_a_shell_completes_the_public_names() -> None:
    assert set(sdk.__all__) <= set(dir(sdk))
