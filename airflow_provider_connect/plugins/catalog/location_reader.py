"""What locations and the environment declare: each in its own form, and nothing in them able to stop the rest."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator

from airflow_provider_connect.plugins.catalog import module_source, plugin_metadata
from airflow_provider_connect.plugins.catalog.plugin_kinds import Declarations
from airflow_provider_connect.plugins.loading.plugin_path import Location, LocationForm, modules_in


def read_location(location: Location) -> Declarations:
    """What a location declares. Raises nothing: what cannot be read is a problem among the others."""
    try:
        declared = _declared(location)
    except Exception as error:  # (a stranger's archive can make zipfile raise almost anything)
        return Declarations([], [f"it cannot be read: {str(error) or type(error).__name__}"])
    if not declared.plugins and not declared.problems:
        declared.problems.append(
            f"it declares no plugins: no entry points of the group {plugin_metadata.GROUP}, no module with a connector"
        )
    return declared


def read_environment() -> Iterator[Declarations]:
    """What the distributions on ``sys.path`` declare, the first one found first."""
    for entry in dict.fromkeys(sys.path):
        try:
            if entry.endswith((".zip", ".whl", ".egg")):
                yield plugin_metadata.in_wheel(entry)
            else:
                yield plugin_metadata.installed_in(entry or ".")
        except (OSError, zipfile.BadZipFile):
            continue


def _declared(location: Location) -> Declarations:
    match location.form:
        case LocationForm.WHEEL:
            return plugin_metadata.in_wheel(location.path)
        case LocationForm.MODULE:
            return module_source.in_module(location.path)
    declared = plugin_metadata.in_tree(location.path)
    if not declared.plugins and not declared.problems:
        for path in modules_in(location.path):
            in_module = module_source.in_module(path)
            declared.plugins += in_module.plugins
            declared.problems += in_module.problems
    return declared
