"""Finds the code that has ended its JVM with System.exit. A hook in the JVM writes the stacks of all threads to a file before the JVM ends.
The hook consists of Java's own methods, because this package contains no Java code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

OF_JAVA: Final = ("java.", "javax.", "jdk.", "sun.", "com.sun.")
"""Prefixes of Java's own classes."""
_EXITS: Final = ("java.lang.Runtime.exit", "java.lang.System.exit")  # the second calls the first
_FRAME: Final = re.compile(r"(?<![^\s/()\[\],])([^\s/()\[\],]{1,1000})\([^()]{0,1000}\)")


def add_exit_hook(java: Any, array: Callable[[Any, int], Any], file: Path) -> None:
    """Have the JVM write the stacks of its threads to ``file`` when it is about to exit. ``java`` and ``array`` are those of ``Jvm``."""
    lang, handles = java.java.lang, java.java.lang.invoke.MethodHandles

    def of(name: str) -> Any:
        return lang.Class.forName(name)

    def method(owner: str, name: str, *types: Any) -> Any:
        listed = array(lang.Class, len(types))
        for number, each in enumerate(types):
            listed[number] = each
        return handles.publicLookup().unreflect(of(owner).getMethod(name, listed))

    prints = lang.invoke.MethodType.methodType(lang.Void.TYPE, of("java.lang.String"))
    steps = (
        method("java.util.Map", "values"),
        method("java.util.Collection", "toArray"),
        method("java.util.Arrays", "deepToString", of("[Ljava.lang.Object;")),
        handles.publicLookup().bind(java.java.io.PrintStream(str(file)), "print", prints),
    )
    hook = method("java.lang.Thread", "getAllStackTraces")
    for step in steps:
        hook = handles.filterReturnValue(hook, step)
    runnable = lang.invoke.MethodHandleProxies.asInterfaceInstance(of("java.lang.Runnable"), hook)
    lang.Runtime.getRuntime().addShutdownHook(lang.Thread(runnable))


def exit_call(stacks: str) -> tuple[str, str]:
    """The method that has ended its JVM, and the method of Java that it called, of the hook's ``stacks``. Both are empty if the JVM has not
    ended by such a call, or if this package has made it."""
    for stack in stacks.split("], ["):
        frames = _FRAME.findall(stack)
        if called := [number for number, frame in enumerate(frames) if frame in _EXITS]:
            caller = next((frame for frame in frames[called[-1] + 1 :] if not frame.startswith(OF_JAVA)), "py4j.")
            return ("", "") if caller.startswith("py4j.") else (caller, frames[called[-1]].removeprefix("java.lang."))
    return "", ""
