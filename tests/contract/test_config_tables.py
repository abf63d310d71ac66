"""The tables of settings in the documentation say what the ConfigDefs say."""

from pathlib import Path

import pytest

from tests.contract.config_tables import pages, up_to_date


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_the_tables_of_a_page_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text == up_to_date(text), "run python -m tests.contract.config_tables"
