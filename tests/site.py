"""The pages of the documentation's site, written for mkdocs from docs/ and the top of the repository: ``python -m tests.site``.

The sources are GitHub's Markdown. Pages get what Python-Markdown reads differently: an anchor on each heading, a blank line before a list
or table, titles of code blocks, the site's names of pages in links.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
CONFIG = ROOT / "mkdocs.yml"
TARGET = ROOT / ".dev" / "site" / "pages"
_TOP = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "DECISIONS.md": "decisions.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-policy.md",
    "tests/README.md": "tests.md",
    "tests/contract/README.md": "contract-tests.md",
}
_HEADING = re.compile(r"(#{1,6}) (.+?)\s*")
_FENCE = re.compile(r"\s*(`{3,})(.*)")
_LINK = re.compile(r"(?<=\]\()([^)\s]+)(?=\))")
_CODE = re.compile(r"(`+)(?:(?!\1).)+\1")
_BLOCKS = (re.compile(r"(?:[-*]|\d+\.) "), re.compile(r"\|"))


def sources() -> Mapping[str, Path]:
    """The file of each page of the site, by the page's name."""
    top = {page: ROOT / name for name, page in _TOP.items()}
    return {**top, **{file.name: file for file in sorted((ROOT / "docs").glob("*.md"))}}


def in_navigation(entry: object) -> Iterator[str]:
    """The names of pages below ``entry`` of the navigation in mkdocs.yml, in their order."""
    if isinstance(entry, str):
        yield entry
    elif isinstance(entry, dict | list):
        for one in entry.values() if isinstance(entry, dict) else entry:
            yield from in_navigation(one)


def navigation() -> list[str]:
    """The names of all pages in the navigation."""
    return list(in_navigation(yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["nav"]))


def prose(text: str) -> Iterator[tuple[str, bool]]:
    """Each line, and whether it lies outside of code blocks."""
    fence = ""
    for line in text.splitlines():
        found = _FENCE.fullmatch(line)
        if found and (not fence or (found[1].startswith(fence) and not found[2].strip())):
            fence = "" if fence else found[1]
            yield line, False
        else:
            yield line, not fence


def anchors(text: str) -> set[str]:
    """The anchors of a page: of its headings, as GitHub forms them, and its own."""
    found: list[str] = []
    for line, is_prose in prose(text):
        heading = _HEADING.fullmatch(line) if is_prose else None
        if heading:
            found.append(_new_anchor(heading[2], found))
    return {*found, *re.findall(r'<a id="([^"]+)">', text)}


def links(text: str) -> list[str]:
    """Where the links of a page lead, as they are written, without those in code."""
    return [link for line, is_prose in prose(text) if is_prose for link in _LINK.findall(_CODE.sub("", line))]


def page_of(text: str, folder: Path) -> str:
    """The text of a source in ``folder`` as a page of the site."""
    lines: list[str] = []
    taken: list[str] = []
    for line, is_prose in prose(text):
        heading = _HEADING.fullmatch(line) if is_prose else None
        if heading:
            taken.append(_new_anchor(heading[2], taken))
            lines.append(f"{heading[1]} {heading[2]} {{ #{taken[-1]} }}")
        elif is_prose:
            is_first = any(block.match(line) for block in _BLOCKS) and _is_paragraph(lines[-1] if lines else "")
            lines += [*([""] if is_first else []), _LINK.sub(lambda link: _link(link[1], folder), line)]
        else:
            lines.append(re.sub(r"^(\s*`{3,}\w+) ([\w./-]+)$", r'\1 title="\2"', line))
    return "\n".join(lines) + "\n"


def _is_paragraph(line: str) -> bool:
    return bool(line.strip()) and not line.startswith((" ", "#")) and not any(block.match(line) for block in _BLOCKS)


def _new_anchor(heading: str, taken: list[str]) -> str:
    plain = re.sub(r"<[^>]+>|\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
    number = next(number for number in range(len(taken) + 1) if (f"{anchor}-{number}" if number else anchor) not in taken)
    return f"{anchor}-{number}" if number else anchor


def _link(target: str, folder: Path) -> str:
    path, hash_, anchor = target.partition("#")
    if not path or "://" in path:
        return target
    names = {file: page for page, file in sources().items()}
    file = (folder / path).resolve()
    found = names.get(file) or (str(file.relative_to(ROOT / "docs")) if file.is_relative_to(ROOT / "docs") else path)
    return f"{found}{hash_}{anchor}"


def main() -> None:
    """Writes every page anew."""
    shutil.rmtree(TARGET, ignore_errors=True)
    shutil.copytree(ROOT / "docs", TARGET)  # with the files that pages link to
    for name, file in sources().items():
        (TARGET / name).write_text(page_of(file.read_text(encoding="utf-8"), file.parent), encoding="utf-8")


if __name__ == "__main__":
    main()
