"""Kafka Connect's own worker in our JVM, and the calls that run connectors and tasks.

This package owns statuses, claims and the end of runs. Connect owns converters, transformations, predicates, error tolerance, creation of
topics, records and their offsets. As with ``connect_herder``, only version 4.3.1 is supported.
"""

from __future__ import annotations

import contextlib
import logging
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JJavaError

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.java.jvm.connect_herder import ConnectHerder
from airflow_provider_connect.runtime.java.jvm.exit_call import OF_JAVA
from airflow_provider_connect.runtime.java.jvm.jvm import Jvm

_FORCED: Final = {"exactly.once.source.support": "enabled"}
_FRAME: Final = re.compile(r"\sat (?:[^\s/()]*/)*([^\s/()]+\([^()]*\))")
_OF_CONNECT: Final = ("org.apache.kafka.connect.runtime.", "org.apache.kafka.common.", "py4j.")
_POLLS: Final = "org.apache.kafka.connect.runtime.AbstractWorkerSourceTask"
_DEFAULTS: Final = {"consumer.fetch.max.wait.ms": "50"}  # a consumer is not closed before its last long poll is answered

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class JavaTask:
    """A task of a connector, by its number. ``is_source`` determines the group of the task's metrics."""

    connector: str
    number: int
    is_source: bool


@dataclass(frozen=True, slots=True)
class JavaStatus:
    """The state that Connect's task reports: RUNNING, PAUSED, FAILED, UNASSIGNED after the task's end, and empty before its start.
    ``trace`` is Java's stack trace."""

    state: str = ""
    trace: str = ""


class ConnectWorker:
    """One worker. ``settings`` are the settings of Connect's distributed worker. The worker loads only the plugins at ``locations``."""

    def __init__(self, jvm: Jvm, settings: Mapping[str, str], locations: Sequence[Path]) -> None:
        """Raises JavaException for settings that Connect refuses, or brokers that do not answer."""
        self.jvm = jvm
        self._gates: dict[JavaTask, Any] = {}
        self._threads: dict[JavaTask, Any] = {}
        self._ids: dict[JavaTask, Any] = {}  # cached, because Py4J searches all jars for a class that it gets by name
        self._beans: dict[tuple[str, ...], tuple[Any, Any]] = {}
        with jvm.calls():
            started = ConnectHerder(jvm, {**_DEFAULTS, **settings, **_FORCED}, locations)
            started.worker.start()
            self._statuses = started.herder.statusBackingStore()
            self._bean_server = jvm.java.java.lang.management.ManagementFactory.getPlatformMBeanServer()
        self._connect, self._plugins, self._worker, self._herder = started.connect, started.plugins, started.worker, started.herder
        self._map, self._validate, self._find_requests = started.map, started.validate, started.requests
        self._requests: Any = None  # found when they are first asked for: the JVMs of tasks never need them

    def validation_errors(self, config: Mapping[str, str]) -> list[str]:
        """The errors that Connect and the connector find in the config, in their words."""
        with self.jvm.calls():
            infos = self._validate(config)
            if not infos.errorCount():
                return []
            values = (info.configValue() for info in infos.configs())
            return list(dict.fromkeys(str(error) for value in values for error in value.errors()))

    def start_connector(self, name: str, config: Mapping[str, str]) -> None:
        """Start the connector. It may then ask for other tasks, or fail, at any time."""
        with self.jvm.calls():
            metrics = self._worker.metrics().connectorPluginMetrics(name)
            context = self._connect.runtime.HerderConnectorContext(self._herder, name, metrics)
            started = self._connect.util.FutureCallback()
            running = self._connect.runtime.TargetState.STARTED
            self._worker.startConnector(name, self._map(config), context, self._herder, running, started)
            started.get()

    def stop_connector(self, name: str) -> None:
        with self.jvm.calls():
            self._worker.stopAndAwaitConnector(name)

    def task_configs(self, name: str, config: Mapping[str, str], *, is_source: bool) -> list[dict[str, str]]:
        """The configs of the tasks that the started connector needs now."""
        with self.jvm.calls():
            runtime, given = self._connect.runtime, (self._plugins, self._map(config))
            typed = runtime.SourceConnectorConfig(*given, True) if is_source else runtime.SinkConnectorConfig(*given)
            return [texts_of(each) for each in self._worker.connectorTaskConfigs(name, typed)]

    def takes_request(self) -> bool:
        """Whether the connector has asked for other tasks since the last call."""
        with self.jvm.calls():
            self._requests = self._requests or self._find_requests()
            is_asked = not self._requests.isEmpty()
            self._requests.clear()
            return is_asked

    def connector_failure(self, name: str) -> str | None:
        """The stack trace of the started connector's failure. None: it has not failed."""
        with self.jvm.calls():
            found = self._statuses.get(name)
            return self.jvm.explained(str(found.trace() or "")) if found is not None and str(found.state().toString()) == "FAILED" else None

    def start_task(self, task: JavaTask, config: Mapping[str, str], task_config: Mapping[str, str], *, tasks: int) -> None:
        """Start one task of ``tasks``. ``status`` returns its state. A source task first fences all older producers. It then waits for
        ``open_gate`` before it reads an offset or writes anything. Raises ConfigException if Connect does not start it."""
        with self.jvm.calls():
            given, own, id_ = self._map(config), self._map(task_config), self._id(task)
            started = self._connect.runtime.TargetState.STARTED
            state = self._state(task.connector, given, own, id_, tasks)
            if task.is_source:
                self._gates[task] = barrier = self.jvm.java.java.util.concurrent.CyclicBarrier(2)
                checks = (self._nothing(), self._barrier_wait(barrier))
                was_started = self._worker.startExactlyOnceSourceTask(id_, state, given, own, self._herder, started, *checks)
            else:
                was_started = self._worker.startSinkTask(id_, state, given, own, self._herder, started)
        if not was_started and (status := self.status(task)).state != "FAILED":
            raise ConfigException(f"Kafka Connect did not start task {task.connector}-{task.number}: it is {status.state or 'unknown'}")

    def is_at_gate(self, task: JavaTask) -> bool:
        """Whether the source task has fenced older tasks, and is waiting for ``open_gate``."""
        with self.jvm.calls():
            return bool(self._gates[task].getNumberWaiting())

    def open_gate(self, task: JavaTask) -> None:
        """Let the waiting task proceed."""
        with self.jvm.calls():
            getattr(self._gates[task], "await")()

    def status(self, task: JavaTask) -> JavaStatus:
        with self.jvm.calls():
            found = self._statuses.get(self._id(task))
            if found is None:
                return JavaStatus()
            state = str(found.state().toString())
            return JavaStatus(state, self.jvm.explained(str(found.trace() or "")) if state == "FAILED" else "")

    def active_topics(self, connector: str) -> list[str]:
        """The topics whose records the connector's tasks in this worker have written or read."""
        with self.jvm.calls():
            return sorted(str(each.topic()) for each in self._statuses.getAllTopics(connector))

    def pause(self, connector: str, *, paused: bool = True) -> None:
        """Have the connector's tasks in this worker either commit and pause, or resume."""
        with self.jvm.calls():
            states = self._connect.runtime.TargetState
            self._worker.setTargetState(connector, states.PAUSED if paused else states.STARTED, self._connect.util.FutureCallback())

    def metrics(self, task: JavaTask) -> dict[str, float]:
        """The task's metrics by Connect's names."""
        with self.jvm.calls():
            found: dict[str, float] = {}
            wanted = {"connector": task.connector, "task": str(task.number)}
            for entry in self._worker.metrics().metrics().metrics().entrySet():
                name = entry.getKey()
                tags = name.tags()
                if tags.get("connector") == wanted["connector"] and tags.get("task") == wanted["task"] and tags.size() == 2:
                    value = entry.getValue().metricValue()
                    if isinstance(value, int | float) and not math.isnan(value):  # the average of no values is NaN
                        found[str(name.name())] = float(value)
            return found

    def mbean_attributes(self, pattern: str, names: Sequence[str]) -> dict[str, object]:
        """Attributes of a plugin's MBean whose name matches ``pattern``. Empty if there is currently no such MBean."""
        with self.jvm.calls():
            if (pattern, *names) not in self._beans:
                listed = self.jvm.array(self.jvm.java.java.lang.String, len(names))
                for number, name in enumerate(names):
                    listed[number] = name
                self._beans[pattern, *names] = (self.jvm.java.javax.management.ObjectName(pattern), listed)
            wanted, listed = self._beans[pattern, *names]
            found = list(self._bean_server.queryNames(wanted, None))
            if not found:
                return {}
            try:
                return {str(each.getName()): each.getValue() for each in self._bean_server.getAttributes(found[0], listed)}
            except Py4JJavaError:
                return {}  # the MBean has been removed since

    def mbean_values(self, pattern: str, attribute: str, *, keys: tuple[str, str]) -> list[tuple[tuple[str, str], object]]:
        """One attribute of every MBean whose name matches ``pattern`` and contains both ``keys``, with the values of these keys."""
        with self.jvm.calls():
            found: list[tuple[tuple[str, str], object]] = []
            for name in self._bean_server.queryNames(self.jvm.java.javax.management.ObjectName(pattern), None):
                first, second = (name.getKeyProperty(key) for key in keys)
                if first is not None and second is not None:
                    with contextlib.suppress(Py4JJavaError):  # the MBean has been removed since
                        found.append(((str(first), str(second)), self._bean_server.getAttribute(name, attribute)))
            return found

    def sizes(self, task: JavaTask) -> dict[str, int]:
        """The bytes that a source's producer has sent, or a sink's consumer has received, by topic: compressed keys, values and headers."""
        kind, attribute = ("producer", "byte-total") if task.is_source else ("consumer", "bytes-consumed-total")
        of = "producer-topic-metrics" if task.is_source else "consumer-fetch-manager-metrics"
        found = self.mbean_values(f"kafka.{kind}:type={of},*", attribute, keys=("client-id", "topic"))
        client = f"connector-{kind}-{task.connector}-{task.number}"
        sizes = {topic: value for (name, topic), value in found if name.strip('"') == client and isinstance(value, float)}
        shortened = {topic.replace(".", "_") for topic in sizes if "." in topic}  # clients report such topics twice
        return {topic: int(value) for topic, value in sizes.items() if topic not in shortened}

    def has_thread(self, prefix: str) -> bool:
        """Whether a thread whose name begins with ``prefix`` is running now."""
        with self.jvm.calls():
            return any(str(each.getName()).startswith(prefix) for each in self.jvm.java.java.lang.Thread.getAllStackTraces().keySet())

    def counter(self, task: JavaTask, name: str) -> Counter:
        """One metric of the task, cheap to read repeatedly. Raises ConfigException if the task does not have it."""
        group = "source-task-metrics" if task.is_source else "sink-task-metrics"
        with self.jvm.calls():
            metrics = self._worker.metrics().metrics()
            found = metrics.metric(metrics.metricName(name, group, "", {"connector": task.connector, "task": str(task.number)}))
            if found is None:
                raise ConfigException(f"Task {task.connector}-{task.number} has no metric {name}")
            return Counter(self.jvm, found)

    def is_polling(self, task: JavaTask) -> bool:
        """Whether the source task is in a poll now."""
        with self.jvm.calls():
            if task not in self._threads:
                name = f"task-thread-{task.connector}-{task.number}"
                found = [thread for thread in self.jvm.java.java.lang.Thread.getAllStackTraces().keySet() if thread.getName() == name]
                if not found:
                    return False
                self._threads[task] = found[0]
            frames = self._threads[task].getStackTrace()
            return any(frame.getMethodName() == "poll" and frame.getClassName() == _POLLS for frame in frames)

    def stop_task(self, task: JavaTask) -> None:
        """Have the task commit and stop. After ``task.shutdown.graceful.timeout.ms``, the task is cancelled without a commit."""
        with self.jvm.calls():
            self._worker.stopAndAwaitTask(self._id(task))
        if self.status(task).state == "RUNNING":  # cancelled: Connect reports no other state
            text = "Task %s-%d did not end within task.shutdown.graceful.timeout.ms, so its JVM is ended; it was at %s"
            log.warning(text, task.connector, task.number, self.line_of_plugin(task.connector))

    def seconds_since_poll(self, task: JavaTask) -> float:
        """For how long the sink task has not returned to its consumer. 0: it has not polled yet, or its consumer has another name."""
        client, attribute = name_in_bean(f"connector-consumer-{task.connector}-{task.number}"), "last-poll-seconds-ago"
        found = self.mbean_attributes(f"kafka.consumer:type=consumer-metrics,client-id={client}", [attribute]).get(attribute)
        return max(0.0, found) if isinstance(found, float) else 0.0

    def line_of_plugin(self, connector: str) -> str:
        """The line of a plugin that runs now in a thread of the connector or its tasks, or for a call into Java."""
        prefixes = (f"connector-thread-{connector}", f"task-thread-{connector}-", "Thread-")  # the last ones are Py4J's
        with self.jvm.calls():
            lang = self.jvm.java.java.lang
            for thread in lang.Thread.getAllStackTraces().keySet():
                if str(thread.getName()).startswith(prefixes):
                    stack = lang.Throwable()
                    stack.setStackTrace(thread.getStackTrace())
                    writer = self.jvm.java.java.io.StringWriter()
                    stack.printStackTrace(self.jvm.java.java.io.PrintWriter(writer))
                    if found := plugin_line(str(writer.toString())):
                        return found
        return "no line of a plugin"

    def remove_member(self, settings: Mapping[str, str], group: str, member: str) -> None:
        """Remove an ended static member from its consumer group."""
        with self.jvm.calls():
            clients = self.jvm.java.org.apache.kafka.clients.admin
            admin = clients.Admin.create(self._map(settings))
            try:
                members = self.jvm.java.java.util.List.of(clients.MemberToRemove(member))
                options = clients.RemoveMembersFromConsumerGroupOptions(members)
                admin.removeMembersFromConsumerGroup(group, options).all().get()
            finally:
                admin.close()

    def close(self) -> None:
        """Stop the worker and kill the JVM. Never raises, because commits are complete before this call. The JVM is killed because its
        regular end takes a third of a second."""
        with contextlib.suppress(Exception), self.jvm.calls():
            self._worker.stop()
        self.jvm.kill()

    def _id(self, task: JavaTask) -> Any:
        if task not in self._ids:
            self._ids[task] = self._connect.util.ConnectorTaskId(task.connector, task.number)
        return self._ids[task]

    def _state(self, connector: str, config: Any, task_config: Any, id_: Any, tasks: int) -> Any:
        """The state of this connector as Connect would read it from the config topic."""
        util, started = self.jvm.java.java.util, self._connect.runtime.TargetState.STARTED
        maps = [util.HashMap() for _ in range(7)]
        counts, configs, states, task_configs, *others = maps
        counts.put(connector, tasks)
        configs.put(connector, config)
        states.put(connector, started)
        task_configs.put(id_, task_config)
        sets = (util.HashSet(), util.HashSet())
        return self._connect.storage.ClusterConfigState(1, None, counts, configs, states, task_configs, *others, *sets)

    def _barrier_wait(self, barrier: Any) -> Any:
        invoke, integer = self.jvm.java.java.lang.invoke, self.jvm.java.java.lang.Integer.TYPE
        waits = invoke.MethodHandles.publicLookup().bind(barrier, "await", invoke.MethodType.methodType(integer))
        return invoke.MethodHandleProxies.asInterfaceInstance(self._runnable(), waits)

    def _nothing(self) -> Any:
        invoke, void = self.jvm.java.java.lang.invoke, self.jvm.java.java.lang.Void.TYPE
        empty = invoke.MethodHandles.empty(invoke.MethodType.methodType(void))
        return invoke.MethodHandleProxies.asInterfaceInstance(self._runnable(), empty)

    def _runnable(self) -> Any:
        return self.jvm.java.java.lang.Class.forName("java.lang.Runnable")


def name_in_bean(client: str) -> str:
    """The id of a client as Kafka writes it in the names of its MBeans."""
    if re.fullmatch(r"[\w\-%. \t]*", client, re.ASCII):
        return client
    return '"' + re.sub(r'["*?\\]', r"\\\g<0>", client).replace("\n", "\\n") + '"'


def plugin_line(stack: str) -> str:
    """The line of a plugin that Kafka Connect has called, and the innermost line outside of Java if it is another one. Empty: the stack is
    not in a plugin, or Connect has not called it."""
    outside: list[str] = []
    for frame in _FRAME.findall(stack):
        if frame.startswith(_OF_CONNECT):
            break
        if not frame.startswith(OF_JAVA):
            outside.append(frame)
    else:
        return ""
    if len(outside) < 2:
        return "".join(outside)
    return f"{outside[-1]}, and in it at {outside[0]}"


def texts_of(given: Mapping[object, object]) -> dict[str, str]:
    """A Java map as strings, without nulls, because a task treats null values as absent keys."""
    return {str(key): str(given[key]) for key in given if given[key] is not None}


class Counter:
    """Reads the current value of one of Connect's metrics."""

    def __init__(self, jvm: Jvm, metric: Any) -> None:
        self._jvm = jvm
        self._metric = metric

    def __call__(self) -> int:
        with self._jvm.calls():
            return int(self._metric.metricValue())
