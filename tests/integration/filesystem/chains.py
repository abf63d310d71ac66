"""Chains of commits in a store, and files for them, as one process after another writes them."""

from __future__ import annotations

from airflow_provider_connect.connectors.filesystem.commit_chain import CommitChain
from airflow_provider_connect.connectors.filesystem.stores.location import STORE_KEYS, open_store
from airflow_provider_connect.connectors.filesystem.stores.store import Store
from airflow_provider_connect.sdk.allowed_paths import NOTHING_ALLOWED
from airflow_provider_connect.sdk.config_def import ConfigDef
from airflow_provider_connect.sdk.offset_row import OffsetRow


def opened(settings: dict[str, str]) -> Store:
    """The store, as a process of its own has it."""
    return open_store(ConfigDef(*STORE_KEYS).parse(settings), NOTHING_ALLOWED)


def taken(store: Store, epoch: int) -> CommitChain:
    """The chain of one partition, with a claim."""
    chain = CommitChain(store, "state")
    chain.take("t-0", OffsetRow(None, f"topic:{epoch}", epoch))
    return chain


def written(store: Store, chain: CommitChain, text: str) -> str:
    """The temporary path of a file that holds ``text``."""
    path = chain.temporary_path(text)
    file = store.new_file(path)
    file.stream.write(text.encode())
    file.close()
    return path
