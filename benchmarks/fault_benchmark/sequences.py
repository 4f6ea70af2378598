"""Recurrences and cumulative sums along a sequence."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import torch

from benchmarks.fault_benchmark.kinds import (
    Fault,
    doubled_tile,
    entry,
    first_row_for_all,
    half,
    ignored,
    negated_column,
    shifted,
    sign,
    slight,
    stale_row,
    zero_row,
)
from benchmarks.fault_benchmark.operator import Operator

SIZES = {"small": {"n": 16, "d": 8}, "medium": {"n": 128, "d": 32}, "kernel": {"n": 1024, "d": 64}}


def _decays_and_inputs(rng, sizes):
    shape = sizes["n"], sizes["d"]
    return [rng.uniform(0.5, 0.99, shape), rng.standard_normal(shape)]


def _recurrence(a, b):
    def step(h, ab):
        h = ab[0] * h + ab[1]
        return h, h

    return jax.lax.scan(step, jnp.zeros_like(b[0]), (a, b))[1]


def _scanned(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return h with h[t] = a[t] h[t-1] + b[t], by doubling the number of steps that each entry covers."""
    reach = 1
    while reach < len(a):
        b = torch.cat([b[:reach], b[reach:] + a[reach:] * b[:-reach]])
        a = torch.cat([a[:reach], a[reach:] * a[:-reach]])
        reach *= 2
    return b


def _recurrence_forward(at, a, b):
    h = _scanned(a, b)
    return (h,), (a, h)


def _recurrence_backward(at, saved, bars):
    (a, h), g = saved, at("h_bar", bars[0])
    following = at("a of the next step", torch.cat([a[1:], torch.zeros_like(a[:1])]), a)
    b_bar = _scanned(following.flip(0), g.flip(0)).flip(0)
    before = at("h of the step before", torch.cat([torch.zeros_like(h[:1]), h[:-1]]), h)
    return at("a_bar", b_bar * before), at("b_bar", b_bar)


def _cut_in_the_middle(x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
    middle = len(x) // 2
    return torch.cat([x[: middle - 1], torch.zeros_like(x[:1]), x[middle:]])


RECURRENCE = Operator(
    "linear recurrence",
    _recurrence,
    ("a", "b"),
    _decays_and_inputs,
    _recurrence_forward,
    _recurrence_backward,
    (
        Fault("the decay is that of this step and not of the next", "index", {"a of the next step": lambda x, a: a}),
        Fault("a_bar has h of this step and not of the step before", "index", {"h of the step before": lambda x, h: h}),
        Fault("the carry is lost between two blocks of steps", "term", {"a of the next step": _cut_in_the_middle}),
        Fault(
            "h is taken to be 0 at the start of a block of steps", "stale", {"h of the step before": _cut_in_the_middle}
        ),
        Fault(
            "the decay is at most 0.95 in the backward",
            "formula",
            {"a of the next step": lambda x, a: x.clamp(max=0.95)},
        ),
        Fault(
            "the decay is left out in the backward", "factor", {"a of the next step": lambda x, a: torch.ones_like(x)}
        ),
        stale_row("h of the step before", "the saved h of one step is 10 % too large"),
        shifted("h_bar", "h_bar is that of the step before"),
        half("a_bar"),
        entry("b_bar"),
        negated_column("a_bar"),
        slight("b_bar"),
    ),
    SIZES,
)


def _rows_of_steps(rng, sizes):
    return [rng.standard_normal((sizes["n"], sizes["d"]))]


def _cumsum_forward(at, x):
    return (x.cumsum(0),), (x,)


def _cumsum_backward(at, saved, bars):
    g = at("y_bar", bars[0])
    return (at("x_bar", g.flip(0).cumsum(0).flip(0), g),)


def _in_two_blocks(x_bar, g):
    middle = len(g) // 2
    return torch.cat([x_bar[:middle] - x_bar[middle], x_bar[middle:]])


CUMSUM = Operator(
    "cumulative sum",
    lambda x: jnp.cumsum(x, axis=0),
    ("x",),
    _rows_of_steps,
    _cumsum_forward,
    _cumsum_backward,
    (
        Fault("the sum is exclusive", "index", {"x_bar": lambda x, g: x - g}),
        Fault("the sum runs forward", "order", {"x_bar": lambda x, g: g.cumsum(0)}),
        Fault("the carry is lost between two blocks of steps", "term", {"x_bar": _in_two_blocks}),
        Fault("the last step is left out", "sum", {"x_bar": lambda x, g: x - g[-1:]}),
        Fault(
            "the last column is that of the column before",
            "index",
            {"x_bar": lambda x, g: torch.cat([x[:, :-1], x[:, -2:-1]], 1)},
        ),
        shifted("y_bar", "y_bar is that of the column before", axis=1),
        first_row_for_all("y_bar"),
        sign("x_bar"),
        half("x_bar"),
        entry("x_bar"),
        zero_row("x_bar"),
        doubled_tile("x_bar"),
        slight("x_bar"),
    ),
    SIZES,
)


def _gated(rng, sizes):
    shape = sizes["n"], sizes["d"]
    return [rng.standard_normal(shape), rng.standard_normal(shape), rng.standard_normal(shape)]


def _gate(g, x, y):
    s = jax.nn.sigmoid(g)
    return s * x + (1 - s) * y, s


def _gate_forward(at, g, x, y):
    s = torch.sigmoid(g)
    return (s * x + (1 - s) * y, s), (x, y, s)


def _gate_backward(at, saved, bars):
    (x, y, s), output_bar, s_bar = saved, at("output_bar", bars[0]), at("s_bar", bars[1])
    slope = at("slope", s * (1 - s), s)
    g_bar = (output_bar * at("difference", x - y, x, y) + s_bar) * slope
    return at("g_bar", g_bar), at("x_bar", output_bar * s), at("y_bar", output_bar * at("other gate", 1 - s, s))


GATE = Operator(
    "gated sum, and its gate",
    _gate,
    ("g", "x", "y"),
    _gated,
    _gate_forward,
    _gate_backward,
    (
        ignored("s_bar"),
        Fault("y is left out of g_bar", "term", {"difference": lambda d, x, y: x}),
        Fault("the slope is 1 - s, a factor s is missing", "factor", {"slope": lambda p, s: 1 - s}),
        Fault("the slope is that of a tanh", "formula", {"slope": lambda p, s: 1 - s * s}),
        Fault("y_bar has the gate of x", "order", {"other gate": lambda o, s: s}),
        Fault("the difference has the wrong sign", "sign", {"difference": lambda d, x, y: -d}),
        first_row_for_all("output_bar"),
        half("x_bar"),
        entry("g_bar"),
        doubled_tile("y_bar"),
        zero_row("x_bar"),
        slight("g_bar"),
    ),
    SIZES,
)

OPERATORS = (RECURRENCE, CUMSUM, GATE)
