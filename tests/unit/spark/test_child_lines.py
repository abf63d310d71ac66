"""Lines of a child process: none fills the memory of the process that reads them."""

import subprocess
import sys
import tracemalloc

import pytest

from airflow_provider_connect.runtime.spark.parent_death import LONGEST_LINE, bounded_lines

PRINTS = "import sys; [sys.stdout.write('x' * 65536) for _ in range(1024)]; sys.stdout.write('\\nnext\\nlast')"


@pytest.mark.parametrize("text", [True, False])
def test_a_line_of_64_mebibytes_is_cut_and_the_next_one_is_whole(text: bool) -> None:
    with subprocess.Popen([sys.executable, "-c", PRINTS], stdout=subprocess.PIPE, text=text) as child:
        assert child.stdout is not None
        tracemalloc.start()
        try:
            lines = list(bounded_lines(child.stdout))
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert [len(line) for line in lines] == [LONGEST_LINE, len("next\n"), len("last")]
    assert most < 16 * LONGEST_LINE


def test_lines_up_to_the_bound_are_whole() -> None:
    with subprocess.Popen([sys.executable, "-c", "print('abc'); print(); print('abcd'); print('abcde')"], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert list(bounded_lines(child.stdout, 4)) == [b"abc\n", b"\n", b"abcd", b"abcd"]
