"""The metadata of the distribution: what a package index shows, and the licence that goes along."""

import configparser
import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\]\(([^)\s]+)\)")


_CAPTURE = "import json, runpy, sys, setuptools; setuptools.setup = lambda **given: print(json.dumps(given)); runpy.run_path(sys.argv[1])"


def _given_to_setuptools(**variables: str) -> dict[str, str | dict[str, str]]:
    """In a process of its own: setuptools refuses to be imported behind distutils, which other tests load."""
    environment = {name: text for name, text in os.environ.items() if name != "PROJECT_URL"} | variables
    command = [sys.executable, "-c", _CAPTURE, str(ROOT / "setup.py")]
    given: dict[str, str | dict[str, str]] = json.loads(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)
    return given


def test_a_release_links_to_its_repository() -> None:
    given = _given_to_setuptools(PROJECT_URL="https://git.example/us/connect/")
    readme = (ROOT / "README.md").read_text()
    expected = [
        f"https://git.example/us/connect/{'raw' if link.startswith('docs/images/') else 'blob'}/main/{link}"
        for link in _LINK.findall(readme)
        if "://" not in link
    ]
    assert "![" in str(given["long_description"])
    assert len(expected) > 20
    assert [link for link in _LINK.findall(str(given["long_description"])) if "/us/connect/" in link] == expected
    assert given["project_urls"] == {
        "Source": "https://git.example/us/connect",
        "Documentation": "https://git.example/us/connect/tree/main/docs",
        "Changelog": "https://git.example/us/connect/blob/main/CHANGELOG.md",
        "Issues": "https://git.example/us/connect/issues",
    }


def test_a_build_that_knows_no_address_links_nowhere() -> None:
    given = _given_to_setuptools()
    assert [link for link in _LINK.findall(str(given["long_description"])) if "://" not in link] == []
    assert "- **Look up**: settings · commands · REST routes" in str(given["long_description"])
    assert "![" not in str(given["long_description"])
    assert given["project_urls"] == {}


def test_the_licence_and_the_notice_are_there() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    assert setup["metadata"]["license_files"].split() == ["LICENSE", "NOTICE"]
    licence = (ROOT / "LICENSE").read_text()
    assert "Version 2.0, January 2004" in licence
    assert "END OF TERMS AND CONDITIONS" in licence
    assert (ROOT / "NOTICE").read_text().startswith("airflow-provider-connect\n")
