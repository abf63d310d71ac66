"""IcebergSink with a REST catalog whose answers would load code and lead elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from airflow_provider_connect.connectors.lake.iceberg_sink import IcebergSinkConnector
from airflow_provider_connect.errors import ConfigException, FencedException
from airflow_provider_connect.sdk.testing import run
from tests.integration.lake.notes import batches, note
from tests.integration.lake.rest_catalog import rest_catalog
from tests.integration.lake.tables import catalog_in, rows_of
from tests.integration.lake.test_iceberg_sink import config, deliver, opened


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


def rest_config(folder: Path, address: str, **more: str) -> dict[str, str]:
    rest = {"iceberg.catalog.type": "rest", "iceberg.catalog.uri": address, "iceberg.catalog.token": "token"}
    return config(folder) | rest | more


def test_each_level_of_a_namespace_is_created(tmp_path: Path) -> None:
    """A catalog may demand that a namespace's parent is there."""
    with rest_catalog(tmp_path) as address:
        deliver(rest_config(tmp_path, address, **{"iceberg.tables": "shop.eu.notes"}), batches([note(1)]))
    assert [row["id"] for row in rows_of(tmp_path, "shop.eu.notes")] == [1]


def test_who_may_create_no_namespace_creates_a_table_in_one_that_is_there(tmp_path: Path) -> None:
    catalog = catalog_in(tmp_path)
    catalog.create_namespace("shop")
    catalog.close()
    with rest_catalog(tmp_path, forbids_namespaces=True) as address:
        deliver(rest_config(tmp_path, address), batches([note(1)]))
        assert [row["id"] for row in rows_of(tmp_path, "shop.notes")] == [1]
        with pytest.raises(ConfigException, match=r"other\.notes for configuration iceberg\.tables: Its namespace does not exist"):
            deliver(rest_config(tmp_path, address, **{"iceberg.tables": "other.notes"}), batches([note(1)]))
