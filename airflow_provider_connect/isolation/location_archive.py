"""Plugin locations in one zip, for machines that do not have ``plugin.path``: each in a numbered directory, which is an entry of theirs."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator, Sequence


def write_archive(paths: Sequence[str], target: str) -> None:
    """Write the locations at ``paths`` to the zip ``target``. Raises OSError when one has gone.

    Links are followed: a location holds all that it needs.
    """
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1, strict_timestamps=False) as archive:
        for number, path in enumerate(paths):
            for file in _files(path):
                archive.write(file, os.path.join(str(number), os.path.relpath(file, os.path.dirname(path))))


def plugin_path_in(root: str, count: int) -> str:
    """The ``plugin.path`` of ``count`` locations whose archive was unpacked into ``root``."""
    return ",".join(os.path.join(root, str(number)) for number in range(count))


def _files(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (os.path.join(folder, name) for name in sorted(files))
