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


def unpacked_paths(root: str, paths: Sequence[str]) -> list[str]:
    """Where the locations that were at ``paths`` are once their archive was unpacked into ``root``: each below an entry of a
    ``plugin.path`` of its own."""
    return [os.path.join(root, str(number), os.path.basename(path)) for number, path in enumerate(paths)]


def _files(path: str) -> Iterator[str]:
    if not os.path.isdir(path):
        yield path
        return
    for folder, folders, files in os.walk(path, onerror=_raise):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        yield from (os.path.join(folder, name) for name in sorted(files))


def _raise(error: OSError) -> None:
    raise error
