"""pyarrow, its compute functions, its execution engine, numpy and polars, imported when one of their names is first used.

A connector class is also imported by processes that move no records: validation, and the check for new data in the Airflow task process.
For them, the 0.1 CPU-seconds of pyarrow's import are too much. Use ``from airflow_provider_connect.data.arrow import pa, pc``.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["LazyModule", "acero", "np", "pa", "pc", "pl"]


class LazyModule(ModuleType):
    """Stands for a module until one of its names is used; each name is resolved once.

    Also for other libraries that the import of a connector must not load.
    """

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # inspection tools read these names of every module
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import acero
else:
    np = LazyModule("numpy")
    pl = LazyModule("polars")
    pa = LazyModule("pyarrow")
    acero = LazyModule("pyarrow.acero")
    pc = LazyModule("pyarrow.compute")
