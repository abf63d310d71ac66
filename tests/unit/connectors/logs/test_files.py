"""Which files a config names, and which names are those of rotated files."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from airflow_provider_connect.connectors.logs.files import FolderFiles, LogFile, NameFilter, PathPattern
from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED, AllowedPaths
from airflow_provider_connect.sdk.bounded_regex import BoundedRegex


def names(path: str, excluded: str | None = None) -> NameFilter:
    return NameFilter([PathPattern.of(path).names], None, None if excluded is None else BoundedRegex(excluded, "exclude.pattern"))


@pytest.mark.parametrize(
    ("path", "name", "stem"),
    [
        ("/logs/app.log", "app.log", "app.log"),
        ("/logs/app.log", "app.log.1", "app.log"),
        ("/logs/app.log", "app.log.12.gz", "app.log"),
        ("/logs/app.log", "app.log.gz", "app.log"),
        ("/logs/app.log", "app.log.1.GZ", "app.log"),
        ("/logs/*.log", "0.log.20260102-030405.gz", "0.log"),
        ("/logs/app.log", "app.log-20260102", "app.log"),
        ("/logs/app.log", "app.log.2026-01-02T10:30", "app.log"),
        ("/logs/app.log", "app-2026-01-02.log", "app.log"),
        ("/logs/app.log", "app.log.old", "app.log"),
        ("/logs/app.log", "app.log.swp", None),
        ("/logs/app.log", "app.log.1.bz2", None),
        ("/logs/app.log", "other.log.1", None),
        ("/logs/server1", "server1.1", "server1"),
        ("/logs/*.log", "app.1.log.gz", "app.log"),
        ("/logs/*.log", "web-7.log", "web.log"),
        ("/logs/[!a]pp.log", "app.log", None),
        ("/logs/app-?.log", "app-1.log.2", "app-1.log"),
    ],
)
def test_a_rotated_name_has_the_stem_that_is_included(path: str, name: str, stem: str | None) -> None:
    assert names(path).stem(name) == stem


def test_an_excluded_name_is_not_read() -> None:
    assert names("/logs/app.log", r".*\.gz").stem("app.log.1.gz") is None


def test_folders_are_found_at_any_depth_and_by_no_link(tmp_path: Path) -> None:
    for folder in ("a", "a/b", "a/b/c", "d"):
        (tmp_path / folder).mkdir()
    (tmp_path / "a" / "link").symlink_to(tmp_path / "d")

    def found(path: str) -> list[str]:
        return [folder.path.removeprefix(f"{tmp_path}/") for folder in PathPattern.of(f"{tmp_path}/{path}").list_folders(ALL_ALLOWED, {})]

    assert found("a/*/*.log") == ["a/b"]
    assert found("**/x.log") == [str(tmp_path), "a", "a/b", "a/b/c", "d"]
    assert found("?/b/*.log") == ["a/b"]
    assert found("none/*/x.log") == []


def test_a_folder_out_of_what_is_allowed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigException, match=r"paths.*connectors\.allowed\.paths"):
        list(PathPattern.of("/etc/*.conf").list_folders(AllowedPaths((str(tmp_path),)), {}))


@pytest.mark.parametrize("path", ["app.log", "/logs/", "", "/logs/[b-a].log/x"])
def test_what_is_no_path_is_refused(path: str) -> None:
    if path.endswith("/x"):
        assert list(PathPattern.of(path).list_folders(ALL_ALLOWED, {})) == []
        return
    with pytest.raises(ConfigException, match="paths"):
        PathPattern.of(path)


@pytest.mark.parametrize("key", ["names.pattern", "exclude.pattern"])
def test_a_hostile_pattern_ends_with_its_key(key: str) -> None:
    slow = BoundedRegex(r"(a|aa|a?a)+[^a]", key)
    names = NameFilter([BoundedRegex(".*", "paths")], slow if key == "names.pattern" else None, None if key == "names.pattern" else slow)
    with pytest.raises(ConfigException, match=key):
        names.stem("a" * 200)


def test_many_wildcards_take_no_time() -> None:
    begun = time.process_time()
    assert names("/x/" + "*a" * 100 + "b").stem("a" * 250) is None
    assert time.process_time() - begun < 60  # without a bound it never ends


def test_links_folders_and_pipes_are_no_log_files(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("x")
    (tmp_path / "b.log").symlink_to(tmp_path / "a.log")
    (tmp_path / "c.log").mkdir()
    [folder] = PathPattern.of(f"{tmp_path}/*.log").list_folders(ALL_ALLOWED, {})
    assert [file.name for file in FolderFiles(names("/*.log")).list_files(folder)] == ["a.log"]


def test_a_rotated_file_that_has_changed_since_it_was_listed_is_listed_again(tmp_path: Path) -> None:
    """Its inode may be another file's by now: an inode is used again as soon as its file is removed."""
    for name in ("a.log", "a.log.1"):
        (tmp_path / name).write_text("one\n")
    [folder] = PathPattern.of(f"{tmp_path}/*.log").list_folders(ALL_ALLOWED, {})
    files = FolderFiles(names("/*.log"))
    listed = files.list_files(folder)
    for name in ("a.log", "a.log.1"):
        (tmp_path / name).write_text("three\n")

    def opened(file: LogFile) -> bool:
        with contextlib.ExitStack() as stack:
            content = file.open(folder)
            return content is not None and bool(stack.enter_context(contextlib.closing(content)))

    assert {file.name: opened(file) for file in listed} == {"a.log": True, "a.log.1": False}
    assert {file.name: opened(file) for file in files.list_files(folder)} == {"a.log": True, "a.log.1": True}


def test_a_log_whose_own_name_has_a_number_is_opened_while_it_grows(tmp_path: Path) -> None:
    """No file has the name without the number, so it is not a rotated one whose inode another copy may have by now."""
    log = tmp_path / "a-1.log"
    log.write_text("one\n")
    [folder] = PathPattern.of(f"{tmp_path}/*.log").list_folders(ALL_ALLOWED, {})
    [listed] = FolderFiles(names("/*.log")).list_files(folder)
    with log.open("a") as opened:
        opened.write("two\n")
    content = listed.open(folder)
    assert content is not None
    content.close()
