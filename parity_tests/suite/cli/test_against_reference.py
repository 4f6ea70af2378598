"""A kernel against the PyTorch code that it replaces, by one command."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
import torch
from typer.testing import CliRunner

from parity_tests.cli.app import app
from parity_tests.cli.case_file import CaseError, load_module
from parity_tests.cli.sources.against_reference import AgainstReference, Named, against_reference
from parity_tests.cli.sources.apart import Apart
from parity_tests.harness.judging.reproducer import importable

KERNEL = """
import torch

def norm(x, w, eps=1e-6):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * w

class Right(torch.autograd.Function):
    projected = 1.0

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return norm(x, w)

    @classmethod
    def gradients(cls, ctx, y_bar):
        x, w = ctx.saved_tensors
        r = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        projection = ((y_bar * w) * x * r).mean(-1, keepdim=True) * x * r
        return r * (y_bar * w - cls.projected * projection), (y_bar * x * r).sum(0)

    @staticmethod
    def backward(ctx, y_bar):
        return Right.gradients(ctx, y_bar)

class Wrong(Right):
    projected = 0.0

    @staticmethod
    def backward(ctx, y_bar):
        return Wrong.gradients(ctx, y_bar)

right, wrong = Right.apply, Wrong.apply

def shifted(x, w, eps=1e-6, groups=1):
    return norm(x, w, eps=eps) * groups

class Norm(torch.nn.Module):
    def forward(self, x, w):
        return Right.apply(x, w)

class Scaled(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()

def branching(x, w):
    if x.sum() > 0:
        return x
    return w * x
"""
OPTIONS = ("--quick", "--only", "forward,vjp", "--dtype", "float64", "--no-isolate")


def _run(*arguments: str) -> tuple[int, str]:
    ran = CliRunner().invoke(app, ["check", *arguments], env={"COLUMNS": "300"})
    return ran.exit_code, ran.output


@pytest.mark.slow
@pytest.mark.usefixtures("wide")
def test_a_right_kernel_passes_and_a_wrong_one_is_convicted(case: Callable[..., str], tmp_path: Path) -> None:
    file = case(KERNEL, "kernel.py")
    reference = ("--reference", f"{file}:norm", "--inputs", "x: (n,d), w: (d)", "--sizes", "d >= 1")
    files = ("--json", str(tmp_path / "report.json"), "--failures", str(tmp_path / "failures"))
    code, said = _run(f"{file}:right", *reference, *files, *OPTIONS)
    assert (code, "All agree" in said) == (0, True), said
    rows = json.loads((tmp_path / "report.json").read_text())["rows"]
    assert {(row["op"], row["check"]) for row in rows} >= {("norm", "forward"), ("norm", "vjp")}
    code, said = _run(f"{file}:wrong", *reference, *files, *OPTIONS)
    assert code == 1, said
    assert "x_bar" in said
    assert "--sizes 'd >= 1' --only vjp" in said  # the command that judges it again


@pytest.mark.slow
@pytest.mark.usefixtures("wide", "shrinking")
def test_a_failure_is_replayed_without_a_case_file(
    case: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = case(KERNEL, "kernel.py")
    reference = ("--reference", f"{file}:norm", "--inputs", "x: (n,d), w: (d)", "--sizes", "d >= 1")
    _, said = _run(f"{file}:wrong", *reference, "--failures", str(tmp_path / "failures"), *OPTIONS)
    (failure,) = (tmp_path / "failures").glob("*.npz")
    assert f"gradparity replay {failure}" in said
    assert "--case" not in said
    monkeypatch.chdir(Path(file).parent)
    ran = CliRunner().invoke(app, ["replay", str(failure)], env={"COLUMNS": "300"})
    assert (ran.exit_code, "x_bar" in ran.output) == (1, True), ran.output
    assert f"running check {file}:wrong --reference {file}:norm" in ran.stderr
    Path(file).write_text(KERNEL.replace("projected = 0.0", "projected = 1.0"))
    ran = CliRunner().invoke(app, ["replay", str(failure)], env={"COLUMNS": "300"})
    assert (ran.exit_code, "agrees with the oracle now" in ran.output) == (0, True), ran.output
    monkeypatch.chdir(tmp_path / "failures")
    ran = CliRunner().invoke(app, ["replay", str(failure)], env={"COLUMNS": "300"})
    assert (ran.exit_code, "is outside of the current folder" in ran.output) == (2, True), ran.output


def test_no_script_imports_a_file_that_was_run_by_its_path(case: Callable[..., str]) -> None:
    kernel = load_module(Path(case(KERNEL, "kernel.py")))
    assert importable(kernel.norm) is None
    assert importable(kernel.right) is None
    assert importable(torch.nn.functional.relu) == ("torch.nn.functional", "relu")


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize(
    ("kernel", "reference", "inputs", "message"),
    [
        (":right", ":branching", "x: (n,d), w: (d)", "line 47, in branching: torch.export cannot read the function"),
        (":right", ":nothing", "x: (n,d), w: (d)", "has no nothing"),
        (
            ":nothing",
            ":norm",
            "x: (n,d), w: (d)",
            "(did you mean 'branching'?); it defines norm, Right, Wrong, shifted, Norm, ",
        ),
        (":Rihgt", ":norm", "x: (n,d), w: (d)", "has no Rihgt (did you mean 'Right'?); it defines norm, Right, "),
        (":Right.aply", ":norm", "x: (n,d), w: (d)", "has no Right.aply (did you mean 'apply'?); it defines norm, "),
        (":right", ":norm", "x (n,d)", "cannot be read from 'x (n,d)' on"),
        (":right", ":norm", None, "--reference needs the inputs"),
        ("", ":norm", "x: (n,d), w: (d)", "write the file and the name in it"),
        (":right", ":norm", "x: (n,d), w: (d) --params eps=1e-6)", "is not written as in a call"),
        (":right", ":norm", "x: (n,d), w: (d) --params eps=a.b", "eps=a.b is no literal; write a number"),
        (":right", ":norm", "x: (n,d), w: (d) --params eps=1, eps=2", "eps is given twice"),
        (":right", ":norm", "x: (n,d), w: (d) --params **k", "has a parameter without a name"),
        (":right", ":norm", "x: (n,d), w: (d) --params eps=c", "params names the axis 'c'; the axes are"),
        (":Scaled", ":norm", "x: (n,d), w: (d)", "is a class, and making one without arguments raises TypeError"),
        (
            ":right",
            ":norm",
            "x: (n, 4*d), w: (d)",
            'give the axis 4*d a name, such as c, and a rule of sizes, "c == 4*d"',
        ),
        (":right", "torch:silu", "x: (n,d), w: (d)", "torch: has no silu (did you mean 'selu'?)"),
        (":right", "torch.no.such:silu", "x: (n,d), w: (d)", "torch.no.such:silu: No module named 'torch.no'"),
    ],
    ids=[
        *("control flow", "no reference", "no kernel", "a slip", "a slip within", "inputs", "no inputs", "no name"),
        *("a parenthesis", "a name", "twice", "no keyword", "no axis", "class"),
        *("computed axis", "not in torch", "no module of torch"),
    ],
)
def test_what_cannot_be_used(
    case: Callable[..., str], kernel: str, reference: str, inputs: str | None, message: str
) -> None:
    file = case(KERNEL, "kernel.py")
    axes, *params = (inputs or "").split(" --params ")
    given = () if inputs is None else ("--inputs", axes, *(["--params", *params] if params else []))
    given = ("--reference", reference if reference.startswith("torch") else f"{file}{reference}", *given)
    code, said = _run(f"{file}{kernel}", *given, *OPTIONS)
    assert code == 2, said
    assert message in " ".join(said.split()), said
    assert "def forward" not in said  # of torch.export's own graphs


@pytest.mark.usefixtures("wide")
def test_inputs_without_a_reference(case: Callable[..., str]) -> None:
    code, said = _run(case(KERNEL, "kernel.py"), "--inputs", "x: (n,d), w: (d)")
    assert (code, "--inputs, --sizes, --params, --configs and --stub are about a reference" in said) == (2, True), said


@pytest.mark.slow
@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("untrusted", [(), ("--untrusted",)])
@pytest.mark.parametrize(("name", "code"), [("Right", 0), ("Wrong", 1), ("Norm", 0)])
def test_a_class_stands_for_its_apply_or_for_a_module(
    case: Callable[..., str], tmp_path: Path, name: str, code: int, untrusted: tuple[str, ...]
) -> None:
    kernel, reference = case(KERNEL, "kernel.py"), case(KERNEL, "reference.py")
    options = tuple(option for option in OPTIONS if not untrusted or option != "--no-isolate")
    given = ("--reference", f"{reference}:norm", "--inputs", "x: (n,d), w: (d)", "--sizes", "d >= 1", *untrusted)
    found, said = _run(f"{kernel}:{name}", *given, *options, "--failures", str(tmp_path / "failures"))
    assert found == code, said


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which `src` has a package of kernels, which import one another."""
    folder = tmp_path / "src" / "of_kernels" / "ops"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("from .ops.norm import Right\n")
    (folder.parent / "reference.py").write_text(KERNEL)
    (folder / "__init__.py").write_text("")
    (folder / "beside.py").write_text("")
    (folder / "norm.py").write_text("import beside\nfrom ..reference import Right, Wrong, norm\n")
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] == "of_kernels"]:
        del sys.modules[name]


def test_a_file_of_a_package_has_its_dotted_name(package: Path) -> None:
    before = [*sys.path]
    module = load_module(Path("src/of_kernels/ops/norm.py"), in_package=True)
    assert (module.__name__, sys.path) == ("of_kernels.ops.norm", before)
    assert module.Right is sys.modules["of_kernels.reference"].Right


def test_another_package_of_this_name_is_left_alone(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "of_kernels", ModuleType("of_kernels"))
    with pytest.raises(CaseError, match="relative import with no known parent package"):
        load_module(Path("src/of_kernels/ops/norm.py"), in_package=True)
    assert load_module(Path("src/of_kernels/reference.py"), in_package=True).__name__ == "gradparity_case_reference"


@pytest.mark.slow
def test_beside_somebody_elses_kernel_no_package_is_run(package: Path) -> None:
    """The `__init__.py` may be somebody else's, too, and would run in the process that judges."""
    (package / "src" / "of_kernels" / "__init__.py").write_text("raise SystemExit('run')\n")
    kernel, reference = (Named.parse(f"of_kernels.{name}:norm") for name in ("ops.norm", "reference"))
    against = AgainstReference(kernel, reference, "x: (n,d), w: (d)", None, None, Path.cwd(), True, Apart(30.0))
    with pytest.raises(CaseError, match="run"):
        replace(against, untrusted=False, apart=None).load()
    spec, (candidate,) = against.load()
    assert (spec.name, candidate.name) == ("norm", "norm")
    assert "of_kernels" not in sys.modules


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    "text", ["of_kernels.ops.norm:Right.apply", "src.of_kernels.ops.norm:Right", "src/of_kernels/ops/norm.py:Right"]
)
def test_a_name_in_a_module(text: str) -> None:
    named = Named.parse(text)
    assert (str(named.path), named.name) == ("src/of_kernels/ops/norm.py", text.partition(":")[2])


@pytest.mark.usefixtures("package")
def test_a_module_that_is_not_there() -> None:
    files = "of_kernels/ops/normal.py or src/of_kernels/ops/normal.py"
    message = f"of_kernels.ops.normal: no such file, nor a module {files} (did you mean 'norm.py'?)"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Named.parse("of_kernels.ops.normal:f")


@pytest.mark.slow
@pytest.mark.usefixtures("wide", "package")
@pytest.mark.parametrize("name", ["of_kernels.ops.norm", "src/of_kernels/ops/norm.py"])
def test_a_kernel_in_a_package(name: str) -> None:
    given = ("--reference", f"{name}:norm", "--inputs", "x: (n,d), w: (d)", "--sizes", "d >= 1", *OPTIONS)
    code, said = _run(f"{name}:Right", *given)
    assert code == 0, said
    code, said = _run(f"{name}:Wrong", *given)
    assert (code, "x_bar" in said) == (1, True), said


@pytest.mark.slow
@pytest.mark.usefixtures("wide", "shrinking")
@pytest.mark.parametrize("untrusted", [(), ("--untrusted",)])
def test_both_are_given_the_parameters(
    case: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, untrusted: tuple[str, ...]
) -> None:
    kernel, reference = case(KERNEL, "kernel.py"), case(KERNEL, "reference.py")
    options = tuple(option for option in OPTIONS if not untrusted or option != "--no-isolate")
    given = ("--reference", f"{reference}:shifted", "--inputs", "x: (n,d), w: (d)", "--sizes", "d >= 1", *untrusted)
    given = (*given, "--params", "eps=0.5, groups=d")
    code, said = _run(f"{kernel}:shifted", *given, *options, "--failures", str(tmp_path / "failures"))
    assert code == 0, said
    Path(kernel).write_text(KERNEL.replace("* groups", "* 1"))
    code, said = _run(f"{kernel}:shifted", *given, *options, "--failures", str(tmp_path / "failures"))
    assert (code, "output = 1/3 * oracle (axis d is 3)" in said) == (1, True), said
    monkeypatch.chdir(Path(kernel).parent)
    failure = next((tmp_path / "failures").glob("*.npz"))
    ran = CliRunner().invoke(app, ["replay", str(failure)], env={"COLUMNS": "300"})
    assert (ran.exit_code, "--params 'eps=0.5, groups=d'" in ran.stderr) == (1, True), ran.output


SILU = """
import torch

class Silu(torch.autograd.Function):
    factor = 1

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @classmethod
    def backward(cls, ctx, y_bar):
        x, = ctx.saved_tensors
        s = torch.sigmoid(x)
        return y_bar * s * (1 + cls.factor * x * (1 - s))

class Linear(Silu):
    factor = 0
"""


@pytest.mark.slow
@pytest.mark.usefixtures("wide", "shrinking")
@pytest.mark.parametrize(
    ("reference", "untrusted"), [("torch.nn.functional:silu", ()), ("torch.nn:SiLU", ("--untrusted",))]
)
def test_a_reference_of_pytorch_itself(
    case: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reference: str,
    untrusted: tuple[str, ...],
) -> None:
    """Its file is not run, and the replay and the script of a failure name it by its module."""
    file = case(SILU, "kernel.py")
    options = tuple(option for option in OPTIONS if not untrusted or option != "--no-isolate")
    given = ("--reference", reference, "--inputs", "x: (n)", *untrusted, *options)
    code, said = _run(f"{file}:Silu", *given)
    assert code == 0, said
    code, said = _run(f"{file}:Linear", *given, "--failures", str(tmp_path / "failures"))
    assert (code, "x_bar" in said) == (1, True), said
    monkeypatch.chdir(Path(file).parent)
    (failure,) = (tmp_path / "failures").glob("*.npz")
    ran = CliRunner().invoke(app, ["replay", str(failure)], env={"COLUMNS": "300"})
    assert (ran.exit_code, f"--reference {reference}" in ran.stderr) == (1, True), ran.output
    for script in () if untrusted else (tmp_path / "failures").glob("*.py"):  # which somebody else's would run
        shown = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
        assert (shown.returncode, "x_bar" in shown.stdout) == (1, True), shown.stdout + shown.stderr


def test_another_module_is_no_reference_of_pytorch_itself() -> None:
    """A failure may be anybody's, and says what its replay imports."""
    with pytest.raises(ValueError, match="torchvision: no such file"):
        against_reference(__file__ + ":_run", "torchvision:ops", "x: (n)", None, None)


LOOPS = Path(__file__).parents[1] / "harness" / "specs" / "loop_references.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("candidate", "only", "code"),
    [("SoftDTW", [], 0), ("WithoutGamma", ["--only", "vjp"], 1), ("WithoutDiagonal", ["--only", "vjp"], 1)],
    ids=["right", "gamma", "diagonal"],
)
def test_a_loop_over_cells_is_judged_at_small_sizes_and_it_is_said(candidate, only, code):
    """The right one passes every check; `test_loops` holds which check a wrong one fails."""
    where = [f"{LOOPS}:{candidate}", "--reference", f"{LOOPS}:soft_dtw", "--inputs", "d: (n,m)"]
    found, output = _run(*where, "--quick", *only)
    assert found == code, output
    assert "the reference unrolls its loops, into 98 operations at n = 4, m = 3" in output
    assert "the largest sizes judged are n = 9, m = 9. " in output
