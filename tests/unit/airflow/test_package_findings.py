"""What ``airflow connect doctor`` reports of the packages that are installed beside this one, and of the Spark connection."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_connect.api_server.cluster_checks import Outcome
from airflow_provider_connect.cli import doctor
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


ADD = "airflow connections add spark_default --conn-type spark --conn-host 'local[2]'"


@pytest.mark.parametrize(
    ("connection", "fix"),
    [(None, ADD), (Connection(conn_id="spark_default", conn_type="spark"), f"airflow connections delete spark_default    # then {ADD}")],
)
def test_a_spark_connection_is_added_where_there_is_none(connection: Connection | None, fix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow refuses to add a Connection that exists."""

    def get(conn_id: str) -> Connection:
        if connection is None:
            raise AirflowNotFoundException(conn_id)
        return connection

    monkeypatch.setattr(Connection, "get", get)
    monkeypatch.setattr(doctor, "spark_connection", lambda: "spark_default")
    [found] = [each for each in doctor._java_and_spark() if each.subject == "spark"]
    assert (found.outcome, found.fix) == (Outcome.WRONG, fix)
