"""Which keys of a connector's config are the framework's affair alone."""

from collections.abc import Mapping


def strip_framework_keys(config: Mapping[str, str]) -> dict[str, str]:
    """What a connector sees of its config: all but the keys that steer the DAG (``airflow.…``) and the choice of plugin versions."""
    return {key: text for key, text in config.items() if not key.startswith("airflow.") and not key.endswith(".plugin.version")}
