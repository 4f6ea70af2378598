"""Reproducers: the two files of a failure, the script by itself, and gradparity replay."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from parity_tests import JaxCandidate, OpSpec, Report, crosscheck
from parity_tests.suite.harness._ops import unary_function

from ._reproducers import MISTAKES, case_with, found, gradparity, script, text

ROOT = Path(__file__).parents[4]

pytestmark = pytest.mark.usefixtures("shrinking")


@pytest.fixture(autouse=True)
def in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay runs the case that a failure names only in the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("check", MISTAKES)
def test_from_the_check_to_the_script_and_the_replay(tmp_path, check):
    path, told = found(tmp_path, check, "--dtype", "float64")
    assert f"  replay  gradparity replay {path}\n" in told
    assert f"  script  python {path.with_suffix('.py')}\n" in told
    assert re.fullmatch(rf"gathered-wrong-{check}-float64-[0-9a-f]{{8}}\.npz", path.name)
    smallest = re.search(r"^  smallest  .*: candidate (\S+), oracle (\S+)", told, re.MULTILINE).groups()

    again = gradparity("replay", str(path))
    assert again.exit_code == 1, again.output
    what = "is silently wrong in second order" if "_of_" in check else "disagrees with the oracle"
    assert f"gathered: wrong {what}   [{check}, " in again.stdout
    assert f"candidate {smallest[0]}, oracle {smallest[1]}\n" in again.stdout

    code, printed = script(path.with_suffix(".py"))
    assert code == 1, printed
    assert ": they differ\n" in printed

    path_of_case = tmp_path / "case.py"
    path_of_case.write_text(text())
    again = gradparity("replay", str(path))
    assert again.exit_code == 0, again.output
    assert again.stdout == f"gathered: wrong agrees with the oracle now: {check}, float64, cpu\n"
    code, printed = script(path.with_suffix(".py"))
    assert code == 0, printed
    assert "differ" not in printed


@pytest.mark.slow
def test_the_script_needs_torch_jax_and_numpy_only(tmp_path):
    """In a process of its own, which can import nothing of this project, nor what that depends on."""
    path, _ = found(tmp_path, "vjp", "--dtype", "float64")
    refused = ["parity_tests", "jax_ref", "torch_impl", "derivation", "typer", "rich", "yaml"]
    alone = f"import sys, runpy; sys.modules |= dict.fromkeys({refused}); sys.argv = sys.argv[1:]; "
    ran = subprocess.run(
        [sys.executable, "-c", alone + "runpy.run_path(sys.argv[0])", str(path.with_suffix(".py"))],
        cwd=ROOT.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 1, ran.stderr
    assert "w_bar: they differ" in ran.stdout


@pytest.mark.slow
def test_what_is_in_the_file(tmp_path):
    path, _ = found(tmp_path, "vjp", "--seed", "5", "--dtype", "bfloat16")
    with np.load(path, allow_pickle=False) as data:
        facts = json.loads(str(data["facts"]))
        arrays = {name: data[name] for name in data.files if name != "facts"}
    expected = {"op": "gathered", "candidate": "wrong", "check": "vjp", "dtype": "bfloat16", "device": "cpu", "seed": 5}
    assert expected.items() <= facts.items()
    assert facts["case"] == str(tmp_path / "case.py")
    assert facts["versions"]["torch"] == torch.__version__
    n, d, m = (facts["sizes"][axis] for axis in "ndm")
    shapes = {"x": (n, d), "w": (d,), "output0_bar": (n,), "output1_bar": (m,), "constant.2": (m,)}
    for name, shape in shapes.items():
        assert arrays[name].shape == shape
    for label in ("x_bar", "w_bar"):
        for side in ("candidate", "oracle", "bound"):
            assert arrays[f"{side}.{label}"].dtype == np.float64
    assert arrays["constant.2"].dtype == np.int64
    for name in ("x", "w", "output0_bar"):
        exact = torch.tensor(arrays[name]).bfloat16().double().numpy()
        np.testing.assert_array_equal(arrays[name], exact)
        np.testing.assert_array_equal(arrays[name], arrays[f"drawn.{name} 0"])


@pytest.mark.slow
def test_the_files_are_the_same_every_time(tmp_path):
    path, _ = found(tmp_path, "vjp")
    before = path.read_bytes(), path.with_suffix(".py").read_text()
    found(tmp_path, "vjp")
    assert (path.read_bytes(), path.with_suffix(".py").read_text()) == before


@pytest.mark.slow
def test_nothing_is_written_without_a_failure(tmp_path):
    ran = gradparity(
        "check",
        str(case_with(tmp_path, "jvp")),
        "--only",
        "vjp",
        "--dtype",
        "float64",
        "--failures",
        str(tmp_path / "failures"),
    )
    assert ran.exit_code == 0, ran.output
    assert not (tmp_path / "failures").exists()


@pytest.mark.slow
def test_a_folder_that_cannot_be_written(tmp_path):
    folder = tmp_path / ("x" * 300)  # a name that no file system takes
    ran = gradparity(
        "check",
        str(case_with(tmp_path, "vjp")),
        "--only",
        "vjp",
        "--dtype",
        "float64",
        "--failures",
        str(folder),
    )
    assert ran.exit_code == 1, ran.output
    assert f"skipped: reproducers in {folder}: " in ran.stdout
    assert "gathered: wrong disagrees" in ran.stdout


@pytest.mark.slow
def test_another_case(tmp_path):
    path, _ = found(tmp_path, "vjp")
    moved = tmp_path / "moved.py"
    (tmp_path / "case.py").rename(moved)
    lost = gradparity("replay", str(path))
    assert lost.exit_code == 2
    assert (
        lost.stderr
        == f"gradparity: {path}: its case {tmp_path}/case.py no longer exists; say where it is: --case FILE\n"
    )
    assert gradparity("replay", str(path), "--case", str(moved)).exit_code == 1
    assert script(path.with_suffix(".py"), str(moved))[0] == 1


@pytest.mark.slow
def test_a_check_that_one_call_does_not_show(tmp_path):
    stateful = """
calls = 0

def wrong(x, w, index, scale):
    global calls
    calls += 1
    y, squares = formula(x, w, index, scale)
    return y * (1 + (calls % 2) * 2.0**-52), squares  # every other call is off by a rounding

candidates = {"wrong": wrong}
"""
    (tmp_path / "case.py").write_text(text() + stateful)
    failures = tmp_path / "failures"
    ran = gradparity(
        "check", str(tmp_path / "case.py"), "--only", "determinism", "--dtype", "float64", "--failures", str(failures)
    )
    assert ran.exit_code == 1, ran.output
    (path,) = failures.glob("*.npz")
    assert not path.with_suffix(".py").exists()
    assert "  script  " not in ran.output
    assert f"  replay  gradparity replay {path}\n" in ran.output
    assert gradparity("replay", str(path)).exit_code == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("domain", "wrong"),
    [
        ("symmetric", lambda x, g: 3 * x @ x @ g),
        ("lower", lambda x, g: 3 * x.T @ x.T @ g),
    ],
)
def test_a_domain_that_cannot_tell_everything(tmp_path, domain, wrong):
    spec = OpSpec("trace", primal=_trace, signature="(n,n)->()", domains={"x": domain})
    report = crosscheck(
        unary_function(lambda x: (x @ x).trace(), lambda x, g: wrong(x, g * torch.eye(len(x), dtype=x.dtype))),
        spec,
        checks=["vjp"],
        dtypes=["float64"],
    )
    report.save_failures(tmp_path)
    (path,) = tmp_path.glob("*.py")
    text = path.read_text().replace(
        'sys.exit("put the PyTorch callable here")', "return (inputs[0] @ inputs[0]).trace() * 2"
    )
    path.write_text(text)
    assert script(path)[0] == 1
    path.write_text(text.replace(".trace() * 2", ".trace()"))
    code, printed = script(path)
    assert code == 0, printed


def _trace(x):
    import jax.numpy as jnp

    return jnp.trace(x @ x)


# From Python.


@pytest.mark.slow
def test_from_python(tmp_path):
    spec = OpSpec("trace", primal=_trace, signature="(n,n)->()")
    report = crosscheck(half_trace, spec, checks=["vjp"], dtypes=["float64", "float32"])
    assert [failure.script is None for failure in report.failures] == [True, True]
    saved = report.failures[0].save(tmp_path / "one")
    assert Path(saved.script).is_file()
    report.save_failures(tmp_path / "all")
    (path,) = (tmp_path / "all").glob("*.npz")
    assert report.failures[0].replay == f"gradparity replay {path}"
    assert str(path.with_suffix(".py")) in str(report)
    assert json.loads(json.dumps(report.as_dict()))["failures"][0]["script"] == str(path.with_suffix(".py"))
    with pytest.raises(ValueError, match=r"^trace, half_trace, vjp: no reproducer can be made of this failure$"):
        Report.from_dict(report.as_dict()).failures[0].save(tmp_path)
    code, printed = script(path.with_suffix(".py"))  # both sides can be imported
    assert code == 1, printed
    assert "x_bar: they differ" in printed
    lost = gradparity("replay", str(path))
    assert lost.exit_code == 2
    assert (
        "was found without a case file, as from Python; write one that defines spec and candidate: --case FILE"
        in lost.stderr
    )


@pytest.mark.slow
def test_there_is_no_script_of_what_is_not_torch(tmp_path):
    spec = OpSpec("trace", primal=_trace, signature="(n,n)->()")
    report = crosscheck(JaxCandidate(lambda x: _trace(x) / 2), spec, checks=["vjp"], dtypes=["float64"])
    report.save_failures(tmp_path)
    assert [path.suffix for path in tmp_path.iterdir()] == [".npz"]
    assert "  replay  gradparity replay " in str(report)
    assert "  script  " not in str(report)


def half_trace(x):
    return (x @ x.detach()).trace()


@pytest.mark.slow
def test_a_module(tmp_path):
    (tmp_path / "case.py").write_text(
        "import torch\nfrom parity_tests import OpSpec\n"
        "class Linear(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.weight = torch.nn.Parameter(torch.ones(1, 1))\n"
        "    def forward(self, x):\n"
        "        return x @ self.weight.T + self.weight.detach().sum()\n"
        "spec = OpSpec('linear', primal=lambda x, w: x @ w.T + w.sum(), signature='(n,d),(m,d)->(n,m)')\n"
        "candidate = Linear()\n"
    )
    failures = tmp_path / "failures"
    ran = gradparity("check", str(tmp_path / "case.py"), "--only", "vjp", "--failures", str(failures))
    assert ran.exit_code == 1, ran.output
    (path,) = failures.glob("*.npz")
    code, printed = script(path.with_suffix(".py"))
    assert code == 1, printed
    assert "w_bar: they differ" in printed
    assert gradparity("replay", str(path)).exit_code == 1


@pytest.mark.slow
def test_the_suite_s_own_implementations_can_be_replayed(tmp_path, monkeypatch):
    from parity_tests.catalog import attn
    from parity_tests.harness.candidates.torch_candidate import Candidate

    def wrong(q, k, v):
        a = torch.tanh(q @ k.T.detach())
        return a @ v, a

    monkeypatch.setattr(attn, "candidate", lambda name: Candidate(wrong, name, {}))
    options = ("--candidate", "attn_composite", "--only", "vjp", "--device", "cpu", "--failures", str(tmp_path))
    assert gradparity("run", *options).exit_code == 1
    (path,) = tmp_path.glob("*.npz")
    assert gradparity("replay", str(path)).exit_code == 1
    monkeypatch.undo()
    assert gradparity("replay", str(path)).exit_code == 0


# What cannot be replayed.


def _spoilt(path: Path, **changes) -> Path:
    with np.load(path) as data:
        arrays = dict(data)
    facts = json.loads(str(arrays.pop("facts"))) | {k: v for k, v in changes.items() if k in ("format", "candidate")}
    arrays = {k: v for k, v in arrays.items() if k not in changes.get("without", ())}
    np.savez(path.with_name("spoilt.npz"), facts=np.array(json.dumps(facts)), **arrays)
    return path.with_name("spoilt.npz")


@pytest.mark.slow
def test_files_that_cannot_be_replayed(tmp_path):
    path, _ = found(tmp_path, "vjp", "--dtype", "float64")
    np.savez(tmp_path / "other.npz", x=np.ones(3))
    (tmp_path / "text.npz").write_text("text")
    np.savez(tmp_path / "pickle.npz", facts=np.array([{}], dtype=object))
    messages = {
        tmp_path / "nothing.npz": "no such file",
        tmp_path / "other.npz": "not a failure that gradparity has written",
        tmp_path / "text.npz": "not a failure that gradparity has written",
        tmp_path / "pickle.npz": "not a failure that gradparity has written",
    }
    for name, message in messages.items():
        ran = gradparity("replay", str(name))
        assert (ran.exit_code, ran.stdout) == (2, "")
        assert ran.stderr.startswith(f"gradparity: {name}: {message}")
        assert len(ran.stderr.splitlines()) == 1
    for changes, message in (
        ({"format": 99}, "is of format 99, this version of gradparity reads 1"),
        ({"candidate": "rihgt"}, "unknown candidate 'rihgt' (did you mean 'right'?)"),
        ({"without": ("drawn.x 0",)}, "does not fit the spec gathered(x, w, index): it has w"),
        ({"without": ("constant.2",)}, "does not fit the spec gathered(x, w, index)"),
    ):
        ran = gradparity("replay", str(_spoilt(path, **changes)))
        assert (ran.exit_code, ran.stdout) == (2, ""), ran.output
        assert message in ran.stderr


@pytest.mark.slow
def test_another_version_is_told(tmp_path):
    path, _ = found(tmp_path, "vjp", "--dtype", "float64")
    with np.load(path) as data:
        arrays = dict(data)
    facts = json.loads(str(arrays.pop("facts")))
    facts["versions"]["torch"] = "1.0"
    np.savez(path, facts=np.array(json.dumps(facts)), **arrays)
    assert (
        f"the failure was found with torch 1.0; this is {torch.__version__}" in gradparity("replay", str(path)).stdout
    )


@pytest.mark.slow
def test_the_script_is_written_where_python_cannot_read_its_own_files_any_more():
    """As after a candidate's `os.setuid`: what is not imported by then cannot be."""
    code = (
        "import sys\n"
        "from parity_tests.harness.judging.reproducer import _templates\n"
        "sys.meta_path.clear()\n"
        "print(_templates().get_template('reproducer.py.jinja').name)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.strip()) == (0, "reproducer.py.jinja"), ran.stderr
