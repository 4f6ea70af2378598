"""Where a report goes: nothing that is no report is lost, and no fault of a file loses a verdict."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import threading
import time
from pathlib import Path

import pytest

from parity_tests.cli.interruption import Interruption
from parity_tests.cli.judging_options import judging_options
from parity_tests.cli.pace import Pace
from parity_tests.cli.report_files import ReportFile, empty_report, report_files
from parity_tests.cli.session import Session
from parity_tests.cli.sources.case_files import CaseFile
from parity_tests.harness.mutation.kill_matrix import Fate, KillMatrix, Outcome
from parity_tests.harness.report import atomic_file
from parity_tests.harness.report.atomic_file import write_text

from ._program import FEW, RIGHT, SPEC, WRONG, case, here

HERE = (*FEW, "--no-isolate")


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    target, link = tmp_path / "target.json", tmp_path / "link.json"
    target.write_text("{}")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_link_to_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "target.json")
    write_text(link, "new")
    assert link.is_symlink()
    assert (tmp_path / "target.json").read_text() == "new"


@pytest.mark.parametrize("length", [1, 3])
def test_a_link_that_leads_to_itself_is_no_file(tmp_path: Path, length: int) -> None:
    links = [tmp_path / f"link{i}.json" for i in range(length)]
    for i, link in enumerate(links):
        link.symlink_to(links[(i + 1) % length])
    with pytest.raises(OSError, match="is a link that leads to itself") as raised:
        write_text(links[0], "new")
    assert raised.value.errno == errno.ELOOP
    with pytest.raises(ValueError, match=r"--json .*link0\.json: is a link that leads to itself; remove it"):
        ReportFile.of("--json", links[0])
    assert all(link.is_symlink() for link in links)
    assert sorted(tmp_path.iterdir()) == links


def test_a_pipe_is_written_to(tmp_path: Path) -> None:
    pipe, received = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # there before the writer, who does not wait
    os.set_blocking(reading, True)

    def read() -> None:
        with open(reading, encoding="utf-8") as file:
            received.append(file.read())

    reader = threading.Thread(target=read)
    write_text(pipe, "short")
    reader.start()
    reader.join()
    assert received == ["short"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_pipe_that_nobody_reads_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError) as raised:  # noqa: PT011
        write_text(tmp_path / "pipe", "new")
    assert raised.value.errno == errno.ENXIO


@pytest.mark.parametrize("device", [os.devnull, "/dev/full"])
def test_a_device_stays_a_device(device: str, tmp_path: Path) -> None:
    """Through a link: whatever happens, it is not the system's own file."""
    if not Path(device).exists():
        pytest.skip(f"this system has no {device}")
    link = tmp_path / "device"
    link.symlink_to(device)
    if device == os.devnull:
        write_text(link, "new")
    else:
        with pytest.raises(OSError, match="No space left"):
            write_text(link, "new")
    assert link.is_symlink()
    assert stat.S_ISCHR(os.stat(device).st_mode)


def test_a_name_as_long_as_names_can_be(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 250 + ".json")
    write_text(path, "new")
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize(
    ("option", "text", "taken"),
    [
        ("--json", "", True),
        ("--json", empty_report("not finished"), True),
        ("--json", '{"schema": 1, "op": "square"}', True),
        ("--json", "import torch\n", False),
        ("--json", '{"name": "somebody\'s settings"}', False),
        ("--html", "<!DOCTYPE html>\n<title>square</title>", True),
        ("--html", '{"schema": 1}', False),
        ("--html", "import torch\n", False),
    ],
)
def test_only_a_report_is_replaced(tmp_path: Path, option: str, text: str, taken: bool) -> None:
    path = tmp_path / "there"
    path.write_text(text)
    if taken:
        assert ReportFile.of(option, path) == ReportFile(option, str(path), path)
    else:
        with pytest.raises(ValueError, match=f"{option} {path}: already exists and is not a report"):
            ReportFile.of(option, path)


def test_a_page_of_ours_is_replaced(tmp_path: Path) -> None:
    from parity_tests.harness.report.report import Report

    Report({}).to_html(tmp_path / "page.html")
    assert ReportFile.of("--html", tmp_path / "page.html") is not None


def test_two_reports_in_one_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "report")
    with pytest.raises(ValueError, match="are the same file; give two"):
        report_files(tmp_path / "report", tmp_path / "link")


def test_the_source_is_not_replaced(tmp_path: Path) -> None:
    path = case(tmp_path, RIGHT)
    for command in (("check", path, "--json", path), ("check", path, "--html", path), ("mutate", path, "--json", path)):
        result = here(*command)
        assert result.exit_code == 2, result.output
        assert result.stderr.startswith(f"gradparity: {command[2]} {path}: already exists and is not a report")
        assert len(result.stderr.splitlines()) == 1
    assert path.read_text() == RIGHT


def test_a_report_on_standard_output_and_the_text_elsewhere(tmp_path: Path) -> None:
    result = here("check", case(tmp_path, RIGHT), *HERE, "--json", "-")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["passed"] is True
    assert "All agree: 1 rows" in result.stderr
    assert not (tmp_path / "-").exists()


MOVES = SPEC + "def candidate(x):\n    os.chdir(FOLDER)\n    return 1.5 * x * x\n"


def test_a_candidate_that_changes_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shrinking: None) -> None:
    """Neither the report nor the reproducer, both with relative names, goes elsewhere; nor is the case lost."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    case(tmp_path, MOVES.replace("FOLDER", repr(str(tmp_path / "elsewhere"))))
    result = here("check", "case.py", *HERE, "--json", "report.json", "--html", "page.html")
    assert result.exit_code == 1, result.output
    assert os.listdir(tmp_path / "elsewhere") == []
    (failure,) = json.loads((tmp_path / "report.json").read_text())["failures"]
    assert (tmp_path / "page.html").is_file()
    assert failure["script"].startswith("gradparity-failures/")
    assert (tmp_path / failure["script"]).is_file()
    assert f"replay  {failure['replay']}\n" in result.output


# A report that cannot be written.


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk on which nothing can be written."""

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(atomic_file, "_replace", fail)


@pytest.mark.parametrize("text", [RIGHT, WRONG], ids=["right", "wrong"])
def test_a_full_disk_does_not_lose_the_verdict(tmp_path: Path, full: None, text: str) -> None:
    """The text comes first, then every report is tried; each that fails is a line."""
    files = ("--json", tmp_path / "report.json", "--html", tmp_path / "page.html")
    result = here("check", case(tmp_path, text), *HERE, *files, "--failures", tmp_path / "failures")
    assert result.exit_code == 2, result.output
    assert ("All agree: 1 rows" if text == RIGHT else "lambda disagrees with the oracle") in result.stdout
    assert "Traceback" not in result.output
    assert result.stderr.splitlines() == [
        f"gradparity: {option} {path} cannot be written: No space left on device"
        for option, path in zip(files[::2], files[1::2], strict=True)
    ]


def test_the_other_report_is_written_all_the_same(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    result = here("check", case(tmp_path, RIGHT), *HERE, "--json", tmp_path / "pipe", "--html", tmp_path / "page.html")
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith(f"gradparity: --json {tmp_path}/pipe cannot be written: ")
    assert "All agree" in (tmp_path / "page.html").read_text()


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[dict]:
    """The reports that are written, one after the other."""
    reports: list[dict] = []
    monkeypatch.setattr(
        ReportFile, "write", lambda self, text: (reports.append(json.loads(text)), write_text(self.path, text))
    )
    return reports


def test_a_report_is_there_before_anything_is_judged_and_does_not_pass(tmp_path: Path, written: list[dict]) -> None:
    result = here("check", case(tmp_path, RIGHT), *HERE, "--json", tmp_path / "report.json")
    assert result.exit_code == 0, result.output
    first, *_, last = written
    assert (first["rows"], first["passed"]) == ([], False)
    assert first["error"] == "not finished: nothing is judged yet"
    assert (last["passed"], last["error"]) == (True, None)


def test_a_report_is_whole_and_does_not_pass_until_the_run_has_ended(tmp_path: Path, written: list[dict]) -> None:
    options = judging_options(
        only=["vjp"], dtype=["float64"], device=["cpu"], isolate=False, json=tmp_path / "report.json"
    )
    source = CaseFile(case(tmp_path, RIGHT))
    without_pauses = Pace(pause=0.0, share=0.0)
    code = Session([source], options, options.checked(), Interruption(), None, without_pauses).run()
    assert code == 0
    assert [len(report["rows"]) for report in written] == [1, 2, 2]
    assert [report["passed"] for report in written] == [False, False, True]
    assert [report["error"] for report in written] == [
        *(f"not finished: {count} of 2 rows are judged" for count in (1, 2)),
        None,
    ]


def test_a_report_is_written_again_after_a_pause() -> None:
    pace = Pace(pause=0.0, share=1000.0)
    assert pace.is_due
    with pace.timed():
        time.sleep(0.01)
    assert not pace.is_due  # for ten seconds
    pace = Pace(pause=1000.0)
    with pace.timed():
        pass
    assert not pace.is_due


def test_a_report_of_a_case_that_cannot_be_used_is_not_that_of_the_run_before(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    assert here("check", case(tmp_path, RIGHT), *HERE, "--json", path).exit_code == 0
    assert here("check", case(tmp_path, RIGHT + "1 / 0\n"), *HERE, "--json", path).exit_code == 2
    report = json.loads(path.read_text())
    assert not report["passed"]
    assert report["error"] == f"{tmp_path}/case.py, line 12: ZeroDivisionError: division by zero"


SMALL = SPEC.replace("(n,m)->(n,m)", "(n)->(n)")


def test_mutants_are_told_as_they_are_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the data is whole and up to date at every moment."""
    monkeypatch.setattr(KillMatrix, "outcomes", lambda self: (Outcome(m, Fate.KILLED, "vjp") for m in self.mutations))
    written: list[dict] = []
    monkeypatch.setattr(ReportFile, "write", lambda self, text: written.append(json.loads(text)))
    result = here("mutate", case(tmp_path, SMALL), "--only", "vjp", "--json", tmp_path / "mutants.json")
    assert result.exit_code == 0, result.output
    count = len(written) - 2
    assert count > 1
    assert [len(data["mutants"]) for data in written] == [*range(count + 1), count]
    assert [data["error"] for data in written] == [*["not finished"] * (count + 1), None]
    assert len(re.findall(r"^killed by vjp: .* \(\w+\)$", result.stdout, re.MULTILINE)) == count


def test_mutants_that_cannot_be_written(tmp_path: Path, full: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KillMatrix, "outcomes", lambda self: (Outcome(m, Fate.KILLED, "vjp") for m in self.mutations))
    result = here("mutate", case(tmp_path, SMALL), "--only", "vjp", "--json", tmp_path / "mutants.json")
    assert result.exit_code == 2, result.output
    assert "mutants: " in result.stdout
    assert result.stderr == f"gradparity: --json {tmp_path}/mutants.json cannot be written: No space left on device\n"
