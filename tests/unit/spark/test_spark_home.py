"""Which Spark is started, and the home in front of it."""

import configparser
from pathlib import Path

import pytest

from airflow_provider_connect.errors import ConnectException
from airflow_provider_connect.runtime.spark.spark_home import TESTED_PAIR, find_spark, is_local, starts_from_links

INSTALLED = find_spark("yarn", {}).version


def _installation(folder: Path, version: str) -> Path:
    (folder / "jars").mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "jars" / f"spark-core_2.13-{version}.jar").touch()
    return folder


@pytest.mark.parametrize(
    ("master", "local", "links"),
    [
        ("local", True, True),
        ("local[2]", True, True),
        ("local[*,3]", True, True),
        ("local-cluster[2,1,1024]", False, True),
        ("spark://a:7077,b:7077", False, True),
        ("yarn", False, False),
        ("k8s://https://a:6443", False, False),
    ],
)
def test_masters(master: str, local: bool, links: bool) -> None:
    assert (is_local(master), starts_from_links(master)) == (local, links)


def test_local_masters_start_from_links_to_bin_and_jars(tmp_path: Path) -> None:
    real = _installation(tmp_path / "spark", INSTALLED)
    found = find_spark("local[2]", {"SPARK_HOME": str(real)}, cache=tmp_path / "cache")
    assert sorted(link.name for link in found.path.iterdir()) == ["bin", "jars"]
    assert found.jars.resolve() == real / "jars"
    assert find_spark("local", {"SPARK_HOME": str(found.path)}, cache=tmp_path / "cache") == found


def test_yarn_gets_the_installation_itself(tmp_path: Path) -> None:
    real = _installation(tmp_path / "spark", INSTALLED)
    assert find_spark("yarn", {"SPARK_HOME": str(real)}, cache=tmp_path).path == real


def test_settings_of_the_installation_are_kept(tmp_path: Path) -> None:
    real = _installation(tmp_path / "spark", INSTALLED)
    assert find_spark("local", {"SPARK_HOME": str(real)}, cache=tmp_path).conf is None
    (real / "conf").mkdir()
    assert find_spark("local", {"SPARK_HOME": str(real)}, cache=tmp_path).conf == real / "conf"


def test_jars_of_another_version_than_the_python_package_are_refused(tmp_path: Path) -> None:
    real = _installation(tmp_path / "spark", "4.3.0")
    with pytest.raises(ConnectException, match=rf"{INSTALLED}.*4\.3\.0") as refused:
        find_spark("local", {"SPARK_HOME": str(real)}, cache=tmp_path)
    assert f"pip install --force-reinstall --no-deps pyspark=={INSTALLED} pyspark-client=={INSTALLED}; " in str(refused.value)
    assert f"let SPARK_HOME, which is {real}, name a Spark of that version, or unset it" in str(refused.value)


def test_every_extra_pins_one_version_of_both_halves_of_spark() -> None:
    """Newer versions of pyspark have no pyspark-client of the same version, and pip resolves each by itself."""
    checkout = Path(__file__).resolve().parents[3]
    setup = configparser.ConfigParser()
    setup.read(checkout / "setup.cfg")
    extras = setup["options.extras_require"]
    pins = {line for lines in extras.values() for line in lines.split() if line.startswith("pyspark")}
    constraints = {line for line in (checkout / "constraints.txt").read_text().splitlines() if line.startswith("pyspark")}
    assert pins == constraints == set(TESTED_PAIR)
    assert len({pin.partition("==")[2] for pin in pins}) == 1
    assert {pin.partition("==")[0] for pin in pins} == {"pyspark", "pyspark-client"}


def test_a_home_without_jars_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConnectException, match="has no Spark"):
        find_spark("local", {"SPARK_HOME": str(tmp_path)}, cache=tmp_path)
