"""How processes share the tests: a group is whole in one of them."""

from types import SimpleNamespace

import pytest
from xdist.remote import Producer

from tests.conftest import pytest_xdist_make_scheduler


class Process:
    """Of xdist, by the tests that it is given."""

    shutting_down = False

    def __init__(self, name: str) -> None:
        self.gateway, self.given = SimpleNamespace(id=name), list[int]()

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_tests_of_one_server_are_in_one_process(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytestconfig.option, "tx", ["popen", "popen"])
    monkeypatch.setattr(pytestconfig.option, "loadscopereorder", True)
    server = ["tests/integration/airflow/test_a.py::test_one", "tests/integration/airflow/test_b.py::test_two[a::b-c/d]"]
    files = {path: [f"{path}::test_{number}" for number in range(4)] for path in ("tests/unit/test_c.py", "tests/e2e/test_d.py")}
    tests = [*server, *(test for some in files.values() for test in some)]
    scheduling, processes = pytest_xdist_make_scheduler(pytestconfig, Producer("test")), [Process("one"), Process("two")]
    for process in processes:
        scheduling.add_node(process)  # type: ignore[arg-type]
        scheduling.add_node_collection(process, tests)  # type: ignore[arg-type]
    scheduling.schedule()
    assert [process.given for process in processes] == [[0, 1, 6, 7, 8, 9], [2, 3, 4, 5]]
