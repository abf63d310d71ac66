"""What ``airflow connect doctor`` reports of the packages that are installed beside this one."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from airflow_provider_connect.api_server.cluster_checks import Outcome
from airflow_provider_connect.cli.doctor import package_findings
from airflow_provider_connect.runtime.stores.admin_connection import DISTRIBUTION

THERE, EXTRA = "packaging", 'packaging; extra == "zoo"'


@pytest.mark.parametrize(
    ("requirements", "outcomes"),
    [
        ([THERE, EXTRA], [Outcome.OK]),
        (["no-such-package", EXTRA], [Outcome.WRONG]),
        ([THERE, 'no-such-package; extra == "airflow"', EXTRA], [Outcome.WRONG]),
        ([THERE, 'no-such-package; extra == "files"', EXTRA], [Outcome.WARNING]),
        (["no-such-package", 'no-such-package; extra == "files"', EXTRA], [Outcome.WRONG, Outcome.WARNING]),
    ],
)
def test_packages_are_right_only_if_none_lacks(
    requirements: Iterable[str], outcomes: list[Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = tmp_path / f"{DISTRIBUTION.replace('-', '_')}-1.0.dist-info" / "METADATA"
    metadata.parent.mkdir()
    lines = ["Metadata-Version: 2.1", f"Name: {DISTRIBUTION}", "Version: 1.0", *(f"Requires-Dist: {each}" for each in requirements)]
    metadata.write_text("\n".join([*lines, ""]))
    monkeypatch.syspath_prepend(tmp_path)
    assert [(each.subject, each.outcome) for each in package_findings()] == [("packages", outcome) for outcome in outcomes]
