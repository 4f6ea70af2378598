"""Twenty steps that correct themselves: right code passes in whatever order, and mistakes are convicted."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import pytest
import torch

from parity_tests import OpSpec, crosscheck
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.specs.samples import Sample, few_samples
from parity_tests.harness.trial.trial import Trial

STEPS = 20
CHECKS = ["forward", "vjp", "points", "linearity"]
DTYPES = ("float64", "float32")
Chain = Callable[..., torch.Tensor]


def _derived_as(value: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """This value, with the derivative of another expression."""
    return value.detach() + other - other.detach()


def _scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    """The same number, with a derivative that is wrong by a factor."""
    return _derived_as(x, factor * x)


# Sinkhorn's steps: rows and columns are divided by their sums in turn.


def sinkhorn(
    x: torch.Tensor,
    rows: Callable = lambda s: s,
    columns: Callable = lambda s: s,
) -> torch.Tensor:
    r = torch.exp(x)
    for _ in range(STEPS):
        r = r / rows(r.sum(-1, keepdim=True))
        r = r / columns(r.sum(-2, keepdim=True))
    return r


def sinkhorn_of_logarithms(x: torch.Tensor) -> torch.Tensor:
    for _ in range(STEPS):
        x = x - torch.logsumexp(x, -1, keepdim=True)
        x = x - torch.logsumexp(x, -2, keepdim=True)
    return torch.exp(x)


def sinkhorn_by_reciprocals(x: torch.Tensor) -> torch.Tensor:
    r = torch.exp(x - x.amax())
    for _ in range(STEPS):
        r = r * (1 / r.sum(-1, keepdim=True))
        r = r * r.sum(-2, keepdim=True).reciprocal()
    return r


# Newton and Schulz's iteration for the orthogonal factor of a matrix, as optimizers have it.


def newton_schulz(
    g: torch.Tensor,
    linear: Callable = lambda x: 1.5 * x,
    cube: Callable = lambda step, x: x @ x.T @ x,
) -> torch.Tensor:
    x = g / torch.sqrt((g * g).sum())
    for step in range(STEPS):
        x = linear(x) - 0.5 * cube(step, x)
    return x


def newton_schulz_from_the_right(g: torch.Tensor) -> torch.Tensor:
    x = g * torch.rsqrt((g * g).sum())
    for _ in range(STEPS):
        x = x + 0.5 * (x - x @ (x.T @ x))
    return x


# Power iteration: a vector times a matrix, divided by its norm.


def power_iteration(
    a: torch.Tensor,
    v: torch.Tensor,
    norm: Callable = lambda step, n: n,
    matrix: Callable = lambda step, a: a,
    steps: int = STEPS,
) -> torch.Tensor:
    for step in range(steps):
        v = matrix(step, a) @ v
        v = v / norm(step, torch.sqrt((v * v).sum()))
    return v


def power_iteration_by_norms(a: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    for _ in range(STEPS):
        v = (a * v).sum(-1)
        v = v / torch.linalg.vector_norm(v)
    return v


SPECS: Mapping[str, Callable[[], OpSpec]] = {
    name: functools.cache(functools.partial(OpSpec.from_torch, reference, inputs=inputs, sizes=sizes))
    for name, reference, inputs, sizes in (
        ("sinkhorn", sinkhorn, "x: (n,m)", "n >= 1, m >= 1"),
        ("newton_schulz", newton_schulz, "g: (n,m)", "n >= 1, m >= 1"),
        ("power_iteration", power_iteration, "a: (n,n) positive, v: (n) positive", "n >= 1"),
    )
}
RIGHT: Mapping[str, tuple[Chain, ...]] = {
    "sinkhorn": (sinkhorn, sinkhorn_of_logarithms, sinkhorn_by_reciprocals),
    "newton_schulz": (newton_schulz, newton_schulz_from_the_right),
    "power_iteration": (power_iteration, power_iteration_by_norms),
}
MISTAKES: Mapping[str, Mapping[str, Chain]] = {
    "sinkhorn": {
        "sums of rows taken for constants": lambda x: sinkhorn(x, rows=torch.Tensor.detach),
        "all sums taken for constants": lambda x: sinkhorn(x, torch.Tensor.detach, torch.Tensor.detach),
        "sums of columns taken for constants": lambda x: sinkhorn(x, columns=torch.Tensor.detach),
        "a thousandth too much": lambda x: sinkhorn(_scaled(x, 1.001)),
        "a derivative by exp(x) in place of x": lambda x: sinkhorn(_derived_as(x, torch.exp(x))),
    },
    "newton_schulz": {
        "1.4 in the backward": lambda g: newton_schulz(g, linear=lambda x: _derived_as(1.5 * x, 1.4 * x)),
        "0.45 in the backward": lambda g: newton_schulz(g, cube=lambda step, x: _scaled(x @ x.T @ x, 0.9)),
        "the cube's derivative by one factor": lambda g: newton_schulz(
            g, cube=lambda step, x: _derived_as(x @ x.T @ x, 3 * (x @ x.T).detach() @ x)
        ),
        "no derivative of the last cube": lambda g: newton_schulz(
            g, cube=lambda step, x: (x @ x.T @ x).detach() if step == STEPS - 1 else x @ x.T @ x
        ),
        "half of the last cube": lambda g: newton_schulz(
            g, cube=lambda step, x: x @ x.T @ x * (0.5 if step == STEPS - 1 else 1)
        ),
    },
    "power_iteration": {
        "the norms taken for constants": lambda a, v: power_iteration(a, v, norm=lambda step, n: n.detach()),
        "the last norm taken for a constant": lambda a, v: power_iteration(
            a, v, norm=lambda step, n: n.detach() if step == STEPS - 1 else n
        ),
        "the last matrix alone": lambda a, v: power_iteration(
            a, v, matrix=lambda step, a: a if step == STEPS - 1 else a.detach()
        ),
        "the matrix transposed in the backward": lambda a, v: power_iteration(
            a, v, matrix=lambda step, a: _derived_as(a, a.T)
        ),
        "two steps less": lambda a, v: power_iteration(a, v, steps=STEPS - 2),
    },
}


@pytest.fixture(autouse=True)
def full_precision():
    with pinned():
        yield


@functools.cache
def _oracles(name: str) -> list[tuple[Oracle, Sample]]:
    """Oracles at samples that differ: all axes, one row, one column, and long ones."""
    return [(Oracle(SPECS[name](), sample), sample) for sample in few_samples(SPECS[name](), 0)]


def _wrong(chain: Chain, name: str, dtype: str) -> bool:
    """Whether any value or gradient is beyond its bound; one that has none, or no power, counts as right."""
    for oracle, sample in _oracles(name):
        candidate = Candidate(chain, "chain").bound({}, {}, oracle.returns)
        trial = Trial(candidate, oracle, sample, PRECISIONS[dtype], "cpu")
        for of in ("forward", "vjp"):
            args = trial.arguments(of)
            if not all(finding.holds for finding in trial.compare(of, args, trial.evaluate(of, args))):
                return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SPECS)
def test_right_code_is_within_its_bounds(name, dtype):
    assert [chain.__name__ for chain in RIGHT[name] if _wrong(chain, name, dtype)] == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SPECS)
def test_every_mistake_is_beyond_them(name, dtype):
    assert [mistake for mistake, chain in MISTAKES[name].items() if not _wrong(chain, name, dtype)] == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SPECS)
def test_right_code_passes_every_check(name, dtype):
    for chain in RIGHT[name][1:]:
        crosscheck(chain, SPECS[name](), checks=CHECKS, dtypes=[dtype], device="cpu").raise_if_failed()
