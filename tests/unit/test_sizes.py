"""Long modules and functions are named."""

from pathlib import Path

from tests.sizes import FUNCTION_LINES, MODULE_LINES, warnings


def test_only_what_is_too_long_is_named(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    function = "def f() -> None:\n" + "    pass\n" * FUNCTION_LINES
    (package / "long.py").write_text(function + "\n" * MODULE_LINES)
    (package / "short.py").write_text("def f() -> None:\n" + "    pass\n" * (FUNCTION_LINES - 1))
    module, inner = warnings(package)
    assert module.startswith(f"package/long.py: {MODULE_LINES + FUNCTION_LINES + 1} lines")
    assert inner == f"package/long.py:1: f has {FUNCTION_LINES + 1} lines"
