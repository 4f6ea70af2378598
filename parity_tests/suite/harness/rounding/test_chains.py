"""Twenty steps that correct themselves: right code passes in whatever order, and mistakes are convicted."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.suite.harness._ops import normal

STEPS = 20
CHECKS = ["forward", "vjp", "points", "linearity"]
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
    rows: Callable = lambda step, s: s,
    columns: Callable = lambda step, s: s,
    steps: int = STEPS,
) -> torch.Tensor:
    r = torch.exp(x)
    for step in range(steps):
        r = r / rows(step, r.sum(-1, keepdim=True))
        r = r / columns(step, r.sum(-2, keepdim=True))
    return r


def sinkhorn_of_logarithms(x: torch.Tensor) -> torch.Tensor:
    for _ in range(STEPS):
        x = x - torch.logsumexp(x, -1, keepdim=True)
        x = x - torch.logsumexp(x, -2, keepdim=True)
    return torch.exp(x)


def sinkhorn_of_scales(x: torch.Tensor) -> torch.Tensor:
    """By the factors of rows and columns alone, as optimal transport has it."""
    kernel = torch.exp(x - x.amax())
    v = torch.ones_like(kernel[0])
    for _ in range(STEPS):
        u = 1 / (kernel @ v)
        v = 1 / (kernel.T @ u)
    return u[:, None] * kernel * v


def _first_is(step: int, number: int, s: torch.Tensor) -> torch.Tensor:
    return s.detach() if step == number else s


# Newton and Schulz's iteration for the orthogonal factor of a matrix, as optimizers have it.


def newton_schulz(
    g: torch.Tensor,
    norm: Callable = lambda n: n,
    cube: Callable = lambda step, x: x @ x.T @ x,
    steps: int = STEPS,
) -> torch.Tensor:
    x = g / norm(torch.sqrt((g * g).sum()))
    for step in range(steps):
        x = 1.5 * x - 0.5 * cube(step, x)
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


def power_iteration_at_once(a: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    for _ in range(STEPS):
        v = torch.nn.functional.normalize((a * v).sum(-1), dim=0)
    return v


def _positive(rng, shape):
    return abs(normal(rng, shape)) + 0.1


SPECS = {
    "sinkhorn": OpSpec.from_torch(sinkhorn, inputs="x: (n,m)", sizes="n >= 1, m >= 1"),
    "newton_schulz": OpSpec.from_torch(newton_schulz, inputs="g: (n,m)", sizes="n >= 1, m >= 1"),
    "power_iteration": OpSpec.from_torch(power_iteration, inputs="a: (n,n) positive, v: (n) positive", sizes="n >= 1"),
}
RIGHT: Mapping[str, tuple[Chain, ...]] = {
    "sinkhorn": (sinkhorn, sinkhorn_of_logarithms, sinkhorn_of_scales),
    "newton_schulz": (newton_schulz, newton_schulz_from_the_right),
    "power_iteration": (power_iteration, power_iteration_at_once),
}
MISTAKES: Mapping[str, Mapping[str, Chain]] = {
    "sinkhorn": {
        "sums of rows taken for constants": lambda x: sinkhorn(x, rows=lambda step, s: s.detach()),
        "all sums taken for constants": lambda x: sinkhorn(x, *2 * (lambda step, s: s.detach(),)),
        "the first sum of columns taken for a constant": lambda x: sinkhorn(
            x, columns=lambda step, s: s.detach() if step == 0 else s
        ),
        "half of the derivative of the last sum": lambda x: sinkhorn(
            x, columns=lambda step, s: _scaled(s, 0.5) if step == STEPS - 1 else s
        ),
        "a derivative by exp(x) in place of x": lambda x: sinkhorn(_derived_as(x, torch.exp(x))),
    },
    "newton_schulz": {
        "the norm taken for a constant": lambda g: newton_schulz(g, norm=torch.Tensor.detach),
        "0.45 in the backward": lambda g: newton_schulz(g, cube=lambda step, x: _scaled(x @ x.T @ x, 0.9)),
        "the cube's derivative by one factor": lambda g: newton_schulz(
            g, cube=lambda step, x: _derived_as(x @ x.T @ x, 3 * (x @ x.T).detach() @ x)
        ),
        "no derivative of the last cube": lambda g: newton_schulz(
            g, cube=lambda step, x: (x @ x.T @ x).detach() if step == STEPS - 1 else x @ x.T @ x
        ),
        "half a step less": lambda g: newton_schulz(g, cube=lambda step, x: x @ x.T @ x * (1 - 1e-3 * (step == 0))),
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


def _verdicts(chain: Chain, name: str, dtype: str, checks: list[str]) -> set[Verdict]:
    report = crosscheck(chain, SPECS[name], checks=checks, dtypes=[dtype], device="cpu")
    return {row.verdict for row in report.rows if row.candidate != "oracle"}
