"""Every exception that this package raises, with its HTTP status and whether the same call may be made again.

::

    ConnectException                     500  root of all
    ├── ConfigException                  400  a setting is wrong: name, value and reason; several at once in .errors
    │   ├── MissingException             400  what a connector reads or writes is not there, and it cannot wait for it: its tasks FAIL
    │   └── WorkerSettingsException      500  the worker's own settings are wrong; an admin may correct them, so a retry may succeed
    ├── BadRequestException              400  the request cannot be met as it is
    ├── UnauthorizedException            401  no user, or a wrong password or token
    ├── ForbiddenException               403  this user may not do that, or the worker settings forbid it to all
    ├── NotFoundException                404  connector, task, logger
    │   └── PluginNotFoundException      404  class or alias unknown; .known lists what there is
    │       └── PluginVersionException   404  nothing in the range; .versions lists what there is
    ├── AlreadyExistsException           409
    ├── ConflictException                409  another change is under way, or a DAG file owns the connector
    ├── RetriableException               500  the same call may be made again
    │   ├── StoreTimeoutException        500  a topic was not read or written in time; .stage is how far it got
    │   ├── BackpressureException        500  a task asks for a pause of .retry_after_ms
    │   └── UnavailableException         500  what a converter needs is away: no record is at fault, so none is left out
    ├── DataException                    500  one value or record cannot be read or converted
    │   └── SchemaException              500  a schema is wrong in itself
    ├── StoreException                   500  what lies on a topic, or the topic itself, is not as it must be
    ├── RecordTooLargeException          413  a client or topic refuses a record for its size; the message has the setting to raise
    └── TaskException                    500  ends a task, whose status becomes FAILED
        ├── TaskMemoryException          500  its process reached task.memory.max, or was refused memory
        ├── FencedException              500  a newer claim took over: end quietly, change nothing
        │   └── TransactionExpiredException  500  or so it seems: the broker has ended a transaction that took too long
        └── TooManyTasksException        500  a connector asked for more tasks than tasks.max allows

Names are Kafka Connect's own where it has one. Foreign errors are translated once, in the module that talks to that library.
"""

import re
import threading
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar, Final

MOST_CHARACTERS: Final = 50_000
"""Of a trace. In JSON a character may take twelve bytes."""


class ConnectException(Exception):
    """Root of all exceptions here; also raised where no more exact class fits."""

    status_code: ClassVar[int] = 500
    retriable: ClassVar[bool] = False

    @property
    def message(self) -> str:
        return str(self)


class ConfigException(ConnectException):
    """A setting is wrong. ``ConfigException.of`` words it as Kafka Connect does; ``errors`` holds one text a mistake.

    ``keys`` names the settings that are wrong, as far as they are known.
    """

    status_code = 400

    def __init__(self, message: str, *, errors: Iterable[str] = (), keys: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.errors = list(errors) or [message]
        self.keys = list(keys)

    @classmethod
    def of(cls, name: str, value: object, reason: str) -> "ConfigException":
        """The exception for ``value`` of setting ``name``, which is refused for ``reason``; ``, `` separates several names."""
        return cls(f"Invalid value {value} for configuration {name}: {reason}", keys=name.split(", "))


class MissingException(ConfigException):
    """What a connector reads or writes is not there, or does not let it in, and it cannot wait for it: its run and its tasks FAIL."""


class WorkerSettingsException(ConfigException):
    """The worker's own settings cannot be used. No connector is to blame, and an admin may correct them: a later try may succeed."""

    status_code = 500
    retriable = True


class BadRequestException(ConnectException):
    """The request cannot be met as it is, for instance offsets of a connector that is not STOPPED."""

    status_code = 400


class UnauthorizedException(ConnectException):
    """The request names no user, or its password or token is wrong."""

    status_code = 401


class ForbiddenException(ConnectException):
    """The caller may not do that, or the worker settings forbid it to everybody."""

    status_code = 403


class NotFoundException(ConnectException):
    """No such connector, task or logger."""

    status_code = 404


class PluginNotFoundException(NotFoundException):
    """No plugin has this class name or alias; ``known`` lists the names that exist."""

    def __init__(self, message: str, *, known: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.known = list(known)


class PluginVersionException(PluginNotFoundException):
    """No installed version of the plugin lies in the range asked for; ``versions`` lists the installed ones."""

    def __init__(self, message: str, *, versions: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.versions = list(versions)


class AlreadyExistsException(ConnectException):
    """A connector of this name exists."""

    status_code = 409


class ConflictException(ConnectException):
    """Another change is under way, or a DAG file owns what the caller wants to change."""

    status_code = 409


class RetriableException(ConnectException):
    """The same call may succeed later. A task raises it from ``poll`` or ``put`` to be called again: after ``retry_after_ms``, else after
    a wait that grows. ``docs/errors.md`` has its meaning for each call of a plugin."""

    retriable = True
    retry_after_ms: float | None = None

    def __init__(self, *args: object, retry_after_ms: float | None = None) -> None:
        super().__init__(*args)
        self.retry_after_ms = retry_after_ms


class StoreTimeoutException(RetriableException):
    """A topic was not read or written in time; ``stage`` is the step that took too long."""

    def __init__(self, message: str, *, stage: str = "") -> None:
        super().__init__(message)
        self.stage = stage


class BackpressureException(RetriableException):
    """A task asks for a pause of ``retry_after_ms`` before the same call is made again."""

    def __init__(self, message: str, *, retry_after_ms: float) -> None:
        super().__init__(message, retry_after_ms=retry_after_ms)


class UnavailableException(RetriableException):
    """A system that a converter or transformation needs is away, or refuses its credentials. No record is at fault: the task fails under
    every error tolerance, so that no record is left out, and the next attempt of the run begins with the same records."""


class DataException(ConnectException):
    """One value or record cannot be read or converted; the error tolerance decides what becomes of it.

    Of a column or batch ``record`` may be the index of the record at fault; None: it was not searched for."""

    record: int | None = None


class SchemaException(DataException):
    """A schema is wrong in itself."""


class StoreException(ConnectException):
    """What lies on an internal topic, or the topic itself, is not as it must be."""


class RecordTooLargeException(ConnectException):
    """A producer, or the topic, refuses a record for its size: the message has topic, key, size and the setting to raise. Every attempt
    would fail alike."""

    status_code = 413


class TaskException(ConnectException):
    """Ends a task; its status becomes FAILED with this as its trace."""


class JavaException(TaskException):
    """Code in a JVM raised an exception. ``trace`` is Java's, as Kafka Connect has it in a status: class and message in its first line."""

    retriable = True

    def __init__(self, trace: str) -> None:
        super().__init__(trace.partition("\n")[0])
        self.trace = trace


class JavaRecordException(JavaException):
    """A record of a Java task is larger than its producer or topic takes: every attempt would fail alike."""

    retriable = False


class FencedException(TaskException):
    """A newer claim took over. The task ends quietly; it writes nothing, and nothing is tried again."""


class TransactionExpiredException(FencedException):
    """A producer was fenced after its transaction had been open for ``transaction.timeout.ms``: probably by the broker itself."""


class TaskMemoryException(TaskException):
    """The task needs more memory than ``task.memory.max``, or than the system has. What it has committed stays: a later try goes on
    from there."""

    retriable = True


class TooManyTasksException(TaskException):
    """A connector asked for more tasks than ``tasks.max`` allows (and ``tasks.max.enforce`` is on)."""

    def __init__(self, connector: str, generated: int, tasks_max: int) -> None:
        super().__init__(
            f"The connector {connector} has generated {generated} tasks, which is greater than {tasks_max}, the maximum number of "
            "tasks it is configured to create. This behaviour should be considered a bug and is disallowed. If necessary, it can "
            "be permitted by reconfiguring the connector with 'tasks.max.enforce' set to false; however, this option will be "
            "removed in a future release of Kafka Connect."
        )


def is_transient(error: BaseException) -> bool:
    """Whether a later attempt may succeed. Exceptions that are not of this package count as such, but for a module that is missing."""
    return error.retriable if isinstance(error, ConnectException) else not isinstance(error, ImportError)


def trace_of(error: BaseException) -> str:
    """The trace of a FAILED status: class and message in its first line, where Kafka Connect's clients expect them, then Python's; of an
    exception in Java that of Java alone."""
    if isinstance(error, JavaException):
        return error.trace
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}: {message_of(error)}\n{''.join(traceback.format_exception(error))}"


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """``text`` of at most ``most`` characters, without its middle: a message may hold a whole body, and a topic refuses a megabyte. Secrets
    must be masked before: a cut may go through one."""
    if len(text) <= most:
        return text
    half = most // 2 - 50
    return f"{text[:half]}\n… {len(text) - 2 * half} characters are left out …\n{text[-half:]}"


_JAVA_FRAME: Final = re.compile(r"at [^\s()]+\(.*\)|\.\.\. \d+ (?:more|common frames omitted)")


def last_line(trace: str) -> str:
    """The line of a trace that a log or a page shows alone: its last one, stripped; empty for none. An excerpt of code with a caret below
    it, which databases and parsers put behind their message, is left out, and so are the frames of Java's traces."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    lines = [line for line in lines if not _JAVA_FRAME.fullmatch(line)] or lines
    if len(lines) > 2 and not lines[-1].strip("^~ "):
        lines = lines[:-2]
    return lines[-1].removeprefix("Caused by: ") if lines else ""


def message_of(error: BaseException) -> str:
    """``str(error)``, of any class: one whose ``__str__`` raises is named instead."""
    try:
        return str(error)
    except Exception:
        return f"<{type(error).__name__}, whose message cannot be read>"


@contextmanager
def plugin_code() -> Iterator[None]:
    """Around calls of plugins' code. Raises ConnectException for what would end a process, or a thread, as if its work were done:
    SystemExit, or asyncio's CancelledError. KeyboardInterrupt in the main thread is the user's, and passes."""
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise
        did = f"called exit({error.code})" if isinstance(error, SystemExit) else f"raised {type(error).__name__}: {message_of(error)}"
        raise ConnectException(f"The plugin's code {did}") from error
