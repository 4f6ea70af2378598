"""Along a sequence: running sums and products, recurrences, pooling, sorting."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from torch.nn import functional

from parity_tests.harness.specs.spec import OpSpec
from parity_tests.operators import sites
from parity_tests.operators.operator import Formulas, Mistake, Operator, by_formulas, function

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


recurrence = by_formulas(
    _recurrence,
    Formulas("linear recurrence", _decays_and_inputs, _recurrence_forward, _recurrence_backward, SIZES),
    ("the decay is that of this step and not of the next", "index", {"a of the next step": lambda x, a: a}),
    ("a_bar has h of this step and not of the step before", "index", {"h of the step before": lambda x, h: h}),
    ("the carry is lost between two blocks of steps", "term", {"a of the next step": _cut_in_the_middle}),
    ("h is taken to be 0 at the start of a block of steps", "stale", {"h of the step before": _cut_in_the_middle}),
    (
        "the decay is at most 0.95 in the backward",
        "formula",
        {"a of the next step": lambda x, a: x.clamp(max=0.95)},
    ),
    ("the decay is left out in the backward", "factor", {"a of the next step": lambda x, a: torch.ones_like(x)}),
    sites.stale_row("h of the step before", "the saved h of one step is 10 % too large"),
    sites.shifted("h_bar", "h_bar is that of the step before"),
    sites.half("a_bar"),
    sites.entry("b_bar"),
    sites.negated_column("a_bar"),
    sites.slight("b_bar"),
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


gate = by_formulas(
    _gate,
    Formulas("gated sum, and its gate", _gated, _gate_forward, _gate_backward, SIZES),
    sites.ignored("s_bar"),
    ("y is left out of g_bar", "term", {"difference": lambda d, x, y: x}),
    ("the slope is 1 - s, a factor s is missing", "factor", {"slope": lambda p, s: 1 - s}),
    ("the slope is that of a tanh", "formula", {"slope": lambda p, s: 1 - s * s}),
    ("y_bar has the gate of x", "order", {"other gate": lambda o, s: s}),
    ("the difference has the wrong sign", "sign", {"difference": lambda d, x, y: -d}),
    sites.first_row_for_all("output_bar"),
    sites.half("x_bar"),
    sites.entry("g_bar"),
    sites.doubled_tile("y_bar"),
    sites.zero_row("x_bar"),
    sites.slight("g_bar"),
)


# Running sum and product


def _rows_of_steps(rng, sizes):
    return [rng.standard_normal((sizes["n"], sizes["d"]))]


def _cumsum_forward(at, x):
    return (x.cumsum(0),), (x,)


def _cumsum_backward(at, saved, bars):
    g = at("y_bar", bars[0])
    return (at("x_bar", g.flip(0).cumsum(0).flip(0), g),)


def _in_two_blocks(x_bar, g):
    middle = len(g) // 2
    return torch.cat([x_bar[:middle] - x_bar[middle : middle + 1], x_bar[middle:]])


def _cumsum_16_bits(x):
    total, sums = torch.zeros_like(x[0]), []
    for entry in x:
        total = total + entry
        sums.append(total)
    return torch.stack(sums)


_CUMSUM = Formulas("cumulative sum", _rows_of_steps, _cumsum_forward, _cumsum_backward, SIZES)
cumsum = Operator(
    OpSpec("cumsum", lambda x: jnp.cumsum(x, axis=0), "(n,m)->(n,m)"),
    _CUMSUM.composed,
    {
        "not_reversed": Mistake(
            function(_CUMSUM.composed, lambda x, w: w.cumsum(0), lambda x, d: d.cumsum(0)),
            "vjp",
            passes=("forward", "jvp"),
        ),
        "without_the_last": _CUMSUM.mistake({"x_bar": lambda x_bar, g: x_bar - g}),
        "16_bit_accumulator": Mistake(lambda x: _cumsum_16_bits(x) if len(x) else x * 1, "forward", "bfloat16"),
    }
    | _CUMSUM.planted(
        ("the sum is exclusive", "index", {"x_bar": lambda x, g: x - g}),
        ("the sum runs forward", "order", {"x_bar": lambda x, g: g.cumsum(0)}),
        ("the carry is lost between two blocks of steps", "term", {"x_bar": _in_two_blocks}),
        ("the last step is left out", "sum", {"x_bar": lambda x, g: x - g[-1:]}),
        (
            "the last column is that of the column before",
            "index",
            {"x_bar": lambda x, g: torch.cat([x[:, :-1], x[:, -2:][:, :1]], 1)},
        ),
        sites.shifted("y_bar", "y_bar is that of the column before", axis=1),
        sites.first_row_for_all("y_bar"),
        sites.sign("x_bar"),
        sites.half("x_bar"),
        sites.entry("x_bar"),
        sites.zero_row("x_bar"),
        sites.doubled_tile("x_bar"),
        sites.slight("x_bar"),
    ),
    _CUMSUM,
)


def _cumprod(x):
    # Not x.cumprod(-1), whose second derivatives by forward mode are wrong beside a zero.
    products = [x[..., 0]]
    for factor in x.unbind(-1)[1:]:
        products.append(products[-1] * factor)
    return torch.stack(products, -1)


def with_zeros(rng, shape):
    """Numbers of which one in five is zero."""
    return rng.standard_normal(shape) * (rng.random(shape) < 0.8)


cumprod = Operator(
    OpSpec("cumprod", lambda x: jnp.cumprod(x, axis=-1), "(n,4)->(n,4)", input_names=("x",), domains={"x": with_zeros}),
    _cumprod,
    {
        "divided_by_zero": Mistake(
            function(_cumprod, lambda x, w: (w * x.cumprod(-1)).flip(-1).cumsum(-1).flip(-1) / x), "vjp"
        ),
        "running_sum_of_the_wrong_end": Mistake(
            function(_cumprod, lambda x, w: (w * x.cumprod(-1)).cumsum(-1) / x), "vjp", passes=("forward",)
        ),
    },
)

# Maximum pooling, and sorting


def _pool(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (2, 3), (2, 2), ((0, 0), (1, 1)))


def _pool_torch(x):
    return functional.max_pool2d(x[None, None], (2, 3), (2, 2), (0, 1))[0, 0]


def _averaged_back(x, w):
    rows, columns = (torch.arange(n) // 2 for n in x.shape)
    return w[rows][:, columns] / 6


max_pool = Operator(
    OpSpec("max_pool", _pool, "(4,6)->(2,3)", input_names=("x",)),
    _pool_torch,
    {
        "averaged_backward": Mistake(function(_pool_torch, _averaged_back), "vjp", passes=("forward",)),
        "without_padding": Mistake(
            lambda x: functional.max_pool2d(functional.pad(x[None, None], (0, 2)), (2, 3), (2, 2))[0, 0], "forward"
        ),
    },
)


def _apart(rng, shape):
    """Numbers that no rounding reorders: a permutation of 1/2, 1, 3/2, ..., with random signs."""
    order = rng.permuted(np.broadcast_to(np.arange(1, shape[-1] + 1) / 2, shape), axis=-1)
    return order * np.where(rng.random(shape) < 0.5, -1, 1)


def _sort(x):
    return x.sort(-1).values


sort = Operator(
    OpSpec("sort", lambda x: jnp.sort(x, axis=-1) ** 2, "(n,5)->(n,5)", domains={"x": _apart}),
    lambda x: _sort(x) ** 2,
    {
        "permuted_instead_of_restored": Mistake(
            function(lambda x: _sort(x) ** 2, lambda x, w: (2 * w * _sort(x)).gather(-1, x.argsort(-1))), "vjp"
        ),
        "cotangent_not_sent_back": Mistake(function(lambda x: _sort(x) ** 2, lambda x, w: 2 * w * x), "vjp"),
    },
)
