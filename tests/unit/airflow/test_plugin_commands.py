"""``airflow connect plugins install|remove|broken``: what they print, and their exit codes."""

from argparse import Namespace
from pathlib import Path

import pytest

from airflow_provider_connect.cli import plugins as commands
from tests.unit.plugins.locations import build, source


def test_the_commands_print_what_they_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    entry = "source:org.example.EchoSourceConnector = echo:EchoSource"
    wheel = str(build(tmp_path, "echo", "1.0", {"echo.py": source()}, entry))
    commands.install(Namespace(plugins=[wheel], path=str(plugins), installer="uv", libraries=None))
    output = capsys.readouterr().out
    assert f"Installed in {plugins}/echo-1.0:" in output
    assert "org.example.EchoSourceConnector  source  1.0" in output
    more = [str(build(tmp_path, "echo", version, {"echo.py": source()}, entry)) for version in ("1.1", "1.2")]
    with pytest.raises(SystemExit, match="already exists"):  # the first of these is new, and stays
        commands.install(Namespace(plugins=[more[0], wheel, more[1]], path=str(plugins), installer="uv", libraries=None))
    assert f"Installed in {plugins}/echo-1.1:" in capsys.readouterr().out
    commands.install(Namespace(plugins=more[1:], path=str(plugins), installer="uv", libraries=None))
    assert sorted(path.name for path in plugins.glob("echo-*")) == ["echo-1.0", "echo-1.1", "echo-1.2"]
    with pytest.raises(SystemExit, match="already exists"):
        commands.install(Namespace(plugins=[wheel], path=str(plugins), installer="uv", libraries=None))
    (plugins / "cut.whl").write_bytes(b"PK")
    with pytest.raises(SystemExit) as end:
        commands.broken(Namespace(path=str(plugins), output="table"))
    assert end.value.code == 1
    assert "cut.whl  it cannot be read" in capsys.readouterr().out
    commands.remove(Namespace(plugin="echo==1.0", path=str(plugins)))
    assert capsys.readouterr().out == f"Removed {plugins}/echo-1.0\n"
