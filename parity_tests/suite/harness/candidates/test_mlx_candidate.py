"""Candidates in MLX: a right function passes, and wrong ones are caught; skipped where MLX is not installed."""

from __future__ import annotations

import threading

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from gradparity import OpSpec, Verdict, crosscheck

pytest.importorskip("mlx.core", reason="needs MLX: pip install 'gradparity[mlx]'")

import mlx.core as mx

from gradparity import MLXCandidate

FORMATS = ["float64", "float32", "bfloat16", "float16"]
MAPS = ["forward", "vjp", "jvp", "vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp", "vmap", "third_order"]


def cubic(x, y):
    return x * x * y + jnp.log1p(y * y)


# Of operations that MLX computes in float64, too: exp, sin, cos, erf and erfinv have float32's digits (mlx#3047).
SPEC = OpSpec("cubic", primal=cubic, signature="(n),(n)->(n)")


def right(x, y):
    return x * x * y + mx.log1p(y * y)


def with_rules(vjp=None, jvp=None, vmap=None):
    """The right function with these rules of its own; where there is none, MLX's."""
    f = mx.custom_function(right)
    for name, rule in (("vjp", vjp), ("jvp", jvp), ("vmap", vmap)):
        if rule is not None:
            getattr(f, name)(rule)
    return f


def wrong_value(x, y):
    return x * x * y + mx.log1p(y)


def _right_vjp(primals, cotangent, output):
    x, y = primals
    return 2 * x * y * cotangent, (x * x + 2 * y / (1 + y * y)) * cotangent


def _right_jvp(primals, tangents):
    (x, y), (x_dot, y_dot) = primals, tangents
    return 2 * x * y * x_dot + (x * x + 2 * y / (1 + y * y)) * y_dot


def _right_vmap(inputs, axes):
    x, y = (x if axis == 0 else x[None] for x, axis in zip(inputs, axes, strict=True))
    return right(x, y), 0


def _vjp_without_a_factor(primals, cotangent, output):
    x, y = primals
    return x * y * cotangent, (x * x + 2 * y / (1 + y * y)) * cotangent  # wrong: 2 x y


def _vjp_that_keeps_a_number(primals, cotangent, output):
    x, y = primals
    kept = mx.stop_gradient(x)  # wrong: the second derivative with respect to x is lost
    return 2 * kept * y * cotangent, (x * x + 2 * y / (1 + y * y)) * cotangent


def _jvp_with_a_wrong_sign(primals, tangents):
    (x, y), (x_dot, y_dot) = primals, tangents
    return 2 * x * y * x_dot + (x * x - 2 * y / (1 + y * y)) * y_dot  # wrong: +


def _vmap_of_the_first(inputs, axes):
    x, y = inputs
    return right(x[:1] if axes[0] is not None else x, y) + 0 * x, 0  # wrong: one example for all


def third_argument(x, y):
    return right(x, y), x


def as_numpy(x, y):
    return np.array(right(x, y))


def that_writes(x, y):
    result = right(x, y)
    mx.eval(result)
    x[0] = 5
    return result


def test_a_right_function_passes_in_every_map() -> None:
    report = crosscheck(MLXCandidate(right), SPEC, checks=[*MAPS, "purity", "determinism", "points"], dtypes=FORMATS)
    assert report.passed, str(report)
    rows = {(row.check, row.dtype): row.verdict for row in report.rows if row.candidate == "right"}
    assert {rows[check, dtype] for check in MAPS[:2] for dtype in FORMATS} == {Verdict.PASS}
    assert {rows[check, "float64"] for check in MAPS} == {Verdict.PASS}


@pytest.mark.slow
def test_right_rules_of_its_own_pass() -> None:
    own = MLXCandidate(with_rules(_right_vjp, _right_jvp, _right_vmap), "own")
    assert crosscheck(own, SPEC, checks=MAPS, dtypes=["float64"], limits={}).passed


@pytest.mark.slow
def test_another_process_judges_the_same() -> None:
    rows = crosscheck(MLXCandidate(wrong_value), SPEC, checks=["forward"], dtypes=["float64"], isolate=True).rows
    assert [row.verdict for row in rows if row.candidate != "oracle"] == [Verdict.MISMATCH]


@pytest.mark.parametrize(
    ("wrong", "check", "said"),
    [
        (wrong_value, "forward", "output"),
        (with_rules(vjp=_vjp_without_a_factor), "vjp", "looks like  x_bar = 0.5 * oracle"),
        (with_rules(vjp=_vjp_that_keeps_a_number), "vjp_of_vjp", "silently wrong in second order"),
        (with_rules(jvp=_jvp_with_a_wrong_sign), "jvp", "output_dot"),
        (with_rules(vmap=_vmap_of_the_first), "vmap", "looks like  output = the oracle's with x of another call"),
        (third_argument, "forward", "returned 2 outputs, expected 1"),
        (third_argument, "vjp", "returned 2 outputs, expected 1"),
        (as_numpy, "forward", "returned ndarray where an mx.array"),
        (that_writes, "purity", "was written to"),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)
def test_a_wrong_function_is_caught(wrong, check: str, said: str) -> None:
    report = crosscheck(MLXCandidate(wrong, "wrong"), SPEC, checks=[check], dtypes=["float64"])
    (row,) = [row for row in report.rows if row.candidate != "oracle"]
    assert row.verdict is Verdict.MISMATCH, str(report)
    assert said in str(report)


def test_the_formats_reach_the_function() -> None:
    seen = set()

    def square(x):
        seen.add(x.dtype)
        return x * x

    spec = OpSpec("square", primal=lambda x: x * x, signature="(n)->(n)")
    assert crosscheck(MLXCandidate(square), spec, checks=["forward"], dtypes=FORMATS).passed
    assert seen == {mx.float64, mx.float32, mx.bfloat16, mx.float16}


def test_what_mlx_has_not_implemented_is_refused() -> None:
    spec = OpSpec("cumprod", primal=jnp.cumprod, signature="(n)->(n)", sizes="n >= 1")
    report = crosscheck(MLXCandidate(lambda x: mx.cumprod(x)), spec, checks=["vjp", "jvp"], dtypes=["float64"])
    assert report.passed
    (row,) = [row for row in report.rows if row.check == "jvp" and row.candidate != "oracle"]
    assert (row.verdict, row.limit_of) == (Verdict.UNSUPPORTED, "MLX")
    assert row.reason == "JVP is not implemented for cumulative prod/min/max"


def test_a_first_derivative_that_mlx_has_not_implemented_is_no_pass() -> None:
    spec = OpSpec("solve", primal=lambda x: jnp.diag(x), signature="(n)->(n,n)")

    def orthogonal(x):
        return mx.linalg.svd(mx.diag(x), stream=mx.cpu)[0]

    report = crosscheck(MLXCandidate(orthogonal), spec, checks=["vjp"], dtypes=["float32"])
    (row,) = [row for row in report.rows if row.candidate != "oracle"]
    assert (row.verdict, report.passed) == (Verdict.UNSUPPORTED, False)
    assert "[Primitive::vjp] Not implemented for SVD" in row.reason


def test_the_words_of_the_function_itself_are_no_refusal() -> None:
    def says(x, y):
        raise ValueError("JVP is not implemented for cumulative prod/min/max")

    report = crosscheck(MLXCandidate(says), SPEC, checks=["forward"], dtypes=["float64"])
    (row,) = [row for row in report.rows if row.candidate != "oracle"]
    assert row.verdict is Verdict.MISMATCH
    assert "raises ValueError" in str(report)


def test_complex_gradients_are_by_pytorchs_convention() -> None:
    z, w = torch.tensor([1 + 2j, -0.5j]), torch.tensor([1 + 0j, 2 - 1j])
    (gradient,) = MLXCandidate(lambda z: z * z).vjp([z], [w])
    leaf = z.clone().requires_grad_()
    (leaf * leaf).backward(w)
    assert torch.equal(gradient, leaf.grad)
    with pytest.raises(Exception, match="MLX has no complex128"):
        MLXCandidate(lambda z: z * z).forward([z.to(torch.complex128)])


def test_constants_parameters_and_integer_outputs() -> None:
    spec = OpSpec(
        "take",
        primal=lambda x, i, s, *, power: ((x[i] * s) ** power, jnp.argmax(x)),
        inputs=(np.array([1.0, -2.0, 3.0]), np.array([2, 0, 2]), np.array([0.5, 1.5, 2.5])),
        constants=["s"],
        params={"power": 2},
    )

    def take(x, i, s, *, power):
        return (x[i] * s) ** power, mx.argmax(x)

    def cubed(x, i, s, *, power):
        return (x[i] * s) ** (power + 1), mx.argmax(x)

    checks = ["forward", "vjp", "jvp"]
    assert crosscheck(MLXCandidate(take), spec, checks=checks, dtypes=["float64"], limits={}).passed
    assert not crosscheck(MLXCandidate(cubed), spec, checks=checks, dtypes=["float64"], limits={}).passed


def test_another_thread_computes_in_float64_too() -> None:
    found = []
    x = torch.tensor([0.5], dtype=torch.float64)
    thread = threading.Thread(target=lambda: found.extend(MLXCandidate(mx.log).vjp([x], [torch.ones_like(x)])))
    thread.start()
    thread.join()
    assert [y.item() for y in found] == [2.0]


def test_an_array_is_no_function() -> None:
    with pytest.raises(TypeError, match="needs a function of MLX arrays, got array"):
        MLXCandidate(mx.ones(2))
