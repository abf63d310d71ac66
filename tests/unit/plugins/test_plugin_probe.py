"""What plugins can do to the process that runs their code, and cannot do to the one that asks; and what an answer may hold."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from airflow_provider_connect.errors import (
    BadRequestException,
    ConfigException,
    ConnectException,
    PluginNotFoundException,
    RetriableException,
)
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.views import ConfigValueView, Validation
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from airflow_provider_connect.runtime.worker.task.checked_connector import check_connector
from tests.unit.plugins.locations import source, tree
from tests.waiting import HANG_SECONDS

FILE_SOURCE = {"connector.class": "FileStreamSource", "name": "f", "file": "/x", "topic": "t"}
FILE_SINK = {"connector.class": "FileStreamSink", "name": "f", "file": "/x", "topics": "t"}
KAFKA = "org.apache.kafka.connect"
ABSTRACT = "This class is abstract and cannot be created."
BEHAVIOURS = {
    "Sleeping": "import time\ntime.sleep(3600)",
    "Spinning": "while True: pass",
    "Huge": "blocks = bytearray(10 << 30)",
    "Recursive": "def down(): return down()\ndown()",
    "Exiting": "raise SystemExit(7)",
    "Dying": "import os, sys\nsys.stderr.write('x' * (8 << 20) + '\\nlast words')\nsys.stderr.flush()\nos._exit(9)",
    "Babbling": "import os, sys\nsys.stderr.write('secret' * 1000)\nsys.stderr.flush()\nos._exit(9)",
    "Printing": 'print(\'{"not": "an answer"}\' * 1000)',
    "Closing": "import os\nfor number in range(3, 30):\n    try:\n        os.close(number)\n    except OSError:\n        pass",
}


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plugins")
    for name, behaviour in BEHAVIOURS.items():
        entry = f"source:{name}Source = {name.lower()}:EchoSource"
        tree(path / name.lower(), name.lower(), "1.0", {f"{name.lower()}.py": behaviour + "\n" + source()}, entry)
    many = "\n".join(f"        ConfigKey('key.{number}', default='x', group='G{number % 7}')," for number in range(300))
    text = source().replace('    config_def = ConfigDef(ConfigKey("topic"))', f"    config_def = ConfigDef(\n{many}\n    )")
    tree(path / "wide", "wide", "1.0", {"wide.py": text}, "source:WideSource = wide:EchoSource")
    secret = "    def validate(self, config):\n        raise ValueError('cannot log in with ' + config['password'])\n"
    tree(path / "leaking", "leaking", "1.0", {"leaking.py": source(body=secret)}, "source:LeakingSource = leaking:EchoSource")
    hook = (
        "    def alter_offsets(self, config, offsets):\n"
        "        if offsets and offsets[0][1] is None: raise ValueError('never null')\n"
        "        if offsets and offsets[0][0] is None: raise NotImplementedError\n"
        "        return bool(offsets) and offsets[0][0] == {'table': 'a'}\n"
    )
    away = "".join(
        f"    def {call}(self, config{more}):\n"
        f"        if config['topic'] == '{call}': raise RetriableException('the shop is away in {call}')\n"
        f"        return super().{call}(config{more})\n"
        for call, more in (("validate", ""), ("alter_offsets", ", offsets"))
    )
    text = "from airflow_provider_connect.sdk import RetriableException\n" + source(body=away)
    tree(path / "away", "away", "1.0", {"away.py": text}, "source:AwaySource = away:EchoSource")
    tree(path / "hooked", "hooked", "1.0", {"hooked.py": source(body=hook)}, "source:HookedSource = hooked:EchoSource")
    return path


@pytest.fixture(scope="module")
def probe(plugin_path: Path) -> Iterator[PluginProbe]:
    with PluginProbe(settings(plugin_path)) as made:
        yield made


def settings(plugin_path: Path, **more: str) -> WorkerSettings:
    patient = {"plugin.probe.timeout.ms": str(int(1000 * HANG_SECONDS))}
    return WorkerSettings.of({"plugin.path": str(plugin_path), "connectors.allowed.paths": "/", **patient, **more})


def by_key(validation: Validation) -> dict[str, ConfigValueView]:
    return {value.name: value for _, value in validation.configs}


def errors_of(probe: PluginProbe, **config: str) -> dict[str, list[str]]:
    found = probe.validate(None, {key.replace("__", "."): text for key, text in config.items()})
    return {value.name: list(value.errors) for _, value in found.configs if value.errors}


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Huge", "cannot be imported: MemoryError"),
        ("Recursive", "cannot be imported: RecursionError"),
        ("Exiting", r"called exit\(7\)"),
        ("Dying", "ended with exit code 9: last words"),
        ("Babbling", "ended with exit code 9$"),
        ("Closing", "broke off without an answer|ended with exit code"),
    ],
)
def test_a_plugin_that_misbehaves_costs_its_own_request_alone(probe: PluginProbe, name: str, message: str) -> None:
    with ThreadPoolExecutor() as others:
        bad = others.submit(probe.validate, None, {"connector.class": f"{name}Source", "name": "x", "topic": "t"})
        assert probe.validate(None, FILE_SOURCE).error_count == 0
        with pytest.raises(ConnectException, match=message):
            bad.result()
    assert probe.validate(None, FILE_SOURCE).error_count == 0


@pytest.mark.process
def test_a_module_that_reads_a_variable_of_the_server_names_it_and_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "x")
    text = "import os\ntoken = os.environ['SHOP_TOKEN']\n" + source()
    tree(tmp_path / "shop", "shop", "1.0", {"shop.py": text}, "source:ShopSource = shop:EchoSource")
    with PluginProbe(settings(tmp_path)) as made, pytest.raises(ConfigException) as refused:
        made.validate(None, {"connector.class": "ShopSource", "name": "s", "topic": "t"})
    assert "cannot be imported: it reads environment variable SHOP_TOKEN, which this process does not have" in refused.value.message
    assert "Declare a setting, and give it the value ${env:SHOP_TOKEN}" in refused.value.message


def test_plugins_that_hang_are_ended_in_time(plugin_path: Path) -> None:
    lines = {"Sleeping": 2, "Spinning": 1}
    seconds = 2
    while lines:  # a machine that is slow or busy needs a longer limit to come to the line that hangs
        for name in list(lines):
            with PluginProbe(settings(plugin_path, **{"plugin.probe.timeout.ms": f"{seconds}000"})) as probe:
                with pytest.raises(RetriableException, match=f"did not answer within {seconds} s, and was ended") as raised:
                    probe.validate(None, {"connector.class": f"{name}Source", "name": "x", "topic": "t"})
                if raised.value.message.endswith(f"({plugin_path / name.lower()}/{name.lower()}.py, line {lines[name]})"):
                    with pytest.raises(RetriableException, match=f"did not answer within {seconds} s, and was ended"):
                        probe.config_keys(f"{name}Source")
                    del lines[name]
        seconds *= 2
        assert seconds < HANG_SECONDS


@pytest.mark.process
def test_a_plugin_that_hangs_delays_no_other(tmp_path: Path) -> None:
    release = tmp_path / "release"
    code = f"import time\nfrom pathlib import Path\nwhile not Path({str(release)!r}).exists():\n    time.sleep(0.02)\n"
    tree(tmp_path / "plugins" / "hanging", "hanging", "1.0", {"hanging.py": code + source()}, "source:HangingSource = hanging:EchoSource")
    with PluginProbe(settings(tmp_path / "plugins")) as probe, ThreadPoolExecutor() as others:
        hanging = others.submit(probe.validate, None, {"connector.class": "HangingSource", "name": "x", "topic": "t"})
        try:
            assert probe.validate(None, FILE_SOURCE).error_count == 0
            assert not hanging.done()
        finally:
            release.touch()
        assert hanging.result().error_count == 0


def test_what_a_plugin_prints_is_no_answer(probe: PluginProbe) -> None:
    assert probe.validate(None, {"connector.class": "PrintingSource", "name": "x", "topic": "t"}).error_count == 0


def test_processes_end_with_the_probe_and_with_their_parent(plugin_path: Path) -> None:
    with PluginProbe(settings(plugin_path)) as probe:
        probe.validate(None, FILE_SOURCE)
        (process,) = probe._pool._idle
        pid = process._child.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_processes_that_wait_end_when_nothing_is_asked(plugin_path: Path) -> None:
    with PluginProbe(settings(plugin_path), idle_seconds=0.01) as probe:
        for _ in range(2):
            assert probe.validate(None, FILE_SOURCE).error_count == 0
            timer = probe._pool._timer
            assert timer is not None
            timer.join(HANG_SECONDS)
            assert not probe._pool._idle


def test_three_hundred_keys_are_validated_at_once_when_warm(probe: PluginProbe) -> None:
    config = {"connector.class": "WideSource", "name": "wide", **{f"key.{number}": str(number) for number in range(300)}}
    found = probe.validate("WideSource", config)
    assert by_key(found)["key.299"].value == "299"
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        probe.validate("WideSource", config)
        seconds.append(time.perf_counter() - started)
    print(f"300 keys: {min(seconds) * 1000:.0f} ms")
    assert min(seconds) < 5


def test_definitions_are_asked_once_for_each_state_of_the_files(probe: PluginProbe, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):  # the first question writes bytecode, which is a change of the files
        assert [key.name for key in probe.config_keys("HookedSource")][:2] == ["topic", "name"]
    asked: list[object] = []
    monkeypatch.setattr(probe._pool, "ask", lambda *request: asked.append(request))
    assert probe.config_keys("HookedSource", "1.0")[0].name == "topic"
    assert asked == []


def test_many_threads_share_a_probe(probe: PluginProbe) -> None:
    with ThreadPoolExecutor(8) as threads:
        counts = list(threads.map(lambda _: probe.validate(None, FILE_SOURCE).error_count, range(40)))
    assert counts == [0] * 40
    assert threading.active_count() < 50


def test_no_secret_is_in_an_answer(plugin_path: Path, tmp_path: Path) -> None:
    (tmp_path / "s.properties").write_text("word=hunter22\npath=/etc/hunter22\n")
    providers = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "config.providers.airflow.access.x": "db:password",
    }
    with PluginProbe(settings(plugin_path, **providers), secrets=lambda _: {"${airflow:db:password}": "opensesame"}) as probe:
        variable = f"${{file:{tmp_path}/s.properties:path}}"
        found = probe.validate(None, {**FILE_SOURCE, "file": variable, "tasks.max": f"${{file:{tmp_path}/s.properties:word}}"})
        assert by_key(found)["file"].value == variable
        assert "hunter22" not in str(found)
        assert by_key(found)["tasks.max"].errors[0] == "Invalid value [hidden] for configuration tasks.max: Not a number of type INT"
        with pytest.raises(ConnectException, match=r"ValueError: cannot log in with \[hidden\]"):
            probe.validate(None, {"connector.class": "LeakingSource", "name": "x", "topic": "t", "password": "${airflow:db:password}"})


def test_what_a_connector_may_not_resolve_is_refused_by_its_key(plugin_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_PATH", "/canary")
    access = {
        "config.providers": "env",
        "config.providers.env.class": "EnvVarConfigProvider",
        "config.providers.env.access.shop-.*": "SHOP_.*",
        "config.providers.airflow.param.allowlist.pattern": "shop:.*",
    }
    secrets = {"${airflow:core:uri}": "canary-of-core"}
    asked: list[object] = []

    def reported(config: Mapping[str, str | None]) -> Mapping[str, str]:
        asked.append(config)
        return secrets

    with PluginProbe(settings(plugin_path, **access), secrets=reported) as probe:
        for name, variable, setting in [
            ("staff", "${env:SHOP_PATH}", "no config.providers.env.access setting"),
            ("shop-1", "${env:HOME}", "no config.providers.env.access setting"),
            ("shop-1", "${airflow:core:uri}", "config.providers.airflow.param.allowlist.pattern does not allow it"),
        ]:
            with pytest.raises(ConfigException) as refused:
                probe.validate(None, {**FILE_SOURCE, "name": name, "file": variable})
            assert refused.value.message.startswith(f"Invalid value {variable} for configuration file: {setting}")
            with pytest.raises(ConfigException):
                probe.alter_offsets(name, {**FILE_SOURCE, "file": variable}, None)
        assert asked == [], "refused before anything is resolved"
        assert probe.validate(None, {**FILE_SOURCE, "name": "shop-1", "file": "${env:SHOP_PATH}"}).error_count == 0


@pytest.mark.parametrize("variable", ["${airflow:shop:password}", "${variable:region}", "${env:SHOP_PATH}"])
def test_nothing_of_the_host_is_resolved_where_no_rule_allows_it(plugin_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    monkeypatch.setenv("SHOP_PATH", "/canary")
    env = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"}
    asked: list[object] = []

    def secrets(config: object) -> dict[str, str]:
        asked.append(config)
        return {"${airflow:shop:password}": "/canary", "${variable:region}": "/canary"}

    config = {**FILE_SOURCE, "name": "shop", "file": variable}
    with PluginProbe(settings(plugin_path, **env), secrets=secrets) as probe:
        with pytest.raises(ConfigException) as refused:
            probe.validate(None, config)
        assert "setting of the worker lets this connector read it" in refused.value.message
        assert ".access.shop=" in refused.value.message
        assert "config.providers.access.default=allow" in refused.value.message
        assert asked == []
    with PluginProbe(settings(plugin_path, **env, **{"config.providers.access.default": "allow"}), secrets=secrets) as probe:
        assert probe.validate(None, config).error_count == 0


def test_refusals(probe: PluginProbe) -> None:
    with pytest.raises(BadRequestException, match="contains no connector type"):
        probe.validate("FileStreamSource", {"connector.class": None, "topic": "t"})
    with pytest.raises(BadRequestException, match="Included connector type FileStreamSource does not match request type FileStreamSink"):
        probe.validate("FileStreamSink", FILE_SOURCE)
    with pytest.raises(ConfigException, match=r"^Unbounded range: "):
        probe.validate(None, {**FILE_SOURCE, "connector.plugin.version": "[1"})
    with pytest.raises(PluginNotFoundException, match=r"^Unknown plugin Nobody\.$"):
        probe.config_keys("Nobody")
    with pytest.raises(BadRequestException, match=r"version range \[,\], available versions: \[1.0\]"):
        probe.config_keys("WideSource", "")
    with pytest.raises(BadRequestException, match="Invalid version specification: \\[1"):
        probe.config_keys("WideSource", "[1")


@pytest.mark.parametrize(
    "name",
    [
        *("FileConfigProvider", "File", "EnvVar", "org.apache.kafka.common.config.provider.DirectoryConfigProvider"),
        *(
            "All",
            "PrincipalConnectorClientConfigOverridePolicy",
            "airflow_provider_connect.runtime.config.built_in_providers.EnvVarConfigProvider",
        ),
    ],
)
def test_plugins_of_other_kinds_have_no_settings_to_show(plugin_path: Path, name: str) -> None:
    own = {
        "config.providers": "v",
        "config.providers.v.class": "airflow_provider_connect.runtime.config.built_in_providers.EnvVarConfigProvider",
    }
    with PluginProbe(settings(plugin_path, **own)) as probe, pytest.raises(BadRequestException) as refused:
        probe.config_keys(name)
    kinds = "sink, source, converter, header_converter, transformation, predicate"
    assert refused.value.message == f"Invalid plugin class {name}. Valid types are {kinds}."


@pytest.mark.parametrize("key", ["topic", "file"])
@pytest.mark.parametrize("kind", ["Source", "Sink"])
def test_a_null_never_reaches_a_connectors_own_code(probe: PluginProbe, kind: str, key: str) -> None:
    given = FILE_SOURCE if kind == "Source" else FILE_SINK
    found = probe.validate(None, {**given, key: None})
    assert [error for _, value in found.configs for error in value.errors] == ["Null value can not be supplied as the configuration value."]
    assert next(value.value for _, value in found.configs if value.name == key) is None


@pytest.mark.parametrize(
    "given",
    [
        {"connector.class": "DeltaSink", "topics": "t", "delta.table.path": None},
        {"connector.class": "SparkSource", "topic": None, "format": None},
        {"connector.class": "SparkSink", "topics": "t", "format": None},
    ],
)
def test_a_null_of_any_connectors_key_is_reported(probe: PluginProbe, given: dict[str, str | None]) -> None:
    found = probe.validate(None, {"name": "f", **given})
    for key in (key for key, text in given.items() if text is None):
        assert next(value.errors for _, value in found.configs if value.name == key) == (
            "Null value can not be supplied as the configuration value.",
        )


@pytest.mark.parametrize(
    ("key", "named", "error"),
    [
        ("transforms.a.type", "transforms.Cast", f"{ABSTRACT} Did you mean {KAFKA}.transforms.Cast$Key, {KAFKA}.transforms.Cast$Value?"),
        ("transforms.a.type", "transforms.Transformation", ABSTRACT),
        (
            "transforms.a.type",
            "transforms.predicates.Predicate",
            f"Class interface {KAFKA}.transforms.predicates.Predicate does not implement the Transformation interface",
        ),
        ("predicates.a.type", "transforms.predicates.Predicate", ABSTRACT),
        ("predicates.a.type", "transforms.Cast", f"Class class {KAFKA}.transforms.Cast does not implement the Predicate interface"),
        ("value.converter", "storage.Converter", ABSTRACT),
        ("header.converter", "storage.HeaderConverter", ABSTRACT),
        ("key.converter", "converters.NumberConverter", ABSTRACT),
    ],
)
def test_classes_of_connect_that_cannot_be_created(probe: PluginProbe, key: str, named: str, error: str) -> None:
    stages = {key.partition(".")[0]: "a"} if key.endswith(".type") else {}
    found = probe.validate(None, {**FILE_SOURCE, **stages, key: f"{KAFKA}.{named}"})
    assert next(value.errors for _, value in found.configs if value.name == key) == (error,)


@pytest.mark.parametrize("support", ["disabled", "preparing"])
@pytest.mark.parametrize("word", ["required", "REQUIRED"])
def test_exactly_once_is_refused_by_a_worker_without_it(plugin_path: Path, support: str, word: str) -> None:
    with PluginProbe(settings(plugin_path, **{"exactly.once.source.support": support})) as probe:
        found = errors_of(probe, **{key.replace(".", "__"): text for key, text in FILE_SOURCE.items()}, exactly__once__support=word)
    assert found == {"exactly.once.support": ["This worker does not have exactly-once source support enabled."]}


def test_control_characters_of_iso_stand_in_no_name(probe: PluginProbe) -> None:
    reason = "String may not contain control sequences but had the following ASCII chars: 0, 133"
    found = probe.validate(None, {**FILE_SOURCE, "name": "a\0b\x85"})
    assert next(value.errors for _, value in found.configs if value.name == "name") == (
        f"Invalid value a\0b\x85 for configuration name: {reason}",
    )


def test_texts_of_the_contract(probe: PluginProbe) -> None:
    """Contract §5.2 and §5.3, beyond the recordings."""
    source = {key.replace(".", "__"): text for key, text in FILE_SOURCE.items()}
    sink = {key.replace(".", "__"): text for key, text in FILE_SINK.items()}
    negated = (
        "Config 'transforms.a.negate' was provided but there is no config 'transforms.a.predicate' defining a predicate to be negated."
    )
    router = {"transforms__a__type": "RegexRouter", "transforms__a__regex": "(", "transforms__a__replacement": "x"}
    found = errors_of(probe, **source, transforms="a", transforms__a__negate="true", **router)
    assert found["transforms.a.type"] == [negated]
    assert found["transforms.a.regex"][0].startswith("Invalid value ( for configuration regex: Invalid regex")
    assert errors_of(probe, **source, transforms="r,", transforms__r__type="Filter") == {
        "transforms..type": ['Missing required configuration "transforms..type" which has no default value.']
    }
    assert errors_of(probe, **source, predicates="p", predicates__p__type="Filter") == {
        "predicates.p.type": ["Class class org.apache.kafka.connect.transforms.Filter does not implement the Predicate interface"]
    }
    assert errors_of(probe, **source, value__converter="JsonConverter", value__converter__schemas__cache__size="many") == {
        "value.converter.schemas.cache.size": ["Invalid value many for configuration schemas.cache.size: Not a number of type INT"]
    }
    assert errors_of(probe, **source, key__converter="JsonConverter", key__converter__plugin__version="[1") == {
        "key.converter.plugin.version": ["Unbounded range: [1"]
    }
    assert errors_of(probe, **{**sink, "topics": ""}) == {
        key: ["Must configure one of topics or topics.regex"] for key in ("topics", "topics.regex")
    }
    (refused,) = errors_of(probe, **{**sink, "name": "ü"})["name"]
    assert "printable ASCII" in refused
    assert "Set consumer.override.group.id" in refused
    assert errors_of(probe, **{**sink, "name": "ü"}, consumer__override__group__id="u") == {}
    assert list(errors_of(probe, **sink, consumer__override__group__id="gr\u00fcn")) == ["consumer.override.group.id"]
    assert errors_of(probe, **{**source, "name": "ü"}) == {}
    assert errors_of(probe, **sink, consumer__override__group__id="connect") == {
        "consumer.override.group.id": ["Consumer group connect conflicts with Connect worker group connect"]
    }
    assert errors_of(probe, **source, producer__override__linger__ms="soon") == {
        "producer.override.linger.ms": ["Invalid value soon for configuration linger.ms: Not a number of type LONG"]
    }
    assert errors_of(probe, **source, producer__override__interceptor__classes="Audit") == {
        "producer.override.interceptor.classes": [
            "Invalid value Audit for configuration interceptor.classes: this client has no Java: remove it"
        ]
    }
    assert errors_of(probe, **source, offsets__storage__topic="connect-configs") == {
        "offsets.storage.topic": [
            "Invalid value connect-configs for configuration offsets.storage.topic: it is the worker's own topic for connector "
            "configurations: name another, or leave it out"
        ]
    }
    assert errors_of(probe, **source, delivery__guarantee="perhaps").keys() == {"delivery.guarantee"}


def test_overrides_are_listed_for_the_clients_that_are_used(plugin_path: Path) -> None:
    overrides = {f"{kind}.override.client.rack": "r" for kind in ("producer", "consumer", "admin")}
    policy = {"connector.client.config.override.policy": "SameCluster"}
    every = ["producer", "consumer", "admin"]
    at_least_once = [
        (FILE_SOURCE, {}, ["producer"]),
        (FILE_SOURCE, {"topic.creation.default.partitions": "1"}, ["producer", "admin"]),
        (FILE_SOURCE, {"offsets.storage.topic": "o"}, every),
        (FILE_SINK, {}, ["consumer"]),
        (FILE_SINK, {"errors.deadletterqueue.topic.name": "d"}, every),
    ]
    check_listed(settings(plugin_path, **policy, **{"exactly.once.source.support": "disabled"}), overrides, at_least_once)
    check_listed(settings(plugin_path, **policy), overrides, [(FILE_SOURCE, {}, every), (FILE_SINK, {}, ["consumer"])])


def test_a_policy_of_none_refuses_overrides_of_any_client(plugin_path: Path) -> None:
    overrides = {f"{kind}.override.client.rack": "r" for kind in ("producer", "consumer", "admin")}
    policy = {"connector.client.config.override.policy": "None", "exactly.once.source.support": "disabled"}
    text = "The 'None' policy does not allow 'client.rack' to be overridden in the connector configuration."
    with PluginProbe(settings(plugin_path, **policy)) as probe:
        for config in (FILE_SOURCE, FILE_SINK):
            found = probe.validate(None, {**config, **overrides})
            assert {value.name: value.errors for _, value in found.configs if ".override." in value.name} == dict.fromkeys(
                overrides, (text,)
            )
            assert found.error_count == len(overrides)


def test_an_override_that_leads_to_another_server_is_refused_for_any_client(plugin_path: Path) -> None:
    overrides = {f"{kind}.override.bootstrap.servers": "thief:9092" for kind in ("producer", "admin")}
    with PluginProbe(settings(plugin_path, **{"exactly.once.source.support": "disabled"})) as probe:
        for config in (FILE_SOURCE, FILE_SINK):
            found = probe.validate(None, {**config, **overrides})
            assert {value.name for _, value in found.configs if value.errors and ".override." in value.name} == set(overrides)


def check_listed(worker: WorkerSettings, overrides: dict[str, str], cases: list[tuple[dict[str, str], dict[str, str], list[str]]]) -> None:
    with PluginProbe(worker) as probe:
        for config, more, listed in cases:
            found = probe.validate(None, {**config, **more, **overrides})
            values = [value for _, value in found.configs if ".override." in value.name]
            assert [value.name.partition(".")[0] for value in values] == listed
            assert {value.errors for value in values} == {()}
            assert found.error_count == 0
            definitions = {value.name: key for key, value in found.configs if ".override." in value.name}
            assert all(key is None or (key.name == name and key.display_name == "client.rack") for name, key in definitions.items())


def test_version_ranges_of_the_worker_hold_where_a_config_has_none(tmp_path: Path) -> None:
    for version in ("1.0", "2.0"):
        tree(tmp_path / version, "echo", version, {"echo.py": source()}, "source:org.example.EchoSourceConnector = echo:EchoSource")
    config = {"connector.class": "EchoSource", "name": "mine", "topic": "t"}
    for ranges, version in [
        ({}, "2.0"),
        ({"version_ranges.EchoSource": "[1.0,2.0)"}, "1.0"),
        ({"version_ranges.mine": "1.0", "version_ranges.org.example.EchoSourceConnector": "2.0"}, "1.0"),
        ({"version_ranges.yours": "1.0"}, "2.0"),
    ]:
        with PluginProbe(settings(tmp_path, **ranges)) as probe:
            assert by_key(probe.validate(None, config))["connector.plugin.version"].value == version
            given = by_key(probe.validate(None, {**config, "connector.plugin.version": "2.0"}))["connector.plugin.version"]
            assert (given.value, given.recommended_values) == ("2.0", ("1.0", "2.0"))


@pytest.mark.parametrize("call", ["validate", "alter_offsets"])
def test_a_system_that_is_away_is_an_error_that_may_pass(probe: PluginProbe, call: str) -> None:
    config = {"connector.class": "AwaySource", "name": "a", "topic": call}
    with pytest.raises(RetriableException, match=f"^the shop is away in {call}$") as raised:
        probe.validate(None, config) if call == "validate" else probe.alter_offsets("a", config, [({"table": "a"}, {"row": 1})])
    assert raised.value.status_code == 500


def test_the_connectors_hook_is_asked(probe: PluginProbe) -> None:
    config = {"connector.class": "HookedSource", "name": "h", "topic": "t"}
    assert probe.alter_offsets("h", config, [({"table": "a"}, {"row": 1})]) is True
    assert probe.alter_offsets("h", config, [({"table": "b"}, {"row": 1})]) is False
    assert probe.alter_offsets("h", config, None) is False
    with pytest.raises(ConnectException, match="ValueError: never null"):
        probe.alter_offsets("h", config, [({"table": "a"}, None)])
    with pytest.raises(NotImplementedError):
        probe.alter_offsets("h", config, [(None, {"row": 1})])
    with pytest.raises(ConnectException, match="should be a non-negative value"):
        probe.alter_offsets("f", FILE_SOURCE, [({"filename": "/x"}, {"position": -1})])


def test_edits_of_a_package_that_is_installed_editably_are_seen_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree(
        tmp_path,
        "edited",
        "1.0",
        {"edited/__init__.py": "", "edited/source.py": source()},
        "source:EditedSource = edited.source:EchoSource",
    )
    monkeypatch.syspath_prepend(str(tmp_path))  # as the path file of ``pip install -e`` does
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    config = {"connector.class": "EditedSource", "name": "x", "topic": "t"}
    with PluginProbe(settings(tmp_path / "nowhere")) as probe:
        assert probe.validate(None, config).error_count == 0
        assert "size" not in {key.name for key in probe.config_keys("EditedSource")}
        text = source().replace('ConfigKey("topic")', 'ConfigKey("topic"), ConfigKey("size")')
        (tmp_path / "edited" / "source.py").write_text(text)
        assert by_key(probe.validate(None, config))["size"].errors
        assert "size" in {key.name for key in probe.config_keys("EditedSource")}


def test_a_validation_names_what_on_plugin_path_cannot_be_used_and_logs_it_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "broken.py").write_text("def rows(:")
    with PluginProbe(settings(tmp_path)) as probe:
        for _ in range(2):
            with pytest.raises(ConfigException, match=r"^Failed to find any class.*\. Not usable on plugin\.path: broken\.py; 'airflow"):
                probe.validate(None, {**FILE_SOURCE, "connector.class": "broken.rows"})
        [error] = errors_of(probe, **FILE_SOURCE, value__converter="broken.Text")["value.converter"]
    assert error.endswith(
        "Class broken.Text could not be found. Not usable on plugin.path: broken.py; 'airflow connect plugins broken' prints the reasons"
    )
    with pytest.raises(ConfigException, match=r"Not usable on plugin\.path: broken\.py"):
        check_connector("c", {**FILE_SOURCE, "connector.class": "broken.rows"}, settings(tmp_path), {})
    [record] = [record for record in caplog.records if record.name.endswith(".probe")]
    assert "broken.py cannot be used" in record.getMessage()


def test_words_of_an_unknown_class_are_not_taken_for_a_password(probe: PluginProbe) -> None:
    """A password that is a word of the class, or of the advice, would be shown by its absence."""
    config = {"connector.class": "io.confluent.connect.sftp.SftpSinkConnector", "sftp.password": "confluent", "other.password": "pass"}
    with pytest.raises(ConfigException, match=r"matches io\.confluent\.connect\.sftp\.SftpSinkConnector.*sftp\.password stay") as found:
        probe.validate(None, config)
    assert "[hidden]" not in found.value.message


def test_a_variable_that_no_provider_resolves_is_a_warning(probe: PluginProbe) -> None:
    found = probe.validate(None, {**FILE_SOURCE, "file": "${securepass:/secrets:topic}"})
    assert [each for each in found.warnings if "securepass" in each] == [
        "file: ${securepass:/secrets:topic} is used as written: no worker setting declares a config provider 'securepass'"
    ]
    assert "config.providers=file and config.providers.file.class=FileConfigProvider" in str(
        probe.validate(None, {**FILE_SOURCE, "file": "${file:/secrets:file}"}).warnings
    )
    with pytest.raises(ConfigException, match=r"for configuration topic: no topic .* config\.providers=env .*public\.keys=HOME"):
        probe.validate(None, {**FILE_SOURCE, "topic": "${env:HOME}"})


def test_a_transformation_of_java_has_what_a_connector_in_python_uses_instead(probe: PluginProbe) -> None:
    config = {**FILE_SOURCE, "transforms": "a", "transforms.a.type": "io.debezium.transforms.ExtractNewRecordState"}
    errors = by_key(probe.validate(None, config))["transforms.a.type"].errors
    assert "Class io.debezium.transforms.ExtractNewRecordState could not be found." in errors[0]
    assert "use SqlTransform or one of your own (docs/transformations.md)" in errors[0]
