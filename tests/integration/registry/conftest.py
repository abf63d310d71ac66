"""A real registry for all tests of this folder, and converters that know it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from airflow_provider_connect.converters.registry.converter import RegistryConverter
from airflow_provider_connect.sdk.allowed_paths import AllowedPaths
from tests.conftest import CACHE
from tests.registry_server import RegistryServer

C = TypeVar("C", bound=RegistryConverter)  # type: ignore[type-arg]
Configured = Callable[..., C]


@pytest.fixture(scope="session")
def registry() -> Iterator[RegistryServer]:
    with RegistryServer(CACHE) as server:
        yield server


def configured(cls: type[C], url: str, *, is_key: bool = False, allowed: tuple[str, ...] = (), **settings: str) -> C:
    """A converter as a task has it; ``auto_register_schemas`` stands for ``auto.register.schemas``."""
    converter = cls()
    converter.allowed_paths = AllowedPaths(allowed)
    converter.configure({"schema.registry.url": url, **{key.replace("_", "."): value for key, value in settings.items()}}, is_key=is_key)
    return converter
