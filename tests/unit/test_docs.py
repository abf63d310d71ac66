"""The pages: each is led to from the README, and no link leads nowhere."""

import re
from pathlib import Path

import pytest

from tests import site

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
CONTRACT = ROOT / "docs" / "contract.md"
ARCHITECTURE = ROOT / "docs" / "architecture.md"
TO_AND_FROM_THE_BROKER = ("From `poll` to the broker", "From the broker to `put`")
PACKAGE = ROOT / "airflow_provider_connect"
_CITING = (".py", ".md", ".json")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CITATION = re.compile(r"[Cc]ontract(?:\.md)?,? (?:section )?§?(\d+(?:\.\d+)*)((?:(?:, | and | to )§?\d+(?:\.\d+)*)*)")


def linked(page: Path) -> set[Path]:
    """The files that its links lead to."""
    links = (target.partition("#")[0] for target in _LINK.findall(page.read_text(encoding="utf-8")))
    return {(page.parent / link).resolve() for link in links if link and "://" not in link}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_readme_leads_to_every_page(page: Path) -> None:
    assert page in linked(README)


@pytest.mark.parametrize("page", sorted({*ROOT.glob("*.md"), *site.sources().values()}), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert sorted(str(target) for target in linked(page) if not target.exists()) == []


@pytest.mark.parametrize("page", site.sources())
def test_anchors_in_links_are_there(page: str) -> None:
    source = site.sources()[page]
    text = source.read_text(encoding="utf-8")
    wrong = []
    for link in site.links(text):
        path, _, anchor = link.partition("#")
        file = (source.parent / path).resolve() if path else source
        if anchor and "://" not in link and anchor not in site.anchors(file.read_text(encoding="utf-8")):
            wrong.append(link)
    assert wrong == []


@pytest.mark.parametrize(
    ("line", "anchor"),
    [
        ("## What you get", "what-you-get"),
        ("### `connector-metrics`", "connector-metrics"),
        ("## 3. A config's way", "3-a-configs-way"),
        ("## `RetriableException`, call by call", "retriableexception-call-by-call"),
        ('## <a id="2.3"></a>2.3 Topics', "2.3"),
    ],
)
def test_a_heading_has_the_anchor_that_it_has_in_a_repository(line: str, anchor: str) -> None:
    assert anchor in site.anchors(f"# Page\n\n{line}\n")


def test_headings_of_one_text_have_anchors_of_their_own() -> None:
    assert site.anchors("# A\n\n## A\n\n```\n# not a heading\n```\n") == {"a", "a-1"}


def test_a_page_of_the_site_has_titles_anchors_and_blank_lines_before_lists() -> None:
    text = "# Files\n![a](docs/images/a.png)\nThese:\n- one, [two](docs/jdbc.md#types)\n- three\n```python plugins/shop.py\n# four\n```\n"
    page = (
        "# Files { #files }\n![a](images/a.png)\nThese:\n\n- one, [two](jdbc.md#types)\n- three\n"
        + '```python title="plugins/shop.py"\n# four\n```\n'
    )
    assert site.page_of(text, ROOT) == page


def test_the_site_has_every_page_once() -> None:
    assert sorted(site.navigation()) == sorted(site.sources())


def test_every_test_that_the_threat_analysis_names_is_there() -> None:
    """``tests/….py::name``; a name alone, ``::name``, is of the file before it."""
    missing, file = [], ROOT
    for path, name in re.findall(
        r"`(tests/[\w/]+\.py|…)?(?:::(\w+))?`", (ROOT / "docs" / "threat-analysis.md").read_text(encoding="utf-8")
    ):
        file = ROOT / path if path.startswith("tests/") else file
        if (path or name) and (not file.is_file() or f"def {name or 'test_'}" not in file.read_text(encoding="utf-8")):
            missing.append(f"{file.relative_to(ROOT)}::{name}")
    assert missing == []


def cited(text: str) -> list[str]:
    """The sections of docs/contract.md that ``text`` names: ``contract §2.3``, also several: ``contract §2.3, §4.5``, ``§4.2 to §4.4``."""
    return [number for first, more in _CITATION.findall(text) for number in (first, *re.findall(r"\d+(?:\.\d+)*", more))]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("(contract §2.3)", ["2.3"]),
        ("the rule (contract §2.1, §4.5).", ["2.1", "4.5"]),
        ("in its order (contract §4.2 to §4.4), and ours", ["4.2", "4.4"]),
        ("(docs/contract.md §11.1)", ["11.1"]),
        ("a contract suite of 2 tests", []),
    ],
)
def test_a_citation_names_sections(text: str, numbers: list[str]) -> None:
    assert cited(text) == numbers


def test_every_section_of_the_contract_that_is_cited_is_there() -> None:
    known = set(re.findall(r'^##+ <a id="([\d.]+)"></a>\1 ', CONTRACT.read_text(encoding="utf-8"), re.MULTILINE))
    files = [path for folder in ("airflow_provider_connect", "tests") for path in (ROOT / folder).rglob("*") if path.suffix in _CITING]
    wrong = [
        f"{path.relative_to(ROOT)}: §{number}"
        for path in [*files, *PAGES]
        for number in cited(path.read_text(encoding="utf-8"))
        if number not in known and path != Path(__file__)
    ]
    assert wrong == []


def test_the_contract_names_tests_and_recordings_that_are_there() -> None:
    text = CONTRACT.read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+(?:\.py)?)`", text)
    kept = "\n".join(line for line in text.splitlines() if line.startswith("**Kept by**"))
    recordings = ROOT / "tests" / "contract" / "golden"
    scenarios = [
        name for group in re.findall(r"scenarios? ((?:`[\w-]+`(?:, | and )?)+)", kept) for name in re.findall(r"`([\w-]+)`", group)
    ]
    missing = [name for name in named if not (ROOT / name).exists()]
    assert missing == []
    assert [name for name in scenarios if not (recordings / "rest" / f"{name}.json").is_file()] == []
    assert [name for name in re.findall(r"`([\w]+\.(?:jsonl|json|tsv))`", kept) if not (recordings / name).is_file()] == []


def test_every_section_of_the_contract_leads_to_a_section() -> None:
    text = CONTRACT.read_text(encoding="utf-8")
    assert set(re.findall(r"\]\(#([\d.]+)\)", text)) <= set(re.findall(r'<a id="([\d.]+)">', text))


def sections(text: str) -> dict[str, str]:
    """What stands below each heading, by the heading's text."""
    parts = re.split(r"^##+ (.+)\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def paths_in(text: str) -> list[str]:
    """The paths between backticks: what has a folder in it, or the ending of a file."""
    tokens = re.findall(r"`(\w[\w./-]*)`", text)
    return [token for token in tokens if "/" in token or token.endswith((".py", ".md", ".yaml", ".cfg"))]


def test_every_path_that_the_architecture_names_is_there() -> None:
    named = paths_in(ARCHITECTURE.read_text(encoding="utf-8"))
    assert len(named) > 100
    assert [path for path in named if not (ROOT / path).exists() and not (PACKAGE / path).exists()] == []


def test_a_module_has_every_symbol_that_the_architecture_finds_in_it() -> None:
    found = re.findall(r"`(\w+)` (?:in|of) `([\w/]+\.py)`", ARCHITECTURE.read_text(encoding="utf-8"))
    assert len(found) > 10
    modules = {path: (PACKAGE / path).read_text(encoding="utf-8") for _, path in found}
    defines = r"^ *(?:async def |def |class )?{}\b(?:[(:]| = |\[)"
    assert [(symbol, path) for symbol, path in found if not re.search(defines.format(symbol), modules[path], re.MULTILINE)] == []


@pytest.mark.parametrize("walk", [*TO_AND_FROM_THE_BROKER, "A source's commit", "A sink's commit", "3. A config's way", "Pause", "Stop"])
def test_a_walk_of_the_architecture_goes_from_module_to_module_without_a_gap(walk: str) -> None:
    text = sections(ARCHITECTURE.read_text(encoding="utf-8"))[walk]
    hops = re.findall(r"^(\d+)\. (`[\w/]+\.py`)?", text, re.MULTILINE)
    assert hops
    assert [int(number) for number, _ in hops] == list(range(1, len(hops) + 1))
    assert [number for number, module in hops if not module] == []


def test_a_record_passes_ten_modules_at_most() -> None:
    walks = sections(ARCHITECTURE.read_text(encoding="utf-8"))
    assert all(len(re.findall(r"^\d+\. ", walks[walk], re.MULTILINE)) <= 10 for walk in TO_AND_FROM_THE_BROKER)


def test_the_architecture_names_every_module_that_uses_airflows_internals() -> None:
    internal = re.compile(r"^\s*from airflow\.(?!sdk\b)", re.MULTILINE)
    named = next(text for heading, text in sections(ARCHITECTURE.read_text(encoding="utf-8")).items() if "internals" in heading)
    using = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py") if internal.search(file.read_text(encoding="utf-8"))}
    assert using - set(paths_in(named)) == set()


def test_what_authors_read_names_the_page_of_the_contract() -> None:
    """In an editor, ``contract §5.1`` alone leads nowhere."""
    files = [path for folder in ("sdk", "skeleton") for path in (PACKAGE / folder).rglob("*") if path.suffix in (".py", ".pyi", ".tmpl")]
    found = {
        str(path.relative_to(ROOT)): re.findall(r"(?<!docs/)contract(?:\.md)?,? (?:section )?§?\d", path.read_text("utf-8"))
        for path in files
    }
    assert {path: texts for path, texts in found.items() if texts} == {}
