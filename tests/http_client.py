"""One HTTP client for the requests of tests: each new client reads the certificates of all authorities, for 25 ms of a processor."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import httpx

from tests.waiting import HANG_SECONDS


def request(method: str, url: str, *, cookies: Mapping[str, str] | None = None, **how: Any) -> httpx.Response:  # Any: what httpx takes
    """As ``httpx.request`` does it: on a connection of its own, and without the cookies of earlier answers."""
    client = _client()
    client.cookies = httpx.Cookies(dict(cookies or {}))
    return client.request(method, url, **how)


@functools.cache
def _client() -> httpx.Client:
    return httpx.Client(timeout=HANG_SECONDS, limits=httpx.Limits(max_keepalive_connections=0))
