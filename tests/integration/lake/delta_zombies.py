"""A zombie of DeltaSink that wakes up within its commit, in a folder or in a bucket."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

import pytest

from airflow_provider_connect.connectors.lake.delta_session import DeltaSession
from airflow_provider_connect.connectors.lake.delta_sink import DeltaSinkConnector
from airflow_provider_connect.errors import FencedException
from tests.integration.lake import notes
from tests.integration.lake.notes import batches, note

UPSERT: Final = {"delta.table.upsert-mode-enabled": "true", "delta.table.id-columns": "id"}
MODES: Final = ("append", "upsert", "first")
deliver, opened = partial(notes.deliver, DeltaSinkConnector), partial(notes.opened, DeltaSinkConnector)


def wake_within_a_commit(config: Mapping[str, str], mode: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The newer claim comes after the zombie has read the claims and before its change, note 9, reaches the log: the zombie is fenced.

    How many notes the table had before: 1, with the id 0, or none where the zombie's records are the ``first``. Then comes note 3.
    """
    settings = {**config, **(UPSERT if mode == "upsert" else {})}
    before = 0 if mode == "first" else 1
    if before:
        deliver(settings, batches([note(0)]))
    zombie = opened(settings, 2)
    real = DeltaSession.commit

    def slow(session: DeltaSession) -> None:
        monkeypatch.setattr(DeltaSession, "commit", real)
        newest = opened(settings, 3)
        newest.put(batches([note(3)], first=before)[0])
        newest.commit()
        real(session)

    zombie.put(batches([note(9)], first=before)[0])
    monkeypatch.setattr(DeltaSession, "commit", slow)
    with pytest.raises(FencedException):
        zombie.commit()
    return before
