"""What a candidate in JAX is given, and what it gives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import JaxCandidate, OpSpec, Verdict, crosscheck
from parity_tests.cli.case_file import load_case
from parity_tests.harness.numbers import conversion
from parity_tests.suite.harness._ops import PAIR, SQUARE, judged, normal, rows
from parity_tests.suite.harness.candidates._jax_functions import SCALE, custom_vjp, pair, pair_vjp


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_a_candidate_is_called_in_the_format(dtype):
    seen = set()

    def f(x):
        seen.add(x.dtype.name)
        return x * x

    assert judged(JaxCandidate(f), SQUARE, "vjp", dtype).verdict is Verdict.PASS
    assert seen == {dtype}


def test_forward_over_reverse_is_asked_once(monkeypatch):
    """PyTorch's other way, with gradients off, is not asked of JAX; even to find out what it is records a graph."""
    recorded = []
    monkeypatch.setattr(JaxCandidate, "record", lambda self, primals: recorded.append(primals))
    assert judged(JaxCandidate(lambda x: x * x), SQUARE, "jvp_of_vjp").verdict is Verdict.PASS
    assert not recorded


@pytest.mark.slow
def test_constants_and_keyword_parameters():
    def take(x, i, scale, *, power):
        return (x[i] * scale) ** power

    def wrong(x, i, scale, *, power):
        assert jnp.issubdtype(i.dtype, jnp.integer)
        return (x[i] * scale) ** (power + 1)

    spec = OpSpec(
        "take",
        primal=take,
        inputs=(normal(3, 2), np.array([2, 0, 2, 1]), normal(2)),
        constants=["scale"],
        params={"power": 2},
    )
    checks = ["forward", "vjp", "jvp", "vmap"]
    assert crosscheck(JaxCandidate(take), spec, checks=checks, dtypes=["float64"], limits={}).passed
    assert judged(JaxCandidate(wrong), spec, "forward").verdict is Verdict.MISMATCH


def test_symbolic_zeros_reach_a_rule_that_asks_for_them():
    seen = []
    f = jax.custom_vjp(pair)

    def fwd(x, y):
        seen.append(("perturbed", x.perturbed, y.perturbed))
        return pair(x.value, y.value), (x.value, y.value)

    def bwd(saved, cotangents):
        zero = [type(w) is jax.custom_derivatives.SymbolicZero for w in cotangents]
        seen.append(("zero", *zero))
        w = [jnp.zeros(w.shape, w.dtype) if flag else w for w, flag in zip(cotangents, zero, strict=True)]
        return pair_vjp(*saved, *w)

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    assert crosscheck(JaxCandidate(f), PAIR, checks=["vjp_partial", "input_subsets"], dtypes=["float64"]).passed
    assert set(seen) == {
        ("perturbed", True, True),
        ("perturbed", True, False),
        ("perturbed", False, True),
        ("zero", True, False),
        ("zero", False, True),
        ("zero", False, False),
    }


@pytest.mark.parametrize(
    ("f", "message"),
    [
        pytest.param(lambda x, y: None, "returned NoneType where an array", id="not an array"),
        pytest.param(lambda x, y: x, "returned 1 outputs, expected 2", id="too few"),
    ],
)
@pytest.mark.parametrize("check", ["forward", "vjp", "vjp_partial", "vjp_of_vjp"])
def test_bad_outputs(f, message, check):
    row = judged(JaxCandidate(f), PAIR, check)
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    assert row.failure.wrong[0].pattern.startswith(message)


@pytest.mark.slow
def test_its_name():
    def mine(x):
        return x * x

    rule = custom_vjp(lambda x, w: (2 * x * w,), mine)
    for f in (mine, jax.jit(mine), rule, jax.jit(rule)):
        assert {row.candidate for row in rows(crosscheck(JaxCandidate(f), SQUARE, checks=["forward"]))} == {"mine"}
    report = crosscheck(JaxCandidate(mine, "theirs"), SQUARE, checks=["forward"])
    assert {row.candidate for row in rows(report)} == {"theirs"}


def test_what_is_no_function():
    with pytest.raises(TypeError, match="JaxCandidate: needs a function of JAX arrays, got int"):
        JaxCandidate(3)


def test_in_a_case_file(tmp_path):
    path = tmp_path / "case.py"
    path.write_text(
        "from parity_tests import JaxCandidate, OpSpec\n"
        "spec = OpSpec('square', primal=lambda x: x * x, signature='(n)->(n)')\n"
        "def square(x):\n    return x * x\n"
        "candidates = [JaxCandidate(square), JaxCandidate(square, 'other'), lambda x: x * x]\n"
        "limits = {'jvp': 'why'}\n"
    )
    _, candidates = load_case(path)
    assert [(c.name, c.framework) for c in candidates] == [("square", "jax"), ("other", "jax"), ("lambda", "torch")]
    assert {tuple(c.limits) for c in candidates} == {("jvp",)}


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool]
)
def test_arrays_cross_unchanged(dtype):
    x = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype).T
    with jax.enable_x64(True):
        y = conversion.to_jax(x)
        assert y.dtype.name == str(dtype).removeprefix("torch.")
        back = conversion.from_jax(y)
    assert back.dtype == dtype
    assert torch.equal(back, x)
    back.fill_(1)
    assert not (np.asarray(y) == 1).all()


def test_nothing_is_changed_that_is_global():
    before = jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision
    crosscheck(JaxCandidate(pair), PAIR, checks=["vjp"], dtypes=["float64"]).raise_if_failed()
    assert (jax.config.jax_enable_x64, jax.config.jax_default_matmul_precision) == before


@pytest.mark.parametrize(
    ("status", "verdict"), [("UNIMPLEMENTED", Verdict.UNSUPPORTED), ("INTERNAL", Verdict.MISMATCH)], ids=str
)
def test_what_xla_has_not_implemented_is_not_the_candidates_mistake(status, verdict):
    def scale(x, y):
        raise jax.errors.JaxRuntimeError(f"{status}: Unsupported element type for DotThunk::Execute")

    (row,) = rows(crosscheck(JaxCandidate(scale), SCALE, checks=["forward"], dtypes=["float64"]))
    assert (row.verdict, row.passed) == (verdict, False)
