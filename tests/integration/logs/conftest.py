"""The environments of the worker's tests."""

from tests.integration.worker.conftest import environment

__all__ = ["environment"]
