"""Raw keys of an S3 bucket, for buckets with keys that obstore rejects together with their whole listing page."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import html
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import quote, unquote_plus, urlsplit

import requests

from airflow_provider_connect.connectors.filesystem.stores.store import StoredFile

_SECONDS: Final = (10, 60)
_NO_BODY: Final = hashlib.sha256(b"").hexdigest()


class S3Listing:
    """Lists a bucket. ``options`` are obstore's options of the bucket. With credentials, requests are signed with AWS Signature Version
    4."""

    def __init__(self, bucket: str, options: Mapping[str, Any]) -> None:
        self._bucket, self._options = bucket, options
        self._endpoint = str(options.get("endpoint") or f"https://s3.{options['region']}.amazonaws.com").rstrip("/")

    def files(self, prefix: str, after: str) -> Iterator[StoredFile]:
        """The objects whose keys start with ``prefix`` and are after ``after``, in pages. Paths are whole keys. Raises OSError."""
        query = {"list-type": "2", "encoding-type": "url", "prefix": prefix, "start-after": after}
        with requests.Session() as session:
            session.trust_env = False  # the host's proxies and passwords are not used
            while True:
                page = self._page(session, {name: text for name, text in query.items() if text})
                is_encoded = _text(page, "EncodingType") == "url"
                for each in page.split("<Contents>")[1:]:
                    yield _stored_file(each, is_encoded=is_encoded)
                if _text(page, "IsTruncated") != "true":
                    return
                query["continuation-token"] = _text(page, "NextContinuationToken")

    def _page(self, session: requests.Session, query: Mapping[str, str]) -> str:
        path = f"{urlsplit(self._endpoint).path}/{quote(self._bucket)}"
        asked = "&".join(f"{quote(name, safe='')}={quote(text, safe='')}" for name, text in sorted(query.items()))
        url = f"{self._endpoint}/{quote(self._bucket)}?{asked}"
        answer = session.get(url, headers=self._headers(path, asked), timeout=_SECONDS, allow_redirects=False)
        if answer.status_code != requests.codes.ok:
            raise OSError(f"{answer.status_code} {answer.reason}: {answer.text[:300]}")
        return answer.content.decode()

    def _headers(self, path: str, query: str) -> dict[str, str]:
        if "access_key_id" not in self._options:
            return {}
        now = datetime.datetime.now(datetime.UTC)
        stamp, scope = now.strftime("%Y%m%dT%H%M%SZ"), f"{now:%Y%m%d}/{self._options['region']}/s3/aws4_request"
        headers = {"host": urlsplit(self._endpoint).netloc, "x-amz-content-sha256": _NO_BODY, "x-amz-date": stamp}
        if "session_token" in self._options:
            headers["x-amz-security-token"] = str(self._options["session_token"])
        lines, names = "".join(f"{name}:{text}\n" for name, text in headers.items()), ";".join(headers)
        request = hashlib.sha256("\n".join(("GET", path, query, lines, names, _NO_BODY)).encode()).hexdigest()
        key = f"AWS4{self._options['secret_access_key']}".encode()
        for part in scope.split("/"):
            key = hmac.digest(key, part.encode(), "sha256")
        signature = hmac.digest(key, "\n".join(("AWS4-HMAC-SHA256", stamp, scope, request)).encode(), "sha256").hex()
        credential = f"{self._options['access_key_id']}/{scope}"
        return {**headers, "authorization": f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}"}


def _text(xml: str, name: str) -> str:
    """The text of the first element with this name. Empty if there is no such element."""
    begin, end = xml.find(f"<{name}>"), xml.find(f"</{name}>")
    return html.unescape(xml[begin + len(name) + 2 : end]) if 0 <= begin < end else ""


def _stored_file(found: str, *, is_encoded: bool) -> StoredFile:
    key = _text(found, "Key")
    modified = datetime.datetime.fromisoformat(_text(found, "LastModified"))
    path = unquote_plus(key) if is_encoded else key
    return StoredFile(path, int(_text(found, "Size")), int(modified.timestamp() * 1000), _text(found, "ETag").strip('"'))
