"""`jax_ref.aten` is certified on PyTorch's own samples, and what is wrong with a function is told."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections import Counter
from collections.abc import Callable, Collection

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from jax_ref import aten
from parity_tests.suite.rotation import rotating
from parity_tests.sweep.certification import certify
from parity_tests.sweep.coverage import packets
from parity_tests.sweep.own_calls import own_calls
from parity_tests.sweep.recorded_calls import RecordedCall, recorded_calls


def call_of(name: str, **arguments: object) -> RecordedCall:
    """A call of an operator with these arguments, and PyTorch's result."""
    packet, _, overload = name.removeprefix("aten::").partition(".")
    function = getattr(getattr(torch.ops.aten, packet), overload or "default")
    given = {k: torch.from_numpy(v) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    results = function(**given)
    returned = results if isinstance(results, list | tuple) else (results,)
    return RecordedCall(name, arguments, tuple(y.numpy() for y in returned), "by hand")


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape)


def kinds(function: Callable, call: RecordedCall) -> list[str]:
    return [each.kind for each in certify(function, call)]


@jax.custom_jvp
def _cubed_with_a_wrong_slope(self):
    return self**3


@_cubed_with_a_wrong_slope.defjvp
def _(primals, tangents):
    return _cubed_with_a_wrong_slope(primals[0]), 2 * primals[0] ** 2 * tangents[0]


@jax.custom_jvp
def _untransposed(self):
    return jnp.sin(self)


@_untransposed.defjvp
def _(primals, tangents):
    # What autodiff transposes is not what the JVP computes.
    slope = jax.custom_derivatives.linear_call(
        lambda x, t: jnp.cos(x) * t, lambda x, w: 2 * jnp.cos(x) * w, primals[0], tangents[0]
    )
    return jnp.sin(primals[0]), slope


X = normal(3, 4)
MISTAKES = {  # the function, a call, and the kind of what is wrong
    "another function": (lambda self: jnp.sinh(self), call_of("aten::sin", self=X), "values"),
    "a factor of 1 + 1e-6": (lambda self: jnp.sin(self) * (1 + 1e-6), call_of("aten::sin", self=X), "values"),
    "another axis": (
        lambda self, dim: jax.nn.softmax(self, 0),
        call_of("aten::softmax.int", self=X, dim=1),
        "values",
    ),
    "another dtype": (lambda self: jnp.sin(self).astype(np.float32), call_of("aten::sin", self=X), "values"),
    "another shape": (
        lambda self, dim, keepdim: jnp.sum(self, axis=1),
        call_of("aten::sum.dim_IntList", self=X, dim=[1], keepdim=True),
        "values",
    ),
    "the index of another entry": (
        lambda self, dim: (jnp.nanmedian(self, dim), jnp.argmax(self, dim)),
        call_of("aten::nanmedian.dim", self=X[:, :3], dim=1),
        "values",
    ),
    "another name of an argument": (lambda x: jnp.sin(x), call_of("aten::sin", self=X), "values"),
    "NaN where PyTorch has a number": (lambda self: self * (self / self), call_of("aten::abs", self=0 * X), "values"),
    "a wrong JVP": (
        lambda self, exponent: _cubed_with_a_wrong_slope(self),
        call_of("aten::pow.Tensor_Scalar", self=X, exponent=3),
        "JVP",
    ),
    "NaN from where": (
        lambda self: jnp.where(self > 0, jnp.sqrt(self), jnp.zeros_like(self)),
        RecordedCall("aten::sqrt", {"self": -abs(X)}, (np.zeros_like(X),), "by hand"),
        "VJP",
    ),
    "a VJP that is not the transpose": (lambda self: _untransposed(self), call_of("aten::sin", self=X), "VJP"),
    "a derivative that raises": (
        lambda self: jax.lax.while_loop(lambda s: s[0] < 1, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, self))[1],
        call_of("aten::sin", self=X),
        "JVP",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told(name):
    function, call, kind = MISTAKES[name]
    assert kinds(function, call)[:1] == [kind]


def test_what_rounding_leaves_of_a_part_is_no_mistake():
    call = RecordedCall("aten::sin", {"self": X}, (X + 1e-16j * X[::-1],), "by hand")
    assert kinds(lambda self: self + 0j, call) == []
    assert kinds(lambda self: self + 1e-6j, call)[:1] == ["values"]


@pytest.mark.slow
def test_what_rounding_leaves_where_terms_cancel_is_no_mistake():
    """The gradient of a layer norm over one entry is 0."""
    x, w = normal(5, 1), normal(1)
    mean, rstd = x, np.full((5, 1), 1e-5**-0.5)
    call = call_of(
        *("aten::native_layer_norm_backward",),
        **{"grad_out": x[::-1].copy(), "input": x, "normalized_shape": [1], "mean": mean, "rstd": rstd},
        **{"weight": w, "bias": w, "output_mask": [True, True, True]},
    )
    right = aten.OPERATORS[call.name]
    assert kinds(right, call) == []
    assert kinds(lambda **given: (right(**given)[0] + 1e-9, *right(**given)[1:]), call)[:1] == ["values"]


def test_a_kink_is_no_mistake():
    assert kinds(lambda self: jnp.abs(self), call_of("aten::abs", self=0 * X)) == []
    assert kinds(aten.pointwise.maximum, call_of("aten::maximum", self=X, other=X)) == []


@functools.cache
def _writes(name: str) -> bool:
    """Whether an operator writes to an argument, as `amax.out` and, in training, `rrelu_with_noise` do."""
    packet, _, overload = name.removeprefix("aten::").partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload or "default")._schema.is_mutable


_SAMPLES = 12  # of each OpInfo: with 8 of them attention on the CPU is not reached


def certified(
    opinfos: Collection[str] | None, dtype: torch.dtype, of: Collection[str] | None = None
) -> tuple[set[str], dict[str, str]]:
    """The operators that these OpInfos reach, and what is wrong with which.

    Of an operator's calls with different shapes and options two are taken, the first of them with its derivatives.
    `of`: the operators that are certified, without their overloads; all if None.
    """
    of = {f"aten::{packet}" for packet in (packets() if of is None else of)}
    reached: Counter[str] = Counter()
    seen, wrong = set(), {}

    class Wanted(set):
        def __contains__(self, name: object) -> bool:
            packet = str(name).partition(".")[0]
            return packet in of and str(name) in aten.OPERATORS and reached[packet] < 2 and not _writes(str(name))

    of_our_own = own_calls() if opinfos is None and dtype == torch.float64 else ()
    for call in itertools.chain(of_our_own, recorded_calls(Wanted(), opinfos, [dtype], samples=_SAMPLES)):
        packet = call.name.partition(".")[0]
        if packet not in of or call.signature in seen or reached[packet] == 2:
            continue
        seen.add(call.signature)
        reached[packet] += 1
        found = certify(aten.OPERATORS[call.name], call, reached[packet] == 1)
        if found:
            wrong[call.name] = f"{found[0].kind}: {found[0].text} ({call.source})"
    return set(reached), wrong


@pytest.mark.slow
def test_calls_of_our_own():
    """Of operators that no OpInfo reaches; `test_every_operator` has all of them."""
    calls = {call.name.removeprefix("aten::").partition(".")[0]: call for call in own_calls()}
    assert calls.keys() <= packets()
    for name in OWN_SAMPLED:
        assert certify(aten.OPERATORS[calls[name].name], calls[name], True) == [], name


OWN_SAMPLED = (
    "_conj_copy",
    "_embedding_bag",
    "_fused_rms_norm_backward",
    "_masked_softmax",
    "_pack_padded_sequence",
    "_weight_norm_interface",
    "affine_grid_generator",
    "max_pool2d_backward",
    "nll_loss2d",
)
SAMPLED = ("tanh", "logsumexp")


@pytest.mark.slow
def test_some_operators():
    reached, wrong = certified(SAMPLED, torch.float64)
    assert wrong == {}
    assert {"aten::tanh", "aten::logsumexp"} <= reached


DTYPES = pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=["float64", "complex128"])


PARTS = 32


@pytest.mark.slow
@rotating(PARTS, by="part")
@DTYPES
@pytest.mark.parametrize("part", range(PARTS))
def test_every_operator(dtype, part):
    """At two of its calls; `python -m benchmarks.certification` takes all samples of all OpInfos."""
    names = set(sorted(packets())[part::PARTS])
    reached, wrong = certified(None, dtype, of=names)
    assert not wrong, "\n".join(f"{name} {what}" for name, what in wrong.items())
    if dtype == torch.float64:
        assert names == {name.removeprefix("aten::") for name in reached}


# PyTorch 2.15 calls `grad` so.
ALSO_TAKEN = {name: {"grad_output"} for name in ("aten::_cdist_backward", "aten::_pdist_backward")}


# PyTorch 2.15 has only linalg_cholesky, PyTorch 2.11 no resampling by lanczos.
NOT_IN_EVERY_PYTORCH = ("cholesky", "_upsample_lanczos2d_aa", "_upsample_lanczos2d_aa_backward")


def test_the_arguments_are_those_of_the_schema():
    """By name and in order: whoever has a call of ATen can make it here."""
    import inspect

    wrong = {}
    for name, function in aten.OPERATORS.items():
        packet, _, overload = name.removeprefix("aten::").partition(".")
        if packet in NOT_IN_EVERY_PYTORCH and not hasattr(torch.ops.aten, packet):
            continue
        overloads = [overload] if overload else getattr(torch.ops.aten, packet).overloads()
        taken = inspect.signature(function).parameters.values()
        names = {p.name for p in taken if p.kind is not p.VAR_POSITIONAL} | ALSO_TAKEN.get(name, set())
        schemas = [getattr(getattr(torch.ops.aten, packet), each)._schema for each in overloads]
        if not any(names >= {a.name for a in schema.arguments if not _left_out(a)} for schema in schemas):
            wrong[name] = names
    assert wrong == {}


@pytest.mark.slow
def test_the_backward_of_distances_takes_its_cotangent_by_both_names():
    x, back = jnp.asarray([[0.0, 0.0], [3.0, 4.0]]), aten.OPERATORS["aten::_pdist_backward"]
    for name in ("grad", "grad_output"):
        gradient = back(**{name: jnp.ones(1)}, self=x, p=2.0, pdist=jnp.asarray([5.0]))
        np.testing.assert_allclose(gradient, [[-0.6, -0.8], [0.6, 0.8]], rtol=1e-6)


# Overloads that no function here serves: TorchScript's own, of lists; bits read as another dtype; indices as a tuple;
# products of another dtype than the factors', which PyTorch has on GPUs only; axes with names.
NOT_SERVED = {
    *("aten::index.list_Tensor", "aten::view.dtype", "aten::view_copy.dtype", "aten::where"),
    *("aten::mm.dtype", "aten::bmm.dtype", "aten::addmm.dtype", "aten::baddbmm.dtype"),
}


def test_every_overload_has_its_arguments():
    """What `name in OPERATORS` promises: an overload without a function of its own has the same arguments."""
    import inspect

    unserved = set()
    for packet in {name.removeprefix("aten::").partition(".")[0] for name in aten.OPERATORS}:
        for overload in getattr(torch.ops.aten, packet).overloads() if hasattr(torch.ops.aten, packet) else ():
            schema = getattr(getattr(torch.ops.aten, packet), overload)._schema
            name = f"aten::{packet}" + ("" if overload == "default" else f".{overload}")
            if schema.is_mutable or "Tensor " not in str(schema) or _names_its_axes(schema):
                continue
            taken = {*inspect.signature(aten.OPERATORS[name]).parameters} | ALSO_TAKEN.get(name, set())
            if not {a.name for a in schema.arguments if not _left_out(a)} <= taken:
                unserved.add(name)
    assert unserved - NOT_SERVED == set()


def _names_its_axes(schema) -> bool:
    """As PyTorch 2.11 has overloads for."""
    return any(argument.name in ("dim", "dims") and "str" in str(argument.type) for argument in schema.arguments)


def _left_out(argument) -> bool:
    return argument.name in ("device", "layout", "pin_memory", "memory_format", "non_blocking", "generator")


def test_nothing_of_pytorch_is_needed():
    assert aten.OPERATORS["aten::add.Tensor"](1.0, jnp.ones(2)).tolist() == [2, 2]
    with pytest.raises(KeyError, match=r"jax_ref.aten has no aten::made_up"):
        aten.OPERATORS["made_up"]
    assert "aten::tanh" in aten.OPERATORS
    assert "made_up" not in aten.OPERATORS
    assert aten.OPERATORS.family("aten::tanh") == "pointwise"


def test_recording_leaves_random_numbers_as_they_were():
    before = torch.random.get_rng_state()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(recorded_calls(aten.OPERATORS, ["tanh"]))
    assert torch.equal(torch.random.get_rng_state(), before)
