"""The log of a JVM, as its code prints it."""

import logging
import time
from collections.abc import Iterator

import pytest

from airflow_provider_connect.errors import MOST_CHARACTERS
from airflow_provider_connect.java.jvm import Jvm
from airflow_provider_connect.java.runtime_jars import runtime_jars
from airflow_provider_connect.spark.java_runtime import find_java
from tests.conftest import CACHE


@pytest.fixture
def jvm() -> Iterator[Jvm]:
    java = find_java(cache=CACHE)
    opened = Jvm(java, runtime_jars(CACHE, java), heap="256m", hide=lambda text: text.replace("s3cret", "[hidden]"))
    yield opened
    opened.close()


def test_a_record_that_a_plugin_prints_without_an_end_is_cut(jvm: Jvm, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with jvm.calls():
        system = jvm.java.java.lang.System
        for stream in (system.out, system.err):
            stream.print("x" * (MOST_CHARACTERS - 3) + "s3cret")
            for _ in range(16):
                stream.print("y" * (1 << 20))
            stream.println()
            stream.println("the next line")
    until = time.monotonic() + 60.0
    while "the next line" not in caplog.text and time.monotonic() < until:
        time.sleep(0.05)
    printed = [record.getMessage() for record in caplog.records if record.name == "java"]
    assert printed == ["x" * (MOST_CHARACTERS - 3) + "[hi…", "the next line"]
