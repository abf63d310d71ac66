"""A small file of a run: whole or not there at all, readable by its owner alone."""

import os
from pathlib import Path


def write_private(path: Path, text: str) -> None:
    """Write ``text`` under another name with mode 0600, then rename."""
    partial = path.with_name(f".{path.name}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    partial.rename(path)
