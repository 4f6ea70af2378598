"""The whole sweep as a page and as data in benchmarks/results: `python -m benchmarks.sweep_table SWEEP.jsonl [NOTE]`.

The file is one of `gradparity sweep --resume`. The data have each derivative that differs; the page has the counts, and
who is wrong, operator by operator. NOTE is a sentence about how the file came to be. A sweep in `--mode inductor` or in
`--mode jit` alone has a page of its own, `sweep_inductor.md` or `sweep_jit.md`; that of `inductor` also says for how
many operators code was generated.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from parity_tests.harness.report.atomic_file import write_text
from parity_tests.sweep.compiled import AS_EAGER, GENERATED, KERNELS_ONLY, RAISES
from parity_tests.sweep.lines import COMPILED, JITTED, Line, Verdict
from parity_tests.sweep.results_file import Results, read_results

RESULTS = Path(__file__).parent / "results" / "sweep.json"
INDUCTOR, JIT = (RESULTS.with_name(f"sweep_{mode}.json") for mode in (COMPILED, JITTED))
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
    ("draws random numbers", "it draws random numbers, of which the compiled code has others"),
    ("Unsupported", "the compiler does not take it"),
    ("declares the derivatives", "PyTorch declares derivatives that its values do not have"),
    ("", "other reasons: a reference that there is not, a case of its own"),
)


def why_unreached(line: Line) -> str:
    """The kind of reason of a derivative that cannot be reached."""
    return next(kind for part, kind in _WHY if part in line.reason).format(dtype=line.dtype)


def data(results: Results, silent: Sequence[Verdict] = _SILENT) -> str:
    """The derivatives whose verdict is not one of these, as JSON with a line for each."""
    header = results.header
    about = {"schema": 1, "versions": header.versions, "options": header.options, "environment": header.environment}
    lines = sorted((line for line in results.all_lines if line.verdict not in silent), key=lambda line: line.key)
    rows = [f" {json.dumps({k: v for k, v in line.as_json().items() if k != 'seconds'})}" for line in lines]
    return json.dumps(about)[:-1] + ', "lines": [\n' + ",\n".join(rows) + "\n]}\n"


def page(results: Results, note: str = "") -> str:
    """The counts, and the modes in which somebody is wrong, by operator."""
    header, lines = results.header, results.all_lines
    versions, date = header.versions, header.environment["date"].partition("T")[0]
    count = Counter(line.verdict for line in lines)
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
        *_by_verdict(results, "derivatives"),
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
        text += ["", f"## {_heading(verdict)}", ""]
        text += ["| operator | modes |", "|---|---|"] if count[verdict] else ["None."]
        for name in sorted(results.lines):
            modes = dict.fromkeys(line.mode for line in results.lines[name] if line.verdict is verdict)
            text += [f"| `{name}` | {', '.join(modes)} |"] if modes else []
    return _text(text)


def inductor_page(results: Results, note: str = "") -> str:
    """The counts of a sweep of compiled code, and each number in which it differs from PyTorch without and from JAX."""
    generated, kernels = (_having(results, text) for text in (GENERATED, KERNELS_ONLY))
    about = (
        f"Of {len(generated)} of these code was generated, for the values or a gradient; of {len(kernels - generated)} "
        "the compiled function only calls PyTorch's kernels, which shows little."
    )
    eager = (
        "Where PyTorch without a compiler differs from JAX, too, the compiled code is not accused: "
        f"{len(_having(results, AS_EAGER))} operators."
    )
    of_mode = _page_of_mode(results, "Compiled code in the sweep", about, note, INDUCTOR)
    return _text([*of_mode, "", eager, *_with_reasons(results), *_raising(results), *_why_unreached(results)])


def jit_page(results: Results, note: str = "") -> str:
    """The counts of a sweep of jitted functions, and each number in which one differs from the same op by op."""
    of_mode = _page_of_mode(results, "JAX's jit in the sweep", "", note, JIT)
    return _text([*of_mode, *_with_reasons(results), *_why_unreached(results)])


def _page_of_mode(results: Results, title: str, about: str, note: str, path: Path) -> list[str]:
    """The lines of a page about one mode, up to the table of verdicts."""
    header = results.header
    versions, date = header.versions, header.environment["date"].partition("T")[0]
    return [
        f"# {title}",
        "",
        f"`gradparity sweep --mode {header.options['modes'][0]}`, {' and '.join(header.options['dtypes'])}: of "
        f"{len(results.lines)} operators {reached(results)} are judged.{' ' if about else ''}{about}",
        "",
        f"PyTorch {versions['torch']}, JAX {versions['jax']}, Python {header.environment['python']}, {date}."
        f"{' ' if note else ''}{note}",
        "",
        "What is compared, and who the witnesses are: [docs/sweep.md](../../docs/sweep.md). Made by `python -m "
        "benchmarks.sweep_table`; the numbers that differ, and the reason of each operator that is not judged: "
        f"`{path.name}`.",
        "",
        *_by_verdict(results, "values and gradients"),
    ]


def _why_unreached(results: Results) -> list[str]:
    why = Counter(why_unreached(line) for line in results.all_lines if line.verdict is Verdict.UNREACHED)
    text = ["", "## Cannot be reached", "", "| since | values and gradients |", "|---|---|"]
    return text + [f"| {_cell(kind)} | {number} |" for kind, number in why.most_common()]


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


def _with_reasons(results: Results) -> list[str]:
    """The lines that do not agree, by verdict."""
    text = []
    for verdict in Verdict:
        its = [line for line in results.all_lines if line.verdict is verdict and verdict not in _SILENT]
        if its:
            text += ["", f"## {_heading(verdict)}", "", "| operator | of | reason |", "|---|---|---|"]
            text += [f"| `{line.operator}` | {line.of} | {_cell(line.reason)} |" for line in its]
    return text


def _raising(results: Results) -> list[str]:
    """The operators of which a compiled call raises an error."""
    lines = [line for line in results.all_lines if RAISES in line.reason]
    errors = {line.operator: line.reason.partition(f"{RAISES} ")[2].partition("; ")[0] for line in lines}
    text = [
        *("", "## Compiled, a call raises an error, and not without", ""),
        "Most are of code for all sizes, in which each integer among the arguments is a symbol, too.",
        *("", "| operator | error |", "|---|---|"),
    ]
    return text + [f"| `{name}` | {_cell(error)} |" for name, error in errors.items()]


def _by_verdict(results: Results, of: str) -> list[str]:
    count = Counter(line.verdict for line in results.all_lines)
    having = Counter(verdict for its in results.lines.values() for verdict in {line.verdict for line in its})
    order = [v for v in Verdict if v is not Verdict.UNREACHED and v not in TOLD]
    order += [Verdict.UNDECIDED, *TOLD[:3], Verdict.UNREACHED]
    head = [f"| verdict | {of} | operators that have some |", "|---|---|---|"]
    return head + [f"| {v} | {count[v]} | {having[v]} |" for v in order]


def _having(results: Results, text: str) -> set[str]:
    """The operators of which a line's reason has a text."""
    return {name for name, lines in results.lines.items() if any(text in line.reason for line in lines)}


def _heading(verdict: Verdict) -> str:
    return str(verdict).capitalize().replace("jax", "JAX").replace("pytorch", "PyTorch")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(path: Path, note: str = "") -> None:
    """Write the page and the data."""
    results = read_results(path)
    match results.header.options["modes"]:
        case [mode] if mode == COMPILED:
            made, to, silent = inductor_page, INDUCTOR, (Verdict.AGREES,)
        case [mode] if mode == JITTED:
            made, to, silent = jit_page, JIT, (Verdict.AGREES,)
        case _:
            made, to, silent = page, RESULTS, _SILENT
    write_text(to, data(results, silent))
    write_text(to.with_suffix(".md"), made(results, note))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:3])
