"""The rules of the house, where a machine can hold them."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

import pytest

import gradparity
import parity_tests
from parity_tests.catalog.attn import SPEC
from parity_tests.suite.marks import fast

ROOT = Path(__file__).parents[2]


def _lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
    return subprocess.run([*command, "--no-cache"], cwd=folder, capture_output=True, text=True, check=False)


def test_the_arrows_hold() -> None:
    result = _lint_imports(ROOT)
    assert result.returncode == 0, result.stdout
    assert "14 kept, 0 broken" in result.stdout


@fast("jax_ref/_attn.py-*", "parity_tests/harness/primitives/sums.py-*")
@pytest.mark.parametrize(
    ("file", "line", "contract"),
    [
        ("jax_ref/_attn.py", "import torch", "The oracle sees JAX only"),
        ("torch_impl/_attn_composite.py", "import jax", "What stands trial sees torch only"),
        ("derivation/__init__.py", "import jax_ref", "The derivation sees neither"),
        ("parity_tests/harness/trial/trial.py", "import parity_tests.catalog.attn", "The harness knows no op"),
        (
            "parity_tests/conversion/graph.py",
            "import parity_tests.harness.findings",
            "The conversion judges nothing",
        ),
        (
            "parity_tests/catalog/operators.py",
            "import parity_tests.suite.mutants",
            "What ships does not import the tests",
        ),
        ("parity_tests/cli/app.py", "import parity_tests.operators.norms", "What ships does not import the tests"),
        ("parity_tests/operators/norms.py", "import parity_tests.suite.mistakes", "The operators know no test"),
        ("parity_tests/catalog/operators.py", "import parity_tests.cli.app", "The catalog knows no command"),
        (
            "parity_tests/harness/primitives/sums.py",
            "import parity_tests.harness.oracle.oracle",
            "The harness is built in layers",
        ),
        (
            "parity_tests/harness/specs/spec.py",
            "import parity_tests.harness.candidates.torch_candidate",
            "The harness is built in layers",
        ),
        (
            "parity_tests/harness/captures/reader.py",
            "import parity_tests.harness.maps",
            "The source reader stands alone",
        ),
        (
            "parity_tests/harness/solutions/guest/serving.py",
            "import parity_tests.harness.findings",
            "A solution's process sees torch only",
        ),
        ("parity_tests/cli/app.py", "import gradparity", "The face is for users"),
        ("parity_tests/cli/app.py", "import benchmarks.run", "Nothing rests on the benchmarks"),
        ("torch_impl/derivatives/entry.py", "import torch_impl.derivatives.entries", "No package has a circle"),
        ("parity_tests/cli/run_spec.py", "import parity_tests.cli.arranged", "No package has a circle"),
    ],
)
def test_a_wrong_arrow_is_noticed(tmp_path: Path, file: str, line: str, contract: str) -> None:
    for name in ("gradparity", "jax_ref", "torch_impl", "derivation", "parity_tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / file).open("a") as f:
        f.write(f"\n{line}\n")
    result = _lint_imports(tmp_path)
    assert result.returncode != 0
    assert f"{contract} BROKEN" in result.stdout


def _cited(*paths: Path) -> set[int]:
    """The equations that the comments of Python and C++ files name."""
    comments = re.findall(r"(?:#|//)(.*)", "\n".join(path.read_text(encoding="utf-8") for path in paths))
    return {int(number) for comment in comments for number in re.findall(r"\((\d+)\)", comment)}


def test_every_cited_equation_is_derived() -> None:
    derived: list[int] = []
    for page, numbers in {"attn.md": range(1, 25), "native.md": range(25, 33), "model.md": range(104, 118)}.items():
        tags = re.findall(r"\\tag\{(\d+)\}", (ROOT / "derivation" / page).read_text(encoding="utf-8"))
        assert [int(tag) for tag in tags] == [*numbers], page
        derived += numbers
    csrc = _cited(*(ROOT / "torch_impl/native/csrc").glob("*.cpp"))
    assert csrc >= {*range(25, 33)}
    formulas = "jax_ref/_attn.py", "jax_ref/_masked.py", "torch_impl/_attn_function.py", "derivation/engine.py"
    formulas = *formulas, "torch_impl/gpu/_attn_triton.py", "derivation/attn_kernels.py"
    for cited in (*(_cited(ROOT / path) for path in formulas), csrc):
        assert cited
        assert cited <= {*derived}
    assert {int(n) for n in re.findall(r"\((\d+)\)", " ".join(SPEC.equations.values()))} <= {*derived}


def test_public_names() -> None:
    candidates = {name for file in CANDIDATES for name in _classes(file) if name.endswith("Candidate")}
    assert candidates >= {"ArrayCandidate", "Candidate", "DLPackCandidate", "JaxCandidate", "WarpCandidate"}
    classes = {"Arithmetic", "AxisSize", "Domain", "Input", "OpSpec", "OracleError", "Output", "ParityError", "Report"}
    ported = {"Audit", "CannotConvert", "Certificate", "Converted", "audit", "certify", "to_jax"}
    names = candidates | classes | ported
    names |= {"Verdict", "assert_parity", "configured", "crosscheck", "integer", "to_tolerance"}
    assert {*parity_tests._MODULES} == names
    modules = {name for name, value in vars(parity_tests).items() if isinstance(value, ModuleType)}
    assert {name for name in dir(parity_tests) if not name.startswith("_")} - modules - {"annotations"} == names
    assert all(getattr(parity_tests, name) is not None for name in _present(names))


CANDIDATES = sorted((ROOT / "parity_tests/harness/candidates").glob("*_candidate.py"))


def _classes(file: Path) -> set[str]:
    return {s.name for s in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(s, ast.ClassDef)}


def _missing(name: str) -> str | None:
    """The error of a public name that needs a package which is not installed."""
    try:
        getattr(parity_tests, name)
    except ModuleNotFoundError as error:
        return str(error)
    return None


def _present(names: Iterable[str]) -> set[str]:
    """Without what needs a package that is not installed."""
    return {name for name in names if _missing(name) is None}


def test_the_error_of_a_missing_framework_says_what_to_install() -> None:
    texts = [text for text in map(_missing, parity_tests._MODULES) if text is not None]
    if not texts:
        pytest.skip("every framework is installed")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for text in texts:
        said = re.search(r"pip install 'gradparity\[(\w+)\]'", text)
        assert said is not None, text
        assert said[1] in extras


def test_gradparity_has_the_public_names() -> None:
    assert set(dir(gradparity)) == set(gradparity.__all__)
    assert set(gradparity.__all__) == set(parity_tests._MODULES)
    assert all(getattr(gradparity, name) is getattr(parity_tests, name) for name in _present(gradparity.__all__))
    with pytest.raises(AttributeError, match="module 'gradparity' has no attribute 'crosschek'"):
        _ = gradparity.crosschek


TESTS = ".venv/bin/pytest -n 2 --dist loadfile"


def test_the_readme_has_two_commands() -> None:
    blocks = re.findall(r"```sh\n(.*?)\n```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert [block.split("&&")[-1].strip() for block in blocks] == [".venv/bin/gradparity run", TESTS]
    assert all("\n" not in block and block.startswith("python3 -m venv") for block in blocks)
