"""The pages: each is led to from the README, and no link leads nowhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def linked(page: Path) -> set[Path]:
    """The files that its links lead to."""
    links = (target.partition("#")[0] for target in _LINK.findall(page.read_text(encoding="utf-8")))
    return {(page.parent / link).resolve() for link in links if link and "://" not in link}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_readme_leads_to_every_page(page: Path) -> None:
    assert page in linked(README)


@pytest.mark.parametrize("page", [*sorted(ROOT.glob("*.md")), *PAGES], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert sorted(str(target) for target in linked(page) if not target.exists()) == []


def test_every_test_that_the_page_on_security_names_is_there() -> None:
    """``tests/….py::name``; a name alone, ``::name``, is of the file before it."""
    missing, file = [], ROOT
    for path, name in re.findall(r"`(tests/[\w/]+\.py|…)?(?:::(\w+))?`", (ROOT / "docs" / "security.md").read_text(encoding="utf-8")):
        file = ROOT / path if path.startswith("tests/") else file
        if (path or name) and (not file.is_file() or f"def {name or 'test_'}" not in file.read_text(encoding="utf-8")):
            missing.append(f"{file.relative_to(ROOT)}::{name}")
    assert missing == []
