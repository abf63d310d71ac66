"""The worker file of another Kafka Connect, ``connect-distributed.properties``: what becomes of each setting here, and the name of the
shared application that replaces its group. Prints nothing, and never returns a value of a setting, because any value may be a secret."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.client_settings import FILES, TRANSLATABLE, names_java_code
from airflow_provider_connect.runtime.config.dag_settings import application_name
from airflow_provider_connect.runtime.config.masking import Mask, config_secrets
from airflow_provider_connect.runtime.config.properties import parse_properties
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings, setting_names
from airflow_provider_connect.runtime.java.config.rules import TUNING
from airflow_provider_connect.runtime.model.config_limits import cut
from airflow_provider_connect.runtime.model.secret_keys import is_secret_key

GROUP, TOPICS = "group.id", ("config.storage.topic", "offset.storage.topic", "status.storage.topic")
LOCATION: Final = (GROUP, *TOPICS)
"""The settings that name a Connect cluster on its brokers."""
_LONGEST_KEY, _LIKENESS = 100, 0.85
_MOST_COMPARED: Final = 1000  # settings of a file; a comparison with all names takes a millisecond


class Here(StrEnum):
    """What becomes of a setting. WRONG: no worker of this package starts with it."""

    APPLIES = "applies"
    NO_EFFECT = "no effect"
    UNKNOWN = "unknown"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class SettingOutcome:
    """What becomes of one setting, and why, or what else it needs."""

    key: str
    here: Here
    reason: str = ""


def worker_file(path: Path) -> dict[str, str] | None:
    """The settings in the file, if it is a distributed worker's: it names a group or an internal topic, and no connector. None: it is
    another file, or cannot be read as properties."""
    try:
        content = path.read_bytes()
        properties = {} if content.lstrip().startswith(b"{") else parse_properties(content)
    except (OSError, ValueError):
        return None
    return properties if any(key in properties for key in LOCATION) and "connector.class" not in properties else None


def application_for(properties: Mapping[str, str], asked: str | None) -> str:
    """The name of the shared application: ``asked``, or the group's id with hyphens for full stops and underscores. Raises
    ConfigException, which names the key and the fix."""
    if asked is not None:
        try:
            return application_name(asked)
        except ValueError as error:
            raise ConfigException.of("--application", cut(asked, _LONGEST_KEY), str(error)) from error
    group = properties.get(GROUP, "").strip()
    try:
        return application_name(re.sub("[._]", "-", group))
    except ValueError:
        shown = f"a text of {len(group)} characters" if len(group) > _LONGEST_KEY else repr(group)
        advice = "no application can have this name. Name it with --application NAME: 1 to 100 letters, digits and hyphens"
        raise ConfigException.of(GROUP, shown, advice) from None


def outcomes(properties: Mapping[str, str], secrets: Mapping[str, str] | None = None) -> list[SettingOutcome]:
    """What becomes of each setting, in order: wrong ones, those that apply, those without an effect, and unknown ones. ``secrets`` has the
    values of Airflow's variables in ``properties``."""
    wrong = _wrong(properties, secrets)
    known = setting_names()
    suggested = known if len(properties) <= _MOST_COMPARED else frozenset[str]()
    found = [
        SettingOutcome(key, Here.WRONG, wrong[key]) if key in wrong else _outcome(key, value, known, suggested)
        for key, value in properties.items()
    ]
    found += [SettingOutcome(key, Here.WRONG, reason) for key, reason in wrong.items() if key not in properties]
    order = [Here.WRONG, Here.APPLIES, Here.NO_EFFECT, Here.UNKNOWN]
    return sorted(found, key=lambda each: (order.index(each.here), each.key))


def _wrong(properties: Mapping[str, str], secrets: Mapping[str, str] | None) -> dict[str, str]:
    """Wrong settings with their errors, which have no secrets."""
    try:
        WorkerSettings.of(properties, secrets)
    except ConfigException as error:
        hide = Mask({*config_secrets(properties), *(secrets or {}).values()})
        keys: Sequence[str] = error.keys if len(error.keys) == len(error.errors) else error.keys[:1] or [GROUP]
        pairs = zip(keys, error.errors, strict=False)
        return {key: "Its value is invalid" if is_secret_key(key) else hide(text) for key, text in pairs}
    return {}


def _outcome(key: str, value: str, known: frozenset[str], suggested: frozenset[str]) -> SettingOutcome:
    for pattern, here, reason in _RULES:
        if pattern.fullmatch(key):
            return SettingOutcome(key, here, reason)
    kind, dot, name = key.partition(".")
    if dot and kind in ("producer", "consumer", "admin"):
        return _of_client(key, name, value)
    if key in known:
        return SettingOutcome(key, Here.APPLIES)
    if key in TRANSLATABLE | TUNING or key.startswith(("sasl.", "ssl.", "security.")):
        return _of_client(key, key, value)
    near = difflib.get_close_matches(key, sorted(suggested), n=1, cutoff=_LIKENESS) if len(key) <= _LONGEST_KEY else []
    advice = f". Did you mean {near[0]}?" if near else ""
    return SettingOutcome(key, Here.UNKNOWN, f"Neither Kafka Connect nor this package has it{advice}")


def _of_client(key: str, name: str, value: str) -> SettingOutcome:
    if names_java_code(name, value):
        return SettingOutcome(key, Here.NO_EFFECT, "It names a Java class, and clients here have no Java. Remove it")
    if name not in TRANSLATABLE:
        return SettingOutcome(key, Here.NO_EFFECT, "librdkafka has no such setting")
    return SettingOutcome(key, Here.APPLIES, "Each host of Airflow needs this file" if name in FILES else "")


_REST = "REST is part of Airflow's API server, with its address, TLS and users"
_ONE_WORKER = "No workers share tasks: Airflow schedules runs"
_METRICS = "Metrics are those of GET /connect/metrics and of Airflow"
_RULES: Final = (
    (re.compile(r"group\.id|(?:config|offset|status)\.storage\.topic"), Here.APPLIES, "Keep it only if Kafka Connect has stopped for good"),
    (re.compile(r"offset\.storage\.file\.filename"), Here.NO_EFFECT, "It belongs to connect-standalone"),
    (re.compile(r"status\.storage\.retry\..*|batch\.storage\.topic|java\..*"), Here.APPLIES, ""),
    (re.compile(r"(?:config|offset|status|batch)\.storage\..*"), Here.APPLIES, "For a topic that is created"),
    (
        re.compile(r"plugin\.path"),
        Here.APPLIES,
        "Each host of Airflow needs these folders; Java plugins also need java.allowed.locations with them",
    ),
    (re.compile(r"(?:key|value|header)\.converter(?:\..*)?"), Here.APPLIES, ""),
    (
        re.compile(r"config\.providers"),
        Here.APPLIES,
        "Without rules config.providers.«alias».access.…, connectors cannot read the environment",
    ),
    (re.compile(r"config\.providers\..*|version_ranges\..*|airflow\.(?:application|notifiers)\..*"), Here.APPLIES, ""),
    (re.compile(r"connector\.client\.config\.override\.policy"), Here.APPLIES, "The default here is SameCluster, in Kafka Connect All"),
    (re.compile(r"(?:admin\.)?listeners(?:\..*)?|rest\..*|access\.control\..*|response\.http\.headers\.config"), Here.NO_EFFECT, _REST),
    (re.compile(r"ssl\.client\.auth(?:entication)?|port|host\.name"), Here.NO_EFFECT, _REST),
    (
        re.compile(r"(?:session\.timeout|heartbeat\.interval|rebalance\.timeout|scheduled\.rebalance\.max\.delay)\.ms"),
        Here.NO_EFFECT,
        _ONE_WORKER,
    ),
    (re.compile(r"worker\.(?:sync\.timeout|unsync\.backoff)\.ms|connect\.protocol|inter\.worker\..*"), Here.NO_EFFECT, _ONE_WORKER),
    (re.compile(r"metrics\..*|metric\.reporters|auto\.include\.jmx\.reporter"), Here.NO_EFFECT, _METRICS),
    (re.compile(r"internal\.(?:key|value)\.converter(?:\..*)?"), Here.NO_EFFECT, "Kafka Connect 3.0 has removed it"),
    (re.compile(r"plugin\.discovery"), Here.NO_EFFECT, "Plugins are found by their files"),
    (re.compile(r"confluent\..*|public\.key\.path"), Here.NO_EFFECT, "It belongs to Confluent's distribution"),
)
"""The first pattern that matches the whole key decides."""
