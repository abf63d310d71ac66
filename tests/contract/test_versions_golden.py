"""Versions and ranges against the results of Kafka Connect 4.3.1's own classes (``versions_public.json``) and of maven-artifact 3.9.15."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from airflow_provider_connect.errors import ConfigException, PluginNotFoundException, PluginVersionException
from airflow_provider_connect.runtime.model.versions import MavenVersion, VersionRange, choose_version, oldest_first, requirement

GOLDEN = Path(__file__).parent / "golden"
PUBLIC: dict[str, Any] = json.loads((GOLDEN / "versions_public.json").read_text())
PLUGIN = "org.apache.kafka.connect.file.FileStreamSourceConnector"


def sign(left: MavenVersion, right: MavenVersion) -> int:
    return -1 if left < right else 1 if left > right else 0


def test_every_pair_of_versions_is_ordered_as_recorded() -> None:
    for row in PUBLIC["orders"]:
        left, right = MavenVersion(row["a"]), MavenVersion(row["b"])
        assert f"a {'=><'[sign(left, right)]} b" == row["order"], row
        assert (left == right) == row["equal"], row
        assert sign(right, left) == -sign(left, right), row
    print(f"orders: {len(PUBLIC['orders'])} rows agree")
    assert len(PUBLIC["orders"]) == 83


def test_every_list_is_sorted_as_recorded() -> None:
    for row in PUBLIC["sorted"]:
        assert oldest_first(row["installed"]) == row["oldest_first"], row
        assert choose_version(PLUGIN, row["installed"], None) == row["latest"], row
    print(f"sorted: {len(PUBLIC['sorted'])} rows agree")
    assert len(PUBLIC["sorted"]) == 4


def maven_reading(spec: str, installed: list[str]) -> dict[str, object]:
    try:
        wanted = VersionRange.parse(spec)
    except ConfigException as error:
        return {"error": "InvalidVersionSpecificationException", "message": str(error)}
    inside = [version for version in installed if MavenVersion(version) in wanted]
    newest = max(inside, key=MavenVersion, default=None)
    recommended = None if wanted.recommended is None else str(wanted.recommended)
    return {
        "range": str(wanted),
        "has_restrictions": wanted.has_restrictions,
        "recommended": recommended,
        "contains": inside,
        "match_version": newest,
    }


def connects_choice(spec: str | None, installed: list[str]) -> dict[str, object]:
    try:
        wanted = requirement(spec)
    except ConfigException as error:
        return {"error": "InvalidVersionSpecificationException", "message": str(error)}
    answer: dict[str, object] = {"requirement": None if wanted is None else str(wanted)}
    try:
        return answer | {"chosen": choose_version(PLUGIN, installed, spec)}
    except PluginVersionException as error:
        return answer | {"error": "VersionedPluginLoadingException", "message": str(error)}
    except PluginNotFoundException as error:
        return answer | {"error": "ClassNotFoundException", "message": str(error)}


def test_every_range_is_read_and_resolved_as_recorded() -> None:
    counts: Counter[str] = Counter()
    for row in PUBLIC["ranges"]:
        if "maven" in row:
            assert maven_reading(row["spec"], row["installed"]) == row["maven"], row
            counts["read"] += 1
        assert connects_choice(row["spec"], row["installed"]) == row["connect"], row
        counts["refused" if "error" in row["connect"] else "resolved"] += 1
    print(f"ranges: {dict(counts)} rows agree")
    assert counts["refused"] + counts["resolved"] == 60


def test_generated_versions_and_ranges_equal_mavens() -> None:
    counts: Counter[str] = Counter()
    for line in (GOLDEN / "maven_versions.tsv").read_text().splitlines():
        kind, first, second, answer = line.split("\t")
        if kind == "order":
            assert str(sign(MavenVersion(first), MavenVersion(second))) == answer, line
        else:
            reading = maven_reading(first, [second])
            is_restricted, is_inside = str(reading.get("has_restrictions")).lower(), str(reading.get("contains") == [second]).lower()
            ours = f"E {reading['message']}" if "error" in reading else f"{reading['range']} {is_restricted} {is_inside}"
            assert ours == answer, line
        counts[kind] += 1
    print(f"maven_versions.tsv: {dict(counts)} rows agree")
    assert counts == {"order": 900, "range": 700}
