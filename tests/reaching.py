"""Connectors and tasks that a test makes by hand: they may reach its files, as the framework lets them by the worker settings."""

from typing import TypeVar

from airflow_provider_connect.sdk import ALL_ALLOWED, Connector
from airflow_provider_connect.sdk.task import Task

_Made = TypeVar("_Made", bound=Connector | Task)


def reaching(made: _Made) -> _Made:
    """The same, with all files of the host allowed."""
    made.allowed_paths = ALL_ALLOWED
    return made
