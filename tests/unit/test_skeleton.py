"""New packages: what their parts are called, and that nothing is overwritten. That they work is shown in ``integration/test_skeleton``."""

import tomllib
from pathlib import Path

import pytest

from airflow_provider_connect.errors import AlreadyExistsException, BadRequestException
from airflow_provider_connect.runtime.config.properties import parse_properties
from airflow_provider_connect.skeleton.new import Kind, Names, main, package_files, write_package


@pytest.mark.parametrize(
    ("package", "module", "label", "stem"),
    [
        ("my-connector", "my_connector", "my", "My"),
        ("sales", "sales", "sales", "Sales"),
        ("s3-lake-connector", "s3_lake_connector", "s3-lake", "S3Lake"),
        ("connector", "connector", "connector", "Connector"),
        ("mask-transformation", "mask_transformation", "mask", "Mask"),
        ("avro-converter", "avro_converter", "avro", "Avro"),
    ],
)
def test_all_names_come_from_one(package: str, module: str, label: str, stem: str) -> None:
    assert Names.of(package) == Names(package, module, label, stem)


@pytest.mark.parametrize(
    ("package", "message"),
    [
        ("My_Connector", "such as my-connector"),
        ("9lives", "such as lives"),
        ("../up", "such as up"),
        ("a--b", "such as a-b"),
        ("numpy", "take numpy-connector"),
        ("", "lower-case letters"),
        ("x" * 41, "at most 40 characters"),
        ("-rf", "such as rf"),
        ("json", "take json-connector"),
        ("class", "take class-connector"),
        ("pyarrow", "take pyarrow-connector"),
    ],
)
def test_a_wrong_name_is_refused_with_a_valid_one(package: str, message: str) -> None:
    with pytest.raises(BadRequestException, match=message):
        Names.of(package)


def test_entry_points_name_what_was_asked_for() -> None:
    classes = {
        Kind.SOURCE: "MySourceConnector",
        Kind.SINK: "MySinkConnector",
        Kind.TRANSFORMATION: "MyTransformation",
        Kind.CONVERTER: "MyConverter",
    }
    for kinds in ([Kind.SOURCE], [Kind.SINK], [Kind.SINK, Kind.SOURCE], [Kind.TRANSFORMATION], [Kind.CONVERTER], [*Kind]):
        texts = package_files("my-connector", kinds, framework="1.2.3")
        project = tomllib.loads(texts["pyproject.toml"])["project"]
        assert project["entry-points"]["airflow_provider_connect.plugins"] == {
            f"{kind}:My{kind.capitalize()}": f"my_connector.{kind}:{classes[kind]}" for kind in kinds
        }
        assert "airflow-provider-connect>=1.2.3" in project["optional-dependencies"]["test"]
        assert {f"src/my_connector/{kind}.py" in texts and f"tests/test_{kind}.py" in texts for kind in kinds} == {True}
        assert {path for path in texts if path.startswith("dags/")} == {f"dags/my_connector_{k}.py" for k in kinds if k.is_connector}
        assert not [path for path, text in texts.items() if "${" in text]


@pytest.mark.parametrize(
    ("decorated", "converter"),
    [(False, "org.apache.kafka.connect.storage.StringConverter"), (True, "org.apache.kafka.connect.json.JsonConverter")],
)
def test_connectors_have_the_properties_files_of_a_first_run(decorated: bool, converter: str) -> None:
    texts = package_files("s3-lake-connector", [*Kind][: -1 if decorated else None], framework="1.2.3", decorated=decorated)
    configs = {path: parse_properties(text.encode()) for path, text in texts.items() if path.endswith(".properties")}
    assert set(configs) == {"sink.properties", "source.properties", "worker.properties"}
    assert set(configs["worker.properties"]) == {"bootstrap.servers", "offset.storage.file.filename"}
    of_a_sink = package_files("s3", [Kind.SINK], framework="1", decorated=decorated)["worker.properties"]
    assert set(parse_properties(of_a_sink.encode())) == {"bootstrap.servers"}, "exactly once from its first run on"
    for kind in ("sink", "source"):
        assert configs[f"{kind}.properties"]["connector.class"] == f"S3Lake{kind.capitalize()}"
        assert configs[f"{kind}.properties"]["value.converter"] == converter
        assert f"connect-run {kind}.properties --worker worker.properties" in texts["README.md"]
    assert not [path for path in package_files("s3", [Kind.TRANSFORMATION], framework="1") if path.endswith(".properties")]


def test_a_decorated_plugin_is_a_function_of_few_lines() -> None:
    texts = package_files("s3-lake-connector", [Kind.SOURCE, Kind.SINK, Kind.TRANSFORMATION], framework="1.2.3", decorated=True)
    named = tomllib.loads(texts["pyproject.toml"])["project"]["entry-points"]["airflow_provider_connect.plugins"]
    for kind in ("source", "sink", "transformation"):
        assert named[f"{kind}:S3Lake{kind.capitalize()}"] == f"s3_lake_connector.{kind}:s3_lake_{kind}"
        lines = texts[f"src/s3_lake_connector/{kind}.py"].split("from airflow_provider_connect.sdk")[1].splitlines()[1:]
        assert len([line for line in lines if line]) <= 15
    assert not [path for path, text in texts.items() if "${" in text]


def test_a_decorated_converter_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="has two directions, from values to bytes and back"):
        main(["my-connector", "--source", "--converter", "--decorated", "--directory", str(tmp_path)])
    assert list(tmp_path.iterdir()) == []


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
    with pytest.raises(BadRequestException, match="cannot be created: File exists"):
        write_package(tmp_path / "new", {"a": "text", "a/b": "a is a file"})
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "there").write_text("")
    with pytest.raises(AlreadyExistsException):
        write_package(tmp_path / "there", {})
