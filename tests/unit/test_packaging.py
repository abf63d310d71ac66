"""The metadata of the distribution: what a package index shows, and the licence that goes along."""

import configparser
import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.bom import bill_of_materials

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


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """With one requirement, and one of an extra."""
    metadata = (
        "Metadata-Version: 2.4\nName: airflow-provider-connect\nVersion: 0.1.0\nSummary: Connectors\nLicense: Apache-2.0\n"
        'Requires-Dist: confluent-kafka<3\nRequires-Dist: Httpx>=0.27; extra == "client"\n\n# README'
    )
    path = tmp_path / "airflow_provider_connect-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("airflow_provider_connect-0.1.0.dist-info/METADATA", metadata)
    return path


def listed(*names: str) -> dict[str, Any]:
    """What cyclonedx-bom writes of a file of requirements, a line each."""
    components = [{"bom-ref": f"L{line}", "name": name, "description": f"line {line}"} for line, name in enumerate(names)]
    return {"bomFormat": "CycloneDX", "metadata": {"tools": {}}, "components": components, "dependencies": [{"ref": "L0"}]}


def test_the_bill_of_materials_names_the_wheel_and_its_direct_requirements(wheel: Path) -> None:
    bill = bill_of_materials(listed("anyio", "confluent-kafka", "httpx"), wheel)
    component = bill["metadata"]["component"]
    assert component["purl"] == "pkg:pypi/airflow-provider-connect@0.1.0"
    assert component["licenses"][0]["license"]["id"] == "Apache-2.0"
    assert component["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]
    assert bill["components"] == [
        {"bom-ref": "L0", "name": "anyio"},
        {"bom-ref": "L1", "name": "confluent-kafka"},
        {"bom-ref": "L2", "name": "httpx"},
    ]
    assert bill["dependencies"] == [{"ref": "L0"}, {"ref": "wheel", "dependsOn": ["L1", "L2"]}]


def test_a_bill_of_materials_without_a_requirement_of_the_wheel_is_refused(wheel: Path) -> None:
    with pytest.raises(ValueError, match="confluent-kafka<3"):
        bill_of_materials(listed("anyio", "httpx"), wheel)


def test_the_bill_of_materials_covers_every_extra_that_is_pinned() -> None:
    setup = configparser.ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = re.search(r"^EXTRAS := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert extras is not None
    assert set(extras[1].split()) == set(setup["options.extras_require"]) - {"openlineage", "test"}


@pytest.mark.parametrize("tools", ["docs.txt", "bom.txt"])
def test_every_file_of_a_tool_is_known_by_its_hash(tools: str) -> None:
    lines = (ROOT / "requirements" / tools).read_text().replace("\\\n", " ").splitlines()
    assert lines
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==\S+( ; .+?)?( +--hash=sha256:[0-9a-f]{64})+", line)] == []
