"""The checks of what surrounds a call: they alarm for nothing that PyTorch itself does, and leave no traces.

The mistakes that they are there for are in `planted`.
"""

from __future__ import annotations

import gc
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.harness.checks import CHECKS
from parity_tests.harness.specs.domains import integer
from parity_tests.suite.harness._ops import PAIR, SQUARE, Pair, judged, normal, pair, pair_backward, pair_function, rows
from parity_tests.suite.harness.checks.planted import mistake_of
from parity_tests.suite.harness.checks.planted.linearity import by_logarithms
from parity_tests.suite.marks import fast, marks

OF_CALLS = [
    "linearity",
    "in_place",
    "retain_graph",
    "interleaved",
    "aliases",
    "accumulation",
    "modes",
    "nonfinite_cotangents",
    "determinism",
    "saved_tensors",
    "checkpoint",
    "leaks",
]
OF_TRANSFORMS = ["compile", "make_fx", "fake", "autocast", "mixed_dtypes", "opcheck", "functorch"]


def _layer_norm(x, w, b):
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * w + b


def _spec(primal, signature="(n,m)->(n,m)", **options):
    return OpSpec("op", primal=primal, signature=signature, **options)


RIGHT = {
    "sigmoid": (torch.sigmoid, _spec(jax.nn.sigmoid)),
    "sigmoid, saturated": (torch.sigmoid, OpSpec("op", primal=jax.nn.sigmoid, inputs=(np.linspace(-80, 80, 33),))),
    "softmax": (lambda x: torch.softmax(x, -1), _spec(lambda x: jax.nn.softmax(x, axis=-1))),
    "layer_norm": (
        lambda x, w, b: F.layer_norm(x, x.shape[-1:], w, b),
        OpSpec("op", primal=_layer_norm, inputs=(normal(4, 6), normal(6), normal(6, seed=1))),
    ),
    "index": (
        lambda x, i: x[i],
        _spec(lambda x, i: x[i], "(n,m),(k)->(k,m)", domains={"i": integer(0, "n")}),
    ),
    "matmul": (torch.matmul, _spec(lambda x, y: x @ y, "(n,k),(k,m)->(n,m)")),
    "cumsum": (lambda x: torch.cumsum(x, 0), _spec(lambda x: jnp.cumsum(x, 0))),
    "identity: the output is the input": (lambda x: x, _spec(lambda x: 1 * x)),
    "expand: no entry of the output has memory of its own": (
        lambda x: x.expand(3, *x.shape),
        _spec(lambda x: jnp.broadcast_to(x, (3, *x.shape)), "(n,m)->(3,n,m)"),
    ),
    "unbind: several views": (lambda x: tuple(x.unbind(0)), _spec(lambda x: (x[0], x[1]), "(2,m)->(m),(m)")),
    "exp: every input may be edited, the output not": (torch.exp, _spec(jnp.exp)),
    "products of very different size": (
        lambda x, y: x * y,
        OpSpec("op", primal=lambda x, y: x * y, inputs=(np.logspace(-38, 2, 41), np.logspace(-3, 3, 41))),
    ),
    "vmap": (torch.vmap(torch.sin), _spec(jnp.sin)),
}
FAST = ("sigmoid", "layer_norm", "vmap")


@fast("sigmoid")
@pytest.mark.parametrize("name", marks(FAST, RIGHT))
def test_what_pytorch_does_is_no_mistake(name):
    call, spec = RIGHT[name]
    report = crosscheck(call, spec, checks=OF_CALLS, dtypes=["float64", "float16"], limits={})
    assert report.passed, str(report)


def test_they_look_at_one_sample():
    spec = OpSpec("product", primal=lambda x, y: x @ y, signature="(n,k),(k,m)->(n,m)")
    shapes = set()

    def product(x, y):
        if x.numel() and y.numel():  # whether it takes empty arrays is tried beforehand
            shapes.add((*x.shape, *y.shape))
        return x @ y

    assert crosscheck(product, spec, checks=OF_CALLS, dtypes=["float64"]).passed
    assert len(shapes) == 1
    generic = {name for name, check in CHECKS.items() if check.generic}
    on_request = ("int32_offsets", "large_sizes", "proof", "raises", "shortcuts", "race")
    assert generic == {
        *OF_CALLS,
        *OF_TRANSFORMS,
        "captured",
        "points",
        "points_second_order",
        "exact",
        "digits",
        *on_request,
    }


def _hvp_inside(x):
    return torch.func.grad(lambda z: (z**3).sum())(x) / 3


def _jvp_inside(x):
    return torch.func.jvp(lambda z: z**3, (x,), (torch.ones_like(x),))[1] / 3


@pytest.mark.parametrize(
    ("call", "refused"),
    [
        pytest.param(_hvp_inside, {"saved_tensors", "checkpoint"}, id="torch.func.grad"),
        pytest.param(_jvp_inside, {"determinism"}, id="torch.func.jvp"),
    ],
)
def test_what_pytorch_cannot_do_is_not_charged(call, refused):
    report = crosscheck(call, SQUARE, checks=OF_CALLS, dtypes=["float64"])
    assert report.passed, str(report)
    with torch.inference_mode():
        lost = set() if call(torch.ones(3)).all() else {"modes"}  # in PyTorch 2.11 such derivatives are zero there
    assert {row.check for row in rows(report) if row.verdict is Verdict.UNSUPPORTED} == refused | lost


def test_linearity_is_exact_where_the_bound_of_rounding_is_not():
    mistake, _ = mistake_of("linearity", "a unit in the last place, for large cotangents")
    failure = judged(mistake.call, PAIR, "linearity").failure
    assert failure is not None
    (wrong,) = failure.wrong
    assert wrong.allowed == 0
    assert wrong.error is not None
    assert 0 < wrong.error < 1e-11


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_backward_that_takes_logarithms_is_linear_up_to_rounding(dtype):
    row = judged(pair_function(backward=by_logarithms).apply, PAIR, "linearity", dtype)
    assert row.verdict is Verdict.PASS
    assert row.comparisons > 100


def test_an_edit_that_raises_is_evidence():
    """tanh(x) y: each of x, y is read by the backward, and so is the first output; PyTorch notices every edit."""
    row = judged(pair, PAIR, "in_place")
    assert row.verdict is Verdict.PASS
    assert row.comparisons > 2


def test_an_error_other_than_the_version_counters_is_not_excused():
    class Fails(Pair):
        @staticmethod
        def backward(ctx, *cotangents):
            raise RuntimeError("out of luck")

    row = judged(Fails.apply, PAIR, "in_place")
    assert row.verdict is Verdict.MISMATCH
    assert row.failure is not None
    (wrong,) = row.failure.wrong
    assert wrong.circumstance == "x edited in place before the backward"
    assert wrong.pattern.startswith("raises RuntimeError: out of luck (at test_protocol.py:")


def test_a_forward_that_saves_something_else_the_second_time():
    class Fickle(Pair):
        more = 8

        @staticmethod
        def setup_context(ctx, inputs, output):
            Fickle.more -= 1
            ctx.save_for_backward(*inputs, *[inputs[0]] * Fickle.more)

        @staticmethod
        def backward(ctx, *cotangents):
            return pair_backward(*ctx.saved_tensors[:2], *cotangents)

    assert judged(Fickle.apply, PAIR, "vjp").verdict is Verdict.PASS
    failure = judged(Fickle.apply, PAIR, "checkpoint").failure
    assert failure is not None
    assert failure.wrong[0].pattern.startswith("is refused by PyTorch: torch.utils.checkpoint: ")


def test_a_cache_that_is_bounded_is_no_leak():
    kept = []

    def call(x, y):
        kept[:] = [*kept[-20:], x.detach()]
        return pair(x, y)

    assert judged(call, PAIR, "leaks").verdict is Verdict.PASS
    kept_all = []
    assert judged(lambda x, y: kept_all.append(x.detach()) or pair(x, y), PAIR, "leaks").verdict is Verdict.MISMATCH


@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_is_left_behind(enabled):
    threads = set(threading.enumerate())
    try:
        (gc.enable if enabled else gc.disable)()
        assert crosscheck(pair, PAIR, checks=["determinism", "leaks"], dtypes=["float64"]).passed
        assert gc.isenabled() == enabled
    finally:
        gc.enable()
    assert sys.getprofile() is None
    assert set(threading.enumerate()) <= threads  # one that an earlier test had left may have ended meanwhile


class Recomputed(Pair):
    """Keeps an intermediate, and does without it while gradients are recorded: right."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        Pair.setup_context(ctx, inputs, output)
        ctx.t = torch.tanh(inputs[0].detach())

    @staticmethod
    def backward(ctx, *cotangents):
        (g, h), (x, y) = cotangents, ctx.saved_tensors
        t = torch.tanh(x) if torch.is_grad_enabled() else ctx.t
        return (1 - t * t) * y * g + y * y * h, t * g + 2 * x * y * h


class NotRecomputed(Recomputed):
    @staticmethod
    def backward(ctx, *cotangents):
        with torch.no_grad():
            t = ctx.t.clone()
        (g, h), (x, y) = cotangents, ctx.saved_tensors
        return (1 - t * t) * y * g + y * y * h, t * g + 2 * x * y * h


class HalfASecondOrder(Pair):
    """Wrong, and keeps nothing that changes with its inputs."""

    @staticmethod
    def setup_context(ctx, inputs, output):
        Pair.setup_context(ctx, inputs, output)
        ctx.one = torch.ones(3, 4, dtype=torch.float64)

    @staticmethod
    def backward(ctx, *cotangents):
        x, y = ctx.saved_tensors
        return pair_backward(ctx.one * x.detach(), y, *cotangents)


def test_a_residual_is_named_only_where_it_matters():
    assert judged(Recomputed.apply, PAIR, "vjp_of_vjp").verdict is Verdict.PASS
    texts = {}
    for call in (NotRecomputed, HalfASecondOrder):
        failure = judged(call.apply, PAIR, "vjp_of_vjp").failure
        assert failure is not None
        texts[call] = [wrong.pattern for wrong in failure.wrong if wrong.label == call.__name__]
    text = "saves an intermediate of shape (3, 4), which is a constant to autograd in second order"
    assert texts == {NotRecomputed: [text], HalfASecondOrder: []}


def test_an_undefined_cotangent_of_what_overflows_the_format_is_not_judged():
    spec = OpSpec("op", primal=jnp.exp, inputs=(np.full(4, 12.0),))
    row = judged(torch.exp, spec, "vjp_partial", "float16")  # 0 times infinity
    assert row.verdict is not Verdict.MISMATCH, row.failure


def test_what_a_thread_of_the_candidate_computes_is_not_traced():
    class Threaded(Pair):
        @staticmethod
        def backward(ctx, *cotangents):
            saved = ctx.saved_tensors
            with ThreadPoolExecutor(1) as other:
                return other.submit(pair_backward, *saved, *cotangents).result()

    row = judged(Threaded.apply, PAIR, "make_fx")
    assert (row.verdict, row.listed) == (Verdict.UNSUPPORTED, True)
    assert row.reason == "starts a thread, whose operations PyTorch does not trace"


class ByAddress(Pair):
    """tanh(x), once for every address."""

    known: ClassVar[dict[int, torch.Tensor]] = {}

    @staticmethod
    def forward(x, y):
        t = ByAddress.known.setdefault(x.data_ptr(), torch.tanh(x))
        return t * y, x * y * y


def test_results_that_are_kept_by_address_are_found_out_in_the_same_memory():
    ByAddress.known.clear()
    failure = judged(ByAddress.apply, PAIR, "interleaved").failure
    assert failure is not None
    assert {wrong.label for wrong in failure.wrong} >= {"first"}
