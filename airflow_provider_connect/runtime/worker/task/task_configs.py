"""The task configs that a connector generates, in their published form. Starts the connector, but writes nothing."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from airflow_provider_connect.errors import ConfigException, ConnectException, TaskException, TooManyTasksException, plugin_code
from airflow_provider_connect.runtime.config.worker_settings import MAX_TASKS_SETTING, WorkerSettings
from airflow_provider_connect.runtime.model.connector_keys import strip_framework_keys
from airflow_provider_connect.runtime.model.secret_keys import SHORTEST
from airflow_provider_connect.runtime.stores.offset_store import SourceOffsets
from airflow_provider_connect.runtime.stores.topic_reader import OpenTransactionException
from airflow_provider_connect.runtime.worker.task.checked_connector import CheckedConnector, misspelled_settings
from airflow_provider_connect.sdk.config_def import class_name_of
from airflow_provider_connect.sdk.connector import require_task_list, task_config_texts

log = logging.getLogger(__name__)
MOST_TEXT: Final = 8 << 20
"""Maximum characters of a task set. A task set is on the topic that all connectors share, in the memory of each process that follows it,
and in one row of the SQL mirror's history, for which MySQL allows 16 MiB."""


class PlanningContext:
    """A connector's context while it generates task configs. ``read`` reads its offsets, once, when the connector first requests an offset.

    The argument of ``read`` is the limit of the wait for an open transaction, in seconds. None: the timeout of any answer applies.
    ``take_over`` ends a transaction that hides some offsets: its owner was killed, or is fenced by this plan."""

    def __init__(
        self,
        name: str,
        read: Callable[[float | None], SourceOffsets],
        *,
        take_over: Callable[[], None] = lambda: None,
        is_preview: bool = False,
    ) -> None:
        self.name = name
        self.is_preview = is_preview
        self._read = read
        self._take_over = take_over
        self._offsets: SourceOffsets | None = None
        self._error: Exception | None = None

    def offset(self, partition: Mapping[str, object]) -> dict[str, Any] | None:
        if self._offsets is None:
            try:
                self._offsets = self._read(0.0)
            except OpenTransactionException:
                self._take_over()
                self._offsets = self._read(None)
        return self._offsets.get(partition)

    def request_task_reconfiguration(self) -> None:
        """Log the request. Every run plans again, so the next run generates new configs."""
        log.info("Connector %s asked for new task configs; the next run generates them", self.name)

    def raise_error(self, error: Exception) -> None:
        """Note an error, possibly from a thread of the connector's own. Once the connector is stopped, the plan fails with the first
        error."""
        self._error = self._error or error

    def check(self) -> None:
        """Raise ConnectException if ``raise_error`` was called."""
        if self._error is not None:
            raise ConnectException(f"Connector {self.name} raised an error: {self._error}") from self._error


@plugin_code()
def task_configs(checked: CheckedConnector, context: PlanningContext, settings: WorkerSettings) -> list[Mapping[str, str]]:
    """Start the connector, get its task configs and stop it. Raises TooManyTasksException for more tasks than ``tasks.max``. Raises
    TaskException for more tasks than the worker's ``connectors.max.tasks``, even if ``tasks.max.enforce`` is false. Also raises it if the
    configs are too long together, or are not a list of mappings to text, numbers and booleans. Exceptions of the connector are raised
    unchanged, but a ConfigException about a missing setting also names unknown settings."""
    connector = checked.connector
    connector.initialize(context)
    try:
        connector.start(connector.config_def.parse(strip_framework_keys(checked.resolved)))
    except ConfigException as error:
        if type(error) is not ConfigException or not (hints := misspelled_settings(checked, error)):
            raise
        raise ConfigException("\n".join([error.message, *hints]), errors=error.errors).with_traceback(error.__traceback__) from None
    try:
        generated = require_task_list(connector, connector.task_configs(checked.settings.tasks_max))
    finally:
        connector.stop()
    context.check()
    return publishable_configs(checked, generated, settings)


def publishable_configs(checked: CheckedConnector, generated: Sequence[object], settings: WorkerSettings) -> list[Mapping[str, str]]:
    """The ``generated`` configs as they are published on the topic. Raises as ``task_configs`` for too many tasks or too much text."""
    connector, maximum = checked.connector, checked.settings.tasks_max
    if len(generated) > maximum and checked.settings.tasks_max_enforce:
        raise TooManyTasksException(checked.name, len(generated), maximum)
    if len(generated) > settings.max_tasks:
        raise TaskException(
            f"The connector {checked.name} has generated {len(generated)} tasks, and the worker setting {MAX_TASKS_SETTING} allows "
            f"{settings.max_tasks}: configure fewer, or ask an admin to raise the setting"
        )
    configs: list[Mapping[str, str]] = []
    length = 0
    for task, config in enumerate(generated):
        configs.append(_published_form(checked, task_config_texts(connector, task, config)))
        length += len(json.dumps(configs[-1]))
        if length > MOST_TEXT:
            raise TaskException(
                f"The configs of {len(generated)} tasks have more than {MOST_TEXT} characters together, as JSON: configure fewer tasks, or "
                "write a variable such as ${file:/path:key} for what is large"
            )
    return configs


def _published_form(checked: CheckedConnector, config: Mapping[str, str]) -> dict[str, str]:
    """A config as it is published: the connector's own keys, ``task.class``, topics and the requested plugin versions. The connector does
    not see these versions. The value of a variable is never published."""
    asked = {key: text for key, text in checked.resolved.items() if key.endswith(".plugin.version")}
    texts = {**asked, **config}
    if not checked.is_java:  # Connect has added it
        texts["task.class"] = class_name_of(checked.connector.task_class)
    for key in ("topics", "topics.regex"):
        if not checked.is_source and checked.resolved.get(key):
            texts[key] = checked.resolved[key]
    return {key: _raw_text(checked, key, value) for key, value in texts.items()}


def _raw_text(checked: CheckedConnector, key: str, value: str) -> str:
    """A task's setting as it is published. Values of secret variables are replaced by the variables again, wherever they occur."""
    if value == checked.resolved.get(key):
        return checked.raw.get(key, value)  # the connector's own default is not a secret
    for variable, secret in sorted(checked.variables.items(), key=lambda pair: len(pair[1]), reverse=True):
        for form in (secret, secret.strip()) if secret in checked.hidden else ():  # connectors strip their settings
            if len(form) >= SHORTEST:
                value = value.replace(form, variable)
    return value
