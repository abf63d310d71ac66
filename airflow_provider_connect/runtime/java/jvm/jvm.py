"""A JVM as a child of this process, driven by Py4J: its start, its log, its errors and its end. Knows nothing of Kafka Connect.

The code of Java plugins runs only in that JVM. The child's environment contains no credential of this process, and its command line
contains no secret. The child ends with this process, however this process ends: the kernel sends it a signal, and its standard input
closes.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from py4j import java_gateway
from py4j.java_gateway import GatewayClient, GatewayParameters, JavaGateway
from py4j.protocol import REFERENCE_TYPE, Py4JError, Py4JJavaError, get_return_value, is_error

from airflow_provider_connect.errors import (
    MOST_CHARACTERS,
    ConnectException,
    JavaException,
    RetriableException,
    TaskException,
    TaskMemoryException,
    shorten,
)
from airflow_provider_connect.runtime.java.jvm.class_data import OPTIONS
from airflow_provider_connect.runtime.java.jvm.exit_call import add_exit_hook, exit_call
from airflow_provider_connect.runtime.java.jvm.folder import JvmFolder
from airflow_provider_connect.runtime.java.jvm.log_lines import LOG4J, RepeatedLines, parse_line
from airflow_provider_connect.runtime.java.jvm.runtime_jars import gateway_jar
from airflow_provider_connect.runtime.spark.class_data import ClassData, note_exit
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime
from airflow_provider_connect.runtime.spark.parent_death import bounded_lines, dies_with_parent

log = logging.getLogger(__name__)

START_SECONDS: Final = 300.0
CALL_SECONDS: Final = 180.0
"""The limit for one call into Java that does not wait for the end of a task."""
END_SECONDS: Final = 10.0
_LAST_SECONDS: Final = 5.0
_OUT_OF_MEMORY: Final = 3  # the exit code of ExitOnOutOfMemoryError, one of ``OPTIONS``
_STACKS: Final = "stacks-at-exit"
_MOST_OF_LINE: Final = 5_000
_MISSING_CLASS: Final = re.compile(r"\bjava\.lang\.NoClassDefFoundError: ([\w$/]+)$", re.MULTILINE)
MISSING: Final = "There is no class"
"""The beginning of the line that names a class that a plugin lacks."""
_READ_BYTES: Final = 1 << 16
_OF_JAVA_ITSELF: Final = ".level=WARNING\nhandlers=java.util.logging.ConsoleHandler\n"
"""Settings for libraries that log through java.util.logging. Their lines do not have our format, so ordinary messages would look like
warnings."""
_PASSED_ON: Final = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
_OPTIONS_OF_NEW_JAVA: Final = ("--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow")


class Jvm:
    """One JVM. ``java`` is Py4J's view of the JVM's classes. Its type is Any because the types are Java's. ``hide`` hides secrets in each
    log line. ``title`` names the plugin in errors; it may be set anew when another plugin is asked."""

    def __init__(
        self,
        runtime: JavaRuntime,
        class_path: Sequence[Path],
        *,
        heap: str,
        hide: Callable[[str], str],
        class_data: ClassData | None = None,
        writes: Path | None = None,
        call_seconds: float = CALL_SECONDS,
        title: str = "the Java plugins",
    ) -> None:
        """Returns when the JVM accepts calls. ``class_data`` is the archive of this class path. ``writes`` is the path to which the JVM
        writes a new archive when it ends. A call without an answer fails after ``call_seconds``, and the JVM is killed. Raises
        RetriableException if the JVM does not start."""
        self._class_data = class_data if class_data is not None and class_data.is_built else None
        self._own_folder = JvmFolder()
        self.folder = self._own_folder.path
        self._hide, self._heap, self.title, self._call_seconds = hide, heap, title, call_seconds
        self._gateway: JavaGateway | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._cpu_seconds = 0.0
        self._exit_call = ("", "")
        logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)  # reports each object that is collected after the JVM's end
        logging.getLogger().addFilter(_is_not_py4j)  # reports each call after the JVM's end, with a traceback, to the root logger
        try:
            (self.folder / "log4j2.properties").write_text(LOG4J)
            (self.folder / "logging.properties").write_text(_OF_JAVA_ITSELF)
            self._process = _start_child(self._command(runtime, class_path, heap, writes), self.folder)
            threading.Thread(target=self._read_log, args=(self._process,), name="java-log", daemon=True).start()
            port, token = _read_address(self._process)
            parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True, read_timeout=call_seconds)
            self._gateway = _Gateway(gateway_parameters=parameters)
            self.java: Any = self._gateway.jvm
            with self.calls():
                add_exit_hook(self.java, self.array, self.folder / _STACKS)
        except BaseException:
            self.kill()
            raise

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        return 0 if self._process is None else self._process.pid

    @property
    def cpu_seconds(self) -> float:
        """CPU time used so far, or until the JVM was closed."""
        if self.is_alive:
            with contextlib.suppress(OSError, IndexError, ValueError):  # the JVM ends at this instant
                times = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
                self._cpu_seconds = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
        return self._cpu_seconds

    @property
    def threads(self) -> int:
        """The number of its threads. 0: the JVM has ended, or the system does not count them."""
        with contextlib.suppress(OSError, IndexError, ValueError):
            return int(Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[17]) if self.is_alive else 0
        return 0

    def limit_threads(self, most: int) -> None:
        """Kill the JVM if it has more than ``most`` threads. Then raises RetriableException, which has their most frequent name."""
        if (count := self.threads) <= most:
            return
        name, same = _most_frequent_thread(self.pid)
        self.kill()
        raise RetriableException(
            f"The JVM of {self.title} had {count} threads, more than the {most} of the worker setting java.threads.max, and was ended. "
            f"{same} of them were named like {name}. Does a plugin start threads that never end? A later try may succeed."
        )

    def array(self, of: Any, length: int) -> Any:
        """A Java array of the class ``of``. For the type Any, see ``java``."""
        assert self._gateway is not None
        return self._gateway.new_array(of, length)

    @contextlib.contextmanager
    def calls(self) -> Iterator[None]:
        """Surrounds calls into Java. Raises JavaException with Java's stack trace, TaskMemoryException if the heap was exhausted,
        TaskException if a plugin has called System.exit, and RetriableException if the JVM has ended otherwise or does not answer."""
        began = time.monotonic()
        try:
            yield
        except Py4JJavaError as error:
            raise self._raised(error) from None
        except (Py4JError, OSError) as error:
            raise self._failure(error, time.monotonic() - began) from None

    def _raised(self, error: Py4JJavaError) -> ConnectException:
        """The exception for an exception of Java's."""
        try:
            return JavaException(self.explained(self._trace_of(error)))
        except (Py4JError, OSError) as failed:  # the JVM has ended since
            return self._failure(failed, 0.0)

    def _failure(self, error: Exception, seconds: float) -> ConnectException:
        """The exception for a call that failed with ``error`` after ``seconds``, although Java raised nothing."""
        code = None if self._process is None else _exit_code(self._process)
        caller, method = ("", "") if code is None else self._noted_exit()
        if caller:
            return TaskException(
                f"{caller} called {method}({code}), which ended the JVM of {self.title}. A plugin must raise an exception instead, so "
                "this is an error in its code, and no retry is made. What was committed before stays"
            )
        if code == _OUT_OF_MEMORY:
            return TaskMemoryException(
                f"java.lang.OutOfMemoryError: the JVM of {self.title} needed more than its heap of {self._heap}, and ended. What "
                "was committed before stays. Give the connector smaller batches, or raise airflow.java.memory, up to the worker's "
                "java.memory.max"
            )
        if code is not None:
            why = _ending(code)
        elif seconds >= self._call_seconds:
            self.kill()  # otherwise, each further call, such as those of its regular end, would take as long
            why = f"did not answer for {seconds:.0f} s, and was killed"
        else:
            why = f"does not answer: {error}"
        return RetriableException(f"The JVM of {self.title} {why}. A later try may succeed.")

    def _noted_exit(self) -> tuple[str, str]:
        """The method that has ended the JVM, and the method that it called. Kept, because ``kill`` removes the file of the stacks."""
        with contextlib.suppress(OSError):
            self._exit_call = exit_call((self.folder / _STACKS).read_text(errors="replace"))
        return self._exit_call

    def explained(self, trace: str) -> str:
        """The stack trace without secrets. If a class is missing, its last line names the class as Java's users write it."""
        trace = self._hide(trace)
        missing = _MISSING_CLASS.search(trace)
        return trace if missing is None else f"{trace.rstrip()}\n{MISSING} {missing[1].replace('/', '.')} in the jars of {self.title}"

    def _trace_of(self, error: Py4JJavaError) -> str:
        """The stack trace, whose lines are cut. It passes through a file, because a message of any length must not pass through a call."""
        file = self.folder / f"trace-{threading.get_ident()}"
        stream = self.java.java.io.PrintStream(str(file), "UTF-8")
        error.java_exception.printStackTrace(stream)
        stream.close()
        with file.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            trace = self._hide("".join(bounded_lines(lines)))  # masked first, because part of a secret is not recognized
        file.unlink()
        return shorten("\n".join(_cut(line, _MOST_OF_LINE) for line in trace.strip().split("\n")))

    def close(self, seconds: float = END_SECONDS) -> bool:
        """Ask the JVM to end, and kill it if it has not ended after ``seconds``. Returns whether it ended by itself. May be called
        repeatedly."""
        _ = self.cpu_seconds  # read now, because it cannot be read after the end
        process = self._process
        if process is not None and process.poll() is None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
        code = None if process is None else process.poll()
        self.kill()
        return code is not None and code >= 0

    def kill(self) -> None:
        """Kill the JVM. May be called from any thread. Pending calls raise an exception."""
        gateway, self._gateway = self._gateway, None
        _ = self.cpu_seconds
        if self._process is not None:
            if note_exit(self._class_data, self._process.poll()):
                log.warning(
                    "A JVM of Java plugins crashed, so its archive of classes is deleted; python -m "
                    "airflow_provider_connect.runtime.java.prepare builds it again"
                )
            self._process.kill()
            self._process.wait()
            self._noted_exit()
        if gateway is not None:
            with contextlib.suppress(Exception):
                gateway.close()
        self._own_folder.remove()

    def _command(self, runtime: JavaRuntime, class_path: Sequence[Path], heap: str, writes: Path | None) -> list[str]:
        major = int(runtime.version.partition(".")[0].partition("-")[0].partition("+")[0])
        options = [*OPTIONS, *(_OPTIONS_OF_NEW_JAVA if major >= 24 else ()), f"-Xmx{heap}"]
        options += [f"-Djava.io.tmpdir={self.folder}", f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"]
        options += [f"-Djava.util.logging.config.file={self.folder / 'logging.properties'}"]
        options += [] if self._class_data is None else [f"-XX:SharedArchiveFile={self._class_data.connect}"]
        options += [] if writes is None else [f"-XX:ArchiveClassesAtExit={writes}"]
        jars = ":".join(map(str, (gateway_jar(), *class_path)))
        main = ("py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0")
        return [str(runtime.executable), *options, "-cp", jars, *main]

    def _read_log(self, process: subprocess.Popen[bytes]) -> None:
        """Pass each line to the logger of its Java class, below ``java``."""
        assert process.stderr is not None
        repeated = RepeatedLines()
        for raw in bounded_lines(process.stderr):
            line = self._hide(raw.decode(errors="replace").rstrip("\n"))  # masked again after unescaping: a secret may have either form
            level, name, text = parse_line(line)
            _log(repeated.admitted(level, name, self._hide(text)))  # masked first, because part of a secret is not recognized
        _log(repeated.rest())


class _Client(GatewayClient):  # type: ignore[misc]  # Py4J has no types
    """Raises Java's exceptions itself. In a process with a Spark session, PySpark has replaced the function of Py4J that raises them. Its
    own looks the exception up in Spark's JVM, where another object has the same id."""

    def send_command(self, command: str, retry: bool = True, binary: bool = False) -> Any:  # Any: with ``binary`` also the connection
        answer = super().send_command(command, retry, binary)
        if not binary and is_error(answer)[0] and answer[1:2] == REFERENCE_TYPE:
            get_return_value(answer, self, "a method", "of Java")
        return answer


class _Gateway(JavaGateway):  # type: ignore[misc]  # as above
    def _create_gateway_client(self) -> GatewayClient:
        return _Client(gateway_parameters=self.gateway_parameters)


def _is_not_py4j(record: logging.LogRecord) -> bool:
    return bool(record.pathname != java_gateway.__file__)


def _start_child(command: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    """Start the child from a thread that lives as long as the child, because the kernel sends its signal when the starting thread ends."""
    started: list[subprocess.Popen[bytes] | BaseException] = []
    ready = threading.Event()
    environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | {"HOME": str(folder)}

    def keep() -> None:
        try:
            process = _popen(command, environment, folder)
        except BaseException as error:
            started.append(error)
            ready.set()
            return
        started.append(process)
        ready.set()
        process.wait()

    threading.Thread(target=keep, name="java", daemon=True).start()
    ready.wait()
    if isinstance(started[0], BaseException):
        raise RetriableException(f"Java does not start: {started[0]}") from started[0]
    return started[0]


def _popen(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        env=environment,
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=dies_with_parent(own_group=True),  # noqa: PLW1509 - calls the kernel only
    )


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code of the JVM. None: the JVM has not ended. The JVM's connections close some time before it ends."""
    try:
        return process.wait(_LAST_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _ending(code: int) -> str:
    """How a JVM with this exit code of ``subprocess`` ended, in words."""
    number = -code if code < 0 else code - 128  # Java exits with such a code after SIGTERM
    with contextlib.suppress(ValueError):
        return f"was ended by {signal.Signals(number).name}"
    return f"ended with exit code {code}, as if a plugin had called System.exit"


def _most_frequent_thread(pid: int) -> tuple[str, int]:
    """The name that most threads of the process have, with # for digits, and their number. The kernel has 15 characters of a name."""
    names: Counter[str] = Counter()
    with contextlib.suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # the thread has ended since
                names[re.sub(r"\d+", "#", (thread / "comm").read_text().strip())] += 1
    return names.most_common(1)[0] if names else ("", 0)


def _read_address(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Port and token of the gateway, which the JVM prints first. Text that plugins print later is discarded."""
    assert process.stdout is not None
    began, late = time.monotonic(), threading.Timer(START_SECONDS, process.kill)
    late.start()
    try:
        port, token = process.stdout.readline().strip(), process.stdout.readline().strip()
    finally:
        late.cancel()
    if not port.isdigit() or not token:
        process.kill()
        if time.monotonic() - began >= START_SECONDS:
            raise RetriableException(f"The JVM of the Java plugins did not answer within {START_SECONDS:g} s: this host is slow or busy")
        raise RetriableException(f"The JVM of the Java plugins did not start: exit code {process.wait()}; its log has the reason")
    threading.Thread(target=_drain, args=(process.stdout,), name="java-output", daemon=True).start()
    return int(port), token.decode()


def _drain(output: Any) -> None:
    while output.read1(_READ_BYTES):
        pass


def _log(lines: Iterator[tuple[int, str, str]]) -> None:
    for level, name, text in lines:
        logging.getLogger(name).log(level, "%s", _cut(text))


def _cut(text: str, most: int = MOST_CHARACTERS) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
