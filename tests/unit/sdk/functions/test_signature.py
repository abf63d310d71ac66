"""Settings from signatures: names, types, defaults, limits, choices, secrets, texts; and what cannot be a setting."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk import REQUIRED, Importance, Password, Range, Type
from airflow_provider_connect.sdk.functions.signature import Signature


class Size(StrEnum):
    SMALL = "small"
    LARGE = "large"


@dataclass
class Login:
    """How to log in.

    Attributes:
        user: Who.
    """

    user: str
    password: Annotated[Password, "The secret."]
    scopes: list[str] = field(default_factory=lambda: ["read"])


def shop(  # type: ignore[no-untyped-def]  # noqa: PLR0917
    base_url: Annotated[str, "Where the shop is."],
    login: Login,
    page_size: Annotated[int, Range(1, 1000), Importance.LOW] = 100,
    ratio: float = 0.5,
    is_open: bool = True,
    order: Literal["asc", "desc"] = "asc",
    size: Size = Size.SMALL,
    token: Password | None = None,
    limit: Annotated[int | None, Range(1)] = None,
    regions: list[Literal["eu", "us"]] = ["eu"],  # noqa: B006
    given=5,
    *,
    cursor: Any = None,
) -> None:
    """The orders of a shop.

    Args:
        page_size: How many rows
            a page has.
        ratio (float): A share.

    Returns:
        is_open: not a parameter
    """


NEEDED = {"base.url": "http://x", "user": "me", "password": "pw"}


@pytest.fixture
def signature() -> Signature:
    return Signature.of(shop, without=("cursor",))


def test_types_defaults_and_texts(signature: Signature) -> None:
    keys = signature.config_def.keys
    assert [(key.name, str(key.type), key.default, key.doc) for key in keys.values()] == [
        ("base.url", "STRING", REQUIRED, "Where the shop is."),
        ("user", "STRING", REQUIRED, "Who."),
        ("password", "PASSWORD", REQUIRED, "The secret."),
        ("scopes", "LIST", ["read"], ""),
        ("page.size", "LONG", 100, "How many rows a page has."),
        ("ratio", "DOUBLE", 0.5, "A share."),
        ("is.open", "BOOLEAN", True, ""),
        ("order", "STRING", "asc", ""),
        ("size", "STRING", "small", ""),
        ("token", "PASSWORD", None, ""),
        ("limit", "LONG", None, ""),
        ("regions", "LIST", ["eu"], ""),
        ("given", "LONG", 5, ""),
    ]
    assert [keys[name].importance for name in ("base.url", "page.size", "ratio")] == [Importance.HIGH, Importance.LOW, Importance.MEDIUM]


def test_arguments_of_a_call(signature: Signature) -> None:
    arguments = signature.arguments(signature.config_def.parse({**NEEDED, "size": "large", "regions": "eu,us", "limit": "7"}))
    assert arguments == {
        "base_url": "http://x",
        "login": Login("me", Password("pw"), ["read"]),
        "page_size": 100,
        "ratio": 0.5,
        "is_open": True,
        "order": "asc",
        "size": Size.LARGE,
        "token": None,
        "limit": 7,
        "regions": ["eu", "us"],
        "given": 5,
    }
    assert isinstance(arguments["size"], Size)


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("page.size", "0", "Invalid value 0 for configuration page.size: Value must be at least 1"),
        ("order", "up", "Invalid value up for configuration order: String must be one of: asc, desc"),
        ("size", "huge", "Invalid value huge for configuration size: String must be one of: small, large"),
        ("regions", "eu,moon", "Invalid value moon for configuration regions: String must be one of: eu, us"),
        ("limit", "0", "Invalid value 0 for configuration limit: Value must be at least 1"),
        ("is.open", "maybe", "Invalid value maybe for configuration is.open: Expected value to be either true or false"),
    ],
)
def test_wrong_values(signature: Signature, name: str, text: str, error: str) -> None:
    with pytest.raises(ConfigException) as caught:
        signature.config_def.parse({**NEEDED, name: text})
    assert caught.value.errors == [error]


def test_choices_are_recommended(signature: Signature) -> None:
    found = {value.name: value.recommended_values for value in signature.config_def.validate(NEEDED)}
    assert (found["order"], found["size"], found["regions"]) == (["asc", "desc"], ["small", "large"], ["eu", "us"])


def test_what_cannot_be_a_setting() -> None:
    def of_dict(rows: dict[str, int]) -> None: ...

    def of_two(number: int | str) -> None: ...

    def of_any(*names: str) -> None: ...

    def of_unknown(rows: Unheard) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for function, message in (
        (of_dict, "parameter 'rows' of type dict cannot be a setting"),
        (of_two, "parameter 'number' of type .*cannot be a setting"),
        (of_any, "cannot be passed by name"),
        (of_unknown, "needs 'Unheard', which the module does not import"),
    ):
        with pytest.raises(TypeError, match=message):
            Signature.of(function)


def test_a_required_password_is_one_setting_of_its_type() -> None:
    def function(token: Password) -> None: ...

    found = Signature.of(function)
    [key] = found.config_def.keys.values()
    assert (key.name, key.type, key.default) == ("token", Type.PASSWORD, REQUIRED)
    assert found.arguments(found.config_def.parse({"token": "pw"})) == {"token": Password("pw")}
