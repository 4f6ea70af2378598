"""References in PyTorch as oracles: they compute what PyTorch computes, pass right code and convict mistakes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from parity_tests import OpSpec, crosscheck
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.specs.domains import Domain
from parity_tests.harness.specs.samples import few_samples
from parity_tests.suite.harness.specs.torch_references import CASES, rms_norm
from parity_tests.suite.marks import marks
from parity_tests.suite.rotation import rotating

_JUDGED_FAST = ("cross_entropy_by_hand",)


def _spec(name: str) -> OpSpec:
    reference, inputs, fields = CASES[name]
    return OpSpec.from_torch(reference, inputs=inputs, **fields)


def _inputs(spec: OpSpec, sample: Any) -> list[np.ndarray]:
    """All inputs of a sample, constants included, in order."""
    drawn = sample.primals(sample.differentiated(spec.names))
    remaining = iter(drawn)
    return [sample.constants[i] if i in sample.constants else next(remaining) for i in range(spec.count)]


def _with_parameters(reference: Callable, count: int) -> Callable:
    if not isinstance(reference, torch.nn.Module):
        return reference
    names = [name for name, _ in reference.named_parameters()]

    def called(*args: Tensor) -> Tensor:
        own = count - len(names)
        return torch.func.functional_call(reference.double(), dict(zip(names, args[own:], strict=True)), args[:own])

    return called


@pytest.mark.slow
@rotating(10)
@pytest.mark.parametrize("name", CASES)
def test_it_computes_what_pytorch_computes(name: str) -> None:
    spec = _spec(name)
    # What the reference rounds to float32, the oracle does not.
    tolerance = 1e-12 if spec.dtypes is None else 1e-5
    compared = 0
    with pinned():
        for sample in few_samples(spec, 1):
            arrays = _inputs(spec, sample)
            expected = _with_parameters(CASES[name][0], spec.count)(
                *spec.arranged([torch.from_numpy(x.copy()) for x in arrays])
            )
            found = spec.primal(*spec.arranged(arrays))
            assert type(found) is type(expected) or not isinstance(expected, tuple)
            for y, y_torch in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
                np.testing.assert_allclose(y, y_torch.detach().numpy(), rtol=tolerance, atol=tolerance)
                compared += y.size
    assert compared


class _OnePercentMore(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *bars: Tensor) -> Tensor:
        return bars[0] * 1.01


def _mistaken(reference: Callable) -> Callable:
    """The reference with a backward that is wrong for its first input."""

    def called(*args: Any) -> Any:
        leaves, structure = tree_flatten(args)
        i = next(i for i, x in enumerate(leaves) if x.is_floating_point())
        leaves[i] = _OnePercentMore.apply(leaves[i])
        return reference(*tree_unflatten(leaves, structure))

    return called


@pytest.mark.slow
@rotating(10)
@pytest.mark.parametrize("name", marks(_JUDGED_FAST, CASES))
def test_right_code_passes_and_a_mistake_is_convicted(name: str) -> None:
    spec = _spec(name)
    right = _with_parameters(CASES[name][0], spec.count)
    candidates = {"right": right, "wrong": _mistaken(right)}
    dtype = "float64" if spec.exists_in("float64") else "float32"
    report = crosscheck(candidates, spec, checks=["forward", "vjp"], dtypes=[dtype], quick=True, limits={})
    verdicts = {(row.candidate, row.check): str(row.verdict) for row in report.rows}
    assert verdicts["right", "forward"] == verdicts["right", "vjp"] == verdicts["wrong", "forward"] == "PASS", report
    assert verdicts["wrong", "vjp"] == "MISMATCH"


class _RmsNorm(torch.autograd.Function):
    """As a kernel has it: the backward written out, and right."""

    keeps_projection = True

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return rms_norm(x, w)

    @classmethod
    def _backward(cls, ctx: Any, y_bar: Tensor) -> tuple[Tensor, Tensor]:
        x, w = (each.float() for each in ctx.saved_tensors)
        r = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        normed, bar = x * r, y_bar.float() * w
        projection = (bar * normed).mean(-1, keepdim=True) * normed if cls.keeps_projection else 0.0
        like = ctx.saved_tensors
        return (r * (bar - projection)).to(like[0].dtype), (y_bar.float() * normed).sum(0).to(like[1].dtype)

    @staticmethod
    def backward(ctx: Any, *bars: Tensor) -> tuple[Tensor, Tensor]:
        return _RmsNorm._backward(ctx, bars[0])


class _RmsNormWithoutProjection(_RmsNorm):
    keeps_projection = False

    @staticmethod
    def backward(ctx: Any, *bars: Tensor) -> tuple[Tensor, Tensor]:
        return _RmsNormWithoutProjection._backward(ctx, bars[0])


@pytest.mark.slow
def test_a_kernel_beside_the_code_that_it_replaces() -> None:
    kernels = {"right": _RmsNorm.apply, "wrong": _RmsNormWithoutProjection.apply}
    options: dict[str, Any] = {"checks": ["forward", "vjp"], "quick": True}
    report = crosscheck(kernels, rms_norm, inputs="x: (n,d), w: (d)", **options)
    verdicts = {(row.candidate, row.check, row.dtype): str(row.verdict) for row in report.rows}
    assert {dtype for _, _, dtype in verdicts} == {"float64", "float32", "bfloat16"}  # of the oracle's rows, float64
    for dtype in ("float32", "bfloat16"):
        assert verdicts["right", "forward", dtype] == verdicts["right", "vjp", dtype] == "PASS"
        assert verdicts["wrong", "vjp", dtype] == "MISMATCH"


@pytest.mark.slow
def test_a_reference_that_returns_a_named_tuple_of_pytorchs() -> None:
    spec = OpSpec.from_torch(torch.linalg.qr, inputs="a: (m,n)", sizes="m >= n, n >= 1")
    assert spec.signature == "(m,n)->(m,n),(n,n)"


@pytest.mark.slow
def test_every_check_of_a_reference_by_itself() -> None:
    report = crosscheck(CASES["attention_with_bias"][0], _spec("attention_with_bias"), quick=False)
    assert report.passed, report


@pytest.mark.slow
@pytest.mark.parametrize("of", [np.asarray, torch.as_tensor], ids=["array", "tensor"])
def test_options_of_other_numbers_are_another_program(of: Callable) -> None:
    """NumPy's and PyTorch's `repr` leave out the middle of 2000 numbers."""
    zeros, one = np.zeros(2000), np.zeros(2000)
    one[1000] = 5.0

    def scaled(x, factors):
        return x * torch.as_tensor(factors)

    with pinned():
        primal = OpSpec.from_torch(scaled, inputs=[np.ones(2000)], params={"factors": of(one)}).primal
        assert primal(np.ones(2000), factors=of(one))[1000] == 5
        assert primal(np.ones(2000), factors=of(zeros))[1000] == 0


def _weighted(spread: float) -> torch.nn.Linear:
    module = torch.nn.Linear(400, 3)
    with torch.no_grad():
        module.weight.copy_(spread * torch.randn(3, 400, generator=torch.Generator().manual_seed(0)))
        module.bias.zero_()
    return module


@pytest.mark.slow
def test_parameters_are_drawn_with_the_spread_of_the_module() -> None:
    for own, expected in ((0.01, 0.01), (4.0, 1.0)):
        spec = OpSpec.from_torch(_weighted(own), inputs="x: (n,400)")
        by_name = {sample.name: sample for sample in few_samples(spec, 0)}
        _, weight, bias = _inputs(spec, by_name["all_axes_differ"])
        assert 0.9 * expected < np.std(weight) < 1.1 * expected
        assert np.abs(bias).max() > 0.1  # of zeros there is no spread
        _, weight, _ = _inputs(spec, by_name["long_axes"])  # a sample with a scale of its own
        assert np.std(weight) > 0.1


@pytest.mark.slow
def test_a_parameter_with_a_spread_is_one_of_real_numbers() -> None:
    domain = OpSpec.from_torch(_weighted(0.01), inputs="x: (n,400)").domains["weight"]
    assert isinstance(domain, Domain)
    assert domain.spread != 1
    assert domain.is_real
    assert domain.unscaled is not domain
    assert not Domain("real", lambda rng, shape, sizes: rng.uniform(1, 2, shape)).is_real  # a user's own
