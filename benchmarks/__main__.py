"""The command line: python -m benchmarks, or with one of the commands below, such as judging, faults or kernelbench."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from benchmarks.campaign import RESULTS, bar
from benchmarks.cases import VERSIONS, Case, grid
from benchmarks.figures import Results
from benchmarks.gates import judged
from benchmarks.report import as_markdown, as_rich, plot, sections
from benchmarks.run import AT_PEAK, THREAD_COUNTS, WorkerError, cores, facts, measure, on, steps

MISSED, COULD_NOT_MEASURE = 1, 2
SIZES = (8, 64, 256, 1024, 4096, 8192)
QUICK_SIZES = (8, 256, 1024)

app = typer.Typer(help="Speed and memory of attn.", add_completion=False, pretty_exceptions_enable=False)


@app.callback(invoke_without_command=True)
def attn(
    context: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help="A minute or two: n up to 1024, no torch.compile.")] = False,
    sizes: Annotated[str | None, typer.Option(help="n = m, such as 256,1024.")] = None,
    threads: Annotated[str | None, typer.Option(help="Numbers of threads; by default 1,2, with --quick 1.")] = None,
    only: Annotated[str | None, typer.Option(help=f"Only these versions: {', '.join(VERSIONS)}.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The results, .json; an .md and an .svg beside it. By default results/attn.json")
    ] = None,
) -> None:
    """Measure attn side by side with its peers, and hold the native operator to its bars.

    Exit codes: 0 all bars that were measured are met, 1 one is missed, 2 native could not be measured, or not all.
    """
    if context.invoked_subcommand is not None:
        return
    console = Console()
    chosen = _numbers("--sizes", sizes) or (QUICK_SIZES if quick else SIZES)
    counts = _numbers("--threads", threads) or ((1,) if quick else (1, 2))
    versions = [x.strip() for x in only.split(",")] if only else [x for x in VERSIONS if not (quick and x == "compile")]
    unknown = [name for name in versions if name not in VERSIONS]
    if unknown:
        raise typer.BadParameter(f"unknown version {unknown[0]!r}; there are {', '.join(VERSIONS)}")
    results = Results(facts())
    for count in [count for count in counts if count > len(cores())]:
        results.left_out[f"T = {count}"] = f"there are {len(cores())} cores"
    cases = grid(chosen, tuple(count for count in counts if count <= len(cores())), quick)
    path = out or RESULTS / ("attn_quick.json" if quick else "attn.json")
    _run(console, results, cases, versions, path, budget=1.5 if quick else 4.0)

    outcomes = judged(results)
    drawn = _drawn(console, results, path.with_suffix(".svg"))
    path.with_suffix(".md").write_text(as_markdown(results, outcomes, drawn), encoding="utf-8")
    for title, cells in reversed(sections(results, outcomes).items()):
        console.print(as_rich(title, cells), "")
    for name, why in results.left_out.items():
        console.print(f"{name} is left out: {why}", highlight=False, markup=False)
    if results.error:
        console.print(results.error, style="bold red", highlight=False, markup=False)
    console.print(f"written: {path}, and beside it .md" + (" and .svg" if drawn else ""), highlight=False)
    missed = any(outcome.met is False for outcome in outcomes)
    unmeasured = not results.complete or ("native" in versions and "native" in results.left_out)
    raise typer.Exit(COULD_NOT_MEASURE if unmeasured else MISSED if missed else 0)


def _run(console: Console, results: Results, cases: list[Case], versions: list[str], path: Path, budget: float) -> None:
    """Measure; what is known is written after each step, so that nothing is lost."""
    progress = bar(console)
    task = progress.add_task("", total=steps(cases, AT_PEAK))
    first = True
    with progress:
        try:
            for doing in measure(results, cases, AT_PEAK, versions, budget):
                results.write(path)
                progress.update(task, advance=0 if first else 1, description=escape(doing))
                first = False
            progress.update(task, advance=1, description="done")
            results.complete = True
        except WorkerError as error:
            results.error = str(error)
        except KeyboardInterrupt:
            results.error = "interrupted"
        finally:
            results.write(path)


def _drawn(console: Console, results: Results, path: Path) -> Path | None:
    try:
        plot(results, path)
    except ImportError as error:
        console.print(f"no plot: {error}; pip install matplotlib", highlight=False, markup=False)
        return None
    return path


def _numbers(option: str, text: str | None) -> tuple[int, ...]:
    try:
        numbers = tuple(int(x) for x in text.split(",")) if text else ()
    except ValueError as error:
        raise typer.BadParameter(f"{option} {text}: give numbers, such as 256,1024") from error
    if any(number < 1 for number in numbers):
        raise typer.BadParameter(f"{option} {text}: give numbers from 1 on")
    return numbers


@app.command()
def judging(
    sizes: Annotated[str | None, typer.Option(help="n = m, such as 5,60; by default 5,20,60,256,1024.")] = None,
    out: Annotated[Path, typer.Option(help="The results, .json; an .md beside it.")] = RESULTS / "judging.json",
) -> None:
    """Measure the time of crosscheck beside gradcheck and check_grads, and which planted faults each catches; minutes.

    Exit codes: 0 crosscheck caught every fault and raised no false alarm, 1 it did not, 2 the run was interrupted.
    """
    os.environ.update(dict.fromkeys(THREAD_COUNTS, "1"))  # before the frameworks are imported
    with on(cores()[-1:]):
        from benchmarks import judging as judge

        console, chosen = Console(), [*(_numbers("--sizes", sizes) or judge.SIZES)]
        results: dict[str, Any] = {}
        with bar(console) as progress:
            task = progress.add_task("", total=judge.steps(chosen))
            try:
                for i, (doing, results) in enumerate(judge.measure(chosen)):
                    judge.write(results, out)
                    progress.update(task, completed=i, description=escape(doing))
            except KeyboardInterrupt:
                if not results:
                    raise typer.Exit(COULD_NOT_MEASURE) from None
                judge.write(results, out)
    console.print(as_rich("CPU time, and planted faults caught", judge.cells(results)))
    for line in judge.missed(results):
        console.print(line, highlight=False, markup=False)
    console.print(f"written: {out}, and beside it .md", highlight=False)
    ours = [row["methods"]["crosscheck"] for row in results["rows"]]
    sound = all(not of["false_alarm"] and of["caught"] == results["faults"] for of in ours)
    raise typer.Exit(COULD_NOT_MEASURE if not results["complete"] else 0 if sound else MISSED)


@app.command()
def faults(
    operators: Annotated[
        list[str] | None,
        typer.Option("--operators", help="Such as attn; give it several times for several; by default all."),
    ] = None,
    formats: Annotated[
        list[str] | None, typer.Option("--formats", help="float32, bfloat16, float16, float64; as often as needed.")
    ] = None,
    sizes: Annotated[
        list[str] | None, typer.Option("--sizes", help="small, medium, kernel; as often as needed.")
    ] = None,
    versions: Annotated[
        list[str] | None, typer.Option("--versions", help="Such as torch.compile; as often as needed.")
    ] = None,
    rules: Annotated[list[str] | None, typer.Option("--rules", help="Such as crosscheck; as often as needed.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep what the results have, and judge the rest.")] = False,
    out: Annotated[Path, typer.Option(help="The results, .json; an .md and an .svg beside it.")] = RESULTS
    / "faults.json",
) -> None:
    """Which acceptance rules catch which faults of 28 operators, and which right versions they reject; hours.

    Exit codes: 0 crosscheck meets its bars, or was not run, 1 it misses one, 2 the run was interrupted.
    """
    os.environ.update(dict.fromkeys(THREAD_COUNTS, "1"))  # before the frameworks are imported
    from benchmarks.fault_benchmark import run
    from benchmarks.fault_benchmark import versions as known
    from benchmarks.fault_benchmark.command import measure_all

    parts = [
        _names("--operators", operators, tuple(run.OPERATORS)),
        _names("--formats", formats, known.FORMATS),
        _names("--sizes", sizes, known.SIZES),
        _names("--versions", versions, known.VERSIONS),
    ]
    raise typer.Exit(measure_all(Console(), run.keys(*parts), _names("--rules", rules, run.RULES), out, resume))


@app.command()
def right_versions(
    operators: Annotated[
        list[str] | None,
        typer.Option("--operators", help="Such as attn; give it several times for several; by default all."),
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many.", min=1)] = 20,
    size: Annotated[str, typer.Option(help="small, medium, kernel.")] = "small",
    out: Annotated[Path, typer.Option(help="The results, .json; an .md beside it.")] = RESULTS / "right_versions.json",
) -> None:
    """How often crosscheck accuses right versions of 28 operators, at many seeds; half an hour.

    Exit codes: 0 never, 1 at least once, 2 the run was interrupted.
    """
    os.environ.update(dict.fromkeys(THREAD_COUNTS, "1"))  # before the frameworks are imported
    from benchmarks.fault_benchmark import run
    from benchmarks.fault_benchmark import versions as known
    from benchmarks.fault_benchmark.right_versions import measure_all

    chosen = _names("--operators", operators, tuple(run.OPERATORS))
    (size,) = _names("--size", [size], known.SIZES)
    raise typer.Exit(measure_all(Console(), chosen, seeds, size, out))


@app.command()
def sixteen_bits(
    operators: Annotated[
        list[str] | None,
        typer.Option("--operators", help="Such as 'clamped GLU'; give it several times for several; by default all."),
    ] = None,
    sizes: Annotated[
        list[str] | None, typer.Option("--sizes", help="small, medium, kernel; by default medium.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The results, .json; an .md beside it.")] = RESULTS / "sixteen_bits.json",
) -> None:
    """Which mistakes near a rounding of bfloat16 and float16 crosscheck catches; a quarter of an hour.

    Exit codes: 0 the bars are met, 1 one is missed, 2 the run was interrupted.
    """
    os.environ.update(dict.fromkeys(THREAD_COUNTS, "1"))  # before the frameworks are imported
    from benchmarks.fault_benchmark import sixteen_bits
    from benchmarks.fault_benchmark import versions as known

    chosen = _names("--operators", operators, tuple(sixteen_bits.SUBTLE))
    at = _names("--sizes", sizes or ["medium"], known.SIZES)
    raise typer.Exit(sixteen_bits.measure_all(Console(), chosen, at, out))


def _names(option: str, names: list[str] | None, known: tuple[str, ...]) -> list[str]:
    unknown = [name for name in names or () if name not in known]
    if unknown:
        raise typer.BadParameter(f"{option}: unknown {unknown[0]!r}; there are {'; '.join(known)}")
    return [*dict.fromkeys(names or known)]


@app.command()
def gpu(
    part: Annotated[str | None, typer.Option(help="correctness, kernels, judging; by default all.")] = None,
    minutes: Annotated[float, typer.Option(help="Of this call; the next one goes on where it ends.", min=0)] = 8.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="All of it at tiny sizes, without a GPU.")] = False,
    device: Annotated[
        str | None, typer.Option(help="Of PyTorch; by default cuda. Of a dry run the tests' own, and the CPU.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The results, .json; an .md beside it. By default results/gpu.json.")
    ] = None,
) -> None:
    """Judge and time all that computes attn on a GPU, and what judging costs there; item by item, to be called again.

    Exit codes: 0 all is done and nothing is wrong, 1 something is wrong, or raised, 2 it cannot run, or some is left.
    """
    from benchmarks.gpu import command
    from benchmarks.gpu.items import PARTS

    (of,) = _names("--part", [part], PARTS) if part else (None,)
    with tempfile.TemporaryDirectory() as folder:  # of a dry run, whose results are no results
        path = out or (Path(folder) / "gpu.json" if dry_run else RESULTS / "gpu.json")
        todo = command.chosen(of, dry_run)
        if dry_run and device is None:
            raise typer.Exit(command.dry_run(Console(), todo, path, minutes))
        raise typer.Exit(command.measure_all(Console(), todo, device or "cuda", dry_run, path, minutes))


@app.command()
def digits(
    out: Annotated[Path, typer.Option(help="The page, .md.")] = RESULTS.parents[1] / "docs" / "digits.md",
) -> None:
    """Which digits of ten functions and their derivatives PyTorch and JAX lose without need; seconds."""
    from benchmarks.digits import page, rows
    from parity_tests.harness.report.atomic_file import write_text

    write_text(out, page(list(rows())))
    Console().print(f"written: {out}", highlight=False)


@app.command()
def mlx(
    names: Annotated[list[str] | None, typer.Argument(help="Operators, such as logaddexp; by default all.")] = None,
    jobs: Annotated[int, typer.Option("-j", min=1, help="How many are judged at a time.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Keep what the results have, and judge the others.")] = False,
    out: Annotated[Path, typer.Option(help="The results, .json.")] = RESULTS / "mlx.json",
) -> None:
    """Judge operators of MLX by JAX, and write mlx_sweep/README.md; half an hour. Needs the extra mlx.

    Exit codes: 0 a section of docs/found/ explains each failing row, 1 none does, 2 the run was interrupted.
    """
    os.environ.update(dict.fromkeys(THREAD_COUNTS, "1"))  # before the frameworks are imported
    from benchmarks.mlx_sweep.command import measure_all
    from benchmarks.mlx_sweep.table import OPERATORS

    raise typer.Exit(
        measure_all(Console(), _names("names", names, tuple(OPERATORS)) if names else [], jobs, resume, out)
    )


@app.command()
def model(sizes: Annotated[list[int] | None, typer.Argument(help="Queries; by default 1024 4096.")] = None) -> None:
    """Measure jax_ref.dot_product_attention, plainly, with the matrix, and blockwise."""
    from benchmarks.model_attention import main as measure_model

    measure_model(sizes or [1024, 4096])


@app.command()
def kernelbench(
    folder: Annotated[Path, typer.Argument(help="KernelBench's folder KernelBench, which has level1 and level2.")],
    level: Annotated[int | None, typer.Option(help="1 or 2; by default both.", min=1, max=2)] = None,
    only: Annotated[str | None, typer.Option(help="Only the problems with these numbers, such as 19,23.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Keep what the results have, and judge the others.")] = False,
    out: Annotated[Path, typer.Option(help="The results, .json; an .md beside it.")] = RESULTS / "kernelbench.json",
) -> None:
    """Judge a right and a wrong solution of each of KernelBench's problems; an hour or two.

    Exit codes: 0 the bar is met, 1 it is missed, 2 the run was interrupted.
    """
    from benchmarks.kernelbench import LEVELS, measure_all, problems

    numbers = _numbers("--only", only)
    found = problems(folder, (level,) if level else LEVELS)
    chosen = {name: file for name, file in found.items() if not numbers or int(file.stem.partition("_")[0]) in numbers}
    if not chosen:
        raise typer.BadParameter(f"{folder}: has no problems level1/19_ReLU.py that are asked for")
    raise typer.Exit(measure_all(Console(), chosen, out, resume))


@app.command()
def serving(
    count: Annotated[int, typer.Option(help="Kernels.", min=1)] = 1000,
    out: Annotated[Path, typer.Option(help="The results, .md.")] = RESULTS / "serving.md",
) -> None:
    """Judge a thousand kernels by one `gradparity serve`, every tenth of them a fault; ten minutes.

    Exit codes: 0 all verdicts are right, 1 one is not.
    """
    from benchmarks.serving import measure_serving

    raise typer.Exit(measure_serving(Console(), count, out))


if __name__ == "__main__":
    app()
