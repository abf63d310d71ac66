"""Notices of failures: what Airflow's notifiers are called with, and that nothing of a config is a template or a class."""

import json
import logging
import socket
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk import BaseNotifier
from airflow.sdk.log import mask_secret
from airflow.serialization.serialized_objects import DagSerialization

from airflow_provider_connect.dag_files.connector_dag import ConnectorDag, StoredConnectorDag
from airflow_provider_connect.dag_files.connector_files import mark_of
from airflow_provider_connect.dag_files.notices import LONGEST_TRACE, FailureNotifier

CONFIG = {"connector.class": "FileStreamSource", "file": "/in.txt", "topic": "lines"}
sent: list[tuple[str, dict[str, Any]]] = []


class ListNotifier(BaseNotifier):  # type: ignore[misc]  # Airflow is not typed for us
    template_fields = ("text", "lines")

    def __init__(self, text: str = "", lines: object = None, **more: Any) -> None:
        super().__init__(**more)
        self.text, self.lines = text, lines

    def notify(self, context: Any) -> None:
        if self.text.startswith("silent"):
            with socket.create_connection(("127.0.0.1", int(self.text.split(":")[1]))) as connection:
                connection.recv(1)
        if self.text.startswith("fail"):
            raise RuntimeError(f"no answer from {self.text}")
        sent.append((self.text, dict(context)))


def settings(monkeypatch: pytest.MonkeyPatch, **notifiers: dict[str, Any]) -> None:
    of_class = {name: {"class": f"{__name__}.ListNotifier", **given} for name, given in notifiers.items()}
    monkeypatch.setenv("AIRFLOW_VAR_CONNECT_WORKER_CONFIG", json.dumps({"airflow": {"notifiers": of_class}}))
    sent.clear()


def context(error: object = "it failed", **task: Any) -> dict[str, Any]:
    ti = SimpleNamespace(dag_id="connect.orders", task_id="run", run_id="r1", try_number=4, map_index=-1, log_url="http://log")
    return {"ti": ti, "task": SimpleNamespace(**task), "exception": error, "conf": object(), "var": object(), "conn": object()}


def notify(names: str, given: dict[str, Any] | None = None, connector: str = "orders") -> None:
    FailureNotifier(connector, names.split(","))(context() if given is None else given)


def test_a_notifier_gets_facts_and_nothing_else_of_airflows_context(monkeypatch: pytest.MonkeyPatch) -> None:
    settings(
        monkeypatch, team={"text": "{{ connector }} {{ ti.run_id }} {{ ti.state }}: {{ error }}", "arguments": '{"lines": ["{{ trace }}"]}'}
    )
    notify("team", context(ValueError("bad"), failure_trace="two\nlines", tasks=[1, 2]))
    ((text, facts),) = sent
    assert text == "orders r1 failed: bad"
    del facts["text"], facts["lines"]  # Airflow adds the fields as they were before they were rendered
    ids = {"dag_id": "connect.orders", "task_id": "run", "run_id": "r1", "try_number": 4, "map_index": -1}
    ti = {**ids, "state": "failed", "log_url": "http://log"}
    assert facts == {"connector": "orders", "tasks": [1, 2], "state": "failed", "error": "bad", "trace": "two\nlines", **ids, "ti": ti}


@pytest.mark.parametrize("text", ["{{ 7 * 7 }}", "{% for a in b %}", "{{ ti.__class__ }}", "x.html", "/etc/passwd"])
def test_no_text_of_a_connector_is_a_template(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    settings(monkeypatch, team={"text": "{{ connector }}|{{ error }}|{{ trace }}"})
    notify("team", context(ValueError(text), failure_trace=text), connector=text)
    assert [shown for shown, _ in sent] == [f"{text}|{text}|{text}"]


def test_secrets_are_hidden_and_long_traces_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    mask_secret("canary-of-notices")
    settings(monkeypatch, team={"text": "{{ trace }}"})
    notify("team", context(f"canary-of-notices {'x' * 2 * LONGEST_TRACE} jdbc:db://me:canary-of-urls@host", failure_trace=None))
    notify("team", context("jdbc:postgresql://me:canary-of-urls@host/db"))
    assert len(sent[0][0]) == LONGEST_TRACE + 1
    assert not any("canary-of" in text for text, _ in sent)


def test_a_task_whose_process_was_lost_has_a_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    settings(monkeypatch, team={"text": "{{ error }}"})
    notify("team", {key: value for key, value in context().items() if key not in ("exception", "task")})
    assert "process ended without a report" in sent[0][0]


def test_one_that_fails_or_is_not_defined_is_logged_and_keeps_no_other_from_its_notice(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR, "airflow_provider_connect")
    odd = {"class": "os.path.join"}, {"class": "no_such.Notifier"}, {"class": "airflow.sdk.DAG"}, {"surprise": "x"}
    settings(monkeypatch, first={"text": "fails"}, last={"text": "sent"}, **{f"odd-{number}": each for number, each in enumerate(odd)})
    notify("first,gone,odd-0,odd-1,odd-2,odd-3,last")
    assert [text for text, _ in sent] == ["sent"]
    logged = [record.getMessage() for record in caplog.records if "has sent no notice" in record.getMessage()]
    for reason, text in zip(
        ["RuntimeError", "there are first, last, odd-0", "BaseNotifier", "not installed", "BaseNotifier", "does not take"],
        logged,
        strict=True,
    ):
        assert reason in text


def test_a_server_that_never_answers_keeps_no_other_notifier_from_its_notice(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("airflow_provider_connect.dag_files.notices._LONGEST_NOTICE_SECONDS", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings(monkeypatch, first={"text": f"silent:{server.getsockname()[1]}"}, last={"text": "sent"})
        notify("first,last")
        assert [text for text, _ in sent] == ["sent"]
    assert "notifier first has sent no notice of its failure: CallOverdueException: Notifier first took more than 0.5 s" in caplog.text


def test_settings_that_cannot_be_read_are_logged(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_CONNECT_WORKER_CONFIG", "{nonsense")
    notify("team")
    assert "no notice of its failure is sent" in caplog.text


def callbacks(task: Any) -> list[Any]:
    mapped = getattr(task, "partial_kwargs", None)
    found = mapped.get("on_failure_callback") if mapped is not None else task.on_failure_callback
    return list(found or [])


@pytest.mark.parametrize("more", [{}, {"tasks.per.application": "2"}])
def test_every_task_of_the_dag_has_the_callback_and_the_serialized_dag_names_none(more: dict[str, str]) -> None:
    keys = {"airflow.on.failure": "team,admins", **more}
    for dag in (StoredConnectorDag("orders", mark_of(keys), file="f.py", is_paused=False), ConnectorDag("orders", {**CONFIG, **keys})):
        for task in dag.tasks:
            (callback,) = callbacks(task)
            assert (callback.connector, callback.names) == ("orders", ("team", "admins"))
        assert "FailureNotifier" not in json.dumps(DagSerialization.to_dict(dag))
    assert not any(map(callbacks, ConnectorDag("orders", {**CONFIG, **more}).tasks))


def test_the_callback_of_a_dag_file_stays_beside() -> None:
    own = ListNotifier()
    dag = ConnectorDag("orders", {**CONFIG, "airflow.on.failure": "team"}, default_args={"on_failure_callback": own})
    (task,) = dag.tasks
    assert [type(each) for each in callbacks(task)] == [ListNotifier, FailureNotifier]
