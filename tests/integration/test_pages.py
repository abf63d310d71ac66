"""How pages of the documentation are followed."""

from tests.integration.pages import is_printed, steps


def test_what_is_printed_is_compared() -> None:
    assert is_printed("a\n…\nb …c\n", "a\n1\n2\nb 3c\n")
    assert is_printed("…\n", "")
    assert not is_printed("a\n", "b\n")
    assert not is_printed("", "something\n")


def test_a_command_goes_on_while_a_quotation_is_open() -> None:
    page = "```console\n$ echo 'a\nb'\na\nb\n$ true\n```\n```console by-hand\n$ false\n```\n```python x/y.py\n1\n```\n"
    assert [(step.file, step.text, step.printed) for step in steps(page)] == [
        (None, "echo 'a\nb'", "a\nb\n"),
        (None, "true", ""),
        ("x/y.py", "1\n", ""),
    ]
