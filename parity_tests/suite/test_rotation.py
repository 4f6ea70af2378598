"""Of a rotating test each run judges a part of the cases, and every case has its turn."""

from __future__ import annotations

import itertools

import pytest

pytest_plugins = ["pytester"]

SUITE = """
import pytest
from parity_tests.suite.rotation import rotating

@rotating(3)
@pytest.mark.parametrize("x", [pytest.param(i, marks=pytest.mark.slow if i % 2 else ()) for i in range(7)])
def test_alone(x):
    pass

@rotating(2, by="letter")
@pytest.mark.parametrize("letter", ["a", "b"])
@pytest.mark.parametrize("x", [0, 1])
def test_together(letter, x):
    pass

@pytest.mark.parametrize("x", range(3))
def test_always(x):
    pass
"""
ALWAYS = {f"test_always[{i}]" for i in range(3)}


@pytest.fixture(autouse=True)
def _no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # which take seconds to import, each time


def run(pytester: pytest.Pytester, suite: str, *options: str) -> tuple[set[str], pytest.RunResult]:
    """The names of the tests that ran, and what was printed."""
    pytester.makeini("[pytest]\nmarkers =\n    rotating: ...\n    slow: ...")
    pytester.makeconftest('pytest_plugins = ["parity_tests.suite.rotation"]')
    pytester.makepyfile(suite)
    result = pytester.runpytest("-rp", *options)
    return {line.partition("::")[2] for line in result.outlines if line.startswith("PASSED")}, result


def test_without_the_option_all_cases_run(pytester):
    names, result = run(pytester, SUITE)
    assert len(names) == 7 + 4 + 3
    result.stdout.no_fnmatch_line("*rotation*")


def test_every_case_has_its_turn_and_no_case_has_two(pytester):
    parts = [run(pytester, SUITE, "--rotation", str(1306 + i))[0] for i in range(3)]
    assert all(names >= ALWAYS for names in parts)
    alone = [{name for name in names if name.startswith("test_alone")} for names in parts]
    assert sorted(map(len, alone)) == [2, 2, 3]
    assert len(set.union(*alone)) == 7


def test_cases_with_the_same_value_stay_together(pytester):
    together = [{n for n in run(pytester, SUITE, "--rotation", str(i))[0] if "together" in n} for i in (0, 1)]
    assert together == [{f"test_together[{x}-{letter}]" for x in (0, 1)} for letter in "ab"]


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-p", "xdist", "-n", "2")])
def test_how_many_are_left_out_is_printed(pytester, options):
    _, result = run(pytester, SUITE, "--rotation", "0", *options)
    result.stdout.fnmatch_lines("rotation 0: 6 cases are left to other numbers")


def test_the_part_of_a_case_does_not_depend_on_what_else_runs(pytester):
    names, result = run(pytester, SUITE, "--rotation", "0", "-m", "slow")
    assert names == {"test_alone[3]"}  # of 0, 3 and 6; among the slow ones alone it would be 1
    result.stdout.fnmatch_lines("rotation 0: 2 cases are left to other numbers")


def test_a_mark_by_a_parameter_that_is_not_there_is_an_error(pytester):
    header = "import pytest\nfrom parity_tests.suite.rotation import rotating\n\n"
    test = "@rotating(3, by='y')\n@pytest.mark.parametrize('x', [1])\ndef test_x(x):\n    pass"
    _, result = run(pytester, header + test, "--rotation", "0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines("ERROR: *test_x[[]1] is marked as rotating and has no parameter 'y'")


MODULE = """
import pytest
from parity_tests.suite.rotation import rotating

pytestmark = rotating(4)

def test_a(): pass
def test_b(): pass
def test_c(): pass

@pytest.mark.parametrize("x", range(4))
def test_d(x): pass

@rotating(1)
def test_always(): pass

@rotating(4, turn=2)
@pytest.mark.parametrize("x", range(2))
def test_together(x): pass
"""


def test_the_tests_of_a_marked_module_have_their_turns(pytester):
    always, together = {"test_always"}, {"test_together[0]", "test_together[1]"}
    parts = [run(pytester, MODULE, "--rotation", str(4 * 326 + i))[0] for i in range(4)]
    assert parts == [
        {"test_a", "test_d[0]", *always},
        {"test_b", "test_d[1]", *always},
        {"test_c", "test_d[2]", *always, *together},
        {"test_d[3]", *always},
    ]


def test_slow_tests_without_a_mark_take_turns_by_the_file(pytester):
    slow = "import pytest\n\n@pytest.mark.slow\n@pytest.mark.parametrize('x', [0, 1])\ndef test_{name}(x):\n    pass"
    always = slow.replace("@pytest.mark.slow", "@pytest.mark.slow\n@pytest.mark.rotating(1, None, None)")
    names = [f"f{i}" for i in range(8)]
    pytester.makepyfile(**{f"test_{name}": slow.format(name=name) for name in names})
    parts = [run(pytester, always.format(name="always"), "--rotation", str(1305 + i))[0] for i in range(3)]
    for one, other in itertools.combinations(parts, 2):
        assert one & other == {"test_always[0]", "test_always[1]"}
    assert set.union(*parts) == {f"test_{name}[{x}]" for name in ["always", *names] for x in (0, 1)}
    assert min(map(len, parts)) > 2
    for part in parts:
        assert {name.replace("[0]", "[1]") for name in part} == {name for name in part if "[1]" in name}
