"""Notices of failures and missed deadlines. A connector's config names notifiers, which the worker settings define.

This module creates a notifier's context from facts about the connector and its run. A notifier's arguments, from the worker settings, may
be templates of these facts. Text of a config is never a template.
"""

import importlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from typing import Any

from airflow.sdk import BaseNotifier
from airflow.sdk.log import mask_secret, redact

from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.hooks.airflow_settings import worker_settings
from airflow_provider_connect.runtime.config.masking import Mask, config_secrets, spellings
from airflow_provider_connect.runtime.config.notifiers import PREFIX, NotifierSettings, read_notifiers
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.worker.bounded_call import within

LONGEST_TRACE = 10_000
"""The longest trace of a notice, in characters. Chats and mail servers refuse longer traces."""
_LONGEST_NOTICE_SECONDS = 60.0
_NO_REPORT = "its process ended without a report: see the task's log"

_log = logging.getLogger(__name__)


class FailureNotifier(BaseNotifier):  # type: ignore[misc]  # Airflow is not typed for us
    """Sends a notice of a failed task of the connector's DAG with each notifier of ``names``.

    Airflow calls it when the task's last try has failed: in the task's process, or in the dag-processor if that process was lost. It reads
    the worker settings at that time. If a notifier fails, the failure is logged and the other notifiers are called.
    """

    def __init__(self, connector: str, names: Sequence[str]) -> None:
        super().__init__()
        self.connector = connector
        self.names = tuple(names)

    def notify(self, context: Mapping[str, Any]) -> None:
        """``context`` is Airflow's. The notifiers get its ``notice_context``."""
        send_notice(self.connector, self.names, lambda: notice_context(self.connector, context), about="its failure")


def send_notice(connector: str, names: Sequence[str], facts: Callable[[], dict[str, Any]], *, about: str) -> None:
    """Call each notifier of ``names`` with new ``facts``, after the log has the secrets of the settings to hide.

    Reads the worker settings. If a notifier fails, or its server does not answer in a minute, this is logged and the others are called.
    Raises no exception.
    """
    try:
        settings = worker_settings()
    except Exception as error:  # Airflow's Connections and Variables may be unavailable for any reason
        reason = error.message if isinstance(error, ConnectException) else f"{type(error).__name__}: {error}"
        _log.error("Connector %s: no notice of %s is sent: %s", connector, about, reason)
        return
    defined, _ = read_notifiers(settings.values)
    if secrets := sorted(spellings(_secrets(settings, defined.values()))):
        mask_secret(secrets)
    for name in names:
        try:
            send = partial(copy_context().run, lambda notifier: notifier(facts()), load_notifier(name, defined))
            within(_LONGEST_NOTICE_SECONDS, send, f"notifier {name}")
        except Exception as error:  # after any exception of a notifier, the others are called
            _log.error("Connector %s: notifier %s has sent no notice of %s: %s: %s", connector, name, about, type(error).__name__, error)


def load_notifier(name: str, defined: Mapping[str, NotifierSettings]) -> Any:  # Airflow is not typed for us
    """A new notifier. Raises ConfigException for a name that the worker settings do not define, or that is not a notifier."""
    if name not in defined:
        raise ConfigException(f"the worker settings define no {PREFIX}{name}.class; there are {', '.join(sorted(defined)) or 'none'}")
    settings = defined[name]
    module, _, class_name = settings.class_name.rpartition(".")
    key = f"{PREFIX}{name}.class"
    try:
        found = getattr(importlib.import_module(module), class_name)
    except (ImportError, AttributeError) as error:
        raise ConfigException.of(key, settings.class_name, f"it is not installed here ({error})") from error
    if not (isinstance(found, type) and issubclass(found, BaseNotifier)):
        raise ConfigException.of(key, settings.class_name, "it does not extend Airflow's BaseNotifier")
    try:
        return found(**settings.arguments)
    except TypeError as error:
        raise ConfigException.of(key, settings.class_name, f"it does not take the arguments of {PREFIX}{name}.…: {error}") from error


def notice_context(connector: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """A notifier's context: plain values, without secrets. Its ``ti`` has the values that default templates of Airflow's notifiers use."""
    ti, task = context["ti"], context.get("task")
    error = str(context.get("exception") or _NO_REPORT)
    trace = getattr(task, "failure_trace", None) or error
    ids = {"dag_id": ti.dag_id, "task_id": ti.task_id, "run_id": ti.run_id, "try_number": ti.try_number}
    map_index = -1 if ti.map_index is None else ti.map_index
    return {
        "connector": connector,
        "tasks": list(getattr(task, "tasks", None) or []),
        "state": "failed",
        "error": _redact(error),
        "trace": _redact(trace),
        **ids,
        "map_index": map_index,
        "ti": {**ids, "map_index": map_index, "state": "failed", "log_url": getattr(ti, "log_url", "")},
    }


def deadline_context(connector: str, state: str, error: str, *, dag_id: str, run_id: str = "", url: str = "") -> dict[str, Any]:
    """A notifier's context for a missed deadline. It has the keys of ``notice_context``, so a notifier can serve both. ``url`` is the page
    of the run or DAG in Airflow's UI."""
    ids = {"dag_id": dag_id, "task_id": "", "run_id": run_id, "try_number": 0, "map_index": -1}
    text = _redact(error)
    return {
        "connector": connector,
        "tasks": [],
        "state": state,
        "error": text,
        "trace": text,
        **ids,
        "ti": {**ids, "state": state, "log_url": url},
    }


def _redact(text: str) -> str:
    """The text without the secrets that this process knows. Called before the text is cut, because a part of a secret is not recognised."""
    return cut(Mask()(str(redact(text))), LONGEST_TRACE)


def _secrets(settings: WorkerSettings, notifiers: Iterable[NotifierSettings]) -> set[str]:
    """Secrets that must not be logged when a notifier fails: values of variables, and of arguments that are named like secrets."""
    given = {key: value for key, value in settings.originals.items() if key.startswith(PREFIX)}
    found = {settings.values[key] for key, value in given.items() if settings.values[key] != value}
    for each in notifiers:
        found |= config_secrets({name: value for name, value in each.arguments.items() if isinstance(value, str)})
    return found
