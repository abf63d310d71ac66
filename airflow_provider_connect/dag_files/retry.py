"""How a failed connector task is retried. This is decided at its failure, so a changed Variable applies at once.

Airflow calls a policy only in the task process, so never for a killed process. Therefore the DAG also has the same numbers. The policy can
lower the number of retries, but not raise it above the DAG's.
"""

import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow.sdk import RetryDecision, RetryPolicy

from airflow_provider_connect.errors import ConfigException, ConnectException
from airflow_provider_connect.hooks.airflow_settings import worker_variable_now
from airflow_provider_connect.runtime.config.dag_settings import RETRY_KEYS
from airflow_provider_connect.runtime.stores.backoff import Backoff

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """The number of retries and the waits between them. If ``retries`` is None, the DAG's number applies."""

    retries: int | None = None
    delay_seconds: float = 10.0
    max_delay_seconds: float = 300.0
    multiplier: float = 2.0
    jitter: float = 0.25


def retry_settings(variable: Mapping[str, str], connector: Mapping[str, str]) -> RetrySettings:
    """The settings of both layers; the connector's config overrides the Variable. Raises ConfigException, which names the key, for an
    invalid setting of the connector. An invalid setting of the Variable is logged and left out."""
    values = _valid(variable) | {key: _parse(key, connector[key]) for key in RETRY_KEYS if key in connector}
    defaults = RetrySettings()
    delay = values.get("airflow.retry.delay", defaults.delay_seconds)
    retries = values.get("airflow.retries")
    return RetrySettings(
        retries=None if retries is None else int(retries),
        delay_seconds=delay,
        max_delay_seconds=max(delay, values.get("airflow.retry.delay.max", defaults.max_delay_seconds)),
        multiplier=values.get("airflow.retry.delay.multiplier", defaults.multiplier),
        jitter=values.get("airflow.retry.delay.jitter", defaults.jitter),
    )


def _valid(variable: Mapping[str, str]) -> dict[str, float]:
    values = {}
    for key in RETRY_KEYS & variable.keys():
        try:
            values[key] = _parse(key, variable[key])
        except ConfigException as error:
            _log.warning("Variable connect_worker_config: %s; it is left out", error.message)
    return values


def _parse(key: str, text: str) -> float:
    try:
        return RETRY_KEYS[key](text)
    except ValueError as error:
        raise ConfigException.of(key, text, str(error)) from error


def decide(settings: RetrySettings, exception: BaseException, try_number: int, draw: random.Random) -> RetryDecision:
    """Whether and when a task is retried that failed with ``exception`` in its ``try_number``-th try (1: the first)."""
    cause = exception.__cause__ if isinstance(exception.__cause__, ConnectException) else exception
    if isinstance(cause, ConnectException) and not cause.retriable:
        return RetryDecision.fail(reason=f"{type(cause).__name__} is not retriable")
    if settings.retries is not None and try_number > settings.retries:
        return RetryDecision.fail(reason=f"airflow.retries is {settings.retries}")
    backoff = Backoff(settings.delay_seconds * 1000, settings.max_delay_seconds * 1000, settings.multiplier, settings.jitter)
    delay = timedelta(milliseconds=backoff.delay_ms(try_number - 1, draw))
    return RetryDecision.retry(delay=delay, reason=f"try {try_number} failed with {type(cause).__name__}")


class ConnectRetryPolicy(RetryPolicy):  # type: ignore[misc]  # Airflow is not typed for us
    """Applies the retry settings of the Variable ``connect_worker_config``. The connector's ``airflow.retr*`` keys override them."""

    def __init__(self, connector_settings: Mapping[str, str]) -> None:
        self.connector_settings = {key: connector_settings[key] for key in sorted(RETRY_KEYS) if key in connector_settings}

    def evaluate(self, exception: BaseException, try_number: int, max_tries: int, context: Any = None) -> RetryDecision:
        """Called by Airflow in the task process after each failure (6-8 ms: one Variable)."""
        try:
            settings = retry_settings(worker_variable_now(), self.connector_settings)
        except ConfigException as error:
            _log.error("The retry settings are refused, the DAG's own hold: %s", error)
            return RetryDecision.default()
        return decide(settings, exception, try_number, random.Random())

    def serialize(self) -> dict[str, Any]:
        return {"connector_settings": self.connector_settings}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> "ConnectRetryPolicy":
        return cls(data["connector_settings"])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConnectRetryPolicy) and self.connector_settings == other.connector_settings

    def __hash__(self) -> int:
        return hash(tuple(self.connector_settings.items()))
