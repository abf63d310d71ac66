"""Names of datasets: those of OpenLineage, and nothing of a URL that is not a name."""

import pytest

from airflow_provider_connect.sdk import Dataset
from airflow_provider_connect.sdk.datasets import kafka_namespace


@pytest.mark.parametrize(
    ("address", "namespace", "name"),
    [
        ("/data/orders", "file", "/data/orders"),
        ("data/a:/b", "file", "data/a:/b"),
        ("file:///data/my%20orders", "file", "/data/my orders"),
        ("file:/data/orders", "file", "/data/orders"),
        ("s3://bucket/lake/orders/", "s3://bucket", "lake/orders"),
        ("s3a://bucket", "s3://bucket", "/"),
        ("s3://key:secret@bucket/a?X-Amz-Signature=secret#secret", "s3://bucket", "a"),
        ("gs://bucket/a", "gs://bucket", "a"),
        ("hdfs://user:secret@name/a/b", "hdfs://name:8020", "/a/b"),
        ("hdfs://name:9000/a", "hdfs://name:9000", "/a"),
        ("sftp://user@host/a", "sftp://host:22", "/a"),
    ],
)
def test_an_address_is_a_namespace_and_a_name(address: str, namespace: str, name: str) -> None:
    assert Dataset.at(address) == Dataset(namespace, name)


def test_a_cluster_is_named_by_its_first_server() -> None:
    assert kafka_namespace("SASL_SSL://a:9092, b:9092") == "kafka://a:9092"
    assert Dataset.topic("user:secret@a:9092", "orders") == Dataset("kafka://a:9092", "orders")
