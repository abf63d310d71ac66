"""New packages: what their parts are called, and that nothing is overwritten. That they work is shown in ``integration/test_skeleton``."""

import tomllib
from pathlib import Path

import pytest

from airflow_provider_connect.errors import AlreadyExistsException, BadRequestException
from airflow_provider_connect.skeleton.new import Names, Side, main, package_files, write_package


@pytest.mark.parametrize(
    ("package", "module", "label", "stem"),
    [
        ("my-connector", "my_connector", "my", "My"),
        ("sales", "sales", "sales", "Sales"),
        ("s3-lake-connector", "s3_lake_connector", "s3-lake", "S3Lake"),
        ("connector", "connector", "connector", "Connector"),
    ],
)
def test_all_names_come_from_one(package: str, module: str, label: str, stem: str) -> None:
    assert Names.of(package) == Names(package, module, label, stem)


@pytest.mark.parametrize(
    ("package", "said"),
    [
        ("My_Connector", "such as my-connector"),
        ("9lives", "such as lives"),
        ("../up", "such as up"),
        ("a--b", "such as a-b"),
        ("", "lower-case letters"),
        ("x" * 41, "at most 40 characters"),
        ("-rf", "such as rf"),
        ("json", "take json-connector"),
        ("class", "take class-connector"),
        ("pyarrow", "take pyarrow-connector"),
    ],
)
def test_a_name_that_is_none_is_refused_with_one_that_is(package: str, said: str) -> None:
    with pytest.raises(BadRequestException, match=said):
        Names.of(package)


def test_entry_points_name_what_was_asked_for() -> None:
    for sides in ([Side.SOURCE], [Side.SINK], [Side.SINK, Side.SOURCE]):
        texts = package_files("my-connector", sides, framework="1.2.3")
        project = tomllib.loads(texts["pyproject.toml"])["project"]
        assert project["entry-points"]["airflow_provider_connect.plugins"] == {
            f"{side}:My{side.capitalize()}": f"my_connector.{side}:My{side.capitalize()}Connector" for side in sides
        }
        assert "airflow-provider-connect>=1.2.3" in project["optional-dependencies"]["test"]
        assert {f"src/my_connector/{side}.py" in texts for side in sides} == {True}
        assert len(texts) == 6 + 3 * len(sides)


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("kept", "file", "link"):
        with pytest.raises(SystemExit, match="nothing is overwritten"):
            main([name, "--directory", str(tmp_path)])
    assert (tmp_path / "kept" / "mine.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "kept", "link"]
    (tmp_path / "empty").mkdir()
    main(["empty", "--directory", str(tmp_path)])
    assert (tmp_path / "empty" / "pyproject.toml").is_file()
    assert "src/empty/source.py" in capsys.readouterr().out


def test_what_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadRequestException, match="cannot be made: File exists"):
        write_package(tmp_path / "new", {"a": "text", "a/b": "a is a file"})
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "there").write_text("")
    with pytest.raises(AlreadyExistsException):
        write_package(tmp_path / "there", {})
