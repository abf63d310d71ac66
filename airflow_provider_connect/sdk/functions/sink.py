"""``@sink``: a function of a batch as a sink connector, at least once.

The decorator returns a connector class over the protocol of every sink. Each ``put`` is one call of the function.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, overload

from airflow_provider_connect.errors import DataException
from airflow_provider_connect.sdk.batch import Batch
from airflow_provider_connect.sdk.config_def import Config
from airflow_provider_connect.sdk.connector import ExactlyOnceSupport, SinkConnector
from airflow_provider_connect.sdk.functions.forms import form_of
from airflow_provider_connect.sdk.functions.signature import Signature, called, parameters_of, types_of
from airflow_provider_connect.sdk.task import SinkTask

_GIVEN: Final = ("context", "allowed_paths")
"""The parameters of a function, besides the first, that are not settings."""
_BRACKETS: Final = re.compile(r"\[[^\[\]]*\]")
_VALUES: Final = re.compile(r"(\w+\.)*(list|List|Any|None|Table|DataFrame)")


class FunctionSinkTask(SinkTask):
    """Calls the function with each batch that has records. A subclass for each function has ``function`` and ``signature``."""

    function: ClassVar[Callable[..., Any]]
    signature: ClassVar[Signature]

    def start(self, config: Config) -> None:
        arguments = {**self.signature.arguments(config), "context": self.context, "allowed_paths": self.allowed_paths}
        self._name, self._form = form_of(self.function)
        self._arguments = arguments

    def put(self, batch: Batch) -> None:
        if len(batch):
            called(self.function, {**self._arguments, self._name: self._formed(batch)})

    def _formed(self, batch: Batch) -> Any:
        """Raises DataException for records that Python has no values of, such as a timestamp behind the year 9999."""
        try:
            return self._form(batch)
        except (ArithmeticError, LookupError, ValueError) as error:
            raise DataException(f"Records cannot be read as the parameter {self._name!r} takes them: {error}") from error

    def stop(self) -> None:
        """Nothing is open."""


class FunctionSink(SinkConnector):
    """A connector whose tasks call one function."""

    function: ClassVar[Callable[..., Any]]
    """The author's function, for tests of its own."""
    task_class: ClassVar[type[SinkTask]]

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        return [self.config.originals] * max_tasks

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """The destination of a function keeps no offsets."""
        return ExactlyOnceSupport.UNSUPPORTED


@overload
def sink(function: Callable[..., Any], /) -> type[FunctionSink]: ...
@overload
def sink() -> Callable[[Callable[..., Any]], type[FunctionSink]]: ...
def sink(function: Callable[..., Any] | None = None, /) -> type[FunctionSink] | Callable[[Callable[..., Any]], type[FunctionSink]]:
    """Makes a function of a batch a sink connector, whose settings are the function's other parameters.

    The first parameter takes the records, in the form of its annotation: a list of values (``list[dict]``, or no annotation), with None
    for a null value; ``pa.Table`` or a frame of polars or pandas, a column for each field; or ``Batch``, which also has keys, headers and
    offsets. ``context``, the SinkTaskContext, and ``allowed_paths`` are passed to a function that has such parameters.

    What the function has returned from is durable. RetriableException: the same records come again later. DataException: none of them was
    written; with ``errors.tolerance=all`` they come again in parts, and a record that fails alone is reported and left out.
    """
    return _connector_class if function is None else _connector_class(function)


def _connector_class(author: Callable[..., Any]) -> type[FunctionSink]:
    [first, *_] = [*parameters_of(author), ""]
    if not first:
        raise TypeError(f"{author.__qualname__}: a sink needs a first parameter, which takes the records")
    if inspect.isgeneratorfunction(author) or inspect.iscoroutinefunction(author) or inspect.isasyncgenfunction(author):
        raise TypeError(f"{author.__qualname__}: a sink must not yield or be async: its body would not run when it is called")
    signature = Signature.of(author, without=(first, *_GIVEN))
    required = SinkTask.required_columns if _may_be_batch(author, first) else frozenset[str]()
    shared = {"__module__": author.__module__, "__doc__": author.__doc__, "function": staticmethod(author)}
    task = {**shared, "__qualname__": f"{author.__qualname__}Task", "signature": signature, "required_columns": required}
    connector = {
        **shared,
        "__qualname__": author.__qualname__,
        "config_def": signature.config_def,
        "task_class": type(f"{author.__name__}Task", (FunctionSinkTask,), task),
    }
    return type(author.__name__, (FunctionSink,), connector)


def _may_be_batch(author: Callable[..., Any], parameter: str) -> bool:
    """Whether the function may take whole batches, keys and headers included. An annotation that is text is not evaluated, since pyarrow
    loads with some: any text takes batches that does not plainly take values alone."""
    annotation = author.__annotations__.get(parameter)
    if not isinstance(annotation, str):
        return Batch in types_of(author, parameter)
    plain, before = annotation, ""
    while plain != before:  # without what stands in brackets, from the innermost on
        plain, before = _BRACKETS.sub("", plain), plain
    return not all(_VALUES.fullmatch(each.strip()) for each in plain.split("|"))
