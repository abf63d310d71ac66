"""A JVM that is driven from this process: what its code prints, how long a call may take, and what it has cost."""

import logging
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
from py4j import java_gateway
from pyspark.errors.exceptions.captured import install_exception_handler

from airflow_provider_connect.errors import MOST_CHARACTERS, JavaException, RetriableException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.java.config.connector import java_settings
from airflow_provider_connect.runtime.java.jvm import jvm as jvm_module
from airflow_provider_connect.runtime.java.jvm.connect_herder import ConnectHerder
from airflow_provider_connect.runtime.java.jvm.jvm import Jvm
from airflow_provider_connect.runtime.java.jvm.runtime_jars import runtime_jars
from airflow_provider_connect.runtime.spark.cache import cache_directory
from airflow_provider_connect.runtime.spark.java_runtime import JavaRuntime, find_java
from tests.waiting import HANG_SECONDS, wait_until


def started(*, call_seconds: float = HANG_SECONDS) -> Jvm:
    runtime = find_java(cache=cache_directory())
    jars = runtime_jars(cache_directory(), runtime)
    return Jvm(runtime, jars, heap="256m", hide=lambda text: text.replace("s3cret", "[hidden]"), call_seconds=call_seconds)


def test_a_jvm_that_is_slow_to_start_is_not_called_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    monkeypatch.setattr(jvm_module, "START_SECONDS", 0.2)
    with pytest.raises(RetriableException, match=r"did not answer within 0\.2 s: this host is slow or busy"):
        Jvm(JavaRuntime(tmp_path, "21", tmp_path), [], heap="64m", hide=str)


def test_a_record_that_a_plugin_prints_without_an_end_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    jvm = started()
    try:
        with jvm.calls():
            system = jvm.java.java.lang.System
            for stream in (system.out, system.err):
                stream.print("x" * (MOST_CHARACTERS - 3) + "s3cret")
                for _ in range(16):
                    stream.print("y" * (1 << 20))
                stream.println()
                stream.println("the next line")
        wait_until(lambda: "the next line" in caplog.text)
    finally:
        jvm.close()
    printed = [record.getMessage() for record in caplog.records if record.name == "java"]
    assert printed == ["x" * (MOST_CHARACTERS - 3) + "[hi…", "the next line"]


def test_its_exceptions_are_its_own_in_a_process_with_a_spark_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session replaces the function of Py4J that raises Java's exceptions by one that asks Spark's JVM about them."""
    monkeypatch.setattr(java_gateway, "get_return_value", java_gateway.get_return_value)
    install_exception_handler()
    jvm = started()
    try:
        with pytest.raises(JavaException, match=r'NumberFormatException: For input string: "x"'), jvm.calls():
            jvm.java.java.lang.Integer.parseInt("x")
    finally:
        jvm.close()


def test_its_cpu_seconds_are_known_behind_its_end() -> None:
    jvm = started()
    before = jvm.cpu_seconds
    jvm.close()
    assert not jvm.is_alive
    assert 0 < before <= jvm.cpu_seconds


def test_a_call_may_take_as_long_as_its_caller_allows() -> None:
    cases: list[tuple[float, AbstractContextManager[object]]] = [
        (1.0, pytest.raises(RetriableException, match=r"did not answer for .* s, and was killed")),
        (HANG_SECONDS, nullcontext()),
    ]
    for call_seconds, expected in cases:
        jvm = started(call_seconds=call_seconds)
        try:
            with expected, jvm.calls():
                jvm.java.java.lang.Thread.sleep(3000)
        finally:
            jvm.kill()


def test_its_end_and_too_many_threads_are_named() -> None:
    jvm = started()
    try:
        with jvm.calls():
            jvm.java.java.util.concurrent.Executors.newFixedThreadPool(120).prestartAllCoreThreads()
        jvm.limit_threads(1000)
        with pytest.raises(RetriableException, match=r"threads, more than the 100 of .*java.threads.max.* named like pool-#-thread-#"):
            jvm.limit_threads(100)
        assert not jvm.is_alive
        with pytest.raises(RetriableException, match="The JVM of the Java plugins was ended by SIGKILL"), jvm.calls():
            jvm.java.java.lang.System.exit(7)
    finally:
        jvm.kill()


def test_calls_after_its_end_leave_no_tracebacks_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    jvm = started()
    maps = [jvm.java.java.util.HashMap() for _ in range(3)]
    os.kill(jvm.pid, signal.SIGKILL)
    for each in maps:
        with pytest.raises(RetriableException, match="was ended by SIGKILL"), jvm.calls():
            each.size()
    jvm.kill()
    assert [record.getMessage() for record in caplog.records] == []


def test_every_thread_of_a_jvm_with_connect_finds_the_plugins() -> None:
    """Py4J opens a connection, with a thread in the JVM, whenever two threads call at once, or objects are collected during a call."""
    jvm = started()
    try:
        with jvm.calls():
            threads = jvm.java.java.lang.Thread
            herder = ConnectHerder(jvm, java_settings(WorkerSettings.of({"bootstrap.servers": "127.0.0.1:1"})), [], cluster="unknown")
            loader = herder.plugins.delegatingLoader()
            at_once = 5
            meeting = jvm.java.java.util.concurrent.CyclicBarrier(at_once)

            def uses_loader() -> bool:
                getattr(meeting, "await")()  # all have a connection of their own then
                return bool(loader.equals(threads.currentThread().getContextClassLoader()))

            with ThreadPoolExecutor(at_once) as pool:
                assert [each.result() for each in [pool.submit(uses_loader) for _ in range(at_once)]] == [True] * at_once
    finally:
        jvm.close()
