"""Azure Blob Storage on a free port of the loopback interface: Microsoft's Azurite, a process of Node.js where that is there."""

from __future__ import annotations

import base64
import email.utils
import functools
import hmac
import shutil
import signal
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, ClassVar, Self

import obstore
from obstore.store import AzureStore

from airflow_provider_connect.dev.own_server import LOOPBACK, OwnServer, is_listening
from tests.conftest import CACHE
from tests.package_clients import fetch
from tests.waiting import HANG_SECONDS, wait_until

PACKAGE = "azurite@3.35.0"


class AzuriteServer(OwnServer):
    """The container ``bucket`` is there once it has started. It checks credentials; its account and key are the same everywhere."""

    bucket: ClassVar[str] = "bucket"
    account = "devstoreaccount1"
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    def __init__(self) -> None:
        super().__init__(signal.SIGKILL)

    def start(self) -> Self:
        program = azurite()
        assert program is not None
        self._folder = Path(tempfile.mkdtemp(prefix="azure-"))
        address = ["--blobHost", LOOPBACK, "--blobPort", self.port, "--location", self._folder]
        self._spawn(["node", program, *address, "--silent", "--skipApiVersionCheck", "--disableTelemetry"], self._folder / "log")
        wait_until(lambda: is_listening(self.port), (self._folder / "log").read_text)
        self._create_container()
        return self

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/{self.account}"

    def settings(self, folder: str) -> dict[str, str]:
        """Those of a connector of files."""
        access = {"azblob.account.name": self.account, "azblob.account.key": self.key, "store.url": self.endpoint}
        return {"url": f"az://{self.bucket}/{folder}", **access}

    def files(self, folder: str) -> dict[str, bytes]:
        """The blobs below a folder by their names there."""
        names = [each["path"] for page in obstore.list(self._client(), f"{folder}/") for each in page]
        return {name.removeprefix(f"{folder}/"): bytes(obstore.get(self._client(), name).bytes()) for name in names}

    def _client(self) -> Any:
        options: Any = {"allow_http": True}
        return AzureStore(self.bucket, account_name=self.account, account_key=self.key, endpoint=self.endpoint, client_options=options)

    def _create_container(self) -> None:
        headers = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
        named = "\n".join(f"{name}:{value}" for name, value in headers.items())
        text = "PUT" + "\n" * 12 + f"{named}\n/{self.account}/{self.account}/{self.bucket}\nrestype:container"
        signature = base64.b64encode(hmac.digest(base64.b64decode(self.key), text.encode(), "sha256")).decode()
        headers |= {"Authorization": f"SharedKey {self.account}:{signature}", "Content-Length": "0"}
        request = urllib.request.Request(f"{self.endpoint}/{self.bucket}?restype=container", method="PUT", headers=headers)
        with urllib.request.urlopen(request, timeout=HANG_SECONDS):
            pass


@functools.cache
def azurite() -> Path | None:
    """Azurite, installed once into the cache of this package; None where it is not there, and npm cannot install it."""
    folder = CACHE / PACKAGE.replace("@", "-")
    program = folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    if not program.exists():
        if shutil.which("npm") is None:
            return None
        command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder), PACKAGE]
        if fetch(command).returncode:
            return None
    return program
