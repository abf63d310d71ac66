"""What a run sends to Airflow's metrics, taken in by a receiver of OpenTelemetry's own protocol."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from airflow_provider_connect.runtime.model import metric_names
from airflow_provider_connect.runtime.model.metric_names import BY_NAME, METRICS
from airflow_provider_connect.runtime.model.run import RunResult, RunState, TaskResult
from airflow_provider_connect.runtime.worker.metrics import TaskMetrics
from tests.waiting import HANG_SECONDS

_EMIT = """
import sys
from airflow.sdk.observability import stats
from airflow.sdk.observability.metrics import stats_utils
from airflow_provider_connect.runtime.model.run import RunResult
from airflow_provider_connect.operators.run_report import emit_lost, emit_run

stats.initialize(factory=stats_utils.get_stats_factory(), export_legacy_names=False)
for line in sys.stdin:
    emit_run(RunResult.from_json(line))
emit_lost("gone")
"""
Points = dict[tuple[str, frozenset[tuple[str, str]]], float]


@contextmanager
def _receiver() -> Iterator[tuple[int, Points]]:
    """A port, and the last value of each metric by name and tags that arrived there."""
    service = pytest.importorskip("opentelemetry.proto.collector.metrics.v1.metrics_service_pb2")
    points: Points = {}

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = service.ExportMetricsServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
            for metric in (m for resource in request.resource_metrics for scope in resource.scope_metrics for m in scope.metrics):
                for point in (metric.sum if metric.HasField("sum") else metric.gauge).data_points:
                    tags = frozenset((tag.key, tag.value.string_value) for tag in point.attributes)
                    points[metric.name, tags] = point.as_double or float(point.as_int)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Silent."""

    server = HTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, points
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _counted(*, is_source: bool) -> TaskMetrics:
    metrics = TaskMetrics(is_source, in_transactions=is_source)
    with metrics.timed_call():
        metrics.records_in += 7
        metrics.batches.add(7)
    metrics.records_out += 5
    with metrics.timed_commit():
        pass
    return metrics


def test_a_run_sends_what_its_tasks_counted(tmp_path: Path) -> None:
    done = TaskResult(0, records=5, metrics=_counted(is_source=True).by_name() | {"status-update-retry-total": 2.0})
    failed = TaskResult(1, "FAILED", trace="boom", metrics=_counted(is_source=True).by_name() | {"last-error-timestamp": 1000})
    versions = {"connector": "1.2", "task": "1.2", "key.converter": "3.0", "transforms.route": "2.0"}
    runs = [
        RunResult("c", RunState.FAILED, tasks=[done, failed], versions=versions),
        RunResult("sink", RunState.DONE, tasks=[TaskResult(0, records=5, metrics=_counted(is_source=False).by_name())]),
        RunResult("sink", RunState.SKIPPED),
    ]
    with _receiver() as (port, points):
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW_", "OTEL_"))},
            "AIRFLOW_HOME": str(tmp_path),
            "AIRFLOW__METRICS__OTEL_ON": "True",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        }
        lines = "".join(f"{run.to_json()}\n" for run in runs)
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _EMIT],
            input=lines,
            env=environment,
            text=True,
            check=True,
            timeout=HANG_SECONDS,
            capture_output=True,
        )

    def value(name: str, **tags: str) -> float | None:
        return points.get((f"airflow.connect.{name}", frozenset(tags.items())))

    assert value("source-task-metrics.source-record-poll-total", connector="c", task="0") == 7
    assert value("source-task-metrics.source-record-write-total", connector="c", task="1") == 5
    assert value("source-task-metrics.transaction-size-max", connector="c", task="0") == 5
    assert value("sink-task-metrics.sink-record-send-total", connector="sink", task="0") == 5
    assert value("sink-task-metrics.offset-commit-completion-total", connector="sink", task="0") == 1
    assert value("status-backing-store-metrics.status-update-retry-total", connector="c", task="0") == 2
    assert value("task-error-metrics.last-error-timestamp", connector="c", task="1") == 1000
    assert value("connect-worker-metrics.task-startup-failure-total", connector="c") == 1
    assert value("connect-worker-metrics.task-startup-success-percentage", connector="c") == 0.5
    assert value("connect-worker-metrics.connector-startup-attempts-total", connector="sink") == 1
    assert value("connect-worker-metrics.connector-startup-failure-total", connector="gone") == 1
    assert value("connector-task-metrics.connector-version", connector="c", task="0", connector_version="1.2") == 1
    assert value("connector-task-metrics.key-converter-version", connector="c", task="1", key_converter_version="3.0") == 1
    assert value("connector-transform-metrics.transform-version", connector="c", task="0", transform="route", transform_version="2.0") == 1


def test_every_figure_of_a_task_has_a_name_of_connects() -> None:
    for is_source in (True, False):
        groups = {metric_names.group_of(name, is_source=is_source) for name in _counted(is_source=is_source).by_name()}
        assert groups == {metric_names.SOURCE_TASK if is_source else metric_names.SINK_TASK, metric_names.TASK, metric_names.TASK_ERROR}
    with pytest.raises(KeyError):
        metric_names.group_of("nobodys-total", is_source=True)


def test_no_metric_is_listed_twice() -> None:
    assert len(BY_NAME) == len(METRICS)
