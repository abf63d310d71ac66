"""Lazy imports of pyarrow, its compute functions, its execution engine, numpy and polars.

Each library is imported when one of its names is first used. Processes that move no records also import connector classes: validation, and
the check for new data in the Airflow task process. Importing pyarrow takes 0.1 CPU-seconds, which is too much for these processes. Use
``from airflow_provider_connect.data.arrow import pa, pc``.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["LazyModule", "acero", "np", "pa", "pc", "pl"]


class LazyModule(ModuleType):
    """Imports a module when one of its names is first used. Each name is resolved once.

    Also used for other libraries that importing a connector must not load.
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
