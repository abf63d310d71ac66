"""Notifiers in the worker settings: which are defined, and what is wrong with others."""

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.runtime.config.notifiers import NotifierSettings, read_notifiers, without_notifiers
from airflow_provider_connect.runtime.config.worker_settings import WorkerSettings

P = "airflow.notifiers."


def test_a_notifier_has_a_class_and_arguments() -> None:
    values = {
        f"{P}shop-team.class": " a.b.Mail ",
        f"{P}shop-team.to": "shop@example.com",
        f"{P}shop-team.html.content": "{{ trace }}",
        f"{P}shop-team.arguments": '{"cc": ["x"], "retries": 2}',
        f"{P}chat.class": "c.Chat",
        "group.id": "g",
    }
    mail = NotifierSettings("a.b.Mail", {"cc": ["x"], "retries": 2, "to": "shop@example.com", "html_content": "{{ trace }}"})
    assert read_notifiers(values) == ({"shop-team": mail, "chat": NotifierSettings("c.Chat")}, {})
    assert without_notifiers(values) == {"group.id": "g"}
    assert WorkerSettings.of(values).dag_limits.notifiers == {"shop-team", "chat"}


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (f"{P}a.class", "Mail", "give the dotted path of a class"),
        (f"{P}a.class", "os.system('x')", "give the dotted path of a class"),
        (f"{P}a.to", "geheim", f"Invalid value  for configuration {P}a.class"),
        (f"{P}a_b.class", "c.Chat", "letters, digits and -"),
        (f"{P}a", "c.Chat", "letters, digits and -"),
        (f"{P}chat.arguments", "[geheim]", "give a JSON object"),
        (f"{P}chat.arguments", "[" * 100_000, "give a JSON object"),
        (f"{P}chat.a-b", "geheim", "is no name of an argument"),
    ],
)
def test_what_is_wrong_is_named_by_its_key_and_without_a_secret(key: str, value: str, reason: str) -> None:
    with pytest.raises(ConfigException) as raised:
        WorkerSettings.of({f"{P}chat.class": "c.Chat", f"{P}mail.class": "c.Mail", key: value})
    assert key in raised.value.keys
    assert reason in raised.value.message
    assert "geheim" not in raised.value.message
    assert "mail" in read_notifiers({f"{P}mail.class": "c.Mail", key: value})[0]
