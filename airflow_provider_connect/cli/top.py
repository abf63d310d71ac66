"""``airflow connect top``: all connectors on one screen, updated every few seconds. Prints one frame without a terminal or with
``--once``."""

import math
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.filesize import decimal
from rich.live import Live
from rich.table import Table
from rich.text import Text

from airflow_provider_connect.cli.connection import Verbs, connect_command
from airflow_provider_connect.cli.overview import Line, Overview
from airflow_provider_connect.cli.printing import STYLES, visible
from airflow_provider_connect.client.conversation import is_outage
from airflow_provider_connect.errors import BadRequestException, ConnectException
from airflow_provider_connect.runtime.model.views import HealthWord

SHORTEST_SECONDS: Final = 0.2
_PLAIN_WIDTH = 200
_GAP = 2
_LEAST_NAME, _LEAST_REASON = 12, 20
_ROOM = 3  # for the summary, the titles, and the note below
_UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class Column:
    """A column. ``text`` gets a line and the time in ms since 1970. On a narrow terminal, columns with the largest ``rank`` are dropped
    first."""

    title: str
    text: Callable[[Line, float], str]
    rank: int = 0
    is_number: bool = False


@connect_command
def top(arguments: Any, verbs: Verbs) -> None:
    """Show the connectors. The exit code is 0, however the user quits."""
    interval, order = arguments.interval, SORTS[arguments.sort]
    if not SHORTEST_SECONDS <= interval < math.inf:
        raise BadRequestException(f"--interval is a number of seconds from {SHORTEST_SECONDS:g} on, not {interval:g}")
    console, overview = terminal(), Overview(verbs)

    def read() -> list[Line]:
        return sorted(overview.lines(arguments.names), key=order)

    lines = read()
    if arguments.once or not sys.stdout.isatty() or console.is_dumb_terminal:
        console.print(frame(lines, console.width, now_ms=time.time() * 1000))
        return
    with suppress(KeyboardInterrupt):
        _watch(console, lines, read, interval)


def terminal() -> Console:
    """Standard output. If it is not a terminal, its width is COLUMNS, or very large."""
    named = os.environ.get("COLUMNS", "")
    plain = max(int(named), _LEAST_NAME) if named.isdecimal() else _PLAIN_WIDTH
    return Console(file=sys.stdout, width=None if sys.stdout.isatty() else plain, highlight=False, markup=False, emoji=False)


def _watch(console: Console, lines: list[Line], read: Callable[[], list[Line]], interval: float) -> None:
    """Redraw until the user quits. While the server is down, the last lines are kept, with the reason below them."""
    problem = ""
    with _keys() as is_left, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            note = problem or f"every {interval:g} s · q quits"
            live.update(frame(lines, console.width, now_ms=time.time() * 1000, height=console.height, note=note), refresh=True)
            if is_left(interval):
                return
            try:
                lines, problem = read(), ""
            except ConnectException as error:
                if not is_outage(error):
                    raise
                problem = f"Not up to date: {error.message}"


@contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """A function that waits for some seconds or a key, and returns True for q. Without a keyboard, only a signal ends the wait."""
    if not sys.stdin.isatty():

        def sleep(seconds: float) -> bool:
            time.sleep(seconds)
            return False

        yield sleep
        return
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)

    def wait(seconds: float) -> bool:
        if not select.select([keyboard], [], [], seconds)[0]:
            return False
        typed = os.read(keyboard, 64)
        return not typed or b"q" in typed.lower()

    tty.setcbreak(keyboard)
    try:
        yield wait
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def frame(lines: Sequence[Line], width: int, *, now_ms: float, height: int | None = None, note: str = "") -> Group:
    """The frame for ``lines``, in ``width`` characters and at most ``height`` rows, with control characters replaced."""
    shown = lines if height is None else lines[: max(height - _ROOM, 1)]
    parts: list[RenderableType] = [Text(visible(_summary(lines, now_ms)), no_wrap=True, overflow="ellipsis")]
    if shown:
        parts.append(_table(shown, width, now_ms))
    left = len(lines) - len(shown)
    below = " · ".join(filter(None, [f"… and {left} more" if left else "", note]))
    if below:
        parts.append(Text(visible(below.replace("\n", " ")), style="dim", no_wrap=True, overflow="ellipsis"))
    return Group(*parts)


def _summary(lines: Sequence[Line], now_ms: float) -> str:
    at = datetime.fromtimestamp(now_ms / 1000).astimezone().strftime("%H:%M:%S")
    if not lines:
        return f"{at}  No connectors yet: airflow connect create NAME connector.class=… creates one"
    running, failed = sum(line.progress is not None for line in lines), sum(line.has_failed for line in lines)
    return f"{at}  {len(lines)} connectors · {running} with a run in progress · {failed} failed"


def _table(lines: Sequence[Line], width: int, now_ms: float) -> Table:
    table = Table(box=None, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")
    columns = fitting(lines, width, now_ms)
    for column, room in columns:
        justify: Any = "right" if column.is_number else "left"
        table.add_column(column.title, justify=justify, no_wrap=True, overflow="ellipsis", width=room)
    for line in lines:
        table.add_row(*(Text(column.text(line, now_ms), style=_style(column, line)) for column, _ in columns))
    return table


def fitting(lines: Sequence[Line], width: int, now_ms: float) -> list[tuple[Column, int]]:
    """The columns that fit, each with its width. Name and state are always kept; a long name is truncated."""
    known = [column for column in COLUMNS if column is not REASON or any(map(_reason, lines))]
    widths = {column.title: max(map(cell_len, [column.title, *(column.text(line, now_ms) for line in lines)])) for column in known}
    wanted = {title: min(found, _LEAST_NAME if title == NAME.title else found) for title, found in widths.items()}
    wanted[REASON.title] = min(wanted.get(REASON.title, 0), _LEAST_REASON)
    while _sum(wanted, known) > width and (rank := max(column.rank for column in known)):
        known = [column for column in known if column.rank != rank]
    left = max(width - _sum(wanted, known), 0)
    for column in (NAME, REASON):
        if column in known:
            more = min(widths[column.title] - wanted[column.title], left)
            wanted[column.title], left = wanted[column.title] + more, left - more
    return [(column, wanted[column.title]) for column in known]


def _sum(widths: Mapping[str, int], columns: Sequence[Column]) -> int:
    return sum(widths[column.title] + _GAP for column in columns) - _GAP


def _style(column: Column, line: Line) -> str:
    if column is STATE:
        return STYLES.get(line.row.state or "", "")
    if column is TASKS and "FAILED" in line.row.tasks:
        return STYLES["FAILED"]
    return "bold" if column is NAME else "red" if column is REASON else ""


def _one_line(text: str) -> str:
    return visible(" ".join(text.split()))


def _reason(line: Line) -> str:
    """Why it does not deliver everything."""
    health = line.row.health
    return "" if health is None or health.word is HealthWord.IDLE else health.reason or ""


def _health(line: Line, _: float) -> str:
    return str(line.row.health.word) if line.row.health else _UNKNOWN


def _tasks(line: Line, _: float) -> str:
    """The numbers of running tasks and of all tasks."""
    tasks = line.row.tasks
    return f"{tasks.get('RUNNING', 0)}/{sum(tasks.values())}" if tasks else _UNKNOWN


def _run(line: Line, now_ms: float) -> str:
    if line.progress is not None:
        return "now"
    return _UNKNOWN if line.row.last_run is None else f"{duration((now_ms - line.row.last_run.last_ms) / 1000)} ago"


def _next(line: Line, now_ms: float) -> str:
    plan = line.row.plan
    if plan is None or plan.next_run_ms is None or line.row.state in ("PAUSED", "STOPPED"):
        return _UNKNOWN
    return f"in {duration(left)}" if (left := (plan.next_run_ms - now_ms) / 1000) > 0 else "due"


def _number(value: float | None, unit: str = "") -> str:
    return _UNKNOWN if value is None else f"{value:,.0f}{unit}"


def _lag(line: Line, _: float) -> str:
    left, unit = line.left
    if left is None:
        return _UNKNOWN
    return decimal(left) if unit == "bytes" else _number(left)


def duration(seconds: float) -> str:
    """The duration in its one or two largest units."""
    whole = max(round(seconds), 0)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    return f"{whole // 3600} h" if whole < 172_800 else f"{whole // 86_400} d"


NAME: Final = Column("NAME", lambda line, _: _one_line(line.row.name))
STATE: Final = Column("STATE", lambda line, _: _one_line(line.row.state or _UNKNOWN))
TASKS: Final = Column("TASKS", _tasks, 4, is_number=True)
REASON: Final = Column("REASON", lambda line, _: _one_line(_reason(line)), 2)
COLUMNS: Final = (
    NAME,
    STATE,
    Column("HEALTH", _health, 1),
    TASKS,
    Column("RUN", _run, 6),
    Column("RECORDS", lambda line, _: _number(line.records), 3, is_number=True),
    Column("BYTES", lambda line, _: _UNKNOWN if line.bytes is None else decimal(line.bytes), 9, is_number=True),
    Column("RATE", lambda line, _: _number(line.rate, "/s"), 5, is_number=True),
    Column("LAG", _lag, 1, is_number=True),
    Column("LEFT", lambda line, _: _UNKNOWN if line.seconds_left is None else duration(line.seconds_left), 7, is_number=True),
    Column("NEXT", _next, 8),
    REASON,
)
"""From left to right. LAG is the distance to the end; not every source knows this distance. LEFT is the time to the end."""

Order = Callable[[Line], tuple[object, ...]]
SORTS: Final[dict[str, Order]] = {
    "state": lambda line: (not line.has_failed, line.progress is None, line.row.state or "", line.row.name),
    "name": lambda line: (line.row.name,),
    "lag": lambda line: (-(line.row.lag or 0), line.row.name),
    "rate": lambda line: (-(line.rate or 0.0), line.row.name),
    "records": lambda line: (-(line.records or 0), line.row.name),
}
"""The orders of ``--sort``: failed first, then running; by name; or the largest first."""
