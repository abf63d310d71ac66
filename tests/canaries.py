"""Secrets of every way into a config, and connectors that check each one and then show it wherever a plugin can."""

from __future__ import annotations

import base64
import hashlib
import inspect
import json
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, quote_plus

from tests.unit.plugins.locations import tree

NAME = "org.example.CanarySourceConnector"
SINK = "org.example.CanarySinkConnector"
WAYS = ("airflow", "extra", "uri", "variable", "env", "file", "directory", "vault", "typed", "named", "parameter", "user")
WRITTEN_OUT = ("typed", "named", "parameter", "user")
"""Those that stand in the config itself, and so on the config topic."""
_ODD = "-é'\"/x y%+"
_URL_SAFE = "-x%2By"


def spellings(secret: str) -> list[str]:
    """A secret as texts may have it: as it is, trimmed, quoted, in URLs, in base64 alone and behind a user's name."""
    trimmed = secret.strip()
    data = trimmed.encode()
    return [
        secret,
        trimmed,
        repr(secret),
        repr(data),
        json.dumps(secret),
        json.dumps(secret, ensure_ascii=False),
        quote(trimmed),
        quote(trimmed, safe=""),
        re.sub("%..", lambda escape: escape.group().lower(), quote(trimmed, safe="")),
        quote_plus(trimmed),
        f"jdbc:any://me:{quote(trimmed, safe='')}@host/x?password={quote(trimmed)}",
        base64.b64encode(secret.encode()).decode(),
        base64.urlsafe_b64encode(data).decode().rstrip("="),
        *(base64.b64encode(b"user:"[at:] + data).decode() for at in range(3)),
    ]


class Canaries:
    """One secret for each of ``WAYS``; ``of`` gives its value."""

    def __init__(self) -> None:
        mark = secrets.token_hex(4)
        self._cores = {way: f"canary-{way}-{mark}" for way in WAYS}
        self._traces = {way: _traces_of(core.encode()) for way, core in self._cores.items()}

    def of(self, way: str) -> str:
        odd = {"parameter": _URL_SAFE, "user": _URL_SAFE, "directory": f"{_ODD}\n", "env": f"{_ODD} "}
        return self._cores[way] + odd.get(way, _ODD)

    def found_in(self, data: bytes) -> set[str]:
        """The canaries in some bytes, plain or in base64, whatever was done to what is odd about them."""
        return {way for way, traces in self._traces.items() if any(trace in data for trace in traces)}


def _traces_of(core: bytes) -> list[bytes]:
    """What stands in a text for ``core`` and does not depend on its neighbours: base64 has three forms of it."""
    shifted = (base64.b64encode(b"." * at + core)[-(-8 * at // 6) : 8 * (at + len(core)) // 6] for at in range(3))
    found = [part for form in shifted for part in (form, form.translate(bytes.maketrans(b"+/", b"-_")))]
    return [core, *dict.fromkeys(found)]


def digests(values: Mapping[str, str]) -> str:
    return ",".join(f"{key}={hashlib.sha256(value.encode()).hexdigest()}" for key, value in values.items())


_HEAD = """\
from __future__ import annotations

import base64
import hashlib
import json
import logging
import os
import re
import sys
import warnings
from urllib.parse import quote, quote_plus, unquote

from airflow_provider_connect.errors import BadRequestException, ConfigException, ConnectException, DataException
from airflow_provider_connect.sdk import Batch, ConfigDef, ConfigKey, SinkConnector, SinkTask, SourceConnector, SourceTask, Type
from airflow_provider_connect.data.arrow import pa
from airflow_provider_connect.sdk.config_def import ConfigValue

log = logging.getLogger("canary")

"""
_CODE = '''

def secrets_of(config):
    names = ("opaque", "api.token", "connection.url", *sorted(key for key in config if key.startswith("word.")))
    found = {name: config[name] for name in names if config.get(name)}
    wanted = dict(pair.split("=") for pair in config["expected"].split(","))
    wrong = [name for name, value in found.items() if hashlib.sha256(value.encode()).hexdigest() != wanted.get(name)]
    if wrong or len(found) != len(wanted):
        raise ConnectException("these are not the secrets: " + ", ".join(wrong or wanted))
    words = [value for name, value in found.items() if name.startswith("word.")]
    inside = [unquote(passwords(found["word.uri"])[0])] if "word.uri" in found else []
    return [config["opaque"], config["api.token"], *passwords(config["connection.url"]), *words, *inside]


def passwords(url):
    return [url.partition("me:")[2].partition("@")[0], url.partition("password=")[2]]


def lines_of(config):
    return [spelling for secret in secrets_of(config) for spelling in spellings(secret)] + [config["connection.url"]]


def show(config, where):
    if where in config["leak"]:
        raise ConnectException("cannot " + where + " " + " | ".join(lines_of(config)))
    if "log" in config["leak"]:
        for line in lines_of(config):
            log.warning("in %s: %s", where, line)
        try:
            raise ValueError(" ".join(lines_of(config)))
        except ValueError:
            log.exception("in %s", where)
        warnings.warn(where + " ".join(lines_of(config)))
        print("printed in " + where, *lines_of(config))
        print("printed in " + where, *lines_of(config), file=sys.stderr, flush=True)
    if "die-in-" + where in config["leak"]:
        print("dies: ", *lines_of(config), file=sys.stderr, flush=True)
        os._exit(3)


class CanaryTask(SourceTask):
    def start(self, config):
        self.config = config
        self.left = 3
        show(config.originals, "task-start")

    def poll(self):
        show(self.config.originals, "poll")
        if self.left == 0:
            return None
        self.left -= 1
        count = len(secrets_of(self.config.originals))
        if "records" not in self.config["leak"]:
            return Batch.of(self.config["topic"], value=pa.array([str(count) + " secrets are right"]))
        if "die-in-records" in self.config["leak"]:
            show(self.config.originals, "records")
        lines = lines_of(self.config.originals)
        data = [("head " * 3)[: at % 4] .encode() + line.encode() + b" tail" for at, line in enumerate(lines)]
        values = {
            2: pa.array(lines),
            1: pa.array(data),
            0: pa.StructArray.from_arrays(
                [
                    pa.array(data),
                    pa.array([{"b": each} for each in data]),
                    pa.array([[(line, line.encode())] for line in lines], pa.map_(pa.string(), pa.binary())),
                ],
                [secrets_of(self.config.originals)[-1] if VERSION == "1.0" else "other", "nested", "map"],
            ),
        }
        return Batch.of(self.config["topic"], value=values[self.left], key=pa.array(data))

    def stop(self):
        """Nothing is open."""


class CanarySource(SourceConnector):
    task_class = CanaryTask
    config_def = ConfigDef(
        ConfigKey("topic"),
        ConfigKey("opaque", Type.PASSWORD),
        ConfigKey("connection.url", Type.STRING),
        ConfigKey("api.token", Type.STRING),
        ConfigKey("expected", Type.STRING),
        ConfigKey("leak", Type.STRING, ""),
        ConfigKey("note", Type.STRING, ""),
    )

    def validate(self, config):
        show(config, "validate-raise")
        values = super().validate(config)
        if "validation" in config["leak"]:
            lines = lines_of(config)
            by_name = {value.name: value for value in values}
            by_name["note"].errors += lines
            by_name["note"].recommended_values += lines
            by_name["topic"].value = " ".join(lines)
            values += [ConfigValue(line, line, [line], [line]) for line in lines]
        return values

    def check(self, config):
        if "check" in config["leak"]:
            raise ConfigException("cannot check " + " | ".join(lines_of(config)), errors=lines_of(config))
        show(config, "checking")

    def has_new_data(self, config, offsets):
        show(config.originals, "asking")
        return True

    def start(self, config):
        super().start(config)
        show(config.originals, "starting")

    def task_configs(self, max_tasks):
        show(self.config.originals, "planning")
        return [self.config.originals]

    def alter_offsets(self, config, offsets):
        kinds = {"bad": BadRequestException, "absent": NotImplementedError, "value": ValueError}
        kind = next((kinds[word] for word in config["leak"].split(",") if word in kinds), None)
        if kind is not None:
            raise kind("cannot alter " + " | ".join(lines_of(config)))
        return True


class CanarySinkTask(SinkTask):
    def start(self, config):
        self.config = config
        show(config.originals, "task-start")

    def put(self, batch):
        if batch.num_records > 1:
            show(self.config.originals, "put")
        if batch.num_records:
            raise DataException("cannot put " + " | ".join(lines_of(self.config.originals)))

    def stop(self):
        """Nothing is open."""


class CanarySink(SinkConnector):
    task_class = CanarySinkTask
    config_def = ConfigDef(*(key for key in CanarySource.config_def.keys.values() if key.name != "topic"))

    def task_configs(self, max_tasks):
        return [self.config.originals]
'''


def install(plugin_path: Path, version: str = "1.0") -> None:
    """The source and the sink, which refuses every record, as a location of ``plugin_path``. A field of the source's records is named after
    a secret in version 1.0 alone."""
    source = f"{_HEAD}VERSION = {version!r}\n\n\n{inspect.getsource(spellings)}{_CODE}"
    entries = (f"source:{NAME} = canary_source:CanarySource", f"sink:{SINK} = canary_source:CanarySink")
    tree(plugin_path / f"canary-{version}", "canary", version, {"canary_source.py": source}, *entries)


VAULT = """\
import pathlib

from airflow_provider_connect.sdk.config_provider import ConfigData, ConfigProvider


class Vault(ConfigProvider):
    def configure(self, config):
        self.folder = pathlib.Path(config["folder"])

    def get(self, path, keys):
        return ConfigData({key: (self.folder / key).read_text() for key in keys})
"""
"""A provider that an admin wrote: module ``canary_vault``."""
