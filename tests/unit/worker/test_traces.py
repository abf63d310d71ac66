"""Lines of an author's code in traces, and traces for logs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import airflow_provider_connect
from airflow_provider_connect.runtime.worker.errors.traces import line_of_author, without_framework

OURS = f"{Path(airflow_provider_connect.__file__).parent}/worker/task/task_body.py"
HTTPX = "/usr/lib/python3/site-packages/httpx/_models.py"


def trace(*files: str, error: str = "KeyError: 'rows'") -> str:
    """With line numbers that count from 1."""
    frames = "".join(f'  File "{file}", line {number}, in call\n    call()\n    ~~~~^^\n' for number, file in enumerate(files, 1))
    return f"Traceback (most recent call last):\n{frames}{error}\n"


def chained(*traces: str) -> str:
    return "\nThe above exception was the direct cause of the following exception:\n\n".join(traces)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (trace(OURS, "/plugins/shop.py"), " (/plugins/shop.py, line 2)"),
        (trace(OURS, "/plugins/shop.py", "/plugins/shop.py", HTTPX, HTTPX), " (/plugins/shop.py, line 3)"),
        (trace(OURS, "/plugins/shop.py", json.__file__), " (/plugins/shop.py, line 2)"),
        (trace(OURS, "/plugins/shop.py", OURS), " (/plugins/shop.py, line 2)"),
        (trace(OURS, json.__file__, "<string>", "/plugins/shop.py"), " (/plugins/shop.py, line 4)"),
        (trace(OURS, json.__file__), ""),
        (trace(OURS, "pyarrow/types.pxi"), ""),
        (trace(OURS, "pyarrow/ipc.pxi", "/plugins/shop.py"), " (/plugins/shop.py, line 3)"),
        (trace(OURS, "/usr/lib/python3/site-packages/pandas/core/frame.py"), ""),
        (trace(OURS, HTTPX, "/usr/lib/python3/site-packages/httpcore/_sync.py"), ""),
        (trace(OURS, "/usr/lib/python3/site-packages/shop/source.py", HTTPX), " (/usr/lib/python3/site-packages/shop/source.py, line 2)"),
        (chained(trace(OURS, "/plugins/shop.py"), trace(OURS)), " (/plugins/shop.py, line 2)"),
        (chained(trace("/plugins/shop.py"), trace(OURS, OURS, "/plugins/shop.py")), " (/plugins/shop.py, line 3)"),
        ("no trace", ""),
    ],
)
def test_the_line_of_an_author_is_the_last_one_before_a_library(text: str, expected: str) -> None:
    assert line_of_author(text) == expected


def test_files_of_one_package_are_one_author(tmp_path: Path) -> None:
    package = tmp_path / "shop"
    (package / "pages").mkdir(parents=True)
    for folder in (package, package / "pages"):
        (folder / "__init__.py").touch()
    inner, outer = str(package / "pages" / "reader.py"), str(package / "source.py")
    assert line_of_author(trace(OURS, outer, inner, HTTPX)) == f" ({inner}, line 3)"
    assert line_of_author(trace(OURS, inner, outer, HTTPX)) == f" ({outer}, line 3)"


def test_a_log_leaves_this_packages_frames_out_unless_there_are_no_others() -> None:
    whole = f"builtins.KeyError: 'rows'\n{trace(OURS, OURS, '/plugins/shop.py')}"
    shown = without_framework(whole)
    assert OURS not in shown
    assert shown.splitlines() == [
        "builtins.KeyError: 'rows'",
        "Traceback (most recent call last):",
        '  File "/plugins/shop.py", line 3, in call',
        "    call()",
        "    ~~~~^^",
        "KeyError: 'rows'",
    ]
    assert without_framework(trace(OURS)) == trace(OURS)
