"""The names that authors of connectors, converters, transformations and predicates import. ``__init__.pyi`` lists them.

Each name loads at its first use. The check for new data in every Airflow task needs few of them and must not import pyarrow.
``sdk.testing`` has the contract suites for a plugin's tests.
"""

from airflow_provider_connect import lazy_names

__getattr__, __all__ = lazy_names(__name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
