"""Versions beyond the recordings: limits, and what callers rely on."""

import pytest

from airflow_provider_connect.errors import ConfigException, PluginNotFoundException, PluginVersionException
from airflow_provider_connect.runtime.model.versions import MAX_LENGTH, MavenVersion, VersionRange, choose_version, requirement


def test_version_is_shown_as_given() -> None:
    assert str(MavenVersion("1.0-RC1")) == "1.0-RC1"
    assert repr(MavenVersion("1.0")) == "MavenVersion('1.0')"


def test_equal_versions_may_differ_in_text_and_are_therefore_no_keys() -> None:
    assert MavenVersion("1") == MavenVersion("1.0.0-ga")
    assert MavenVersion("1") != "1"
    with pytest.raises(TypeError):
        hash(MavenVersion("1"))


@pytest.mark.parametrize("text", ["1-" * 100, "a1" * 100, "." * 200, "9" * 200, "-" * 200])
def test_longest_versions_are_compared(text: str) -> None:
    assert MavenVersion(text) == MavenVersion(text)
    assert (MavenVersion(text) < MavenVersion("1")) != (MavenVersion(text) > MavenVersion("1")) or MavenVersion(text) == MavenVersion("1")


def test_longer_version_is_refused() -> None:
    with pytest.raises(ConfigException, match=f"longer than {MAX_LENGTH} characters"):
        requirement("9" * 201)


def test_no_requirement_takes_the_latest() -> None:
    assert requirement(None) is None
    assert requirement("latest") is None
    assert choose_version("p", ["1.0", "2.0-rc1", "2.0-alpha"], None) == "2.0-rc1"


def test_of_equal_versions_the_last_is_chosen() -> None:
    assert choose_version("p", ["1", "1.0", "1.0.0"], "[1.0]") == "1.0.0"


def test_bare_version_is_a_hard_requirement() -> None:
    assert not VersionRange.parse("1.0").has_restrictions
    assert str(requirement("1.0")) == "[1.0,1.0]"
    with pytest.raises(PluginVersionException) as raised:
        choose_version("p", ["2.0", "1.1"], "1.0")
    assert raised.value.versions == ["1.1", "2.0"]


def test_plugin_without_any_version_is_not_found() -> None:
    with pytest.raises(PluginNotFoundException, match=r"^p$"):
        choose_version("p", [], None)


def test_wrong_range_is_refused_before_anything_is_searched() -> None:
    with pytest.raises(ConfigException, match=r"^Unbounded range: \[1$"):
        choose_version("p", [], "[1")
