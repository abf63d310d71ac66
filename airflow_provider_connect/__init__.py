"""Kafka Connect's job on Airflow and Spark. ``__init__.pyi`` lists the public names; each loads at its first use."""

import os
import re
import sys
from collections.abc import Callable
from importlib import import_module

__version__ = "0.1.0"


def lazy_names(package: str) -> tuple[Callable[[str], object], list[str]]:
    """Returns ``__getattr__`` and ``__all__`` of a package, from the lines ``from … import … as …`` of its ``__init__.pyi``.

    The package's loader reads the file, because the package may be in a zip.
    """
    module = sys.modules[package]
    stub = module.__loader__.get_data(os.path.join(os.path.dirname(module.__file__), "__init__.pyi")).decode()
    homes = {name: home for home, name in re.findall(r"^from (\S+) import \w+ as (\w+)$", stub, re.MULTILINE)}

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(module, name, value)
        return value

    return load, sorted(homes)


__getattr__, __all__ = lazy_names(__name__)
__all__ += ["__version__"]
