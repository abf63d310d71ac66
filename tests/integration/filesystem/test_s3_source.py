"""FileSystemSource on a bucket of a real S3 server: read in splits, archived, found again by one listing."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_connect.connectors.filesystem.source import progress, task
from airflow_provider_connect.connectors.filesystem.source.connector import FileSystemSourceConnector
from airflow_provider_connect.connectors.filesystem.source.task import FileSystemSourceTask
from airflow_provider_connect.connectors.filesystem.stores.location import open_store
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import NOTHING_ALLOWED
from airflow_provider_connect.sdk.testing import MemorySourceContext, run
from airflow_provider_connect.sdk.testing.contexts import MemoryConnectorContext
from tests.s3_servers import MotoServer, S3Server


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    started = MotoServer().start()
    yield started
    started.stop()


def config_of(server: S3Server, folder: str, **more: str) -> dict[str, str]:
    own = {"topic": "t", "file.minimum.age.ms": "0", "batch.max.rows": "7"}
    return server.settings(folder) | own | {key.replace("_", "."): value for key, value in more.items()}


def put(config: dict[str, str], name: str, data: bytes) -> None:
    store = open_store(FileSystemSourceConnector.config_def.parse(config), NOTHING_ALLOWED)
    file = store.new_file(name)
    file.stream.write(data)
    file.close()


def names(config: dict[str, str]) -> list[str]:
    store = open_store(FileSystemSourceConnector.config_def.parse(config), NOTHING_ALLOWED)
    return sorted(file.path for file in store.files())


def test_objects_are_read_once_and_archived(server: S3Server) -> None:
    config = config_of(server, "lines", cleanup_policy="archive")
    for number in range(3):
        put(config, f"in/{number}.json.gz", gzip.compress(b"".join(b"%d\n" % (number * 10 + row) for row in range(10))))
    first = run(FileSystemSourceConnector(), config, tasks=2)
    assert sorted(record.value for record in first.records) == list(range(30))
    assert run(FileSystemSourceConnector(), config, offsets=first.offsets).records == []  # archives what the last polls of the first read
    assert names(config) == [f"finished/in/{number}.json.gz" for number in range(3)]


def test_an_object_whose_encoding_is_gzip_needs_no_ending(server: S3Server) -> None:
    config = config_of(server, "encoded")
    body = gzip.compress(b"1\n2\n")
    server.client().put_object(Bucket=server.bucket, Key="encoded/a.json", Body=body, ContentEncoding="gzip", ContentType="text/plain")
    assert [record.value for record in run(FileSystemSourceConnector(), config).records] == [1, 2]


def test_an_object_that_was_replaced_by_one_of_its_size_is_not_deleted(server: S3Server) -> None:
    config = config_of(server, "replaced", cleanup_policy="delete")
    put(config, "a.json", b"1\n2\n")
    first, task = MemorySourceContext(config), FileSystemSourceTask()
    task.initialize(first)
    task.start(FileSystemSourceConnector.task_config(config))
    polled = task.poll()
    assert isinstance(polled, list)
    assert next(len(batch.value) for batch in polled if batch.value is not None) == 2
    assert task.poll() is None
    put(config, "a.json", b"3\n4\n")  # maybe in the same second
    task.commit()
    task.stop()
    assert names(config) == ["a.json"]
    assert [record.value for record in run(FileSystemSourceConnector(), config).records] == [3, 4]


def test_row_groups_are_read_by_several_tasks(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (progress, task):
        monkeypatch.setattr(module, "SPLIT_BYTES", 500)
    config = config_of(server, "columns", format="parquet", batch_max_rows="1000")
    data = io.BytesIO()
    pq.write_table(pa.table({"n": range(1000)}), data, row_group_size=100)
    put(config, "a.parquet", data.getvalue())
    done = run(FileSystemSourceConnector(), config, tasks=3)
    assert len(done.task_configs) == 3
    assert sorted(record.value.get("n") for record in done.records) == list(range(1000))


def test_a_bucket_that_is_missing_is_named_before_a_run(server: S3Server) -> None:
    config = config_of(server, "x") | {"url": "s3://no-such-bucket/x"}
    with pytest.raises(ConfigException, match="url: There is no such bucket"):
        FileSystemSourceConnector().check(config)


ODD = ("in/a//b.json", "in/../c.json", "in/./d.json", "in/tab\t.json", "in/\x7f.json", "in/whole.json/", "in/a//")
FOLDERS = ("", "in/", "in/empty/")
READABLE = (
    "in/a.json",
    "in/a%2Fb.json",
    "in/%zz.json",
    "in/\N{SNOWMAN} +.json",
    "in/a...json",
    "in/a/x.json",
    "in/z.json",
    " ",
    "zz/1.json",
)


def test_odd_keys_and_folders_of_a_bucket_hold_up_no_other(server: S3Server, caplog: pytest.LogCaptureFixture) -> None:
    """Listed by pages, of which the library refuses those with an odd key."""
    config = config_of(server, "odd")
    client = server.client()
    for number, key in enumerate(READABLE):
        client.put_object(Bucket=server.bucket, Key=f"odd/{key}", Body=b"%d\n" % number)
    for key in (*ODD, *FOLDERS):
        client.put_object(Bucket=server.bucket, Key=f"odd/{key}", Body=b"" if key in FOLDERS or key.endswith("//") else b"1\n")
    for number in range(1100):
        client.put_object(Bucket=server.bucket, Key=f"odd/in/many-{number}.json", Body=b"100\n")
    first = run(FileSystemSourceConnector(), config)
    values = [record.value for record in first.records]
    assert sorted(values) == [*range(len(READABLE)), *[100] * 1100]
    [warning] = [each.getMessage() for each in caplog.records if "not read" in each.getMessage()]
    assert warning.startswith("s3://bucket/odd: 6 files, 'in/../c.json' the first of them, are not read")
    again = run(FileSystemSourceConnector(), config, offsets=first.offsets)
    assert again.records == []
    caplog.clear()
    context = MemoryConnectorContext(offsets=first.offsets)
    connector = FileSystemSourceConnector()
    connector.initialize(context)
    assert connector.has_new_data(connector.config_def.parse(config), context.offset) is False
    assert not caplog.records


def test_folders_of_a_bucket_are_no_files(server: S3Server, caplog: pytest.LogCaptureFixture) -> None:
    config = config_of(server, "folders", cleanup_policy="archive")
    for key in FOLDERS:
        server.client().put_object(Bucket=server.bucket, Key=f"folders/{key}", Body=b"")
    put(config, "in/1.json", b"1\n")
    put(config, "in/empty.json", b"")
    first = run(FileSystemSourceConnector(), config)
    assert [record.value for record in first.records] == [1]
    assert run(FileSystemSourceConnector(), config, offsets=first.offsets).records == []  # archives
    assert not caplog.records
    assert names(config) == ["finished/in/1.json", "finished/in/empty.json"]


def test_a_prefix_without_objects_fails_what_reads_it_by_name(server: S3Server) -> None:
    """It may be a wrong one. A prefix whose objects are deleted when they are read is empty in the best order."""
    config = config_of(server, "nothing-here")
    for use in (lambda: run(FileSystemSourceConnector(), config), lambda: FileSystemSourceConnector().check(config)):
        with pytest.raises(ConfigException, match=r"url: There is no object with this prefix\. Set another prefix"):
            use()
    assert run(FileSystemSourceConnector(), config | {"cleanup.policy": "delete"}).records == []
    server.client().put_object(Bucket=server.bucket, Key="nothing-here/", Body=b"")
    assert run(FileSystemSourceConnector(), config).records == []
