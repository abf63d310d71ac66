"""Servers that speak S3, processes on free ports of the loopback interface: moto's, and Versity's gateway where Go can build it."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import sys
import tempfile
import time
from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Final, Self

import boto3  # type: ignore[import-untyped]
import pytest

from airflow_provider_connect.dev.own_server import LOOPBACK, OwnServer
from tests.package_clients import fetch
from tests.waiting import HANG_SECONDS

GATEWAY = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"


SERVERS: Final = ("moto", pytest.param("versity", marks=pytest.mark.soak))
"""Parameters of fixtures that run tests on each server, for ``s3_server``."""


@contextlib.contextmanager
def s3_server(name: str) -> Iterator[S3Server]:
    """The server while it runs. The test is skipped where it cannot be had."""
    if name == "versity" and gateway() is None:
        pytest.skip("there is no Go to build Versity's gateway, or no module of it")
    with MotoServer() if name == "moto" else VersityServer() as server:
        yield server


class S3Server(OwnServer):
    """The bucket ``bucket`` is there once it has started."""

    bucket: ClassVar[str] = "bucket"
    access_key, secret_key, region = "root-key", "root-secret", "us-east-1"

    def __init__(self) -> None:
        super().__init__(signal.SIGKILL)

    def start(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="s3-"))
        self._spawn(self._command(self._folder), self._folder / "log")
        deadline = time.monotonic() + HANG_SECONDS
        while True:
            try:
                self.client().create_bucket(Bucket=self.bucket)
            except Exception as error:
                if time.monotonic() > deadline:
                    raise AssertionError((self._folder / "log").read_text()) from error
                time.sleep(0.1)
            else:
                return self

    @abstractmethod
    def _command(self, folder: Path) -> list[str | int]: ...

    @property
    def endpoint(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def client(self) -> Any:  # Any: boto3 has no types
        keys = {"aws_access_key_id": self.access_key, "aws_secret_access_key": self.secret_key}
        return boto3.client("s3", endpoint_url=self.endpoint, region_name=self.region, **keys)

    def settings(self, folder: str) -> dict[str, str]:
        """Those of a connector of files."""
        return {"url": f"s3://{self.bucket}/{folder}", **self._access}

    def delta_settings(self, path: str) -> dict[str, str]:
        """Those of DeltaSink, for a table."""
        return {"delta.table.path": f"s3://{self.bucket}/{path}", **self._access}

    @property
    def _access(self) -> dict[str, str]:
        keys = {"aws.access.key.id": self.access_key, "aws.secret.access.key": self.secret_key, "s3.region": self.region}
        return {"store.url": self.endpoint, **keys}

    def files(self, folder: str) -> dict[str, bytes]:
        """The objects below a folder by their names there."""
        client = self.client()
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=f"{folder}/")
        names = [each["Key"] for page in pages for each in page.get("Contents", ())]
        return {name.removeprefix(f"{folder}/"): client.get_object(Bucket=self.bucket, Key=name)["Body"].read() for name in names}

    @property
    def delta_options(self) -> dict[str, str]:
        """Those with which deltalake and polars read tables."""
        keys = {"aws_access_key_id": self.access_key, "aws_secret_access_key": self.secret_key, "aws_region": self.region}
        return {"aws_endpoint_url": self.endpoint, "aws_allow_http": "true", **keys}

    @property
    def iceberg_options(self) -> dict[str, str]:
        """pyiceberg's."""
        keys = {"s3.access-key-id": self.access_key, "s3.secret-access-key": self.secret_key, "s3.region": self.region}
        return {"s3.endpoint": self.endpoint, **keys}


class MotoServer(S3Server):
    """Takes any credentials."""

    def _command(self, folder: Path) -> list[str | int]:
        return [sys.executable, "-m", "moto.server", "-H", LOOPBACK, "-p", self.port]


class VersityServer(S3Server):
    """Keeps objects as files of a folder, and checks credentials."""

    def _command(self, folder: Path) -> list[str | int]:
        program = gateway()
        assert program is not None
        (folder / "data").mkdir()
        keys = ["--access", self.access_key, "--secret", self.secret_key, "--region", self.region]
        return [
            str(program),
            *keys,
            "--port",
            f"{LOOPBACK}:{self.port}",
            "--quiet",
            "posix",
            "--sidecar",
            self._side(folder),
            str(folder / "data"),
        ]

    def _side(self, folder: Path) -> str:
        """Metadata lie beside the files: not each file system has extended attributes."""
        (folder / "side").mkdir()
        return str(folder / "side")


@functools.cache
def gateway() -> Path | None:
    """Versity's gateway, built once into the cache of this package; None where it is not there, and Go or its modules are not to be had."""
    folder = Path(os.environ.get("AIRFLOW_PROVIDER_CONNECT_CACHE", Path.home() / ".cache" / "airflow-provider-connect")) / "versitygw"
    program = folder / GATEWAY.rpartition("@")[2] / "versitygw"
    if not program.exists():
        if shutil.which("go") is None:
            return None
        if fetch(["go", "install", GATEWAY], environment={**os.environ, "GOBIN": str(program.parent)}).returncode:
            return None
    return program
