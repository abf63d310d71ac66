"""What setup.cfg cannot say: the long description, whose links work outside the repository, and the project's addresses.

``PROJECT_URL`` is the repository's address on the web, without a slash at its end. The release sets it. A build without it has no project
addresses, and its long description has neither pictures nor links to pages: a relative link leads nowhere on a package index.
"""

import os
import re
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).resolve().parent
_PICTURE = re.compile(r"!\[([^\]]*)\]\((?!https?://)([^)\s]+)\)\n*")
_RELATIVE_LINK = re.compile(r"\[([^\]]*)\]\((?!https?://|#)([^)\s]+)\)")


def long_description(text: str, project_url: str) -> str:
    """README's text with absolute links."""
    text = _PICTURE.sub(rf"![\1]({project_url}/raw/main/\2)\n\n" if project_url else "", text)
    return _RELATIVE_LINK.sub(rf"[\1]({project_url}/blob/main/\2)" if project_url else r"\1", text)


def project_urls(project_url: str) -> dict[str, str]:
    """Label and address of each page that a package index lists."""
    if not project_url:
        return {}
    pages = {"Documentation": "tree/main/docs", "Changelog": "blob/main/CHANGELOG.md", "Issues": "issues"}
    return {"Source": project_url} | {label: f"{project_url}/{path}" for label, path in pages.items()}


URL = os.environ.get("PROJECT_URL", "").rstrip("/")

setup(
    long_description=long_description((ROOT / "README.md").read_text(encoding="utf-8"), URL),
    long_description_content_type="text/markdown",
    project_urls=project_urls(URL),
)
