"""Chromium for tests: Debian's packages with one family of fonts, unpacked into the cache. Needs neither root nor a free port.

The browser and the fonts of the system are not used, since a page's picture differs with them. A browser that a test tool brings comes from
hosts that not every machine reaches; packages come from where the machine's others do.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_connect.runtime.spark.cache import made_once
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_PACKAGES = ("chromium", "chromium-common", "fonts-dejavu-core")  # each whether the system has it or not
_FONTS = """\
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{folder}/usr/share/fonts</dir>
  <cachedir>{folder}/font-cache</cachedir>
  <alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias>
  <match><edit name="family" mode="append_last"><string>DejaVu Sans</string></edit></match>
</fontconfig>
"""


@dataclass(frozen=True, slots=True)
class Chromium:
    """``variables`` are needed in its environment."""

    executable: Path
    variables: Mapping[str, str] = field(default_factory=dict)


def find_chromium(cache: Path) -> Chromium:
    """A Chromium that starts: the system's only where Debian's packages cannot be fetched. Raises RuntimeError if there is no browser."""
    refusal = "apt-get and dpkg, which would fetch it, are missing"
    if shutil.which("apt-get") and shutil.which("dpkg"):
        try:
            return _unpacked(made_once(cache / "chromium-with-fonts", _unpack))
        except RuntimeError as error:  # Ubuntu has no such package
            refusal = str(error)
    for found in filter(None, map(shutil.which, _NAMES)):
        if _starts(system := Chromium(Path(found))):
            return system
    raise RuntimeError(f"No Chromium is on PATH, and {refusal}. Install Chromium")


def _unpacked(folder: Path) -> Chromium:
    libraries = {str(library.parent) for library in (folder / "usr" / "lib").rglob("*.so*")}
    chromium = Chromium(
        folder / "usr" / "lib" / "chromium" / "chromium",
        {"LD_LIBRARY_PATH": os.pathsep.join(sorted(libraries)), "FONTCONFIG_FILE": str(folder / "fonts.conf")},
    )
    if not _starts(chromium):
        raise RuntimeError(f"The Chromium in {folder} does not start. Delete the folder to fetch it again")
    return chromium


@contextmanager
def launched(cache: Path) -> "Iterator[Browser]":
    """A running browser, which ends behind the block."""
    from playwright.sync_api import sync_playwright

    chromium = find_chromium(cache)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium.executable, env={**os.environ, **chromium.variables})
        yield browser
        browser.close()


def _starts(chromium: Chromium) -> bool:
    """Whether it prints its version: a file on PATH may be a mere hint at another package."""
    environment = os.environ | chromium.variables
    try:
        asked = subprocess.run([chromium.executable, "--version"], env=environment, capture_output=True, timeout=HANG_SECONDS, check=False)
        return asked.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _unpack(folder: Path) -> None:
    """Download the packages, and those that they need and the system lacks, by an index of our own that is as new as they are."""
    scratch = folder.parent
    for location in ("lists/partial", "archives/partial"):
        (scratch / location).mkdir(parents=True)
    apt = ["apt-get", "-q", "-y", "-o", f"Dir::State::lists={scratch / 'lists'}", "-o", f"Dir::Cache={scratch}"]
    apt += ["-o", f"Dir::Cache::archives={scratch / 'archives'}", "-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User="]
    apt += ["-o", "Acquire::Retries=5"]
    _run(*apt, "update")
    _run(*apt, "--no-install-recommends", "--reinstall", "--download-only", "install", *_PACKAGES)
    for package in (scratch / "archives").glob("*.deb"):
        _run("dpkg", "-x", str(package), str(folder))
    (folder / "fonts.conf").write_text(_FONTS.format(folder=folder.parent.parent / folder.name))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {done.returncode}: {done.stderr[-2000:]}")


_BEYOND = """(area) => {
  const right = Math.min(area.getBoundingClientRect().right, innerWidth) + 1;
  const heads = [...area.querySelectorAll("th")];
  const isCut = (each) => each.getBoundingClientRect().right > right;
  return heads.filter((head) => isCut(head) || [...head.querySelectorAll("button")].some(isCut)).map((head) => head.textContent);
}"""


def beyond(page: "Page", region: str) -> list[str]:
    """The heads of the columns in this region that are not wholly in view without scrolling to the right."""
    found: list[str] = page.get_by_role("region", name=region, exact=True).evaluate(_BEYOND)
    return found


_MOVES = "document.getAnimations().some((each) => each.playState === 'running' && each.effect.getTiming().iterations !== Infinity)"


def serious(page: "Page", selector: str = "section[aria-label]") -> list[str]:
    """What axe finds in the page's own part, once nothing moves or fades in there."""
    while page.evaluate(_MOVES):  # and not wait_for_function, which a page's Content-Security-Policy may forbid
        page.wait_for_timeout(50)
    if not page.evaluate("'axe' in window"):
        page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text())
    found = page.evaluate("(selector) => axe.run(selector)", selector)
    return [
        f"{each['id']}: {each['help']}: {[node['html'][:300] for node in each['nodes'][:3]]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]
