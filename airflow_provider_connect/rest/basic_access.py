"""Users who log in with HTTP Basic. A file has their names and passwords, as with Kafka Connect's Basic auth extension. Every user may do
everything."""

import base64
import hmac
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from starlette.requests import Request

from airflow_provider_connect.errors import ConfigException, UnauthorizedException
from airflow_provider_connect.rest.access import OpenToAll, User
from airflow_provider_connect.runtime.config.properties import parse_properties

EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
CREDENTIALS = "rest.basic.auth.credentials.file"
"""Our own setting: a properties file with a line ``user=password`` for each user."""
JAAS = "java.security.auth.login.config"
"""Java's setting: a JAAS file whose entry KafkaConnect names the properties file, as in Kafka Connect."""

_LOGIN_MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
_ENTRY = re.compile(r"KafkaConnect\s*+\{")
_FILE = re.compile(r"\bfile\s*=\s*\"([^\"]+)\"")


class BasicAccess(OpenToAll):
    """``users`` has the passwords by user name."""

    def __init__(self, users: Mapping[str, str], origins: Iterable[str] = ()) -> None:
        super().__init__(origins)
        self._users = dict(users)

    async def identify(self, request: Request) -> User:
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        user, _, password = decoded(credentials).partition(":") if scheme.lower() == "basic" else ("", "", "")
        known = self._users.get(user)
        if known is None or not hmac.compare_digest(known.encode(), password.encode()):
            raise UnauthorizedException("User cannot access the resource.")
        await super().identify(request)  # a browser that has the password sends it for any page
        return user


def decoded(credentials: str) -> str:
    """``user:password``, decoded from the base64 of an Authorization header. Empty for any other text."""
    try:
        return base64.b64decode(credentials.strip(), validate=True).decode()
    except ValueError:  # not base64, not ASCII, or not UTF-8 after decoding
        return ""


def credentials_file(worker: Mapping[str, str]) -> Path | None:
    """The file that the worker settings name. None: Basic auth is not configured. Raises ConfigException."""
    extensions = [name.strip() for name in worker.get("rest.extension.classes", "").split(",") if name.strip()]
    unknown = [name for name in extensions if name != EXTENSION and name != EXTENSION.rpartition(".")[2]]
    if unknown:
        raise ConfigException.of("rest.extension.classes", ", ".join(unknown), f"only {EXTENSION} is supported")
    if CREDENTIALS in worker:
        return Path(worker[CREDENTIALS])
    if not extensions:
        return None
    if JAAS not in worker:
        raise ConfigException.of("rest.extension.classes", EXTENSION, f"give the file with users and passwords in {CREDENTIALS}")
    return _named_by(Path(worker[JAAS]))


def _named_by(jaas: Path) -> Path:
    text = _text(jaas, JAAS)
    opening = _ENTRY.search(text)
    entry, is_closed, _ = text[opening.end() :].partition("}") if opening else ("", "", "")
    file = _FILE.search(entry) if is_closed and _LOGIN_MODULE in entry else None
    if file is None:
        raise ConfigException.of(JAAS, jaas, f'it has no entry KafkaConnect with {_LOGIN_MODULE} and file="…"')
    return Path(file[1])


def read_users(file: Path) -> dict[str, str]:
    """Passwords by name. Raises ConfigException for a file without users, because no request would be allowed."""
    try:
        users = parse_properties(file.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigException.of(CREDENTIALS, file, f"it cannot be read: {error}") from error
    if not users:
        raise ConfigException.of(CREDENTIALS, file, "it names no users")
    return users


def _text(file: Path, key: str) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigException.of(key, file, f"it cannot be read: {error}") from error
