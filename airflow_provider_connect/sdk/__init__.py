"""The names that authors of connectors, converters, transformations and predicates import. ``__init__.pyi`` lists them.

Each name is loaded when it is first used: the check for new data, which runs in every Airflow task, must not import pyarrow.
``sdk.testing`` has the contract suites for a plugin's tests.
"""

from airflow_provider_connect import lazy_names

__getattr__, __all__ = lazy_names(__name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
