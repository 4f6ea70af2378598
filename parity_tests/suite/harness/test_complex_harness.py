"""Complex numbers: right operators pass, a conjugate too many or too few is found, and the bounds hold."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import JaxCandidate, OpSpec, crosscheck
from parity_tests.catalog.attn import IN_TORCH
from parity_tests.catalog.attn import SPEC as ATTN
from parity_tests.cli.case_file import load_case
from parity_tests.cli.commands.replay import replay
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.checks import CHECKS
from parity_tests.harness.crosscheck import select_checks, select_precisions
from parity_tests.harness.findings import Verdict
from parity_tests.harness.judging.certified import Oracles
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.mutation.kill_matrix import KillMatrix
from parity_tests.harness.numbers.formats import COMPLEX, FLOAT64, PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.report.environment import environment
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import ORACLE
from parity_tests.harness.specs.samples import samples
from parity_tests.suite.harness._ops import judged, rows
from parity_tests.suite.marks import fast, marks
from parity_tests.suite.rotation import rotating

pytestmark = pytest.mark.usefixtures("certified_once")

MAPS = ("forward", "vjp", "jvp", "adjoint", "vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp", "linearity")
OF_REAL_NUMBERS = {"points", "points_second_order", "exact", "digits", "mixed_dtypes", "autocast"}


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def spec(primal, count: int = 1, **fields) -> OpSpec:
    """Of vectors: holomorphic, or not."""
    return OpSpec("op", primal=primal, inputs=tuple(normal(3, seed=i) for i in range(count)), **fields)


# Right operators.

RIGHT = {
    "product": (2, lambda x, y: x * y, lambda x, y: x * y),
    "product with a conjugate": (2, lambda x, y: x.conj() * y, lambda x, y: jnp.conj(x) * y),
    "quotient": (2, lambda x, y: x / y, lambda x, y: x / y),
    "exp": (1, torch.exp, jnp.exp),
    "tanh": (1, torch.tanh, jnp.tanh),
    "abs squared": (1, lambda x: (x * x.conj()).real, lambda x: jnp.real(x) ** 2 + jnp.imag(x) ** 2),
    "a real and a complex output": (1, lambda x: (x.abs(), x.abs() * x), lambda x: (jnp.abs(x), jnp.abs(x) * x)),
    "parts": (1, lambda x: torch.complex(x.imag, 2 * x.real), lambda x: jax.lax.complex(jnp.imag(x), 2 * jnp.real(x))),
    "matmul": (2, lambda x, y: torch.outer(x, y) @ y, lambda x, y: jnp.outer(x, y) @ y),
    "indexing": (1, lambda x: x[[2, 0, 0]] * x, lambda x: jnp.take(x, np.array([2, 0, 0])) * x),
    "power": (1, lambda x: x**5, lambda x: x**5),
}


FAST = ("exp", "abs squared", "a real and a complex output", "matmul")


@fast("exp")
@pytest.mark.parametrize("name", marks(FAST, RIGHT))
def test_right_operators_pass(name: str):
    count, call, primal = RIGHT[name]
    report = crosscheck(call, spec(primal, count), checks=[*MAPS, "layouts", "purity", "determinism"])
    assert report.passed, report
    assert {row.verdict for row in report.rows} == {Verdict.PASS}
    assert {row.dtype for row in rows(report)} == set(COMPLEX)


@pytest.mark.slow
def test_every_default_check_passes_or_says_why_not():
    report = crosscheck(lambda x, y: x.conj() * y, spec(lambda x, y: jnp.conj(x) * y, 2), dtypes=["complex128"])
    assert report.passed, report
    skipped = {row.check: row.reason for row in rows(report) if row.verdict is Verdict.SKIPPED}
    assert skipped.keys() == {*OF_REAL_NUMBERS, "captured", "opcheck"}
    assert all(skipped.values())
    assert {check.name for check in CHECKS.values() if check.real_only and not check.only_short} - {
        "proof"
    } == OF_REAL_NUMBERS


@pytest.mark.slow
@rotating(len(IN_TORCH))
@pytest.mark.parametrize("candidate", IN_TORCH, indirect=True)
def test_attn(candidate: Candidate):
    """By the explicit formulas of jax_ref, which are transposes, to second order."""
    inputs = tuple(0.3 * normal(*shape, seed=i) for i, shape in enumerate(((4, 3), (5, 3), (5, 2))))
    op = dataclasses.replace(ATTN, signature=None, inputs=inputs)
    limits = {name: reason for name, reason in (candidate.limits or {}).items() if name in MAPS}
    report = crosscheck(candidate.call, op, checks=[*MAPS, "vjp_partial", "input_subsets", "layouts"], limits=limits)
    assert report.passed, report
    assert {row.dtype for row in rows(report)} == set(COMPLEX)


@pytest.mark.slow
@rotating(5)
@pytest.mark.parametrize("name", sorted(RIGHT.keys() - {"indexing"}))  # which is of three entries
def test_no_alarm_from_a_signature(name: str):
    _raises_no_alarm(name, range(1))


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted(RIGHT.keys() - {"indexing"}))
def test_no_alarm_from_a_signature_at_any_seed(name: str):
    _raises_no_alarm(name, range(1, 10))


def _raises_no_alarm(name: str, seeds: Sequence[int]) -> None:
    count, call, primal = RIGHT[name]
    shapes = ",".join(["(n)"] * count)
    outputs = "(n),(n)" if "output" in name else "(n)"
    op = OpSpec("op", primal=primal, signature=f"{shapes}->{outputs}", dtypes=tuple(COMPLEX))
    checks, formats = select_checks([*MAPS, "layouts", "vmap"]), select_precisions(None, op)
    first = Oracles(op, "cpu", 0)  # which traces and certifies the oracle for all seeds
    for seed in seeds:
        oracles = first.at_seed(seed) if seed else first
        plan = Plan(op, [Candidate(call, name)], checks, formats, "cpu", seed, lambda row: "", oracles=oracles)
        report = Report({})
        for _ in report.collect(judge(plan)):
            pass
        assert rows(report), f"seed {seed}"
        assert report.passed, f"seed {seed}\n{report}"


# Wrong ones.


class _Exp(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return torch.exp(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)


class NoConjugate(_Exp):
    @staticmethod
    def backward(ctx, w):
        return w * ctx.saved_tensors[0]


class Conjugated(_Exp):
    @staticmethod
    def backward(ctx, w):
        return (w * ctx.saved_tensors[0].conj()).conj()


class Right(_Exp):
    @staticmethod
    def backward(ctx, w):
        return w * ctx.saved_tensors[0].conj()

    @staticmethod
    def jvp(ctx, t):
        return t * ctx.saved_tensors[0]


class ConjugateInJvp(Right):
    @staticmethod
    def jvp(ctx, t):
        return t * ctx.saved_tensors[0].conj()


class Detached(_Exp):
    @staticmethod
    def backward(ctx, w):
        return w * ctx.saved_tensors[0].detach().conj()


EXP = spec(jnp.exp)


@pytest.mark.parametrize(
    ("call", "check", "looks_like"),
    [
        (NoConjugate, "vjp", "x_bar = the VJP without conjugates, the transpose where PyTorch has the adjoint"),
        (NoConjugate, "vjp_of_vjp", None),
        (Conjugated, "vjp", "x_bar = conj(oracle)"),
        (ConjugateInJvp, "jvp", None),
        (ConjugateInJvp, "adjoint", None),
        (Detached, "vjp_of_vjp", None),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
@pytest.mark.parametrize("dtype", COMPLEX)
def test_a_wrong_function_is_found(call, check: str, looks_like: str | None, dtype: str):
    row = judged(call.apply, EXP, check, dtype)
    assert row.verdict is Verdict.MISMATCH, row
    assert row.failure is not None
    wrong = row.failure.wrong[0]
    if looks_like:
        assert wrong.looks_like == looks_like
    if check in ("vjp", "jvp"):
        assert isinstance(wrong.candidate, complex)
        assert row.failure.judge == "Taylor rate in complex128: oracle 2.00, candidate 1.00 -> the oracle is right"


@pytest.mark.parametrize("check", MAPS)
def test_the_right_function_is_not(check: str):
    refused = check == "jvp_of_jvp"  # by PyTorch, of any Function
    for row in rows(crosscheck(Right.apply, EXP, checks=[check])):
        assert row.verdict is (Verdict.UNSUPPORTED if refused else Verdict.PASS), row
    assert judged(Detached.apply, EXP, "vjp", "complex128").verdict is Verdict.PASS


def test_a_conjugate_in_the_forward():
    row = judged(lambda x, y: x * y, spec(lambda x, y: jnp.conj(x) * y, 2), "forward", "complex128")
    assert row.failure is not None
    assert row.failure.wrong[0].looks_like == "output = the oracle's with x conjugated"


def test_a_real_output_must_have_the_real_dtype():
    row = judged(lambda x: x.abs().to(x.dtype), spec(jnp.abs), "forward", "complex64")
    assert row.failure is not None
    text = "is torch.complex64 on cpu, should be torch.float32, for inputs of torch.complex64, on cpu"
    assert row.failure.wrong[0].pattern == text


def test_a_lazy_conjugate_that_is_not_seen():
    def bit_lost(x):
        return torch.exp(x.conj() if x.is_conj() else x)

    assert judged(bit_lost, EXP, "forward", "complex128").verdict is Verdict.PASS
    row = judged(bit_lost, EXP, "layouts", "complex128")
    assert row.failure is not None
    assert all(result.circumstance.endswith("conjugated lazily") for result in row.failure.wrong)


@pytest.mark.parametrize(("conjugate", "verdict"), [(False, Verdict.PASS), (True, Verdict.MISMATCH)])
def test_a_jax_candidate_and_an_explicit_formula_have_jax_s_convention(conjugate: bool, verdict: Verdict):
    def pulled(y, w):
        return (w * (jnp.conj(y) if conjugate else y),)

    rule = jax.custom_vjp(jnp.exp)
    rule.defvjp(lambda x: (jnp.exp(x), jnp.exp(x)), pulled)
    assert judged(JaxCandidate(rule), EXP, "vjp", "complex128").verdict is verdict

    report = crosscheck(torch.exp, spec(jnp.exp, vjp=lambda x, w: pulled(jnp.exp(x), w)[0]), checks=["vjp"])
    (certificate,) = (row for row in report.rows if row.candidate == ORACLE)
    assert (certificate.verdict, certificate.dtype) == (verdict, "complex128")


# The oracle's convention.


def _oracle(op: OpSpec) -> tuple[Oracle, list[np.ndarray]]:
    (sample,) = samples(op, 0)
    return Oracle(op, sample), list(sample.primals(op.names))


def _values(oracle: Oracle, name: str, args: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    return [truth.value for truth in oracle.evaluate(name, args, FLOAT64)]


def test_a_vjp_is_the_adjoint_over_the_real_numbers():
    """Of a z + b conj(z): w goes to conj(a) w + b conj(w), as Re(conj(w) (a t + b conj(t))) says."""
    a, b, w, p = normal(3, seed=5), normal(3, seed=6), normal(3, seed=7), normal(3, seed=8)
    with pinned():
        oracle, (x,) = _oracle(spec(lambda z: a * z + b * jnp.conj(z)))
        (found,) = _values(oracle, "vjp", [x, w])
        of_x, of_w = _values(oracle, "vjp_of_vjp", [x, w, p])
        (pushed,) = _values(oracle, "jvp", [x, p])
    np.testing.assert_allclose(found, a.conj() * w + b * w.conj(), rtol=1e-14)
    np.testing.assert_allclose(pushed, a * p + b * p.conj(), rtol=1e-14)
    np.testing.assert_allclose(of_w, pushed, rtol=1e-14)  # the adjoint of the adjoint
    assert not of_x.any()


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_an_absent_tangent_is_a_zero(kind: str):
    x, y, t = (normal(3, seed=i) if kind == "complex" else normal(3, seed=i).real for i in range(3))
    op = OpSpec("op", primal=lambda x, y: jnp.exp(x) * y, inputs=(x, y))
    with pinned():
        oracle, args = _oracle(op)
        for absent, zero in (([None, t], [0 * t, t]), ([t, None], [t, 0 * t]), ([None, None], [0 * t, 0 * t])):
            (value,) = _values(oracle, "jvp", [*args, *absent])
            (expected,) = _values(oracle, "jvp", [*args, *zero])
            np.testing.assert_array_equal(value, expected)
            assert value.dtype == expected.dtype


def test_an_output_that_is_zero_has_the_inputs_dtype():
    with pinned():
        oracle, (x,) = _oracle(spec(jnp.exp, jvp=lambda x, t: None))
        (truth,) = oracle.evaluate("jvp", [x, x], FLOAT64)
    assert (truth.value.dtype, truth.bound.dtype) == (np.complex128, np.float64)


# dtypes of a spec, domains, draws.


def test_the_dtypes_of_a_spec():
    real = OpSpec("op", primal=jnp.exp, signature="(n)->(n)")
    assert real.formats == tuple(PRECISIONS)
    assert EXP.formats == tuple(COMPLEX)
    both = dataclasses.replace(real, dtypes=("complex64", "float64"))
    assert both.formats == ("complex64", "float64")
    report = crosscheck(torch.exp, both, checks=["vjp"])
    assert report.passed
    assert [(row.candidate == ORACLE, row.dtype) for row in report.rows] == [
        (True, "float64"),
        (True, "complex128"),
        (False, "float64"),
        (False, "complex64"),
    ]
    assert {row.dtype for row in rows(crosscheck(torch.exp, real, checks=["vjp"], dtypes=["complex128"]))} == {
        "complex128"
    }


@pytest.mark.parametrize(
    ("dtypes", "error", "text"),
    [
        (("complex32",), ValueError, "OpSpec op: unknown dtype 'complex32'; there are float64, float32, bfloat16, "),
        ("complex64", TypeError, r"OpSpec op: dtypes must be a sequence of names; write dtypes=\('complex64',\)"),
        ((), ValueError, "OpSpec op: dtypes is empty, so nothing would be compared"),
    ],
)
def test_dtypes_that_cannot_be_used(dtypes, error, text: str):
    with pytest.raises(error, match=text):
        OpSpec("op", primal=jnp.exp, signature="(n)->(n)", dtypes=dtypes)


def test_complex_inputs_in_real_formats_are_refused():
    for name in PRECISIONS:
        with pytest.raises(ValueError, match=f"the given inputs are complex, so it cannot be judged in {name}"):
            crosscheck(torch.exp, EXP, dtypes=[name])
    with pytest.raises(ValueError, match="mutants are judged in float64, its dtypes are complex128, complex64"):
        KillMatrix(EXP, [CHECKS["vjp"]])


@pytest.mark.parametrize("given", [normal(3), torch.tensor(normal(3)), torch.tensor(normal(3)).conj()])
def test_anybody_s_complex_arrays(given):
    op = OpSpec("op", primal=jnp.exp, inputs=(given,))
    (sample,) = samples(op, 0)
    np.testing.assert_array_equal(sample.primals(("x",))[0], np.asarray(torch.as_tensor(given).resolve_conj()))
    assert judged(torch.exp, op, "vjp", "complex64").verdict is Verdict.PASS


def test_another_domain_has_no_complex_numbers():
    op = OpSpec("op", primal=jnp.sqrt, signature="(n)->(n)", input_names=("x",), domains={"x": "positive"})
    report = crosscheck(torch.sqrt, op, checks=["vjp", "jvp"], dtypes=["float64", "complex128"])
    assert report.passed
    reasons = {row.reason for row in report.rows if row.dtype == "complex128"}
    assert reasons == {"the domain of x is positive, which has no complex numbers"}
    assert {row.verdict for row in report.rows if row.dtype == "complex128"} == {Verdict.SKIPPED}
    assert not crosscheck(torch.sqrt, op, checks=["vjp"], dtypes=["complex128"]).passed  # nothing was judged


def test_the_draws_of_a_complex_sample():
    op = OpSpec("op", primal=lambda x, c: x * c, signature="(n),()->(n)", constants=("c",))
    for sample in samples(op, 0):
        drawn = sample.as_complex()
        (x,) = drawn.primals(("x",))
        assert x.dtype == drawn.draw("y_bar", (3,), complex=True).dtype == drawn.constants[1].dtype == np.complex128
        assert x.shape == sample.primals(("x",))[0].shape
        if x.size > 100:
            assert x.real.std() == pytest.approx(x.imag.std(), rel=0.3)
            assert abs(np.corrcoef(x.real, x.imag)[0, 1]) < 0.3
    assert crosscheck(lambda x, c: x * c, op, checks=["vjp"], dtypes=["complex128"]).passed


# Reports and reproducers.

_CASE = """
import torch
import jax.numpy as jnp
from parity_tests import OpSpec


class NoConjugate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx, w):
        x, y = ctx.saved_tensors
        return w * y, w * x


candidate = NoConjugate.apply
spec = OpSpec("product", primal=lambda x, y: x * y, signature="(n),(n)->(n)", dtypes=("complex64",))
"""


@pytest.fixture
def failed(tmp_path, shrinking) -> tuple[Report, str]:
    case = tmp_path / "case.py"
    case.write_text(_CASE)
    spec, candidates = load_case(case)
    plan = Plan(
        spec, candidates, select_checks(["vjp"]), select_precisions(None, spec), "cpu", 0, lambda row: "", case=case
    )
    report = Report(environment(("cpu",), 0))
    list(report.collect(judge(plan)))
    report.save_failures(tmp_path)
    return report, str(case)


def test_a_report_of_complex_numbers(failed, tmp_path):
    report, _ = failed
    (failure,) = report.failures
    assert failure.smallest is not None
    assert failure.smallest.sizes == {"n": 1}
    assert all("j" in text for text in failure.smallest.entries.values())
    again = Report.from_dict(report.as_dict())
    assert again.failures[0].wrong == tuple(dataclasses.replace(result, heat=result.heat) for result in failure.wrong)
    report.to_html(tmp_path / "report.html")
    assert "transpose where PyTorch has the adjoint" in (tmp_path / "report.html").read_text()


def test_a_failure_again(failed, tmp_path):
    _, case = failed
    (path,) = tmp_path.glob("*.npz")
    again, gone = replay(path, tmp_path / "case.py")
    assert not gone
    assert again.rows[0].verdict is Verdict.MISMATCH
    compile(path.with_suffix(".py").read_text(), case, "exec")


@pytest.mark.slow
def test_the_script_of_a_failure(failed, tmp_path):
    (script,) = (path.with_suffix(".py") for path in tmp_path.glob("*.npz"))
    done = subprocess.run([sys.executable, script, tmp_path / "case.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "x_bar: they differ" in done.stdout


@pytest.mark.slow
def test_the_script_agrees_once_it_is_mended(failed, tmp_path):
    (script,) = (path.with_suffix(".py") for path in tmp_path.glob("*.npz"))
    mended = tmp_path / "mended.py"
    mended.write_text(_CASE.replace("w * y, w * x", "w * y.conj(), w * x.conj()"))
    done = subprocess.run([sys.executable, script, mended], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# The derivative of this sign is 0, as JAX's was before 0.12, and so is every derivative of that, on which all witnesses
# agree.


@jax.custom_jvp
def flat_sign(z: jax.Array) -> jax.Array:
    return jnp.sign(z)


flat_sign.defjvps(lambda z_dot, sign, z: 0 * z_dot)


@pytest.fixture(scope="module")
def of_sign() -> Report:
    return crosscheck(torch.sgn, spec(flat_sign), checks=["vjp", "vjp_of_vjp", "jvp_of_jvp"], dtypes=["complex128"])


@pytest.mark.parametrize("name", ["vjp_of_vjp", "jvp_of_jvp"])
def test_an_oracle_that_is_wrong_in_first_order_judges_nobody_in_second(of_sign, name):
    below = name.split("_of_")[1]
    (certificate,) = (row for row in of_sign.rows if (row.candidate, row.check) == (ORACLE, name))
    assert certificate.verdict is Verdict.UNRESOLVED
    assert (
        certificate.reason
        == f"it differentiates {below}: Taylor rate of {below} is 1.00; it is 2 for a right derivative"
    )
    (row,) = (row for row in rows(of_sign) if row.check == name)
    assert row.verdict is Verdict.UNRESOLVED


def test_a_wrong_second_derivative_is_convicted_by_an_oracle_that_is_right_in_both():
    right = spec(lambda x: x / jnp.sqrt(jnp.real(x * jnp.conj(x))))
    assert judged(torch.sgn, right, "vjp_of_vjp", "complex128").verdict is Verdict.PASS
    detached = judged(lambda x: x / x.abs().detach(), right, "vjp_of_vjp", "complex128")
    assert detached.verdict is Verdict.MISMATCH
