"""A zip of this package, which spark-submit sends to executors on other machines, so that they run the driver's code.

It holds sources and bytecode: an executor of another Python version finds the bytecode's mark wrong and takes the source.
"""

import hashlib
import py_compile
import time
import zipfile
from pathlib import Path

from airflow_provider_connect.spark.cache import forget_old, made_once

_PACKAGE = Path(__file__).resolve().parent.parent


def code_archive(cache: Path) -> Path:
    """The zip of the package as it is now; made when a file has changed since the last one."""
    files = sorted(file for file in _PACKAGE.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    digest = hashlib.sha256()
    for file in files:
        found = file.stat()
        digest.update(f"{file.relative_to(_PACKAGE)} {found.st_size} {found.st_mtime_ns}\n".encode())
    target = cache / "code" / digest.hexdigest()[:16] / f"{_PACKAGE.name}.zip"
    if not target.exists():
        (cache / "code").mkdir(exist_ok=True)
        forget_old(cache / "code", time.time())
    return made_once(target, lambda archive: _write(archive, files))


def _write(archive: Path, files: list[Path]) -> None:
    compiled = archive.with_suffix(".pyc")
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for file in files:
            name = f"{_PACKAGE.name}/{file.relative_to(_PACKAGE)}"
            zipped.write(file, name)
            if file.suffix == ".py":
                py_compile.compile(
                    str(file), str(compiled), name, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
                )
                zipped.write(compiled, f"{name}c")
