"""Real inputs with complex outputs, and complex inputs beside real ones, in the formats of real numbers."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import JaxCandidate, OpSpec, Verdict, crosscheck
from parity_tests.harness.specs.samples import samples
from parity_tests.operators.operator import function
from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating

from ._ops import judged, normal, rows

MAPS = ["forward", "vjp", "vjp_partial", "jvp", "adjoint", "vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp"]
CHECKS = [*MAPS, "input_subsets", "points", "exact", "layouts", "linearity", "vmap"]
SPEC = OpSpec("op", lambda z, x: (z * x, x**3), "(n),(n)->(n),(n)", domains={"z": "complex"})


def op(z: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return z * x, x**3


POLAR = OpSpec("polar", lambda r, t: r * jnp.exp(1j * t), "(n),(n)->(n)")


def polar(r: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return torch.complex(r * torch.cos(t), r * torch.sin(t))


@rotating(5)
@fast("a complex input-float64")
@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("call", "spec", "checks"),
    [
        pytest.param(op, SPEC, MAPS, id="a complex input"),
        pytest.param(polar, POLAR, MAPS, id="a complex output"),
        pytest.param(op, SPEC, CHECKS, id="a complex input, every check", marks=pytest.mark.slow),
        pytest.param(polar, POLAR, CHECKS, id="a complex output, every check", marks=pytest.mark.slow),
        pytest.param(
            lambda x: torch.fft.rfft(x.relu()),
            OpSpec("kink", lambda x: jnp.fft.rfft(jnp.maximum(x, 0)), "(6)->(4)", input_names=("x",)),
            ["forward", "points"],
            id="a kink below a complex output",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_right_operators_pass(call, spec, checks, dtype):
    report = crosscheck(call, spec, checks=checks, dtypes=[dtype])
    assert report.passed, str(report)
    assert {row.verdict for row in rows(report) if row.check != "exact"} == {Verdict.PASS}, str(report)


def test_both_sides_get_the_numbers_that_were_declared():
    seen = []

    def remembering(z, x):
        seen.append((z.dtype, x.dtype))
        return op(z, x)

    def primal(z, x):
        assert (z.dtype, x.dtype) == (jnp.complex128, jnp.float64)
        return z * x, x**3

    spec = OpSpec("op", primal, "(n),(n)->(n),(n)", domains={"z": "complex"})
    assert spec.formats == ("float64", "float32")
    assert crosscheck(remembering, spec, checks=["vjp"]).passed
    assert set(seen) == {(torch.complex128, torch.float64), (torch.complex64, torch.float32)}


def test_what_is_given_stays_what_it_is():
    given = OpSpec("op", SPEC.primal, inputs=(normal(3) + 1j * normal(3, seed=1), normal(3, seed=2)))
    assert given.formats == ("complex128", "complex64")
    (sample,) = samples(given, 0)
    assert [x.dtype.kind for x in sample.as_complex().primals(("z", "x"))] == ["c", "f"]
    assert crosscheck(op, given, checks=MAPS).passed
    assert judged(lambda z, x: (z * x, x**3 + 0j), given, "forward", "complex64").verdict is Verdict.MISMATCH


def _op_with(x_bar: Any) -> Any:
    return function(op, lambda z, x, w, v: (x * w, x_bar(z, x, w, v)))


def _of_x(z, x, w, v):
    return (z.conj() * w).real + 3 * x * x * v


@fast("float64-*")
@pytest.mark.parametrize(
    ("x_bar", "verdict"),
    [
        pytest.param(_of_x, Verdict.PASS, id="right"),
        pytest.param(lambda z, x, w, v: (z * w).real + 3 * x * x * v, Verdict.MISMATCH, id="no conjugate"),
        pytest.param(lambda z, x, w, v: (z.conj() * w).abs() + 3 * x * x * v, Verdict.MISMATCH, id="a modulus"),
        pytest.param(lambda z, x, w, v: (z.conj() * w).imag + 3 * x * x * v, Verdict.MISMATCH, id="the other part"),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_mistake_in_a_real_gradient_of_complex_numbers_is_caught(x_bar, verdict, dtype):
    assert judged(_op_with(x_bar), SPEC, "vjp", dtype).verdict is verdict


def test_a_real_output_where_a_complex_one_is_expected():
    row = judged(lambda r, t: r * torch.cos(t), POLAR, "forward")
    assert row.failure is not None
    assert row.failure.wrong[0].pattern == (
        "is torch.float64 on cpu, should be torch.complex128, for inputs of torch.float64, on cpu"
    )


@pytest.mark.slow
def test_a_value_at_a_special_point_is_judged():
    """`sinc` is written out, since the derivative of torch.sinc loses digits that JAX's does not from 0.12 on."""

    def sinc(x):
        nonzero = jnp.pi * jnp.where(x == 0, 1.0, x)
        return jnp.where(x == 0, 1.0, jnp.sin(nonzero) / nonzero) * (1 + 1j)

    spec = OpSpec("sinc", sinc, "(n)->(n)", input_names=("x",))
    assert judged(lambda x: torch.sinc(x) * (1 + 1j), spec, "points").verdict is Verdict.PASS
    wrong = judged(lambda x: torch.sin(torch.pi * x) / (torch.pi * x) * (1 + 1j), spec, "points")
    assert wrong.verdict is Verdict.MISMATCH


@pytest.mark.slow
def test_formats_without_complex_numbers_are_skipped_with_the_reason():
    report = crosscheck(polar, POLAR, checks=["forward", "vjp"])
    assert report.passed
    reasons = {row.dtype: row.reason for row in rows(report)}
    assert reasons == {"float64": "", "float32": ""} | {
        dtype: f"complex numbers take part, and {dtype} has none" for dtype in ("bfloat16", "float16")
    }
    assert not crosscheck(polar, POLAR, checks=["vjp"], dtypes=["bfloat16"]).passed  # nothing was judged


@pytest.mark.slow
def test_a_candidate_in_jax_and_an_explicit_formula():
    def vjp(z, x, w, v):
        terms = [0.0 if u is None else u for u in (w, v)]
        return x * terms[0], jnp.real(z * terms[0]) + 3 * x * x * terms[1]

    spec = OpSpec("op", SPEC.primal, "(n),(n)->(n),(n)", domains={"z": "complex"}, vjp=vjp)
    checks = ["forward", "vjp", "vjp_partial", "jvp", "adjoint"]
    report = crosscheck(JaxCandidate(SPEC.primal), spec, checks=checks, dtypes=["float64"])
    assert report.passed, str(report)

    @jax.custom_vjp
    def wrong(z, x):
        return z * x, x**3

    wrong.defvjp(
        lambda z, x: ((z * x, x**3), (z, x)), lambda s, w: (s[1] * w[0], jnp.abs(s[0] * w[0]) + 3 * s[1] ** 2 * w[1])
    )
    assert judged(JaxCandidate(wrong), spec, "vjp").verdict is Verdict.MISMATCH


def test_a_lower_precision_inside_is_refused():
    single = OpSpec("op", lambda x: (x * 1j).astype(jnp.complex64), "(n)->(n)")
    with pytest.raises(ValueError, match="primal returns complex64 for output 0 although its inputs are float64"):
        crosscheck(lambda x: x * 1j, single, checks=["vjp"])


def test_a_formula_that_returns_complex_numbers_for_real_ones_is_said_to():
    spec = OpSpec("op", lambda x: x * 1j, "(n)->(n)", vjp=lambda x, w: (-1j * w,))
    with pytest.raises(ValueError, match=r"vjp returns complex numbers for x_bar, which is real: take their real part"):
        crosscheck(lambda x: x * 1j, spec, checks=["vjp"], dtypes=["float64"])


@pytest.mark.slow
def test_complex_constants():
    spec = OpSpec("op", lambda z, x: z * x, "(n),(n)->(n)", domains={"z": "complex"}, constants=("z",))
    assert any(np.iscomplexobj(sample.constants[0]) and sample.constants[0].imag.any() for sample in samples(spec, 0))
    assert judged(lambda z, x: z * x, spec, "vjp", "float32").verdict is Verdict.PASS
    assert judged(lambda z, x: z.conj() * x, spec, "vjp", "float32").verdict is Verdict.MISMATCH
