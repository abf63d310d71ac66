"""The same spark-submit on a Spark standalone cluster: a master and two workers of one core, each a process of its own.

Executors run a Python that does not see the checkout, so what they run came with the job.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from airflow_provider_connect.dev.own_server import LOOPBACK
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.run import RunState
from airflow_provider_connect.runtime.model.status import TaskStatus
from airflow_provider_connect.runtime.stores.kafka_errors import TopicMissingException
from airflow_provider_connect.runtime.stores.status_store import StatusStore
from airflow_provider_connect.runtime.worker.delivery.commit_steps import CommitStep
from tests.conftest import CACHE
from tests.conftest import WorkerSettings as MakeSettings
from tests.e2e.faults.environments import PLAIN, SinkEnvironment, SourceEnvironment, make_topic
from tests.e2e.faults.runs import Fault, Runs
from tests.java_plugins import FILE, installed_plugins
from tests.spark_cluster import SparkCluster
from tests.unit.plugins.locations import tree
from tests.waiting import HANG_SECONDS, wait_until

pytestmark = pytest.mark.soak
PLUGIN = r'''
import logging, time
from airflow_provider_connect import errors
from airflow_provider_connect.sdk import ConfigDef, ConfigKey, SinkConnector, SinkTask, Type

class WhereTask(SinkTask):
    """Writes values behind a line that names where its code was loaded from."""

    def start(self, config):
        claim = self.context.claim.replace("/", "_")
        self.file = open(f"{config['file']}.{claim}.{config.originals['number']}", "a")
        print(__file__, errors.__file__, file=self.file, flush=True)
        logging.getLogger("where").info("task %s writes", config.originals["number"])

    def put(self, batch):
        time.sleep(1)
        self.file.write("".join(f"{value}\n" for value in batch.value.to_pylist()))

    def flush(self, offsets):
        self.file.flush()

    def stop(self):
        self.file.close()

class WhereSinkConnector(SinkConnector):
    config_def = ConfigDef(ConfigKey("file", Type.STRING))
    task_class = WhereTask

    def task_configs(self, max_tasks):
        return [{**self.config.originals, "number": str(number)} for number in range(max_tasks)]
'''


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with SparkCluster(tmp_path_factory.mktemp("cluster"), CACHE, memory="600m") as cluster:
        yield cluster


@pytest.fixture(scope="module", autouse=True)
def no_python_path() -> Iterator[None]:
    """A cluster inherits nothing that leads to the checkout."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PYTHONPATH", raising=False)
        yield


@pytest.fixture(scope="module")
def executors_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with all that is installed here but the checkout, whose own ``.pth`` file lies one step too far away."""
    folder = tmp_path_factory.mktemp("python")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    (site_packages / "installed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "bin" / "python"
    command: list[str | Path] = [python, "-c", "import pyspark, confluent_kafka; import airflow_provider_connect"]
    found = subprocess.run(command, capture_output=True, cwd="/", text=True, check=False)
    assert "No module named 'airflow_provider_connect'" in found.stderr, found.stderr
    return python


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin, installed where spark-submit is started and nowhere else."""
    site = tmp_path / "site"
    metadata = site / "connect_where-2.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "connect_where.py").write_text(PLUGIN)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: connect_where\nVersion: 2.0\n")
    entry = "sink:where.WhereSinkConnector = connect_where:WhereSinkConnector"
    (metadata / "entry_points.txt").write_text(f"[airflow_provider_connect.plugins]\n{entry}\n")
    monkeypatch.syspath_prepend(str(site))


def on_cluster(runs: Runs, cluster: SparkCluster, python: Path) -> Runs:
    """``runs`` with that cluster as their master, and nothing of the checkout where executors search."""
    runs.master = cluster.url
    runs.conf = {"spark.executor.memory": "512m", "spark.driver.host": LOOPBACK}
    runs.environment = {"PYSPARK_PYTHON": str(python)}
    return runs


def statuses(runs: Runs) -> list[TaskStatus]:
    try:
        with StatusStore(WorkerSettings.of(runs.settings)) as store:
            return store.read().tasks_of(runs.connector)
    except TopicMissingException:
        return []


def running(runs: Runs, count: int) -> list[TaskStatus]:
    """The statuses of the tasks when all run."""
    found: list[TaskStatus] = []

    def all_run() -> bool:
        found[:] = statuses(runs)
        return [str(status.state) for status in found] == ["RUNNING"] * count

    wait_until(all_run)
    return found


def pid_of(status: TaskStatus) -> int:
    return int(status.worker_id.rpartition(":")[2])


def ancestors(pid: int) -> list[int]:
    """The process's parent, its parent's parent and so on."""
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found


def spark_worker_of(cluster: SparkCluster, pid: int) -> subprocess.Popen[bytes]:
    """The Spark worker whose executor runs the Python worker ``pid``."""
    above = ancestors(pid)
    return next(worker for worker in cluster.workers if worker.pid in above)


def many_values(settings: Mapping[str, str], topic: str, count: int) -> list[str]:
    make_topic(settings["bootstrap.servers"], topic, partitions=2)
    producer = Producer({"bootstrap.servers": settings["bootstrap.servers"], "enable.idempotence": True})
    values = [f"value {number}" for number in range(count)]
    for number, value in enumerate(values):
        producer.produce(topic, value.encode(), partition=number % 2)
    assert producer.flush(HANG_SECONDS) == 0
    return values


def test_two_tasks_run_on_two_executors_with_code_that_came_along(
    cluster: SparkCluster, executors_python: Path, plugin: None, tmp_path: Path, worker_settings: MakeSettings
) -> None:
    settings = worker_settings() | PLAIN
    values = many_values(settings, settings["group.id"], 80_000)
    config = {
        "connector.class": "where.WhereSinkConnector",
        "topics": settings["group.id"],
        "file": str(tmp_path / "out"),
        "tasks.max": "2",
    }
    runs = on_cluster(Runs(tmp_path, "where", settings, config), cluster, executors_python)
    submission = runs.submit()
    tasks = running(runs, 2)
    workers = {spark_worker_of(cluster, pid_of(status)).pid for status in tasks}
    executors = {ancestors(pid_of(status))[1] for status in tasks}
    assert len(workers) == len(executors) == 2, "each worker has one core"
    assert {status.version for status in tasks} == {"2.0"}
    os.kill(submission.driver_pid(), signal.SIGTERM)  # the StopServer reaches tasks in other executors
    result = submission.wait()
    assert result is not None, submission.output()[-3000:]
    assert [task.stopped_by for task in result.tasks] == ["the application was asked to end"] * 2
    assert {f"INFO where: task {number} writes" for number in (0, 1)} <= set(submission.output().splitlines()), "executors' logs"
    assert runs.until_done().state is RunState.DONE
    written = [line for name in tmp_path.glob("out.*") for line in name.read_text().splitlines()]
    origins = {line for line in written if not line.startswith("value ")}
    print(f"executors {sorted(executors)} of workers {sorted(workers)}; code from {sorted(origins)}")
    assert sorted(line for line in written if line.startswith("value ")) == sorted(values)
    assert all("connect_where.zip" in origin and "airflow_provider_connect.zip" in origin for origin in origins)


def test_the_version_that_a_run_has_chosen_from_plugin_path_goes_along(
    cluster: SparkCluster, executors_python: Path, tmp_path: Path, worker_settings: MakeSettings
) -> None:
    settings = worker_settings() | PLAIN | {"plugin.path": str(tmp_path / "plugins")}
    for version in ("1.5", "2.1"):
        helper = f"VERSION = {version!r}\n"
        files = {
            "connect_where.py": PLUGIN.replace("import logging, time\n", "import logging, time\nimport helper\n", 1),
            "helper.py": helper,
        }
        text = files["connect_where.py"].replace("print(__file__, errors.__file__", "print(__file__, helper.VERSION, helper.__file__")
        entry = "sink:where.WhereSinkConnector = connect_where:WhereSinkConnector"
        tree(tmp_path / "plugins" / f"where-{version}", "connect_where", version, files | {"connect_where.py": text}, entry)
    values = many_values(settings, settings["group.id"], 200)
    config = {
        "connector.class": "where.WhereSinkConnector",
        "connector.plugin.version": "[1,2)",
        "topics": settings["group.id"],
        "file": str(tmp_path / "out"),
        "tasks.max": "2",
    }
    result = on_cluster(Runs(tmp_path, "chosen", settings, config), cluster, executors_python).until_done()
    assert (result.versions["connector"], result.versions["task"]) == ("1.5", "1.5")
    written = [line for name in tmp_path.glob("out.*") for line in name.read_text().splitlines()]
    origins = {line for line in written if not line.startswith("value ")}
    assert sorted(line for line in written if line.startswith("value ")) == sorted(values)
    assert origins
    for origin in origins:
        where, version, helper = origin.split()
        assert version == "1.5"
        assert where.endswith("/connect-plugins-0/0/where-1.5/connect_where.py")
        assert helper.endswith("/connect-plugins-0/0/where-1.5/helper.py")


def test_a_java_connector_runs_on_an_executor_with_plugins_that_came_along(
    cluster: SparkCluster, executors_python: Path, tmp_path: Path, worker_settings: MakeSettings
) -> None:
    """Kafka's own file source, from a folder that is in no setting of the executor's machine."""
    plugins = installed_plugins(CACHE)
    settings = worker_settings() | PLAIN | {"plugin.path": str(plugins), "java.allowed.locations": str(plugins), "java.memory": "256m"}
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    config = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
        "connector.plugin.location": FILE,
        "file": str(tmp_path / "in.txt"),
        "topic": settings["group.id"],
    }
    submission = on_cluster(Runs(tmp_path, "java", settings, config), cluster, executors_python).submit()
    result = submission.wait()
    assert result is not None, submission.output()[-3000:]
    assert (result.state, result.error) == (RunState.DONE, None)
    assert [(task.state, task.records) for task in result.tasks] == [("RUNNING", 2)]
    assert result.versions["connector"] == "4.3.1"


def test_source_on_a_cluster(cluster: SparkCluster, executors_python: Path, tmp_path: Path, worker_settings: MakeSettings) -> None:
    environment = SourceEnvironment.make(tmp_path, worker_settings(), "exactly_once")
    on_cluster(environment.runs, cluster, executors_python)
    assert environment.runs.until_done().tasks[0].records == len(environment.sent)
    environment.verdict().expect("exactly_once")


def test_lost_worker_fails_its_task_and_the_retry_does_the_rest(
    executors_python: Path, tmp_path: Path, worker_settings: MakeSettings
) -> None:
    """A Python worker is frozen in the middle of its task, then its Spark worker is killed. Spark starts the body again on the other
    executor, where it is refused; the next run, on the one worker left, does the rest."""
    with SparkCluster(tmp_path / "cluster", CACHE, memory="600m") as cluster:
        environment = SinkEnvironment.make(tmp_path, worker_settings(), "exactly_once")
        environment.runs.config = {**environment.runs.config, "tasks.max": "2"}
        on_cluster(environment.runs, cluster, executors_python)
        fault = Fault(CommitStep.PRE_COMMIT, "before", signal="SIGSTOP")
        first = environment.runs.submit(fault)
        frozen = first.victim_pid()
        worker, executor = spark_worker_of(cluster, frozen), ancestors(frozen)[1]
        worker.kill()
        worker.wait()
        result = first.wait()
        assert result is not None, first.output()[-3000:]
        lost = [task for task in result.tasks if task.state == "FAILED"]
        assert (result.state, result.retriable, len(lost)) == (RunState.FAILED, True, 1)
        print(str(lost[0].trace)[:2000])
        assert "Spark started this task a second time (attempt 1); only Airflow retries" in str(lost[0].trace)
        assert {status.task: str(status.state) for status in statuses(environment.runs)} == {
            lost[0].task: "FAILED",
            1 - lost[0].task: "RUNNING",
        }
        done = environment.runs.until_done()
        verdict = environment.verdict()
        print(verdict)
        verdict.expect("exactly_once")
        assert [(str(status.state), status.claim) for status in statuses(environment.runs)] == [("RUNNING", done.claim)] * 2
        wait_until(lambda: not Path(f"/proc/{frozen}").exists() and not Path(f"/proc/{executor}").exists())
