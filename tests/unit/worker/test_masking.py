"""What is a secret of a config, and in which forms it is found in a text."""

from __future__ import annotations

import base64
import json
import logging
import re
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.built_in_providers import EnvVarConfigProvider
from airflow_provider_connect.runtime.config.masking import Mask, MaskedLogs, mask_output, secret_values
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings
from airflow_provider_connect.runtime.worker.task.checked_connector import check_connector

SECRET = 'p\'w "ü"/1'
ENV = {"config.providers": "env", "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider"}


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        repr({"a": SECRET}),
        ascii(SECRET),
        str(KeyError(f"nothing in {SECRET!r}")),
        json.dumps(SECRET),
        "amqp://u:p%27w%20%22%C3%BC%22%2F1@host",
        quote(quote(SECRET)),
        quote(quote(SECRET, safe=""), safe=""),
    ],
)
def test_secret_is_found_in_every_form(form: str) -> None:
    text = Mask([SECRET])(f"it says {form}.")
    assert "[hidden]" in text
    assert "1@" not in text
    assert not re.search(r"ü|xfc|fc|C3", text)


SECRET_OF_URL = "postgresql://shop:p%40ss%2Fword@db:5432/shop?sslpassword=k3ypass"


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("  canary-1 \n", "refused for canary-1."),
        ("canary 1+2", "GET /?q=canary+1%2B2"),
        ("canary/ü", "GET /canary%2f%c3%bc"),
        ("first canary\nsecond canary", "line 2: second canary"),
        (SECRET_OF_URL, "password p@ss/word is wrong"),
        (SECRET_OF_URL, "p%40ss%2Fword"),
        (SECRET_OF_URL, "k3ypass"),
        (json.dumps({"user": "anna", "token": "canary-2"}), "token canary-2 is over"),
        (json.dumps({"auth": [{"user": "anna", "password": "canary-2"}]}), "password canary-2 is wrong"),
        (json.dumps({"secrets": ["canary-2", {"token": "canary-3"}]}), "neither canary-2 nor canary-3"),
        (json.dumps(["canary-2", "canary-3"]), "neither canary-2 nor canary-3"),
        ("anna:canary-2", "wrong password canary-2 for anna"),
        ("Bearer canary-2", "token canary-2 is over"),
        ("Authorization: Bearer canary-2", "token canary-2 is over"),
        ("Server = db; Password = canary-2", "no password canary-2"),
        ("Basic YW5uYTpjYW5hcnk=", "header YW5uYTpjYW5hcnk= was refused"),
        ("AccountName=anna;AccountKey=canary-2==;EndpointSuffix=core", "key canary-2== of anna"),
        ("host=db user=anna password=canary-2", "no password canary-2"),
        ("https://hooks.example.com/services/T0/canary-2?v=1", "Max retries exceeded with url: /services/T0/canary-2?v=1 (refused)"),
        ("https://hooks.example.com/services/T0/canary-2?v=1", "POST /services/T0/canary-2 failed"),
        ("none", "cannot connect to mysql://me:canary@host/db"),
    ],
)
def test_trimmed_parts_and_other_spellings_are_secret_too(secret: str, text: str) -> None:
    shown = Mask([secret])(text)
    assert "[hidden]" in shown
    assert not [part for part in ("canary", "p@ss", "p%40", "k3y") if part in shown]


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("secret", ["canary>>>???~~~", "kanärie/+", "four"])
def test_base64_of_a_text_around_a_secret_is_masked(secret: str, encode: Callable[[bytes], bytes]) -> None:
    mask = Mask([f" {secret}\n"])
    for before in ("", "u", "me", "me:", "user:"):
        for behind in ("", "!", "!!", "!!!"):
            plain = f"{before}{secret}{behind}".encode()
            shown = mask(f"Basic {encode(plain).decode()}, refused")
            assert "[hidden]" in shown
            kept = shown.removeprefix("Basic ").removesuffix(", refused").partition("[hidden]")
            assert len(kept[0]) <= 4 * len(before.encode()) / 3 + 1, "no more than what is before the secret, and a part of a character"
            assert len(kept[2].rstrip("=")) <= 4 * len(behind.encode()) / 3 + 2


def test_bytes_of_a_secret_are_masked_in_bytes_and_in_their_literals() -> None:
    mask = Mask(["kanärie"])
    assert mask.in_bytes("x\0kanärie%".encode()) == b"x\0[hidden]%"
    assert mask(repr("a kanärie".encode())) == "b'a [hidden]'"


def test_names_and_keys_are_masked_with_the_values() -> None:
    found = Mask(["canary", "471147"]).whole({"a canary": ["canary", {"canary": 1}], "pin": 471147, "n": None, "is": True})
    assert found == {"a [hidden]": ["[hidden]", {"[hidden]": 1}], "pin": "[hidden]", "n": None, "is": True}


def test_lines_of_the_log_are_masked_whatever_writes_them() -> None:
    record = logging.LogRecord("of.a.library", logging.INFO, "f", 1, "login with %s", ("canary",), None)
    try:
        raise ValueError("canary refused")
    except ValueError:
        record.exc_info = sys.exc_info()
    assert MaskedLogs(Mask(["canary"])).filter(record)
    line = logging.Formatter("%(message)s").format(record)
    assert line.startswith("login with [hidden]\n")
    assert "ValueError: [hidden] refused" in line
    assert "canary" not in line.replace('ValueError("canary refused")', "")
    assert record.exc_info is None, "formatters other than Python's would show the exception itself"


def test_an_exception_without_secrets_stays_one() -> None:
    record = logging.LogRecord("of.a.library", logging.INFO, "f", 1, "no login", (), (ValueError, ValueError("refused"), None))
    assert MaskedLogs(Mask(["canary"])).filter(record)
    assert record.exc_info is not None


def test_what_is_printed_is_masked_whatever_prints_it(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))  # as they are, afterwards
    monkeypatch.setattr(warnings, "showwarning", lambda message, *_: print(f"warned: {message}"))
    mask = Mask()
    mask_output(mask)
    mask.add(["canary"])
    warnings.showwarning("no canary", UserWarning, "f", 1)
    print("a canary", "canary")
    print("another canary", file=sys.stderr, flush=True)
    sys.stdout.writelines(["one canary\n"])
    assert capsys.readouterr() == ("warned: no [hidden]\na [hidden] [hidden]\none [hidden]\n", "another [hidden]\n")


def test_threads_that_add_secrets_at_once_lose_none() -> None:
    mask = Mask(f"known secret {number}" for number in range(500))
    secrets = [f"canary number {number}" for number in range(64)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(16) as threads:
            list(threads.map(lambda secret: mask.add([secret]), secrets))
    finally:
        sys.setswitchinterval(interval)
    assert [secret for secret in secrets if mask(secret) != "[hidden]"] == []


@pytest.mark.parametrize(
    ("secret", "text"),
    [
        ("https://db.example.com:8080/", "db.example.com:8080/ is away"),
        (json.dumps({"type": "service_account", "project": "shop"}), "the service_account of shop"),
        ("AccountName=anna;AccountKey=canary", "anna"),
        ("anna:canary", "anna"),
    ],
)
def test_what_stands_beside_a_secret_is_no_secret(secret: str, text: str) -> None:
    assert Mask([secret])(text) == text


@pytest.mark.parametrize("secret", ["pass\ud800word", "anna:pass\udce4word"])
def test_a_secret_that_is_no_unicode_is_hidden(secret: str) -> None:
    assert Mask([secret])(f"it says {secret}.") == "it says [hidden]."


def test_a_long_text_that_begins_like_a_url_takes_linear_time() -> None:
    secret = "https://host/" + "a" * 1_000_000 + " b"
    assert Mask([secret])(secret) == "[hidden]"


def test_a_url_without_a_query_has_only_its_path() -> None:
    assert Mask(["https://hooks.example.com/services/T0"])("/services/T0None") == "[hidden]None"


def test_shortest_values_are_left_as_they_are() -> None:
    assert Mask(["on", "5432"])("on port 5432") == "on port [hidden]"


def test_values_of_variables_and_of_keys_named_like_secrets_are_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "from the environment")
    config = {
        "url": "jdbc:x?password=${env:CANARY}&user=${airflow:shop:login}",
        "producer.override.sasl.jaas.config": 'a.PlainLoginModule required username="u1" password="p2";',
        "topic": "orders",
        "db.password": "plain",
    }
    secrets = {"${airflow:shop:login}": "from airflow", "${variable:other}": "not of this config"}
    found = secret_values(config, {"env": EnvVarConfigProvider()}, secrets)
    assert found == {"from the environment", "from airflow", "u1", "p2", config["producer.override.sasl.jaas.config"], "plain"}


def test_refused_config_does_not_reveal_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY", "not-a-number")
    config = {"connector.class": "FileStreamSource", "file": "f", "topic": "t", "tasks.max": "${env:CANARY}"}
    with pytest.raises(ConfigException) as caught:
        check_connector("c", config, WorkerSettings.of(ENV | {"config.providers.env.access.c": "CANARY"}), {})
    assert "not-a-number" not in str(caught.value.errors) + str(caught.value)
    assert "Invalid value [hidden] for configuration tasks.max" in caught.value.message
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    "inner", [repr, json.dumps, lambda text: repr(text.encode()), quote, lambda text: json.dumps(text, ensure_ascii=False)]
)
def test_one_spelling_within_another_is_masked(inner: Callable[[str], str]) -> None:
    """As records have it whose fields are texts about a secret."""
    text, mask = inner(SECRET), Mask([SECRET])
    in_base64 = [base64.b64encode(b"x" * at + text.encode() + b"y").decode() for at in range(3)]
    for outer in (json.dumps(text), json.dumps(text, ensure_ascii=False), *in_base64):
        masked = mask(f"before {outer} behind")
        assert masked.count("[hidden]") == 1
        assert len(masked) < len("before [hidden] behind") + 20, masked
