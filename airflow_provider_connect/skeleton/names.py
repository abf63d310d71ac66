"""What the parts of a new connector's package are called, all made from one name."""

from __future__ import annotations

import keyword
import re
import sys
from dataclasses import dataclass
from typing import Final

from airflow_provider_connect.errors import BadRequestException

_ENDING: Final = "-connector"
_FORM: Final = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_MOST_CHARACTERS: Final = 40
_TAKEN: Final = frozenset({"airflow", "airflow_provider_connect", "confluent_kafka", "dags", "py4j", "pyarrow", "pyspark", "src", "tests"})


@dataclass(frozen=True, slots=True)
class Names:
    """``package`` is the distribution's (``my-connector``), ``module`` what is imported (``my_connector``), ``label`` what connectors and
    topics are called (``my``), ``stem`` how the names of classes begin (``My``)."""

    package: str
    module: str
    label: str
    stem: str

    @classmethod
    def of(cls, package: str) -> Names:
        """Raises BadRequestException for what is no good name of a package, with what would be one."""
        if not _FORM.fullmatch(package) or len(package) > _MOST_CHARACTERS:
            raise BadRequestException(
                f"{package!r} is no name for a package: take lower-case letters, digits and single hyphens, beginning with a letter, "
                f"at most {_MOST_CHARACTERS} characters{_instead(package)}"
            )
        module = package.replace("-", "_")
        if module in _TAKEN or module in sys.stdlib_module_names or keyword.iskeyword(module):
            raise BadRequestException(f"{package!r} is no name for a package: there is a module {module} already; take {package}-connector")
        label = package.removesuffix(_ENDING)
        return cls(package, module, label, "".join(word.capitalize() for word in label.split("-")))


def _instead(package: str) -> str:
    """A name like it that would do, in brackets; nothing where there is none."""
    proposed = re.sub(r"[^a-z0-9]+", "-", package.lower()).strip("-0123456789")[:_MOST_CHARACTERS].strip("-")
    return f" (such as {proposed})" if _FORM.fullmatch(proposed) else ""
