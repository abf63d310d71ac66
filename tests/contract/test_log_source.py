"""LogSource keeps the contract of sources, with files that are rotated between one run and the next."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import ClassVar

import pytest

from airflow_provider_connect.connectors.logs.source import LogSourceConnector
from airflow_provider_connect.sdk.testing import SourceConnectorSuite


class TestLogSource(SourceConnectorSuite):
    connector_class = LogSourceConnector

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path, self.written = tmp_path / "app.log", 0

    def config(self) -> dict[str, str]:
        return {"paths": str(self.path), "topic": "suite", "batch.max.bytes": "64"}

    def write_to_source(self, count: int) -> None:
        with self.path.open("a") as file:
            file.writelines(f"line {number}\n" for number in range(self.written, self.written + count))
        self.written += count


class TestRotatedLogs(TestLogSource):
    """Each write goes to a new file; the one before is renamed."""

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.root, self.written = tmp_path, 0
        self.path = tmp_path / "a" / "app.log"
        self.path.parent.mkdir()

    def config(self) -> dict[str, str]:
        return {**super().config(), "paths": f"{self.root}/*/*.log"}

    def write_to_source(self, count: int) -> None:
        if self.path.exists():
            self.path.rename(f"{self.path}.{self.written}")
        super().write_to_source(count)


class Formatted(TestLogSource):
    """Each record is written as ``line`` with its number."""

    settings: ClassVar[dict[str, str]]
    line: ClassVar[str]

    def config(self) -> dict[str, str]:
        return {**super().config(), **self.settings}

    def write_to_source(self, count: int) -> None:
        with self.path.open("a") as file:
            file.writelines(self.line % number for number in range(self.written, self.written + count))
        self.written += count


class TestLogfmt(Formatted):
    settings: ClassVar = {"line.format": "logfmt", "timestamp.field": "at"}
    line = 'at=2026-01-01T00:00:00Z n=%d text="a line"\n'


class TestJson(Formatted):
    settings: ClassVar = {"line.format": "json", "timestamp.field": "at"}
    line = '{"at": "2026-01-01T00:00:00Z", "n": %d}\n\n'


class TestCombined(Formatted):
    settings: ClassVar = {"line.format": "combined"}
    line = '10.0.0.1 - - [02/Jan/2026:03:04:05 +0100] "GET /%d HTTP/1.1" 200 7 "-" "curl/8"\n'


@pytest.mark.soak
class TestCsv(Formatted):
    settings: ClassVar = {"line.format": "csv", "csv.fields": "n,text", "line.types": "n:integer"}
    line = '%d,"a ""line"""\r\n'


@pytest.mark.soak
class TestPattern(Formatted):
    settings: ClassVar = {"line.format": "pattern", "line.pattern": r"^(?P<level>\w+) (?P<n>\d+)$", "line.types": "n:number"}
    line = "INFO %d\n"


@pytest.mark.soak
class TestCompressed(TestLogSource):
    """Each write goes to a new compressed file."""

    def write_to_source(self, count: int) -> None:
        text = "".join(f"line {number}\n" for number in range(self.written, self.written + count))
        self.written += count
        self.path.with_name(f"app.log.{self.written}.gz").write_bytes(gzip.compress(text.encode()))


@pytest.mark.soak
class TestWide(TestLogSource):
    """UTF-16, a mark at its beginning."""

    def config(self) -> dict[str, str]:
        return {**super().config(), "encoding": "utf-16"}

    def write_to_source(self, count: int) -> None:
        text = "".join(f"line {number}\n" for number in range(self.written, self.written + count))
        with self.path.open("ab") as file:
            file.write(text.encode("utf-16-le" if self.written else "utf-16"))
        self.written += count
