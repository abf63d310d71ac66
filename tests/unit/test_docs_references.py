"""The reference pages are what the code has; every setting has a text."""

import pytest

from tests.contract.references import DOCS, GENERATED, airflow_keys, pages, worker_keys
from tests.contract.setting_texts import AIRFLOW, WORKER


def test_every_worker_setting_has_a_text() -> None:
    assert sorted(WORKER.keys() ^ worker_keys().keys()) == [], "add or remove its text in tests/contract/setting_texts.py"


def test_every_setting_of_a_dag_has_a_text() -> None:
    assert sorted(AIRFLOW.keys() ^ airflow_keys().keys()) == [], "add or remove its text in tests/contract/setting_texts.py"


@pytest.mark.parametrize("page", pages())
def test_a_reference_page_is_up_to_date(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert text == GENERATED + pages()[page](), "run python -m tests.contract.references"
