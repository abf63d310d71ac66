"""The names that authors of connectors, converters, transformations and predicates import. They stand in ``__init__.pyi``.

Each loads at its first use: the check for new data, in every Airflow task, needs few of them, and pyarrow waits for its use.
``sdk.testing`` holds the contract suites for a plugin's tests.
"""

from airflow_provider_connect import lazy_names
from airflow_provider_connect.sdk.old_names import with_old_names

_load, __all__ = lazy_names(__name__)
__getattr__ = with_old_names(__name__, _load)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
