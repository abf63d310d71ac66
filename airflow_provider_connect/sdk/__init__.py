"""The names that authors of connectors, converters, transformations and predicates import. They stand in ``__init__.pyi``.

Each loads at its first use: the check for new data, in every Airflow task, needs few of them, and pyarrow waits for its use.
``sdk.testing`` holds the contract suites for a plugin's tests.
"""

from airflow_provider_connect import lazy_names

__getattr__, __all__ = lazy_names(__name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
