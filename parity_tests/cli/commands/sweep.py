"""`gradparity sweep`: every derivative formula of PyTorch against JAX, and what differs between two sweeps."""

from __future__ import annotations

import contextlib
import shlex
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from parity_tests.cli.interruption import INTERRUPTED, TEXT, Interruption
from parity_tests.cli.report_files import ReportFile
from parity_tests.cli.terminal import Output, complain
from parity_tests.sweep import running
from parity_tests.sweep.changes import Change, compared, expected_text, read_lines, table_text, unexpected
from parity_tests.sweep.guard import WHOLE, Limits
from parity_tests.sweep.lines import Line, Verdict
from parity_tests.sweep.page import as_html
from parity_tests.sweep.results_file import Header, Results, ResultsFile, merged
from parity_tests.sweep.sharding import Shard, tenth

DEFAULT_FILE = Path("gradparity-sweep.jsonl")
_DISAGREEMENTS = {verdict for verdict in Verdict if verdict.rank > Verdict.UNREACHED.rank} | {Verdict.LOSES_DIGITS}
_STYLES = {Verdict.AGREES: "green", Verdict.CONVENTION: "cyan", Verdict.UNREACHED: "dim"}


@dataclass(frozen=True)
class SweepOptions:
    """The operators to sweep, how to judge them, and where the results go; see `gradparity sweep --help`.

    `judge` is what judges an operator, see `running.run`.
    """

    names: tuple[str, ...]
    modes: tuple[str, ...]
    third_order_of_norms: bool
    dtypes: tuple[str, ...]
    jobs: int = 1
    dask: str | None = None
    shard: Shard | None = None
    tenth: int | None = None
    file: Path | None = None
    json: ReportFile | None = None
    html: ReportFile | None = None
    expected: Path | None = None
    save_expected: ReportFile | None = None
    limits: Limits = field(default_factory=Limits)
    judge: str = running.JUDGE

    def command(self, file: Path) -> str:
        """The command that goes on with this sweep."""
        words = ["gradparity", "sweep", *self.names]
        words += [word for mode in self.modes for word in ("--mode", mode) if not self.third_order_of_norms]
        words += [word for dtype in self.dtypes for word in ("--dtype", dtype)]
        given = {
            "-j": "" if self.jobs == 1 else self.jobs,
            "--dask": self.dask,
            "--shard": self.shard,
            "--tenth": self.tenth,
            "--json": self.json and self.json.given,
            "--html": self.html and self.html.given,
            "--expected": self.expected,
            "--save-expected": self.save_expected and self.save_expected.given,
            "--timeout": "" if self.limits.seconds == Limits().seconds else f"{self.limits.seconds:g}",
            "--resume": file,
        }
        words += [str(word) for name, value in given.items() if value not in (None, "") for word in (name, value)]
        return shlex.join(words)


def sweep(options: SweepOptions, interruption: Interruption) -> int:
    """Judge the operators, show the verdicts, and write what is asked for.

    Returns:
        The exit code: 0 all agree, or differ as expected; 1 some do not; 2 something could not be judged; 130
        interrupted.

    Raises:
        LookupError: there is no such operator.
        ImportError: pebble or Dask is not installed.
        OSError, ValueError: a file cannot be read or written.
        Lost: the executor has lost operators.
    """
    expected = None if options.expected is None else read_lines(options.expected)[0]
    operators = _chosen(options)
    header = Header.of(options.modes, options.dtypes, options.limits, options.third_order_of_norms)
    header = header.of_part("" if options.shard is None else str(options.shard), len(operators))
    console = Output(stderr=any(file is not None and file.path is None for file in (options.json, options.html)))
    with _place(options) as path, ResultsFile(path, header) as file:
        try:
            _judge(operators, file, options, console, interruption)
        except KeyboardInterrupt:
            kept = options.file is not None or not options.names
            remedy = f"; {path} has their results; go on with: {options.command(path)}" if kept else ""
            complain(f"{TEXT}, after {len(file.lines)} operators{remedy}")
            return INTERRUPTED
        whole = file.results()
    results = Results(whole.header, {name: lines for name, lines in whole.lines.items() if name in {*operators}})
    _show(results, console)
    for report, text in ((options.json, table_text), (options.html, as_html)):
        if report is not None:
            report.write(text(results))
    if options.save_expected is not None:
        options.save_expected.write(expected_text(results))
    if expected is not None:
        return show_changes(unexpected(results, expected, operators), console, "as expected")
    return _exit_code(results)


def compare(before: Path, after: Path) -> int:
    """Show what differs between two sweeps.

    Returns:
        The exit code: 0 nothing, 1 something.

    Raises:
        OSError, ValueError: a file cannot be read.
    """
    return show_changes(compared(before, after), Output(), "nothing differs")


def merge(paths: Sequence[Path], output: ReportFile) -> int:
    """Merge files of results into one, and show what is in it.

    Returns:
        The exit code, as of a sweep.

    Raises:
        OSError: a file cannot be read or written.
        ValueError: they do not belong together.
    """
    results = merged(paths)
    output.write(results.as_jsonl())
    console = Output()
    _show(results, console)
    missing = results.header.missing(results.lines)
    if missing:
        console.show(f"Not whole: {missing}", soft_wrap=True, highlight=False, markup=False)
    return _exit_code(results) or (2 if missing else 0)


def show_changes(found: Sequence[Change], console: Output, nothing: str) -> int:
    """Print what differs, a line for each, or that nothing does; returns the exit code."""
    for change in found:
        console.show(str(change), soft_wrap=True, highlight=False, markup=False)
    console.show(f"{len(found)} verdicts differ" if found else nothing, highlight=False)
    return int(bool(found))


def _chosen(options: SweepOptions) -> list[str]:
    """The operators that are to be judged.

    Raises:
        LookupError: there is no such operator.
        ValueError: there is none left.
    """
    from parity_tests.sweep.operators import named, operators

    chosen = [each for name in options.names for each in named(name)] if options.names else operators()
    if options.shard is not None:
        chosen = options.shard.of(chosen)
    if options.tenth is not None:
        chosen = tenth(options.tenth, chosen)
    if not chosen:
        raise ValueError("none of the operators is in this part")
    return list(dict.fromkeys(chosen))


@contextlib.contextmanager
def _place(options: SweepOptions) -> Iterator[Path]:
    """Where the results go: what is to be gone on with; of named operators nowhere; or a new file."""
    if options.file is not None:
        yield options.file
    elif options.names:
        with tempfile.TemporaryDirectory(prefix="gradparity-") as folder:
            yield Path(folder) / DEFAULT_FILE
    elif DEFAULT_FILE.exists():
        again = f"go on with it by --resume {DEFAULT_FILE}, remove it, or name another one by --resume"
        raise ValueError(f"{DEFAULT_FILE} is there from an earlier sweep; {again}")
    else:
        yield DEFAULT_FILE


def _judge(
    operators: Sequence[str], file: ResultsFile, options: SweepOptions, console: Output, interruption: Interruption
) -> None:
    left = sum(operator not in file.lines for operator in operators)
    if left < len(operators):
        kept = f"{len(operators) - left} of {len(operators)} operators are in {file.path} already"
        console.show(kept, soft_wrap=True, highlight=False, markup=False)
    with interruption.noted(), _executor(options) as executor, _shown(console, left) as show:
        for operator, lines in running.run(
            operators, file, executor, options.judge, options.limits, interruption.check
        ):
            show(operator, lines)


@contextlib.contextmanager
def _executor(options: SweepOptions) -> Iterator[Executor]:
    if options.dask is not None:
        from parity_tests.sweep.dask_cluster import executor_of

        with executor_of(options.dask) as executor:
            yield executor
    else:
        with ThreadPoolExecutor(options.jobs) as executor:
            yield executor


@contextlib.contextmanager
def _shown(console: Output, length: int) -> Iterator[Callable[[str, Sequence[Line]], None]]:
    """A bar with the verdicts so far on a terminal; elsewhere a line for each operator."""
    if not console.is_terminal:
        yield lambda operator, lines: console.show(
            f"{operator}: {_counted(lines)}", soft_wrap=True, highlight=False, markup=False
        )
        return
    times = TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
    columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), *times
    so_far: list[Line] = []
    with Progress(*columns, transient=True, console=console, speed_estimate_period=600) as progress:
        task = progress.add_task("starting", total=length)

        def move_on(operator: str, lines: Sequence[Line]) -> None:
            so_far.extend(lines)
            progress.update(task, advance=1, description=_counted(so_far))

        yield move_on


def _counted(lines: Sequence[Line]) -> str:
    counts = Counter(line.verdict for line in lines)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])


def _show(results: Results, console: Output) -> None:
    """Print how many derivatives have which verdict, by mode, and then each that PyTorch and JAX disagree on."""
    lines = results.all_lines
    modes = [mode for mode in results.header.options["modes"] if any(line.mode == mode for line in lines)]
    counts = Counter((line.verdict, line.mode) for line in lines)
    console.show(f"{len(results.lines)} operators, {len(lines)} derivatives", highlight=False)
    grid = Table("verdict")
    for column in (*modes, "all"):
        grid.add_column(column, justify="right")
    for verdict in Verdict:
        numbers = [counts[verdict, mode] for mode in modes]
        if any(numbers):
            texts = (str(number or "") for number in (*numbers, sum(numbers)))
            grid.add_row(Text(verdict, style=_STYLES.get(verdict, "bold red")), *texts)
    console.show(grid)
    for line in lines:
        if line.verdict in _DISAGREEMENTS or line.of == WHOLE:
            console.show(_described(line), soft_wrap=True, highlight=False, markup=False)


def _described(line: Line) -> str:
    of = "" if line.of == WHOLE else f" of {line.of}"
    text = f"{line.operator}, {line.mode}{of}, {line.dtype}: {line.verdict}" + (
        f": {line.reason}" if line.reason else ""
    )
    found = line.finding
    if found is None:
        return text
    values = f"PyTorch {found.pytorch}, JAX {found.jax}, right {found.right} ({found.witness})"
    return f"{text}\n  at {found.point}, {list(found.place)}: {values}"


def _exit_code(results: Results) -> int:
    """1 if some disagree; else 2 if an operator could not be judged, or none was compared."""
    lines = results.all_lines
    if any(line.verdict in _DISAGREEMENTS for line in lines):
        return 1
    failed = any(line.of == WHOLE for line in lines)
    return 2 if failed or all(line.verdict is Verdict.UNREACHED for line in lines) else 0
