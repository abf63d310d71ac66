"""``@sink`` turns a function of a batch into a sink connector with at-least-once delivery.

The decorator returns an ordinary connector class. Each ``put`` is one call of the function.
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
from airflow_provider_connect.sdk.functions.signature import Signature, call_with, parameters_of, types_of
from airflow_provider_connect.sdk.task import SinkTask

_GIVEN: Final = ("context", "allowed_paths")
"""The parameters, besides the first, that the framework fills; all others are settings."""
_BRACKETS: Final = re.compile(r"\[[^\[\]]*\]")
_VALUES: Final = re.compile(r"(\w+\.)*(list|List|Any|None|Table|DataFrame)")


class FunctionSinkTask(SinkTask):
    """Calls the function with each batch that has records. Each function has its own subclass, with ``function`` and ``signature``."""

    function: ClassVar[Callable[..., Any]]
    signature: ClassVar[Signature]

    def start(self, config: Config) -> None:
        arguments = {**self.signature.arguments(config), "context": self.context, "allowed_paths": self.allowed_paths}
        self._name, self._form = form_of(self.function)
        self._arguments = arguments

    def put(self, batch: Batch) -> None:
        if len(batch):
            call_with(self.function, {**self._arguments, self._name: self._formed(batch)})

    def _formed(self, batch: Batch) -> Any:
        """Raises DataException for values that Python cannot represent, such as a timestamp after the year 9999."""
        try:
            return self._form(batch)
        except (ArithmeticError, LookupError, ValueError) as error:
            raise DataException(f"Records cannot be converted for the parameter {self._name!r}: {error}") from error

    def stop(self) -> None:
        """Do nothing: nothing is open."""


class FunctionSink(SinkConnector):
    """A connector whose tasks call one function. ``@sink`` creates a subclass for each function."""

    function: ClassVar[Callable[..., Any]]
    """The author's function, for unit tests."""
    task_class: ClassVar[type[SinkTask]]

    def task_configs(self, max_tasks: int) -> list[Mapping[str, str]]:
        return [self.config.originals] * max_tasks

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """UNSUPPORTED, because the destination of a function keeps no offsets."""
        return ExactlyOnceSupport.UNSUPPORTED


@overload
def sink(function: Callable[..., Any], /) -> type[FunctionSink]: ...
@overload
def sink() -> Callable[[Callable[..., Any]], type[FunctionSink]]: ...
def sink(function: Callable[..., Any] | None = None, /) -> type[FunctionSink] | Callable[[Callable[..., Any]], type[FunctionSink]]:
    """Turn a function of a batch into a sink connector. Its first parameter gets the records; the others are settings.

    The annotation of the first parameter determines the form of the records. ``list[dict]``, or no annotation: a list of values, with None
    for null. ``pa.Table`` or a frame of polars or pandas: a column for each field. ``Batch``: also keys, headers and offsets. Parameters
    ``context`` (the SinkTaskContext) and ``allowed_paths`` are optional; the framework fills them.

    The function is called in the task's thread, once for each batch with records. When it returns, its records must be durable. After a
    RetriableException it is called again with the same records. DataException means that no record was written. With
    ``errors.tolerance=all`` the records are then passed again in smaller parts. A record that fails alone is reported and skipped.

    Raises TypeError for a function without parameters, a generator, an async function, or a parameter that cannot be a setting.
    """
    return _connector_class if function is None else _connector_class(function)


def _connector_class(author: Callable[..., Any]) -> type[FunctionSink]:
    [first, *_] = [*parameters_of(author), ""]
    if not first:
        raise TypeError(f"{author.__qualname__}: a sink needs a first parameter, for the records")
    if inspect.isgeneratorfunction(author) or inspect.iscoroutinefunction(author) or inspect.isasyncgenfunction(author):
        raise TypeError(f"{author.__qualname__}: a sink must not yield or be async, because a call would not run its body")
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
    """Whether the function may take whole batches, with keys and headers.

    An annotation that is a string is not evaluated, because that could import pyarrow. Such a parameter is assumed to take batches, unless
    the string clearly names values.
    """
    annotation = author.__annotations__.get(parameter)
    if not isinstance(annotation, str):
        return Batch in types_of(author, parameter)
    plain, before = annotation, ""
    while plain != before:  # remove brackets and their content, innermost first
        plain, before = _BRACKETS.sub("", plain), plain
    return not all(_VALUES.fullmatch(each.strip()) for each in plain.split("|"))
