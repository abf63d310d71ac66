"""IcebergSink with a REST catalog whose answers would load code and lead elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_connect.connectors.lake.iceberg_sink import IcebergSinkConnector
from airflow_provider_connect.errors import ConfigException, FencedException
from airflow_provider_connect.sdk.testing import run
from tests.integration.lake.notes import batches, note
from tests.integration.lake.rest_catalog import rest_catalog
from tests.integration.lake.tables import rows_of
from tests.integration.lake.test_iceberg_sink import config, opened


def test_rows_offsets_and_claims_use_rest_and_no_option_of_the_server_is_taken(tmp_path: Path) -> None:
    with rest_catalog(tmp_path) as address:
        rest = {"iceberg.catalog.type": "rest", "iceberg.catalog.uri": address, "iceberg.catalog.token": "token"}
        settings = config(tmp_path) | rest
        del settings["iceberg.catalog.warehouse"]
        for claim in (1, 2):
            records = batches([note(2 * claim), note(2 * claim + 1)], first=2 * claim - 2)
            done = run(IcebergSinkConnector(), settings, batches=records, exactly_once=True, claim_epoch=claim)
            assert list(done.offsets.values()) == [2 * claim]
        old, new = opened(settings, 3), opened(settings, 4)
        old.put(batches([note(9)], first=4)[0])
        new.put(batches([note(6)], first=4)[0])
        new.commit()
        with pytest.raises(FencedException):
            old.commit()
        with pytest.raises(ConfigException, match=r"iceberg\.catalog\.\*"):
            opened(settings | {"iceberg.catalog.token": "wrong"}, 5)
    assert sorted(row["id"] for row in rows_of(tmp_path, "shop.notes")) == [2, 3, 4, 5, 6]
