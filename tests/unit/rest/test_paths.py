"""How a path is read, and how a name stands in one."""

import pytest

from airflow_provider_connect.rest.answers import HttpException
from airflow_provider_connect.rest.request_checks import canonical_path, location_segment


@pytest.mark.parametrize(
    ("sent", "canonical"),
    [
        (b"/", "/"),
        (b"/connectors", "/connectors"),
        (b"/connectors/", "/connectors"),
        (b"/connectors/a%20b/config", "/connectors/a%20b/config"),
        (b"/connectors/a%2Fb", "/connectors/a%2Fb"),
        (b"/connectors/a+b", "/connectors/a%2Bb"),
        (b"/connectors/a:b@c", "/connectors/a%3Ab%40c"),
        (b"/connectors/%C3%BC", "/connectors/%C3%BC"),
        (b"/connectors/a%2520b", "/connectors/a%2520b"),
        (b"/connectors/a;b=1/config;c", "/connectors/a/config"),
        (b"/connectors/a%3Bb", "/connectors/a%3Bb"),
        (b"/connectors/%20", "/connectors/%20"),
    ],
)
def test_a_path_is_split_before_it_is_decoded(sent: bytes, canonical: str) -> None:
    assert canonical_path(sent) == canonical


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"//", 400),
        (b"/connectors//a", 400),
        (b"/connectors/%zz", 400),
        (b"/connectors/%2", 400),
        (b"/connectors/%ff", 400),
        (b"/connectors/a%00b", 400),
        (b"/connectors/a%0Ab", 400),
        (b"/connectors/%2e%2e", 400),
        (b"/connectors/../x", 404),
        (b"/connectors/./x", 404),
        (b"/" + b"y" * 9000, 414),
    ],
)
def test_an_ambiguous_path_is_refused(sent: bytes, status: int) -> None:
    with pytest.raises(HttpException) as refused:
        canonical_path(sent)
    assert refused.value.status == status


def test_a_mounted_app_reads_what_lies_below_its_prefix() -> None:
    assert canonical_path(b"/connect/connectors", ("/connect",)) == "/connectors"
    assert canonical_path(b"/connect", ("/connect",)) == "/"
    assert canonical_path(b"/connectors", ("/connect",)) == "/connectors"
    assert canonical_path(b"/connect/connectors", ("/airflow/connect", "/connect")) == "/connectors"


@pytest.mark.parametrize(
    ("name", "segment"),
    [
        ("a b", "a%20b"),
        ("für", "f%C3%BCr"),
        ("a+b", "a+b"),
        ("a%b", "a%25b"),
        ("a?b#c", "a%3Fb%23c"),
        ("a/b;c", "a/b;c"),
        ("a{b}", "a%7Bb%7D"),
        ("..%2Fx", "..%2Fx"),
        ("a%2e%zz", "a%2e%25zz"),
        ("../x", "../x"),
        ("..", ".."),
        (".a", ".a"),
        ("a/.", "a/."),
        ("//z", "/z"),
        ("/a", "a"),
    ],
)
def test_a_location_encodes_what_kafka_connect_encodes(name: str, segment: str) -> None:
    assert location_segment(name) == segment
