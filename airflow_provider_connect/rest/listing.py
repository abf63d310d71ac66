"""The bytes of ``GET /connectors?expand=…``, kept for each connector as long as what they tell is the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from airflow_provider_connect.model.views import ConnectorInfo, ConnectorStatusView
from airflow_provider_connect.rest.entities import connector_json, json_bytes, status_json
from airflow_provider_connect.rest.secrets import Secrets

View = ConnectorInfo | ConnectorStatusView


class Listing:
    """Joins parts. The herder gives the same object again for what has not changed, so that a look at it is enough.

    Safe for many threads: parts are replaced as a whole.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._parts: dict[tuple[str, str], tuple[View, int, bytes]] = {}

    def body(self, connectors: Mapping[str, Mapping[str, View | None]], order: Iterable[str]) -> bytes:
        """The whole answer. ``order`` names the parts as the request did."""
        order = list(dict.fromkeys(order))
        entries = []
        for name, views in connectors.items():
            parts = b",".join(b'"%b":%b' % (part.encode(), self._part(name, part, views[part])) for part in order if part in views)
            entries.append(b"%b:{%b}" % (json_bytes(name), parts))
        self._forget(connectors)
        return b"{%b}" % b",".join(entries)

    def _part(self, name: str, part: str, view: View | None) -> bytes:
        if view is None:
            return b"null"
        kept = self._parts.get((name, part))
        learned = self._secrets.learned
        if kept is None or kept[0] is not view or kept[1] != learned:
            kept = (view, learned, self._bytes(view))
            self._parts[name, part] = kept
        return kept[2]

    def _bytes(self, view: View) -> bytes:
        if isinstance(view, ConnectorInfo):
            return json_bytes(connector_json(view, self._secrets.shown(view.config)))
        return json_bytes(status_json(view))

    def _forget(self, connectors: Mapping[str, object]) -> None:
        """Drop what is gone, once that is most of it: a user who may read few connectors must not empty the others' parts."""
        if len(self._parts) > 8 * len(connectors) + 10_000:
            self._parts = {key: kept for key, kept in self._parts.items() if key[0] in connectors}
