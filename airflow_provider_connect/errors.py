"""The exceptions of this package, each with its HTTP status and whether the call may be retried.

More specific exceptions are subclasses of these, in the modules that raise them.

::

    ConnectException                     500  root of all
    ├── ConfigException                  400  a setting is wrong: name, value and reason; all reasons in .errors
    │   ├── MissingException             400  a connector's source or destination is missing, and it cannot wait: its tasks FAIL
    │   └── WorkerSettingsException      500  the worker's own settings are wrong; an admin may correct them, so a retry may succeed
    ├── BadRequestException              400  the request is invalid in the current state
    ├── UnauthorizedException            401  no user, or a wrong password or token
    ├── ForbiddenException               403  this user may not do that, or the worker settings forbid it for all users
    ├── NotFoundException                404  connector, task, logger
    │   └── PluginNotFoundException      404  class or alias unknown; .known lists the known ones
    │       └── PluginVersionException   404  no installed version in the range; .versions lists the installed ones
    ├── AlreadyExistsException           409
    ├── ConflictException                409  another change is in progress, or a DAG file owns the connector
    ├── RetriableException               500  the call may succeed later
    │   ├── StoreTimeoutException        500  a topic was not read or written in time; .stage is how far it got
    │   ├── BackpressureException        500  a task asks for a pause of .retry_after_ms
    │   └── UnavailableException         500  a system that a converter needs is unavailable: no record is at fault, so none is skipped
    ├── DataException                    500  one value or record cannot be read or converted
    │   └── SchemaException              500  a schema is invalid
    ├── StoreException                   500  an internal topic, or a record on it, is invalid
    ├── RecordTooLargeException          413  a client or topic refuses a record for its size; the message has the setting to raise
    └── TaskException                    500  ends a task, whose status becomes FAILED
        ├── TaskMemoryException          500  its process reached task.memory.max, or could not get memory
        ├── FencedException              500  a newer claim took over: the task ends without another write
        │   ├── PausedException          500  the connector was paused before its task began
        │   └── TransactionExpiredException  500  the broker probably aborted a transaction that took too long
        ├── RetriesExhaustedException    500  a temporary cause outlasted the retries of a call
        ├── ChangedInputException        500  others have changed what a sink reads; a retry continues from what is there now
        ├── JavaException                500  Java code raised an exception; .trace is Java's
        │   └── JavaRecordException      500  a Java task's record is too large for its producer or topic
        └── TooManyTasksException        500  a connector asked for more tasks than tasks.max allows

Classes have the names of Kafka Connect's classes, if there are such classes. Foreign errors are translated once, in the module that calls
their library.
"""

import re
import threading
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import takewhile
from typing import ClassVar, Final

MOST_CHARACTERS: Final = 50_000
"""Maximum length of a trace. In JSON a character may take twelve bytes."""


class ConnectException(Exception):
    """Root of all exceptions of this package. Raised itself if no more specific class fits."""

    status_code: ClassVar[int] = 500
    retriable: ClassVar[bool] = False

    @property
    def message(self) -> str:
        """The exception's text, without its class."""
        return str(self)


class ConfigException(ConnectException):
    """A setting is wrong. ``ConfigException.of`` creates Kafka Connect's message.

    ``errors`` has one message per error. ``keys`` has the names of the wrong settings, if they are known.
    """

    status_code = 400

    def __init__(self, message: str, *, errors: Iterable[str] = (), keys: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.errors = list(errors) or [message]
        self.keys = list(keys)

    @classmethod
    def of(cls, name: str, value: object, reason: str) -> "ConfigException":
        """The exception for the invalid ``value`` of setting ``name``, with its ``reason``. Several names are separated by ``, ``."""
        return cls(f"Invalid value {value} for configuration {name}: {reason}", keys=name.split(", "))


class MissingException(ConfigException):
    """A connector's source or destination is missing or denies access, and the connector cannot wait. Its run and its tasks FAIL."""


class WorkerSettingsException(ConfigException):
    """The worker's own settings are wrong. No connector is at fault; an admin may correct them, so a retry may succeed."""

    status_code = 500
    retriable = True


class BadRequestException(ConnectException):
    """The request is invalid in the current state, for example offsets for a connector that is not STOPPED."""

    status_code = 400


class UnauthorizedException(ConnectException):
    """The request names no user, or its password or token is wrong."""

    status_code = 401


class ForbiddenException(ConnectException):
    """The caller may not do this, or the worker settings forbid it for all users."""

    status_code = 403


class NotFoundException(ConnectException):
    """No such connector, task or logger."""

    status_code = 404


class PluginNotFoundException(NotFoundException):
    """No plugin has this class name or alias. ``known`` lists the existing names."""

    def __init__(self, message: str, *, known: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.known = list(known)


class PluginVersionException(PluginNotFoundException):
    """No installed version of the plugin is in the requested range. ``versions`` lists the installed versions."""

    def __init__(self, message: str, *, versions: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.versions = list(versions)


class AlreadyExistsException(ConnectException):
    """A connector of this name exists."""

    status_code = 409


class ConflictException(ConnectException):
    """Another change is in progress, or a DAG file owns the connector that the caller wants to change."""

    status_code = 409


class RetriableException(ConnectException):
    """The call may succeed later. A task raises it from ``poll`` or ``put`` to be called again.

    The call is repeated after ``retry_after_ms``, or by default after a growing wait. ``docs/errors.md`` describes the meaning of this
    exception for each call of a plugin.
    """

    retriable = True
    retry_after_ms: float | None = None

    def __init__(self, *args: object, retry_after_ms: float | None = None) -> None:
        super().__init__(*args)
        self.retry_after_ms = retry_after_ms


class StoreTimeoutException(RetriableException):
    """A topic was not read or written in time. ``stage`` is the step that took too long."""

    def __init__(self, message: str, *, stage: str = "") -> None:
        super().__init__(message)
        self.stage = stage


class BackpressureException(RetriableException):
    """A task asks for a pause of ``retry_after_ms`` before the same call is made again."""

    def __init__(self, message: str, *, retry_after_ms: float) -> None:
        super().__init__(message, retry_after_ms=retry_after_ms)


class UnavailableException(RetriableException):
    """A system that a converter or transformation needs is unavailable, or refuses its credentials.

    No record is at fault. So the task fails under every error tolerance, no record is skipped, and the next attempt of the run starts with
    the same records.
    """


class DataException(ConnectException):
    """A value or record cannot be read or converted. ``errors.tolerance`` decides whether it is skipped or the task fails.

    For a column or batch, ``record`` may be the index of the record at fault. None: unknown.
    """

    record: int | None = None


class SchemaException(DataException):
    """A schema is invalid."""


class StoreException(ConnectException):
    """An internal topic, or a record on it, is invalid."""


class RecordTooLargeException(ConnectException):
    """A producer or topic refuses a record for its size. Every attempt would fail.

    The message has topic, key, size and the setting to raise.
    """

    status_code = 413


class TaskException(ConnectException):
    """Ends a task. The task's status becomes FAILED, with this exception as the trace."""


class JavaException(TaskException):
    """Java code raised an exception. ``trace`` is Java's, as in Kafka Connect's statuses: its first line has class and message."""

    retriable = True

    def __init__(self, trace: str) -> None:
        super().__init__(trace.partition("\n")[0])
        self.trace = trace


class JavaRecordException(JavaException):
    """A record of a Java task is larger than its producer or topic allows. Every attempt would fail."""

    retriable = False


class FencedException(TaskException):
    """A newer claim took over. The task ends without another write, and nothing is retried."""


class PausedException(FencedException):
    """The connector was paused before its task began."""


class TransactionExpiredException(FencedException):
    """A producer was fenced, probably by the broker because its transaction was open for ``transaction.timeout.ms``."""


class RetriesExhaustedException(TaskException):
    """A temporary cause outlasted the retries of a call. A later attempt of the task may succeed."""

    retriable = True


class ChangedInputException(TaskException):
    """Others have changed what a sink reads, while it read: a topic was created anew or has lost its end, or another program has set the
    group's offsets. Nothing is committed. A retry continues from what is there now."""

    retriable = True


class TaskMemoryException(TaskException):
    """The task needs more memory than ``task.memory.max``, or than the system has. A retry continues after the task's last commit."""

    retriable = True


class TooManyTasksException(TaskException):
    """A connector returned more task configs than ``tasks.max`` allows, and ``tasks.max.enforce`` is on."""

    def __init__(self, connector: str, generated: int, tasks_max: int) -> None:
        super().__init__(
            f"The connector {connector} has generated {generated} tasks, which is greater than {tasks_max}, the maximum number of "
            "tasks it is configured to create. This behaviour should be considered a bug and is disallowed. If necessary, it can "
            "be permitted by reconfiguring the connector with 'tasks.max.enforce' set to false; however, this option will be "
            "removed in a future release of Kafka Connect."
        )


def is_transient(error: BaseException) -> bool:
    """Whether a retry may succeed. True for all foreign exceptions except ImportError."""
    return error.retriable if isinstance(error, ConnectException) else not isinstance(error, ImportError)


def trace_of(error: BaseException) -> str:
    """The trace for a FAILED status. The first line has class and message, as Kafka Connect's clients expect. The traceback follows.

    For a Java exception, returns only Java's trace."""
    if isinstance(error, JavaException):
        return error.trace
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}: {message_of(error)}\n{''.join(traceback.format_exception(error))}"


def shorten(text: str, most: int = MOST_CHARACTERS) -> str:
    """Cut the middle of ``text``, so that it has at most ``most`` characters.

    A message may contain a whole body, and a topic refuses records of a megabyte. Mask secrets first, because the cut may divide a secret.
    """
    if len(text) <= most:
        return text
    half = most // 2 - 50
    return f"{text[:half]}\n… {len(text) - 2 * half} characters are left out …\n{text[-half:]}"


_JAVA_FRAME: Final = re.compile(r"at [^\s()]+\(.*\)|\.\.\. \d+ (?:more|common frames omitted)")


def last_line(trace: str) -> str:
    """The line of a trace that a log or page shows: the last line, stripped. Empty for an empty trace.

    Skips Java's frames, and a code excerpt with a caret below it, which databases and parsers append to their messages.
    """
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    lines = [line for line in lines if not _JAVA_FRAME.fullmatch(line)] or lines
    if len(lines) > 2 and not lines[-1].strip("^~ "):
        lines = lines[:-2]
    return lines[-1].removeprefix("Caused by: ") if lines else ""


_CALLS: Final = ("Traceback (most recent call last)", "\tat ", "    at ")
"""In a trace of Python or Java, the line after the message begins with one of these texts."""
_CAUSE: Final = "Caused by: "
_IN_FRONT: Final = "Tolerance exceeded in error handler: "
_CLASS: Final = re.compile(r"(?:[\w$]+\.)*[A-Z][\w$]*")


def short_trace(trace: str) -> str:
    """Only class and message. For a real Kafka Connect, also the last cause."""
    lines = trace.strip().splitlines()
    message = list(takewhile(lambda line: not line.startswith(_CALLS), lines))
    causes = [line for line in lines[len(message) :] if line.startswith(_CAUSE)]
    return "\n".join([*message, *causes[-1:]])


def reason_of(trace: str) -> str:
    """The reason of a failure in one line, for lists and messages: ``first_line`` of the last cause's message, without the exception's
    class. If there is no message, the class. If the message is one word, such as a path, with the class's short name before it."""
    lines = trace.strip().splitlines()
    last = max((index for index, line in enumerate(lines) if line.startswith(_CAUSE)), default=0)
    line = first_line("\n".join(lines[last:]).removeprefix(_CAUSE))
    name, _, message = line.partition(": ")
    if not message or not _CLASS.fullmatch(name):
        return line
    return message.removeprefix(_IN_FRONT) if " " in message else f"{re.split(r'[.$]', name)[-1]}: {message}"


def first_line(message: str) -> str:
    """The first line of a message or trace. If it ends with a colon, the line that it announces follows it."""
    lines = takewhile(lambda line: not line.startswith(_CALLS), message.strip().splitlines())
    found = next(lines, "")
    for line in lines:
        if not found.endswith(":"):
            break
        found = f"{found} {line.strip()}".strip()
    return found


def message_of(error: BaseException) -> str:
    """``str(error)``, or a placeholder with the class if ``__str__`` raises."""
    try:
        return str(error)
    except Exception:
        return f"<{type(error).__name__}, whose message cannot be read>"


@contextmanager
def plugin_code() -> Iterator[None]:
    """Wrap calls of plugin code. Turns SystemExit and asyncio's CancelledError into ConnectException.

    These two exceptions would end the process or thread as if its work were complete. KeyboardInterrupt in the main thread is from the user
    and is not changed.
    """
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
            raise
        did = f"called exit({error.code})" if isinstance(error, SystemExit) else f"raised {type(error).__name__}: {message_of(error)}"
        raise ConnectException(f"The plugin's code {did}") from error
