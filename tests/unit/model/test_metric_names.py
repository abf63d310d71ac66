"""The names are Kafka Connect's: its table (contract §14), and the page that describes them."""

import re
from pathlib import Path

from airflow_provider_connect.runtime.model.metric_names import BY_NAME, METRICS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "metrics.md"
CONNECTS = {
    "connector-metrics": "status connector-type connector-class connector-version",
    "connector-task-metrics": """status running-ratio pause-ratio offset-commit-max-time-ms offset-commit-avg-time-ms
        offset-commit-success-percentage offset-commit-failure-percentage batch-size-max batch-size-avg""",
    "source-task-metrics": """source-record-poll-rate source-record-poll-total source-record-write-rate source-record-write-total
        poll-batch-max-time-ms poll-batch-avg-time-ms source-record-active-count source-record-active-count-max
        source-record-active-count-avg transaction-size-min transaction-size-max transaction-size-avg""",
    "sink-task-metrics": """sink-record-read-rate sink-record-read-total sink-record-send-rate sink-record-send-total
        sink-record-active-count sink-record-active-count-max sink-record-active-count-avg partition-count offset-commit-seq-no
        offset-commit-completion-rate offset-commit-completion-total offset-commit-skip-rate offset-commit-skip-total
        put-batch-max-time-ms put-batch-avg-time-ms""",
    "task-error-metrics": """total-record-failures total-record-errors total-records-skipped total-retries total-errors-logged
        deadletterqueue-produce-requests deadletterqueue-produce-failures last-error-timestamp""",
    "connect-worker-metrics": """connector-count task-count connector-startup-attempts-total connector-startup-success-total
        connector-startup-success-percentage connector-startup-failure-total connector-startup-failure-percentage
        task-startup-attempts-total task-startup-success-total task-startup-success-percentage task-startup-failure-total
        task-startup-failure-percentage connector-total-task-count connector-running-task-count connector-paused-task-count
        connector-failed-task-count connector-unassigned-task-count connector-destroyed-task-count connector-restarting-task-count""",
}


def test_all_of_connects_names_are_there() -> None:
    assert {(group, name) for group, names in CONNECTS.items() for name in names.split()} <= BY_NAME.keys()


def test_other_names_are_of_later_proposals_or_marked_as_ours() -> None:
    later = {(m.group, m.name) for m in METRICS if re.search(r"KIP-(891|1278)|not of Connect", m.meaning)}
    assert BY_NAME.keys() - later == {(group, name) for group, names in CONNECTS.items() for name in names.split()}


def test_the_page_describes_each_of_them() -> None:
    page = PAGE.read_text()
    group, described = "", {}
    for line in page.splitlines():
        if found := re.match(r"### `([a-z-]+)`", line):
            group = found[1]
        elif found := re.match(r"\| `([a-z-]+)` \| (.*?) \|", line):
            described[group, found[1]] = found[2]
    assert described == {key: metric.meaning for key, metric in BY_NAME.items()}
