"""Definitions and validations of the recordings (``golden/rest``), asked of ``PluginProbe`` itself: what a real Connect 4.3.1 answered."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.model.views import ConfigKeyView, Validation
from airflow_provider_connect.runtime.plugins.probe import PluginProbe
from tests.contract.plugin_versions import PLACEHOLDERS, install_versions
from tests.contract.rest.profiles import versions
from tests.contract.rest.scenarios import Step, filled, scenarios
from tests.contract.rest.to_come import TO_COME

RECORDED = {scenario.name: scenario for scenario in scenarios()}
SCENARIOS = (
    "plugin-config",
    "plugins-list",
    "validate-source",
    "validate-refused",
    "create-refused",
    "config-values",
    "versions-chosen",
    "versions-definitions",
)
counts: Counter[str] = Counter()


@pytest.fixture(scope="module")
def probes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, PluginProbe]]:
    plugin_path = tmp_path_factory.mktemp("plugins")
    install_versions(plugin_path)
    about = {"exactly.once.source.support": "disabled", "group.id": "restdiff", "connectors.allowed.paths": "/"}
    made = {
        "default": PluginProbe(WorkerSettings.of(about)),
        "versions": PluginProbe(WorkerSettings.of({**about, "plugin.path": str(plugin_path)})),
    }
    yield made
    for probe in made.values():
        probe.close()
    print(f"steps: {dict(counts)}")


def steps() -> Iterator[Any]:
    for name in SCENARIOS:
        for number, step in enumerate(_steps_of(name)):
            kind = _kind(step)
            if kind is not None and (name, step["id"]) not in TO_COME:
                yield pytest.param(RECORDED[name].profile, kind, step, id=f"{name}-{number}-{step['id']}")


def _steps_of(name: str) -> list[Step]:
    return [filled(step, {**versions("versions"), "run": "r1", "files": "/data"}) for step in RECORDED[name].steps]


def _kind(step: Mapping[str, Any]) -> str | None:
    path = urlsplit(step.get("path", "")).path
    if step["step"] != "call":
        return None
    if path == "/connectors" and "json" in step and "connector.class" in (step["json"].get("config") or {}):
        return None if "doesn't match connector name" in str(step["answer"]["body"]) else "create"
    if not path.startswith("/connector-plugins/"):
        return None
    if path.endswith("/config") and step["method"] == "GET":
        return "config"
    texts = step.get("json")
    is_flat = isinstance(texts, dict) and all(value is None or isinstance(value, str) for value in texts.values())
    return "validate" if path.endswith("/config/validate") and is_flat else None


@pytest.mark.parametrize(("profile", "kind", "step"), steps())
def test_step(probes: dict[str, PluginProbe], profile: str, kind: str, step: dict[str, Any]) -> None:
    probe = probes[profile]
    status, got = _answered(probe, kind, step)
    answer, deviation = step["answer"], step.get("deviation")
    if deviation is not None and "status" in deviation:
        assert status == deviation["status"]
        assert re.search(deviation.get("pattern", ""), str(got))
        counts["deviation"] += 1
    elif answer["status"] == (201 if kind == "create" else 200):
        assert status == 200
        if kind != "create":
            assert got == _wanted(answer["body"], profile)
        counts[kind] += 1
    else:
        assert status == answer["status"]
        assert _without_list(str(got)) == _without_list(answer["body"]["message"])
        counts["refused"] += 1


def _answered(probe: PluginProbe, kind: str, step: Mapping[str, Any]) -> tuple[int, Any]:
    where = urlsplit(step["path"])
    try:
        if kind == "config":
            version = parse_qs(where.query, keep_blank_values=True).get("version", [None])[0]
            return 200, [_key(key) for key in probe.config_keys(where.path.split("/")[2], version)]
        if kind == "validate":
            return 200, _validation(probe.validate(where.path.split("/")[2], step["json"]))
        return _created(probe, step["json"])
    except ConnectException as error:
        return error.status_code, error.message


def _created(probe: PluginProbe, body: Mapping[str, Any]) -> tuple[int, Any]:
    """What a create makes of the validation; values that are no text arrive as text."""
    config = {key: value if value is None or isinstance(value, str) else json.dumps(value) for key, value in body["config"].items()}
    validation = probe.validate(None, {**config, "name": body["name"].strip()})
    errors = [error for _, value in validation.configs for error in value.errors]
    if not errors:
        return 200, None
    text = f"Connector configuration is invalid and contains the following {validation.error_count} error(s):\n" + "\n".join(errors)
    return 400, text + "\nYou can also find the above list of errors at the endpoint `/connector-plugins/{connectorType}/config/validate`"


def _without_list(message: str) -> str:
    """The list of what there is need not be equal."""
    return message.partition("available connectors are:")[0]


def _key(key: ConfigKeyView) -> dict[str, Any]:
    return {
        "name": key.name,
        "type": key.type,
        "required": key.required,
        "default_value": key.default_value,
        "importance": key.importance,
        "group": key.group,
        "order_in_group": key.order,
        "width": key.width,
        "display_name": key.display_name,
        "dependents": list(key.dependents),
    }


def _validation(validation: Validation) -> dict[str, Any]:
    return {
        "name": validation.name,
        "error_count": validation.error_count,
        "groups": list(validation.groups),
        "configs": [
            {
                "definition": None if key is None else _key(key),
                "value": {
                    "name": value.name,
                    "value": value.value,
                    "recommended_values": _kafkas(value.recommended_values),
                    "errors": list(value.errors),
                    "visible": value.visible,
                },
            }
            for key, value in validation.configs
        ],
    }


def _kafkas(values: Any) -> list[str]:
    """Recommended plugins come in any order; how often depends on how many versions of a plugin lie there. Only Kafka's are recorded."""
    return sorted(value for value in set(values) if not value.startswith(("airflow_provider_connect.", "io.confluent.")))


def _wanted(body: Any, profile: str) -> Any:
    """The recorded answer without the texts of its documentation; versions outside the profile ``versions`` are ours."""
    if isinstance(body, dict) and "documentation" in body:
        body = {name: value for name, value in body.items() if name != "documentation"}
    if isinstance(body, dict) and "recommended_values" in body:
        body = {**body, "recommended_values": _kafkas(body["recommended_values"])}
    if isinstance(body, dict):
        return {name: _wanted(value, profile) for name, value in body.items()}
    if isinstance(body, list):
        return [_wanted(value, profile) for value in body]
    return PLACEHOLDERS["{v_new}"] if body == "4.3.1" else body


def test_the_list_of_plugins_is_in_connects_order(probes: dict[str, PluginProbe]) -> None:
    recorded = RECORDED["plugins-list"].steps
    for number, connectors_only in ((0, True), (2, False)):
        plugins = probes["default"].plugins(connectors_only)
        listed = [(view.class_name, view.type) for view in plugins if view.class_name.startswith("org.apache.kafka.")]
        kafkas = [(about["class"], about["type"]) for about in recorded[number]["answer"]["body"]]
        assert listed == kafkas
        print(f"plugins: {len(listed)} of {len(kafkas)}, all in order")


def test_versions_of_the_file_connectors_are_listed_oldest_first(probes: dict[str, PluginProbe]) -> None:
    recorded = _steps_of("versions-chosen")[1]["answer"]["body"]
    wanted = [(about["class"], about["version"]) for about in recorded if ".file." in about["class"]]
    assert [(view.class_name, view.version) for view in probes["versions"].plugins() if ".file." in view.class_name] == wanted
