"""The order of versions is one, whatever the versions are."""

import itertools
import os

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_connect.runtime.model.versions import MavenVersion, VersionRange, choose_version, oldest_first

QUALIFIERS = [
    "",
    "-alpha",
    "-a1",
    "b2",
    "-beta-3",
    ".rc1",
    "rc2",
    "-cr3",
    "-SNAPSHOT",
    "-ga",
    ".Final",
    "-sp1",
    "-x",
    ".dev1",
    ".post2",
    "-7",
]
VERSIONS = st.builds(
    lambda numbers, qualifier: ".".join(map(str, numbers)) + qualifier,
    st.lists(st.integers(0, 12), min_size=1, max_size=4),
    st.sampled_from(QUALIFIERS),
)
"""Numbers, then one qualifier. Stranger ones have no order in Maven itself: ``""`` < ``-1`` < ``.rc-`` < ``""``."""
EXAMPLES = int(os.environ.get("CONNECT_TEST_VERSIONS", "400"))
"""How many triples of versions are compared."""


@given(VERSIONS, VERSIONS, VERSIONS)
@settings(max_examples=EXAMPLES, deadline=None)
def test_the_order_is_total_and_transitive(a: str, b: str, c: str) -> None:
    one, two, three = map(MavenVersion, (a, b, c))
    assert (one < two) + (two < one) + (one == two) == 1
    if one <= two <= three:
        assert one <= three
    if one == two:
        assert (one < three, one == three) == (two < three, two == three)


@given(st.lists(VERSIONS, min_size=1, max_size=6))
@settings(max_examples=200, deadline=None)
def test_the_newest_is_chosen_and_each_satisfies_the_range_of_itself(versions: list[str]) -> None:
    ranked = oldest_first(versions)
    assert choose_version("p", versions, None) == ranked[-1]
    assert all(MavenVersion(earlier) <= MavenVersion(later) for earlier, later in itertools.pairwise(ranked))
    assert all(MavenVersion(version) in VersionRange.parse(f"[{version}]") for version in versions)


def test_a_pythons_pre_release_comes_before_its_release() -> None:
    """PEP 440's words in Maven's order: a, b, c and rc before the release, post after it; ``.dev1`` too, unlike in PEP 440."""
    assert oldest_first(["2.0", "2.0rc1", "2.0b2", "2.0a1", "2.0.post1", "2.0.1", "1.9"]) == [
        "1.9", "2.0a1", "2.0b2", "2.0rc1", "2.0", "2.0.post1", "2.0.1",
    ]  # fmt: skip
