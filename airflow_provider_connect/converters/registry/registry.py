"""A schema registry, through confluent-kafka's client: schemas by id, and ids by schema. Translates the client's errors to Connect's.

The client is imported when a converter is configured, which happens only in tasks.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar

from airflow_provider_connect.converters.registry.settings import KEY_STORE, PACKAGES, TRUST_STORE, URL
from airflow_provider_connect.errors import ConfigException, ConnectException, DataException, RetriableException, UnavailableException
from airflow_provider_connect.sdk.http.bounded_body import PACKED, limit_responses

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import Schema as RegistrySchema
    from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient

T = TypeVar("T")
_MOST_REFERENCES: Final = 500
_MOST_BYTES: Final = 16 << 20  # of a response; the registry's own topic allows a megabyte per schema
_ANSWER_SECONDS: Final = 60.0
_SHOWN: Final = 1000  # characters of the registry's message in our messages
_TRANSIENT: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class SchemaText:
    """A schema in the registry: the type (AVRO, JSON, PROTOBUF), the text, and the texts of referenced schemas by name.

    Each referenced schema comes after the schemas that it references itself.
    """

    kind: str
    text: str
    references: Mapping[str, str]


class Registry:
    """One registry.

    Every method raises UnavailableException if the registry is unavailable or refuses the credentials, and DataException if the registry
    refuses a schema or does not have it. The constructor raises ConfigException for settings that the client refuses.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        PACKAGES.require(URL, "[hidden]")
        self._library: Any = import_module("confluent_kafka.schema_registry")
        try:
            self._client: SchemaRegistryClient = self._library.SchemaRegistryClient(dict(settings))
            _bound(self._client)
        except (ssl.SSLError, OSError) as error:
            raise ConfigException(f"The files of {TRUST_STORE} and {KEY_STORE} cannot be used: {error}") from None
        except (ValueError, TypeError) as error:
            raise ConfigException.of(URL, "[hidden]", f"The client refuses the settings: {error}") from None

    def schema(self, number: int) -> SchemaText:
        """The schema with this id."""
        return self._text(self._ask(f"schema {number}", lambda: self._client.get_schema(number)))

    def version(self, subject: str, number: int) -> int | None:
        """The version of the schema with this id under ``subject``. None if the schema is not under that subject."""
        found = self._ask(f"versions of schema {number}", lambda: self._client.get_schema_versions(number))
        return next((each.version for each in found if each.subject == subject), None)

    def latest(self, subject: str) -> tuple[int, SchemaText]:
        """The newest schema of ``subject``, with its id."""
        found = self._ask(f"the latest schema of subject {subject}", lambda: self._client.get_latest_version(subject))
        return int(found.schema_id or 0), self._text(found.schema)

    def is_compatible(self, subject: str, schema: SchemaText) -> bool:
        """Whether ``schema`` is compatible with the latest schema of ``subject``."""
        what = f"the compatibility of subject {subject}"
        return bool(self._ask(what, lambda: self._client.test_compatibility(subject, self._sent(schema))))

    def register(self, subject: str, schema: SchemaText, *, normalize: bool) -> int:
        """Register ``schema`` under ``subject`` and return its id."""
        return int(
            self._ask(f"a schema for subject {subject}", lambda: self._client.register_schema(subject, self._sent(schema), normalize))
        )

    def number(self, subject: str, schema: SchemaText, *, normalize: bool) -> int:
        """The id of a schema that is registered under ``subject``."""
        what = f"a schema of subject {subject}"
        found = self._ask(what, lambda: self._client.lookup_schema(subject, self._sent(schema), normalize))
        return int(found.schema_id or 0)

    def _text(self, schema: RegistrySchema) -> SchemaText:
        references: dict[str, str] = {}
        self._resolve(schema.references or [], references)
        return SchemaText(schema.schema_type or "AVRO", schema.schema_str or "", references)

    def _resolve(self, references: list[SchemaReference], found: dict[str, str]) -> None:
        for each in references:
            name, subject, version = str(each.name), str(each.subject), int(each.version or 0)
            if name in found:
                continue
            if len(found) >= _MOST_REFERENCES:
                raise DataException(f"A schema references more than {_MOST_REFERENCES} others")
            referred = self._ask(f"version {version} of subject {subject}", partial(self._client.get_version, subject, version))
            found[name] = ""  # marked as being read, so that a cycle ends here
            self._resolve(referred.schema.references or [], found)
            del found[name]
            found[name] = referred.schema.schema_str or ""

    def _sent(self, schema: SchemaText) -> RegistrySchema:
        sent: RegistrySchema = self._library.Schema(schema.text, schema.kind)
        return sent

    def _ask(self, what: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except RetriableException as error:  # from ``limit_responses``
            raise UnavailableException(f"The schema registry is too slow, requesting {what}: {error}") from None
        except ConnectException as error:
            raise DataException(f"The response of the schema registry for {what}: {error}") from None
        except Exception as error:
            kinds = {cls.__name__ for cls in type(error).__mro__}
            if "SchemaRegistryError" in kinds:
                raise _translated(what, error) from None
            if "OAuthTokenError" in kinds:
                raise UnavailableException(f"No OAuth token for the schema registry: {error}") from None
            if "TransportError" in kinds:  # of httpx or httpx2, whichever is installed
                raise UnavailableException(
                    f"The schema registry is unavailable, requesting {what}: {type(error).__name__}: {error}"
                ) from None
            raise UnavailableException(f"The response for {what} is not one of a schema registry: {type(error).__name__}") from error


def _bound(client: SchemaRegistryClient) -> None:
    """Limit the size of responses in the client's sessions, including the session for OAuth tokens.

    The address comes from a config, and the library reads responses of any size.
    """
    rest: Any = client._rest_client
    provider = getattr(rest, "bearer_field_provider", None)
    for session in (rest.session, getattr(provider, "client", None)):
        if session is not None:
            session.headers["accept-encoding"] = PACKED
            session.event_hooks["response"].append(limit_responses(_ANSWER_SECONDS, most_bytes=_MOST_BYTES))


def _translated(what: str, error: Any) -> ConnectException:  # a SchemaRegistryError
    text = f"The schema registry refuses {what}: {str(error.error_message)[:_SHOWN]} (status {error.http_status_code}, {error.error_code})"
    if error.http_status_code in _TRANSIENT:
        return UnavailableException(text)
    if error.http_status_code in (401, 403):
        return UnavailableException(f"{text}. Check basic.auth.user.info, bearer.auth.* and the user's rights.")
    return DataException(text)
