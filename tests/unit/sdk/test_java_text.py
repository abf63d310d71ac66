"""What is kept of texts whose hashes Java's order of keys needs."""

import sys

from airflow_provider_connect.sdk.java_text import in_hash_order


def test_long_keys_are_not_kept() -> None:
    long = "".join(map(str, range(1000)))
    before = sys.getrefcount(long)
    in_hash_order([("b", 1), (long, 2), ("a", 3)])
    after = sys.getrefcount(long)
    assert after == before
