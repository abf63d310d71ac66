"""The call that has ended a JVM, found in the stacks of its threads as Java prints them."""

import pytest

from airflow_provider_connect.runtime.java.jvm.exit_call import exit_call

WAITS = "[java.base@17.0.15/java.lang.Object.wait(Native Method), java.base@17.0.15/java.lang.Thread.join(Thread.java:1304)"
EXITS = "java.base@17.0.15/java.lang.Shutdown.exit(Shutdown.java:185), java.base@17.0.15/java.lang.Runtime.exit(Runtime.java:114)"
SYSTEM = "java.base@17.0.15/java.lang.System.exit(System.java:1860)"
REFLECTED = "java.base@17.0.15/java.lang.reflect.Method.invoke(Method.java:569)"
THREAD = "java.base@17.0.15/java.lang.Thread.run(Thread.java:840)]"


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        (f"{WAITS}, {EXITS}, {SYSTEM}, io.x.Y.put(Y.java:7), {THREAD}", ("io.x.Y.put", "System.exit")),
        (f"{WAITS}, {EXITS}, app//io.x.Y$Task.lambda$put$0(Y.java:7), {THREAD}", ("io.x.Y$Task.lambda$put$0", "Runtime.exit")),
        (f"{WAITS}, {EXITS}, {SYSTEM}, {REFLECTED}, io.x.Y.put(Unknown Source), {THREAD}", ("io.x.Y.put", "System.exit")),
        (f"{WAITS}, {EXITS}, {SYSTEM}, {REFLECTED}, app//py4j.Gateway.invoke(Gateway.java:282), {THREAD}", ("", "")),
        (f"{WAITS}, java.base@17.0.15/java.lang.Shutdown.exit(Shutdown.java:185), {THREAD}", ("", "")),  # a signal
        (f"{WAITS}, io.x.Y.put(Y.java:7), {THREAD}", ("", "")),
    ],
)
def test_the_caller_is_the_first_method_that_is_not_javas(stack: str, expected: tuple[str, str]) -> None:
    assert exit_call(f"[{WAITS}], [], {stack}, {WAITS}]]") == expected


def test_no_stacks_have_no_call() -> None:
    assert exit_call("") == ("", "")
