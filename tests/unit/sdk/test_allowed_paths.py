"""Which files of a host connectors may open: what leads out of the allowed folders is refused, also when it comes in between."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConfigException
from airflow_provider_connect.sdk.allowed_paths import ALL_ALLOWED, NOTHING_ALLOWED, AllowedPaths, add_path_errors
from airflow_provider_connect.sdk.config_def import ConfigValue


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "data-of-others"  # its name begins like the allowed one's
    folder.mkdir()
    (folder / "secret.txt").write_text("secret\n")
    return folder


@pytest.fixture
def allowed(inside: Path) -> AllowedPaths:
    return AllowedPaths((str(inside),))


def read(descriptor: int) -> str:
    with os.fdopen(descriptor) as file:
        return file.read()


def test_a_file_below_is_opened_wherever_links_within_lead(allowed: AllowedPaths, inside: Path) -> None:
    (inside / "sub" / "a.txt").write_text("a\n")
    (inside / "link.txt").symlink_to("sub/a.txt")
    (inside / "other").symlink_to(inside / "sub")
    for name in ("sub/a.txt", "link.txt", "other/a.txt", "sub/../sub/a.txt", "./sub//a.txt"):
        assert read(allowed.open("file", f"{inside}/{name}", os.O_RDONLY)) == "a\n"
    assert allowed.resolve("file", f"{inside}/other/new.txt") == f"{inside}/sub/new.txt"


@pytest.mark.parametrize("address", ["s3://bucket/a.txt", "file:///etc/passwd", "http://u:p@[", "://a.txt"])
def test_address_is_refused_as_such_where_a_relative_path_would_be_allowed(address: str) -> None:
    with pytest.raises(ConfigException, match="configuration file: This is an address, not a path"):
        ALL_ALLOWED.resolve("file", address)


@pytest.mark.parametrize("name", ["secret.txt", "nothing.txt", ""])
def test_what_leads_out_is_refused_whether_it_is_there_or_not(allowed: AllowedPaths, inside: Path, outside: Path, name: str) -> None:
    (inside / "link").symlink_to(outside)
    ways = [f"{outside}/{name}", f"{inside}/../{outside.name}/{name}", f"{inside}/link/{name}", "/etc/passwd", "/", "relative.txt"]
    for path in ways:
        with pytest.raises(ConfigException) as refused:
            allowed.open("file", path, os.O_RDONLY)
        assert refused.value.message == allowed.refusal("file", path).message
        assert f"Invalid value {path} for configuration file" in refused.value.message
        assert f"below {inside} (worker setting connectors.allowed.paths)" in refused.value.message


def test_nothing_is_allowed_where_nothing_is_set_and_everything_where_the_root_is(outside: Path) -> None:
    with pytest.raises(ConfigException, match="below nothing, since it is not set"):
        NOTHING_ALLOWED.resolve("file", str(outside))
    assert read(ALL_ALLOWED.open("file", f"{outside}/secret.txt", os.O_RDONLY)) == "secret\n"
    with pytest.raises(ConfigException, match="cannot contain NUL"):
        ALL_ALLOWED.resolve("file", "/a\0b")
    with pytest.raises(ConfigException, match="This is a folder"):
        ALL_ALLOWED.folder_of("file", "/")


def test_an_allowed_folder_may_be_a_link_itself(tmp_path: Path, inside: Path) -> None:
    (tmp_path / "mount").symlink_to(inside)
    (inside / "a.txt").write_text("a\n")
    paths = AllowedPaths((f"{tmp_path}/mount/",))
    assert read(paths.open("file", f"{tmp_path}/mount/a.txt", os.O_RDONLY)) == "a\n"
    assert read(paths.open("file", f"{inside}/a.txt", os.O_RDONLY)) == "a\n"


def _file_becomes_a_link(inside: Path, outside: Path) -> None:
    (inside / "sub" / "a.txt").unlink()
    (inside / "sub" / "a.txt").symlink_to(outside / "secret.txt")


def _folder_becomes_a_link(inside: Path, outside: Path) -> None:
    (inside / "sub").rename(inside / "was")
    (inside / "sub").symlink_to(outside)
    (outside / "a.txt").write_text("secret\n")


@pytest.mark.parametrize("swap", [_file_becomes_a_link, _folder_becomes_a_link])
def test_a_link_that_comes_between_check_and_opening_leads_nowhere(
    allowed: AllowedPaths, inside: Path, outside: Path, swap: Callable[[Path, Path], None]
) -> None:
    (inside / "sub" / "a.txt").write_text("a\n")
    folder, name = allowed.folder_of("file", f"{inside}/sub/a.txt")
    swap(inside, outside)
    before = {path: path.read_bytes() for path in outside.iterdir()}
    for flags in (os.O_RDONLY, os.O_WRONLY | os.O_APPEND | os.O_CREAT, os.O_WRONLY | os.O_TRUNC):
        with pytest.raises(ConfigException, match=r"connectors\.allowed\.paths"):
            folder.open(name, flags)
    assert {path: path.read_bytes() for path in outside.iterdir()} == before


def test_a_folder_is_written_to_renamed_in_and_listed(allowed: AllowedPaths, inside: Path) -> None:
    folder, name = allowed.folder_of("file", f"{inside}/sub/new.txt")
    os.close(folder.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    assert stat.S_IMODE(folder.stat(name).st_mode) == 0o600
    folder.replace(name, "newer.txt")
    folder.sync()
    assert (folder.names(), folder.path) == (["newer.txt"], f"{inside}/sub")
    folder.remove("newer.txt")
    assert folder.names() == []


@pytest.mark.parametrize("below", ["", "/sub", "/link", "/sub/../sub/."])
def test_a_folder_that_is_allowed_or_lies_below_is_listed_and_its_files_are_opened(allowed: AllowedPaths, inside: Path, below: str) -> None:
    (inside / "link").symlink_to("sub")
    folder = allowed.folder("directory", f"{inside}{below}")
    (Path(folder.path) / "a.txt").write_text("a\n")
    assert "a.txt" in folder.names()
    assert read(folder.open("a.txt", os.O_RDONLY)) == "a\n"


def test_a_folder_outside_is_refused(allowed: AllowedPaths, inside: Path, outside: Path) -> None:
    (inside / "link").symlink_to(outside)
    for path in (outside, inside / "link", inside / ".."):
        with pytest.raises(ConfigException, match=r"connectors\.allowed\.paths"):
            allowed.folder("directory", str(path))
    folder = allowed.folder("directory", str(inside))
    (inside / "secret.txt").symlink_to(outside / "secret.txt")
    with pytest.raises(ConfigException):
        folder.open("secret.txt", os.O_RDONLY)


def test_a_key_takes_a_file_or_a_folder_not_the_other(allowed: AllowedPaths, inside: Path) -> None:
    (inside / "a.txt").write_text("a\n")
    for given, folder, refused in [
        ("sub", False, "This is a folder"),
        ("sub", True, None),
        ("a.txt", False, None),
        ("a.txt", True, "This is a file"),
        ("none-yet", False, None),
        ("none-yet", True, None),
    ]:
        value = ConfigValue("path", str(inside / given))
        add_path_errors([value], "path", allowed, folder=folder)
        if refused is None:
            assert not value.errors
        else:
            assert [refused in error for error in value.errors] == [True]


def test_the_path_of_a_file_for_a_library_needs_its_folder(tmp_path: Path) -> None:
    allowed = AllowedPaths((str(tmp_path / "data"),))
    path = str(tmp_path / "data" / "ducks.db")
    assert allowed.resolve("path", path) == path
    with pytest.raises(ConfigException, match=f"configuration path: There is no folder {tmp_path / 'data'}"):
        allowed.file_path("path", path)
    (tmp_path / "data").mkdir()
    assert allowed.file_path("path", path) == path
    with pytest.raises(ConfigException, match="may only use files below"):
        allowed.file_path("path", str(tmp_path / "absent" / "ducks.db"))
