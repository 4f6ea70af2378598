"""The whole sweep as a page and as data in benchmarks/results: `python -m benchmarks.sweep_table SWEEP.jsonl [NOTE]`.

The file is one of `gradparity sweep --resume`. The data have each derivative that differs; the page has the counts, and
who is wrong, operator by operator. NOTE is a sentence about how the file came to be.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

from parity_tests.harness.report.atomic_file import write_text
from parity_tests.sweep.lines import Line, Verdict
from parity_tests.sweep.results_file import Results, read_results

RESULTS = Path(__file__).parent / "results" / "sweep.json"
TOLD = (Verdict.WRONG_IN_JAX, Verdict.WRONG_IN_PYTORCH, Verdict.WRONG_IN_BOTH, Verdict.UNDECIDED)
_SILENT = (Verdict.AGREES, Verdict.UNREACHED)


def reached(results: Results) -> int:
    """How many operators have a verdict other than "cannot be reached"."""
    return sum(any(line.verdict is not Verdict.UNREACHED for line in lines) for lines in results.lines.values())


_WHY = (  # a part of the reason, and the kind
    ("no call reaches it", "no call of it has such numbers: {dtype}"),
    ("forward AD", "PyTorch has no forward mode of it"),
    ("has not implemented", "PyTorch has no formula"),
    ("Refused", "PyTorch raises another error"),
    ("saved statistics", "its formulas take saved statistics for functions of another input"),
    ("by definition", "it has no derivative by definition"),
    ("declares the derivatives", "PyTorch declares derivatives that its values do not have"),
    ("", "other reasons: a reference that there is not, a case of its own"),
)


def why_unreached(line: Line) -> str:
    """The kind of reason of a derivative that cannot be reached."""
    return next(kind for part, kind in _WHY if part in line.reason).format(dtype=line.dtype)


def data(results: Results) -> str:
    """The derivatives that differ, as JSON with a line for each."""
    header = results.header
    about = {"schema": 1, "versions": header.versions, "options": header.options, "environment": header.environment}
    lines = sorted((line for line in results.all_lines if line.verdict not in _SILENT), key=lambda line: line.key)
    rows = [f" {json.dumps({k: v for k, v in line.as_json().items() if k != 'seconds'})}" for line in lines]
    return json.dumps(about)[:-1] + ', "lines": [\n' + ",\n".join(rows) + "\n]}\n"


def page(results: Results, note: str = "") -> str:
    """The counts, and the modes in which somebody is wrong, by operator."""
    header, lines = results.header, results.all_lines
    versions, date = header.versions, header.environment["date"].partition("T")[0]
    count = Counter(line.verdict for line in lines)
    having = Counter(verdict for its in results.lines.values() for verdict in {line.verdict for line in its})
    text = [
        "# The sweep as a whole",
        "",
        "`gradparity sweep`, all five modes, and the third order of norms, float64 and complex128: "
        f"{len(results.lines)} operators, {len(lines)} derivatives; {reached(results)} operators have a verdict other "
        'than "cannot be reached".',
        "",
        f"PyTorch {versions['torch']}, JAX {versions['jax']}, Python {header.environment['python']}, {date}; "
        f"{sum(line.seconds for line in lines):.0f} s of CPU time.{' ' if note else ''}{note}",
        "",
        "What the verdicts mean, and who the witnesses are: [docs/sweep.md](../../docs/sweep.md). Made by `python -m "
        "benchmarks.sweep_table`; the verdicts by operator: "
        "`parity_tests/suite/sweep/expected/torch-2.13-jax-0.10.json`; the numbers that differ: `sweep.json`.",
        "",
        "| verdict | derivatives | operators that have some |",
        "|---|---|---|",
        *(f"| {v} | {count[v]} | {having[v]} |" for v in Verdict if v is not Verdict.UNREACHED and v not in TOLD),
        *(f"| {v} | {count[v]} | {having[v]} |" for v in (Verdict.UNDECIDED, *TOLD[:3], Verdict.UNREACHED)),
    ]
    why = Counter(why_unreached(line) for line in lines if line.verdict is Verdict.UNREACHED)
    text += ["", "| cannot be reached, since | derivatives |", "|---|---|"]
    text += [f"| {kind} | {number} |" for kind, number in why.most_common()]
    undecided = sum(str(Verdict.UNDECIDED) in line.reason for line in lines if line.verdict is Verdict.OVERFLOWS)
    text += [
        "",
        f'Of those that differ at numbers beyond squares only ("overflows") no witness can tell of {undecided}.',
    ]
    for verdict in TOLD:
        text += ["", f"## {str(verdict).capitalize().replace('jax', 'JAX').replace('pytorch', 'PyTorch')}", ""]
        text += ["| operator | modes |", "|---|---|"] if count[verdict] else ["None."]
        for name in sorted(results.lines):
            modes = dict.fromkeys(line.mode for line in results.lines[name] if line.verdict is verdict)
            text += [f"| `{name}` | {', '.join(modes)} |"] if modes else []
    return "\n".join(text) + "\n"


def main(path: Path, note: str = "") -> None:
    """Write the page and the data."""
    results = read_results(path)
    write_text(RESULTS, data(results))
    write_text(RESULTS.with_suffix(".md"), page(results, note))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:3])
