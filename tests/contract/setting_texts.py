"""What the worker settings and the ``airflow.*`` keys mean, for docs/reference-settings.md. Names, types and defaults are in the code."""

from __future__ import annotations

WORKER = {
    "access.control.allow.methods": "Methods that a page of an allowed origin may use. Separate server and standalone modes only.",
    "access.control.allow.origin": "Origins whose pages may call the REST API. Separate server and standalone modes only.",
    "airflow.allowed.pools": "The pools that configs may name, in addition to `default_pool`; `*`: any.",
    "airflow.allowed.continuous": "Whether configs from REST or the config topic may have the schedule `@continuous`. Each such run takes "
    "a slot of Airflow's executor for as long as it stays ([runs that stay](continuous.md)).",
    "airflow.allowed.applications": "The [shared applications](continuous.md#shared-applications) that configs may name in "
    "`airflow.application`; `*`: any.",
    "airflow.allowed.engines": "The engines that configs may name, in addition to `spark`: `process`; `*`: any.",
    "airflow.allowed.queues": "The queues that configs may name, in addition to `default`; `*`: any.",
    "airflow.max.pool.slots": "The largest `airflow.pool.slots` that a config may request.",
    "airflow.max.priority.weight": "The largest `airflow.priority.weight` that a config may request.",
    "airflow.min.schedule.interval": "The shortest time between two runs that a config may request. Airflow's own timetable measures "
    "presets and "
    "cron expressions.",
    "airflow.missing.dag.grace": "How long the DAG of a connector may be missing from its file before the connector is stopped.",
    "airflow.missing.dag.limit": "If more connectors than this are missing from their files at once, no connector is stopped.",
    "airflow.schedule": "When connectors without a schedule of their own run: cron, a preset, a duration such as `30s`, or `none`. "
    "Default: every five "
    "minutes. For connectors of DAG files, the value is read from the section `[connect]` and the file of worker properties only.",
    "batch.max.duration.ms": "Maximum time of a task in one run.",
    "batch.max.records": "Approximate maximum number of records of a task in one run. Default: all that are available.",
    "bootstrap.servers": "Kafka's brokers: host:port, separated by commas.",
    "client.id": "The beginning of the client ids.",
    "connector.client.config.override.allowlist": "Client settings that connectors may override under the policy `Allowlist`.",
    "connector.client.config.override.policy": "Which client settings connectors may override ([topics and "
    "clients](topics-and-clients.md)).",
    "connectors.allowed.paths": "The folders in which connectors may open files and sockets of the host: FileStream connectors, "
    "SQLite, socket folders of "
    "PostgreSQL. `/` allows all; empty allows none. Default: `connect-data` under `AIRFLOW_HOME`; without Airflow, next to "
    "`worker.properties` or in the "
    "working directory. Drivers that open files by themselves need `/` ([security](security.md)).",
    "connectors.max.tasks": "The largest number of tasks of one connector, whatever its `tasks.max` is. Airflow maps a task over no "
    "more than "
    "`[core] max_map_length`, 1024 by default.",
    "connectors.spark.formats": "The formats of Spark that `SparkSource` and `SparkSink` may name ([formats of Spark](spark.md)).",
    "connectors.spark.options": "The options that they may set: `format.option` for any value, `format.option=value` for one value.",
    "cost.cpu.hour": "The price of an hour of CPU, for [what runs cost](sizing.md#what-runs-have-cost). Prices are numbers from 0 to "
    "1e9. If all prices are 0, no money is shown.",
    "cost.currency": "The currency of the prices, shown with each sum; at most 8 characters.",
    "cost.gigabyte": "The price of 10⁹ bytes delivered.",
    "cost.task.hour": "The price of an hour in which a task runs, for the slot or memory that it occupies.",
    "exactly.once.source.support": "Whether sources may deliver exactly once. Kafka Connect's default is `disabled`.",
    "group.id": "Names this Connect cluster; part of every transactional id.",
    "header.converter": "The converter of headers, for connectors that name no other.",
    "java.allowed.locations": "The folders of Java plugins. Without one, Java connectors are refused "
    "([Java connectors](java-connectors.md)).",
    "java.memory": "The largest heap of each JVM that runs Java plugins, as for `-Xmx`. Default: `512m`.",
    "java.memory.max": "The largest `airflow.java.memory` that a config may request. Default: `4g`, or `java.memory` if that is more.",
    "java.threads.max": "The most threads of each JVM that runs Java plugins. A JVM with more is ended "
    "([limits](java-connectors.md#limits-of-a-plugin)).",
    "internal.topics.automatic.creation.enable": "`false`: internal topics and `offsets.storage.topic` of connectors are not created; a "
    "missing one is an error ([topics](topics-and-clients.md#internal-topics)).",
    "key.converter": "The converter of keys, for connectors that name no other.",
    "librdkafka.direct.access.enable": "Whether tasks pass whole Arrow columns to librdkafka through its C functions, for up to a third of "
    "the CPU. `false`, and with a release of confluent-kafka that is not known to this package: records go through confluent-kafka's API.",
    "listeners": "Where the separate server and the standalone modes listen; one URL. Default: `http://127.0.0.1:8083`.",
    "offset.flush.interval.ms": "How often a task commits offsets.",
    "offset.flush.timeout.ms": "How long an ending task or run waits until its last statuses are written.",
    "plugin.path": "Folders of plugins, separated by commas ([plugins](plugins.md)).",
    "plugin.plan.timeout.ms": "Time limit for a connector's code that starts the connector, and for the code that names its tasks.",
    "plugin.probe.memory.bytes": "Maximum memory of the process that loads plugins to inspect them.",
    "plugin.probe.timeout.ms": "Time limit for loading a plugin in that process.",
    "rest.advertised.host.name": "A name by which clients address the separate server.",
    "rest.allowed.hosts": "Further such names, separated by commas; `*`: any.",
    "rest.anonymous.access": "`true`: the separate server does not authenticate users.",
    "status.storage.retry.backoff.multiplier": "The growth of the wait between two retries of a status write.",
    "status.storage.retry.initial.backoff.ms": "The first wait.",
    "status.storage.retry.jitter.factor": "The random share of the wait.",
    "status.storage.retry.max.backoff.ms": "The longest wait.",
    "status.storage.retry.max.retries": "How often a status write is retried (KIP-1278).",
    "task.memory.max": "Maximum memory of the Python process of one task, from `256m` to `1024g`: a task that needs more FAILS alone "
    "([limits of memory](sizing.md#limits-of-memory)). A connector may set a lower value under the same name, but no higher one.",
    "task.shutdown.graceful.timeout.ms": "How long `stop`, `restart` and changes of offsets wait for running tasks to end.",
    "topic.creation.enable": "Whether sources may create topics by their `topic.creation.*` settings.",
    "topic.tracking.allow.reset": "Whether the active topics of a connector may be reset.",
    "topic.tracking.enable": "Whether the topics that a connector uses are recorded.",
    "transaction.boundary.poll.linger.ms": "Polls within this time share a transaction; 0: one transaction per poll.",
    "value.converter": "The converter of values, for connectors that name no other.",
    **{
        f"{kind}.storage.{key}": text
        for kind, noun in (("config", "configs"), ("offset", "offsets"), ("status", "statuses"), ("batch", "the batch log"))
        for key, text in (
            ("topic", f"The topic of {noun}. The default begins with the `group.id`."),
            ("partitions", f"Partitions of the topic of {noun}, if it is created; -1: the brokers' default."),
            (
                "replication.factor",
                f"Replicas of the topic of {noun}, if it is created; -1: the brokers' `default.replication.factor`. Kafka "
                "Connect's default is 3; a production "
                "cluster should set 3 here or on its brokers.",
            ),
        )
        if (kind, key) != ("config", "partitions")  # the config topic has one, always
    },
}
"""The meaning of each worker setting, by key."""

GROUPS_OF_WORKER = {
    "key.converter.…, value.converter.…, header.converter.…": "Settings of the converters. Connectors that name a converter of their "
    "own do not use them.",
    "config.storage.…, offset.storage.…, status.storage.…, batch.storage.…": "Settings of the internal topics that are created, "
    "such as `segment.ms`. "
    "`cleanup.policy` is always `compact`.",
    "airflow.notifiers.«name».class, airflow.notifiers.«name».…": "Notifiers that connectors may choose for notices of failures "
    "([operating](operating.md#notices-of-failures)).",
    "airflow.application.«name».engine, airflow.application.«name».spark.connection, airflow.application.«name».pool, "
    "airflow.application.«name».queue, airflow.application.«name».run.max.duration": "The engine, Spark connection, pool and queue of a "
    "[shared application](continuous.md#shared-applications), and the time after which its next run takes over. Defaults: those of other "
    "connectors.",
    "config.providers, config.providers.…": "Sources of values in configs ([settings](settings.md#values-from-other-sources)).",
    "producer.…, consumer.…, admin.…": "Settings of Kafka's clients ([topics and clients](topics-and-clients.md)).",
    "security.…, sasl.…, ssl.…": "How clients log in to Kafka.",
    "listeners.https.ssl.…": "TLS of the separate server; default: `ssl.…`.",
    "version_ranges.…": "The versions of a plugin that connectors use unless they name one ([plugins](plugins.md)).",
}
"""The meaning of groups of settings, by the beginning of their keys."""

AIRFLOW = {
    "airflow.asset.interval": "The shortest time between two [asset events](lineage.md#runs-that-stay) of a run that stays, and between "
    "two of its events for OpenLineage. At least 10s.",
    "airflow.run.idle.timeout": "How long a run on a schedule that has delivered everything waits for new records before it ends ([runs "
    "that wait](continuous.md#runs-that-wait-for-a-while)). Default: it does not wait.",
    "airflow.application": "The [shared application](continuous.md#shared-applications) that hosts the connector's tasks. Implies "
    "`airflow.schedule=@continuous`.",
    "airflow.deadline.duration": "A notice is sent if a run takes longer, from queued to its end; the run continues. "
    "From 10s to 366d ([deadlines](operating.md#deadlines)).",
    "airflow.java.memory": "The largest heap of each JVM of a Java connector, in its plan and its tasks. Default: the worker setting "
    "`java.memory`.",
    "airflow.java.poll.timeout": "Time limit for the last poll of a run of a Java source, which waits for records. After it the run ends, "
    "and its JVM is killed during that poll. Needs transaction.boundary=poll, the default. Default: no limit.",
    "airflow.java.probe.interval": "How long after the start of the last run of a Java source the next one starts, if only a run can "
    "check it for new data. Earlier scheduled runs start nothing. Default: each run starts a JVM, and Spark "
    "unless `airflow.engine=process`.",
    "airflow.deadline.lag": "A notice is sent if the lag of a sink exceeds this number of records for `airflow.deadline.lag.duration` "
    "([deadlines](operating.md#deadlines)).",
    "airflow.deadline.lag.duration": "How long the lag of a sink may exceed `airflow.deadline.lag`. From 0s to 366d.",
    "airflow.deadline.silence": "A notice is sent if no run of the connector has succeeded for this time. From 60s to 366d "
    "([deadlines](operating.md#deadlines)).",
    "airflow.description": "The DAG's description.",
    "airflow.display.name": "The DAG's name in Airflow's UI.",
    "airflow.doc": "The DAG's documentation, in Markdown. It is never a path and never a template.",
    "airflow.engine": "What runs the tasks: `spark`, an application on the master of the Spark connection, or `process`, one process of "
    "the Airflow worker without Spark ([deployment](deployment.md#runs-without-spark)).",
    "airflow.max.duration": "Airflow fails a task of the DAG that takes longer. Default: no limit.",
    "airflow.on.deadline": "Notifiers that send a notice when a deadline of the connector was missed, separated by commas: names that the "
    "worker settings `airflow.notifiers.…` define ([deadlines](operating.md#deadlines)).",
    "airflow.on.failure": "Notifiers that send a notice when a task of the DAG has failed, separated by commas: names that the worker "
    "settings `airflow.notifiers.…` define ([operating](operating.md#notices-of-failures)).",
    "airflow.owner": "The DAG's owner. Default: Airflow's.",
    "airflow.pool": "The pool of the runs. Default: `default_pool`.",
    "airflow.pool.slots": "The number of slots of a run.",
    "airflow.priority.weight": "Which runs get slots first: those with the higher number.",
    "airflow.queue": "The queue of Airflow's executor. Default: `default`.",
    "airflow.run.max.duration": "With `airflow.schedule=@continuous`: how long a run stays before the next one follows. At least 60s "
    "([runs that stay](continuous.md)).",
    "airflow.retries": "How often Airflow retries a failed task.",
    "airflow.retry.delay": "The wait before the first retry.",
    "airflow.retry.delay.jitter": "The random share of that wait.",
    "airflow.retry.delay.max": "The longest wait.",
    "airflow.retry.delay.multiplier": "The growth of the wait from retry to retry.",
    "airflow.schedule": "When runs start: a cron expression, a preset such as `@hourly`, a duration such as `30s`, `@continuous` for "
    "[runs that stay](continuous.md), or `none`. Default: the worker's `airflow.schedule`, "
    "else every five minutes, at a minute and second derived from the connector's name.",
    "airflow.tags": "The DAG's tags, separated by commas.",
}
"""The meaning of each setting of a connector's DAG, by key."""
