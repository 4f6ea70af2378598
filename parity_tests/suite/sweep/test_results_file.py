"""The file of results: whole at every moment, gone on with, read, and merged with others."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from parity_tests.sweep.guard import Limits
from parity_tests.sweep.lines import Finding, Line, Verdict
from parity_tests.sweep.results_file import Header, ResultsFile, merged, read_results
from parity_tests.sweep.sharding import Shard, tenth

HEADER = Header.of(["vjp"], ["float64"], Limits())
FINDING = Finding("x = 0", (0, 1), "1.0", "2.0", "[1, 2]", "differences", "print(1)")


def line(operator: str, verdict: Verdict = Verdict.AGREES, **more: object) -> Line:
    """A line of an operator."""
    return Line(operator, "vjp", "self", "float64", verdict, **more)


def written(path: Path, *lines: Line, header: Header = HEADER) -> Path:
    """A file with these lines."""
    with ResultsFile(path, header) as file:
        for each in lines:
            file.append(each.operator, [each])
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    lines = [line("abs", Verdict.CONVENTION, finding=FINDING), line("sin", calls=3, seconds=1.5)]
    path = written(tmp_path / "a.jsonl", *reversed(lines))
    results = read_results(path)
    assert results.all_lines == lines
    assert results.header == HEADER
    assert set(results.header.versions) >= {"torch", "jax", "numpy"}
    assert results.as_jsonl().splitlines()[0] == path.read_text().splitlines()[0]


def test_a_torn_last_line_does_not_count_and_is_removed_when_the_run_goes_on(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", line("sin"), line("cos"))
    whole = path.read_bytes()
    for length in range(whole.rindex(b'{"operator"') + 1, len(whole), 7):
        path.write_bytes(whole[:length])
        assert set(read_results(path).lines) == {"sin"}
        written(path, line("cos"))
        assert path.read_bytes() == whole


def test_every_line_is_in_the_file_once_it_is_appended(tmp_path: Path) -> None:
    with ResultsFile(tmp_path / "a.jsonl", HEADER) as file:
        file.append("sin", [line("sin")])
        assert set(read_results(file.path).lines) == {"sin"}
        with pytest.raises(ValueError, match="has sin already"):
            file.append("sin", [line("sin")])
        with pytest.raises(ValueError, match="is being written by another run"):
            ResultsFile(file.path, HEADER)


def test_a_file_of_other_versions_or_options_is_not_gone_on_with(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", line("sin"))
    other = replace(HEADER, versions={**HEADER.versions, "torch": "2.99"})
    with pytest.raises(ValueError, match=r"torch 2\.\d.* and 2\.99"):
        ResultsFile(path, other)
    with pytest.raises(ValueError, match="modes vjp and jvp, vjp"):
        ResultsFile(path, Header.of(["jvp", "vjp"], ["float64"], Limits()))


@pytest.mark.parametrize("text", ["a letter to somebody", "{}\n", '{"kind": "x"}\n', "\n"])
def test_what_is_no_file_of_results_is_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / "letter.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match="is no file of results of a sweep"):
        ResultsFile(path, HEADER)
    assert path.read_text() == text


def test_a_line_that_is_wrong_is_told_with_its_number(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", line("sin"))
    whole = path.read_text()
    path.write_text(whole + "{}\n")
    with pytest.raises(ValueError, match="jsonl:3 is no result"):
        read_results(path)
    path.write_text(whole + whole.splitlines(keepends=True)[1])
    with pytest.raises(ValueError, match="jsonl:3 has sin again"):
        read_results(path)


def test_shards_have_every_operator_once_and_are_of_like_size() -> None:
    names = [f"operator_{i}" for i in range(600)]
    for count in (1, 2, 7):
        parts = [Shard.parse(f"{i}/{count}").of(names) for i in range(1, count + 1)]
        assert sorted(itertools.chain(*parts)) == sorted(names)
        assert max(map(len, parts)) < 1.4 * 600 / count
    tenths = [tenth(k, names) for k in range(10)]
    assert sorted(itertools.chain(*tenths)) == sorted(names)
    assert tenth(13, names) == tenths[3]
    assert all(set(part) & set(each) for part in parts for each in tenths)
    assert Shard(1, 2).of(["sin", "cos", "tan", "exp"]) == ["tan", "exp"]  # on every machine, in every version


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/0", "-1/2", "a/b"])
def test_a_shard_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write 1/4"):
        Shard.parse(text)


def test_files_are_merged_and_those_that_overlap_must_agree(tmp_path: Path) -> None:
    one = written(tmp_path / "1.jsonl", line("sin"), line("cos", seconds=1.0))
    two = written(tmp_path / "2.jsonl", line("tan"), line("cos", seconds=2.0))
    assert [each.operator for each in merged([one, two]).all_lines] == ["cos", "sin", "tan"]
    three = written(tmp_path / "3.jsonl", line("cos", Verdict.UNDECIDED))
    with pytest.raises(ValueError, match=r"1\.jsonl and .*3\.jsonl differ on cos"):
        merged([one, two, three])


def test_files_of_different_versions_are_not_merged(tmp_path: Path) -> None:
    one = written(tmp_path / "1.jsonl", line("sin"))
    header = replace(HEADER, versions={**HEADER.versions, "jax": "0.99"})
    two = written(tmp_path / "2.jsonl", line("tan"), header=header)
    with pytest.raises(ValueError, match=r"cannot be merged: jax .* and 0\.99"):
        merged([one, two])


def test_a_merged_file_can_be_gone_on_with(tmp_path: Path) -> None:
    one, two = written(tmp_path / "1.jsonl", line("sin")), written(tmp_path / "2.jsonl", line("cos"))
    both = tmp_path / "all.jsonl"
    both.write_text(merged([one, two]).as_jsonl())
    assert set(read_results(written(both, line("tan"))).lines) == {"sin", "cos", "tan"}
    assert json.loads(both.read_text().splitlines()[1])["operator"] == "cos"


def test_a_part_that_is_not_merged_is_missed(tmp_path: Path) -> None:
    one = written(tmp_path / "1.jsonl", line("sin"), header=HEADER.of_part("1/3", 1))
    two = written(tmp_path / "2.jsonl", line("cos"), line("tan"), header=HEADER.of_part("2/3", 3))
    three = written(tmp_path / "3.jsonl", line("abs"), header=HEADER.of_part("3/3", 1))
    for files, missing in (([one], "--shard 2/3, 3/3 of the sweep are"), ([one, three], "--shard 2/3 of the sweep is")):
        results = merged(files)
        assert results.header.missing(results.lines).startswith(missing)
    results = merged([one, two, three])
    assert results.header.missing(results.lines).startswith("1 operators were not judged")
    written(two, line("exp"), header=HEADER.of_part("2/3", 3))
    results = merged([one, two, three])
    assert results.header.missing(results.lines) == ""
    assert merged([written(tmp_path / "all.jsonl", line("sin"), header=results.header), one]).header.environment["part"]
    old = merged([written(tmp_path / "old.jsonl", line("sin"))])
    assert "does not say how many operators" in old.header.missing(old.lines)


def test_a_line_that_judges_nothing_does_not_count(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", line("sin"))
    for record, words in (({"operator": "cos", "lines": []}, "no line for cos"), (None, "another operator for cos")):
        text = json.dumps(record or {"operator": "cos", "lines": [line("tan").as_json()]})
        broken = tmp_path / "b.jsonl"
        broken.write_text(path.read_text() + text + "\n")
        with pytest.raises(ValueError, match=words):
            read_results(broken)
