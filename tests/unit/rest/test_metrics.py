"""The page for Prometheus: what is reported of a connector, and in which form."""

import re
from dataclasses import replace

from airflow_provider_connect.rest.metrics import ConnectorMetrics, Family, samples, text_of
from airflow_provider_connect.runtime.model.ids import ConnectorTaskId
from airflow_provider_connect.runtime.model.views import ConnectorInfo, ConnectorStatusView, PluginView, StateView, TaskView

_LINE = re.compile(r'[a-z_]+(\{[a-z_]+="(\\.|[^"\\])*"(,[a-z_]+="(\\.|[^"\\])*")*\})? -?[0-9][0-9.e+-]*')


def _measure(name: str, *states: str, kind: str = "source") -> ConnectorMetrics:
    info = ConnectorInfo(name, {"connector.class": "FileStreamSource"}, [ConnectorTaskId(name, 0)], kind)
    tasks = [TaskView(number, state, "w:1", version="1.2") for number, state in enumerate(states)]
    status = ConnectorStatusView(name, StateView("RUNNING", "w:1", version="1.2"), tasks, kind)
    plugins = {
        "connector": PluginView("a.Connector", kind, "1.2"),
        "key.converter": PluginView("a.Converter", "converter", "3.0"),
        "transforms.route": PluginView("a.Router", "transformation", "2.0"),
    }
    measured = {0: {f"{kind}-record-{'write' if kind == 'source' else 'send'}-total": 7.0, "offset-commit-avg-time-ms": 1.5}}
    return ConnectorMetrics(info, status, plugins, {0: "a.Task"}, measured)


def _page(*connectors: ConnectorMetrics) -> str:
    return text_of(samples(connectors, {"status-update-retry-total": 3.0}))


def test_states_words_and_numbers_of_a_connector_are_reported() -> None:
    page = _page(_measure("c", "RUNNING", "FAILED"), _measure("s", "PAUSED", kind="sink"))
    for line in (
        'kafka_connect_connector_metrics_status{connector="c",status="running"} 1',
        'kafka_connect_connector_metrics_connector_type{connector="s",connector_type="sink"} 1',
        'kafka_connect_connector_task_metrics_status{connector="c",task="1",status="failed"} 1',
        'kafka_connect_connector_task_metrics_pause_ratio{connector="s",task="0"} 1',
        'kafka_connect_connector_task_metrics_task_class{connector="c",task="0",task_class="a.Task"} 1',
        'kafka_connect_connector_task_metrics_task_version{connector="c",task="1",task_version="1.2"} 1',
        'kafka_connect_connector_task_metrics_key_converter_version{connector="c",task="0",key_converter_version="3.0"} 1',
        'kafka_connect_connector_transform_metrics_transform_class{connector="c",task="0",transform="route",transform_class="a.Router"} 1',
        'kafka_connect_connector_task_metrics_offset_commit_avg_time_ms{connector="c",task="0"} 1.5',
        'kafka_connect_source_task_metrics_source_record_write_total{connector="c",task="0"} 7',
        'kafka_connect_sink_task_metrics_sink_record_send_total{connector="s",task="0"} 7',
        'kafka_connect_connect_worker_metrics_connector_failed_task_count{connector="c"} 1',
        "kafka_connect_connect_worker_metrics_connector_count 2",
        "kafka_connect_connect_worker_metrics_task_count 3",
        "kafka_connect_status_backing_store_metrics_status_update_retry_total 3",
    ):
        assert f"\n{line}\n" in page, line


def test_numbers_of_the_whole_connector_are_reported() -> None:
    page = _page(replace(_measure("c", "PAUSED"), numbers={"held-wal-bytes": 80_000_000_000, "records-lag": 3}))
    assert '\nkafka_connect_connector_metrics_held_wal_bytes{connector="c"} 80000000000\n' in page
    assert '\nkafka_connect_connector_metrics_records_lag{connector="c"} 3\n' in page


def test_the_page_is_what_prometheus_reads() -> None:
    page = _page(_measure('od"d\\na\nme', "RUNNING"), _measure("other", "RUNNING"))
    assert 'connector="od\\"d\\\\na\\nme"' in page
    seen: set[str] = set()
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            name = line.split()[2]
            assert name not in seen, "each family once, its samples together"
            seen.add(name)
            assert (line.split()[3] == "counter") == name.endswith("_total")
        elif not line.startswith("# HELP "):
            assert _LINE.fullmatch(line), line
            assert line.partition("{")[0].partition(" ")[0] == name


def test_a_connector_whose_plugin_is_gone_keeps_its_metrics_and_hides_no_others() -> None:
    """Its direction is unknown then; what its last run has written is not."""
    gone = _measure("gone", "RUNNING")
    gone = replace(gone, info=replace(gone.info, type="unknown"), status=replace(gone.status, type="unknown"))
    page = _page(gone, _measure("c", "RUNNING"))
    for name in ("gone", "c"):
        assert f'kafka_connect_source_task_metrics_source_record_write_total{{connector="{name}",task="0"}} 7\n' in page


def test_numbers_are_written_plainly() -> None:
    family = Family("a", "gauge", "two\nlines")
    page = text_of([(family, {}, 3.0), (family, {"l": "x"}, 0.25), (family, {}, 1_764_000_000_000)])
    assert page == '# HELP a two\\nlines\n# TYPE a gauge\na 3\na{l="x"} 0.25\na 1764000000000\n'


def test_no_connector_is_counted_where_there_is_none() -> None:
    assert "kafka_connect_connect_worker_metrics_connector_count 0\n" in _page()
