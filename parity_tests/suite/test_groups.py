"""The tests that share what takes long to prepare are in one group, and no others."""

from __future__ import annotations

from pathlib import Path

from parity_tests.operators.catalogue import COLLECTION
from parity_tests.suite.groups import FILES, LONGEST, group_of, is_long

HERE = "parity_tests/suite/test_collection.py"


def test_the_tests_of_an_operator_are_a_group() -> None:
    for operator, case in COLLECTION.items():
        (mistake, *_) = case.mistakes or ["none"]
        group = group_of(f"{HERE}::test_a_right_version_raises_no_alarm[{operator}]")
        assert group == group_of(f"{HERE}::test_a_mistake_is_caught[{operator}-{mistake}]")
        assert group == f"test_collection.py[{operator}]"


def test_a_file_with_one_library_is_a_group() -> None:
    suite = Path(__file__).parent
    for file in FILES:
        (path,) = suite.rglob(file)
        assert group_of(f"{path}::test_x") == group_of(f"{path}::test_y[z]") == file
        assert is_long(f"{path}::test_x")


def test_any_other_test_is_alone() -> None:
    for nodeid in (f"{HERE}::test_the_collection_is_large", "x/test_y.py::test_z[a-b]"):
        assert group_of(nodeid) == nodeid


def test_the_blocks_of_a_page_are_a_group() -> None:
    """A block uses names that those before it define."""
    assert group_of("derivation/x.md::line:3,column:1") == group_of("derivation/x.md::line:9,column:1")
    assert group_of("derivation/x.md::line:3,column:1") != group_of("derivation/y.md::line:3,column:1")


def test_each_of_the_longest_is_a_test_that_there_is() -> None:
    """Or it would no longer begin first once it has another name."""
    suite = Path(__file__).parent
    for name in LONGEST:
        file, _, test = name.partition("::")
        files = [*suite.rglob(file), *(suite.parents[1] / "benchmarks").glob(file)]
        assert any(f"def {test}" in path.read_text(encoding="utf-8") for path in files), name
        assert is_long(f"parity_tests/suite/{file}::{test}[x]")
    assert not is_long("parity_tests/suite/sweep/test_certification.py::test_some_operators")
