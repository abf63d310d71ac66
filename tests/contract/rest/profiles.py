"""The workers of the recordings (golden/README.md): their settings, and the plugin versions of one of them."""

from collections.abc import Mapping
from pathlib import Path

from tests.contract.plugin_versions import PLACEHOLDERS, install_versions

PROFILES: Mapping[str, Mapping[str, str]] = {
    "default": {},
    "versions": {},  # and a plugin.path
    "eos": {"exactly.once.source.support": "enabled"},
    "notracking": {"topic.tracking.enable": "false"},
    "noreset": {"topic.tracking.allow.reset": "false"},
}
_JSON = "org.apache.kafka.connect.json.JsonConverter"


def worker_settings(profile: str, folder: Path) -> dict[str, str]:
    """Worker settings of ours for a profile; plugins that it needs are made in ``folder``. Without ``bootstrap.servers``."""
    group = "restdiff" if profile == "default" else f"restdiff-{profile}"
    settings = {
        "group.id": group,
        "key.converter": _JSON,
        "key.converter.schemas.enable": "true",
        "value.converter": _JSON,
        "value.converter.schemas.enable": "true",
        "exactly.once.source.support": "disabled",
        "offset.flush.interval.ms": "1000",
        "connectors.allowed.paths": "/",
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        **PROFILES[profile],
    }
    for kind in ("config", "offset", "status", "batch"):
        settings |= {f"{kind}.storage.topic": f"{group}-{kind}s", f"{kind}.storage.replication.factor": "1"}
    if profile == "versions":
        plugins = folder / "plugins"
        install_versions(plugins)
        settings["plugin.path"] = str(plugins)
    return settings


def versions(profile: str) -> dict[str, str]:
    """The placeholders that stand for versions."""
    return {name.strip("{}"): version for name, version in PLACEHOLDERS.items()} if profile == "versions" else {}
