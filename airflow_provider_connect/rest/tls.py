"""The TLS settings of the REST server, by Connect's keys: ``listeners.https.ssl.*``, and ``ssl.*`` where those are not given."""

import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from airflow_provider_connect.errors import ConfigException

_PREFIX = "listeners.https."
_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
_PEM_HINT = "only PEM files are read: openssl pkcs12 -in store.p12 -out store.pem -nodes makes one"


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM form: the server's certificates and key (one file may hold both), and whose clients' certificates are trusted."""

    certificates: str
    key: str | None = None
    key_password: str | None = field(default=None, repr=False)
    trusted: str | None = None
    client_auth: ssl.VerifyMode = ssl.CERT_NONE

    def uvicorn_settings(self) -> dict[str, Any]:
        return {
            "ssl_certfile": self.certificates,
            "ssl_keyfile": self.key,
            "ssl_keyfile_password": self.key_password,
            "ssl_ca_certs": self.trusted,
            "ssl_cert_reqs": int(self.client_auth),
        }


def tls_of(worker: Mapping[str, str]) -> Tls:
    """Raises ConfigException for settings that are missing, or ask for stores of Java's own kinds."""
    plain = {key: value for key, value in worker.items() if key.startswith("ssl.")}
    given = plain | {key.removeprefix(_PREFIX): value for key, value in worker.items() if key.startswith(f"{_PREFIX}ssl.")}
    for store in ("keystore", "truststore"):
        kind, location = given.get(f"ssl.{store}.type"), given.get(f"ssl.{store}.location", "")
        if (kind or "PEM").upper() != "PEM" or (kind is None and location and not location.endswith((".pem", ".crt", ".cer"))):
            raise ConfigException.of(f"ssl.{store}.type", kind, _PEM_HINT)
    client_auth = given.get("ssl.client.auth", "none").strip().lower()
    if client_auth not in _CLIENT_AUTH:
        raise ConfigException.of("ssl.client.auth", client_auth, f"String must be one of: {', '.join(_CLIENT_AUTH)}")
    certificates = given.get("ssl.keystore.location") or _file_with(given.get("ssl.keystore.certificate.chain"))
    if certificates is None:
        raise ConfigException.of("ssl.keystore.location", None, "an https listener needs a PEM file with its certificate and key")
    trusted = given.get("ssl.truststore.location") or _file_with(given.get("ssl.truststore.certificates"))
    if trusted is None and client_auth != "none":
        raise ConfigException.of("ssl.truststore.location", None, "certificates of clients are asked for, and none would be trusted")
    return Tls(
        certificates=certificates,
        key=_file_with(given.get("ssl.keystore.key")),
        key_password=given.get("ssl.key.password") or given.get("ssl.keystore.password"),
        trusted=trusted,
        client_auth=_CLIENT_AUTH[client_auth],
    )


def _file_with(text: str | None) -> str | None:
    """The path of a file in this process's memory that holds ``text``: the ssl module reads files only. It is on no disk and ends with the
    process, however that ends; no other user can open it."""
    if not text:
        return None
    descriptor = os.memfd_create("connect-rest.pem")
    with os.fdopen(os.dup(descriptor), "w", encoding="utf-8") as file:
        file.write(text.replace("\\n", "\n"))
    return f"/proc/self/fd/{descriptor}"
