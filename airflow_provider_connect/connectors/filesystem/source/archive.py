"""The archive of files that were read: each gets a name there that no other has. ``orders.json`` of another day is ``orders-1.json``."""

from __future__ import annotations

from airflow_provider_connect.connectors.filesystem.formats.text import EXTENSIONS
from airflow_provider_connect.connectors.filesystem.stores.store import Store, joined


def archive(store: Store, path: str, folder: str) -> None:
    """Move a file below ``folder``. A file that is gone was moved by another process. Of several processes no two use one name."""
    number = 0
    try:
        while not store.move_new(path, joined(folder, _numbered(path, number))):
            number = number + 1 if number else _last_used(store, path, folder)
    except FileNotFoundError:
        return


def _last_used(store: Store, path: str, folder: str) -> int:
    """The last number before one that is free, which a move that was killed may have taken; by doubling and halving: a name that comes each
    day has thousands."""

    def is_used(number: int) -> bool:
        return store.file(joined(folder, _numbered(path, number))) is not None

    used, free = 0, 1
    while is_used(free):
        used, free = free, free * 2
    while free - used > 1:
        middle = (used + free) // 2
        used, free = (middle, free) if is_used(middle) else (used, middle)
    return max(used, 1)


def _numbered(path: str, number: int) -> str:
    """The number stands before the extension, and that of a compression."""
    if not number:
        return path
    folder, slash, name = path.rpartition("/")
    compression = next((each for each in EXTENSIONS.values() if each and name.endswith(each)), "")
    stem, dot, extension = name.removesuffix(compression).rpartition(".")
    plain = f"{stem}-{number}.{extension}" if dot and stem else f"{name.removesuffix(compression)}-{number}"
    return f"{folder}{slash}{plain}{compression}"
