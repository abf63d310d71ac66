"""The bill of materials (SBOM) of a wheel, in CycloneDX's JSON, next to the wheel: ``python -m tests.bom REQUIREMENTS.json WHEEL``.

``make dist`` lists the pinned requirements with cyclonedx-bom. This module adds the wheel itself and its direct requirements.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from collections.abc import Mapping
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def bill_of_materials(requirements: Mapping[str, Any], wheel: Path) -> dict[str, Any]:
    """The bill with the wheel as its component. Raises ValueError if a requirement that the wheel has without an extra is missing."""
    metadata = _metadata(wheel)
    component = _component(metadata, hashlib.sha256(wheel.read_bytes()).hexdigest())
    references: dict[str, list[str]] = {}
    for each in requirements["components"]:
        references.setdefault(canonicalize_name(each["name"]), []).append(each["bom-ref"])
    wanted = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    missing = [str(each) for each in wanted if each.marker is None and canonicalize_name(each.name) not in references]
    if missing:
        raise ValueError(f"Requirements of {wheel.name} are not among those listed: {', '.join(missing)}")
    direct = {reference for each in wanted for reference in references.get(canonicalize_name(each.name), ())}
    return {
        **requirements,
        "metadata": {**requirements["metadata"], "component": component},
        "components": [{key: value for key, value in each.items() if key != "description"} for each in requirements["components"]],
        "dependencies": [*requirements["dependencies"], {"ref": component["bom-ref"], "dependsOn": sorted(direct)}],
    }


def _component(metadata: Message, digest: str) -> dict[str, Any]:
    name, version = metadata["Name"], metadata["Version"]
    return {
        "bom-ref": "wheel",
        "type": "library",
        "name": name,
        "version": version,
        "description": metadata["Summary"],
        "licenses": [{"license": {"id": metadata["License-Expression"] or metadata["License"], "acknowledgement": "declared"}}],
        "hashes": [{"alg": "SHA-256", "content": digest}],
        "purl": f"pkg:pypi/{name}@{version}",
    }


def _metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(archive.read(path))


def main() -> None:
    """Writes ``«distribution»-«version».cdx.json`` into the wheel's folder."""
    requirements, wheel = map(Path, sys.argv[1:])
    bill = bill_of_materials(json.loads(requirements.read_text(encoding="utf-8")), wheel)
    target = wheel.with_name("-".join(wheel.name.split("-")[:2]) + ".cdx.json")
    target.write_text(json.dumps(bill, indent=2) + "\n", encoding="utf-8")
    print(*sorted(wheel.parent.iterdir()), sep="\n")


if __name__ == "__main__":
    main()
