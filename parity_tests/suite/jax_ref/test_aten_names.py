"""`jax_ref.aten` by names: every operator flat, overloads by their arguments, typed, and a hint at a wrong name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from jax_ref import aten
from jax_ref.aten import _packets
from parity_tests.suite.marks import fast
from parity_tests.sweep.coverage import packets
from parity_tests.sweep.stubs import STUBS, of_aten

ROOT = Path(__file__).parents[3]
X = np.random.default_rng(0).standard_normal((2, 3, 4))
AT = np.array([[[0, 1, 0, 1]]])

# Calls that mean in PyTorch's Python what they mean here, by the function in torch.
CALLS: dict[str, tuple[Callable, Callable]] = {
    name: (calls, getattr(torch, name.partition(" ")[0]))
    for name, calls in {
        "sum": lambda f, x: [f(x), f(x, 1), f(x, [0, 2]), f(x, -1, True), f(x, dim=1, keepdim=True)],
        "mean": lambda f, x: [f(x), f(x, 1), f(x, [0, 2], True)],
        "var": lambda f, x: [f(x), f(x, 1), f(x, False), f(x, unbiased=False), f(x, [0, 1], True, True)],
        "var corrected": lambda f, x: [f(x, 1, correction=0), f(x, correction=2), f(x, 1, keepdim=True), f(x, dim=2)],
        "std": lambda f, x: [f(x), f(x, 1), f(x, False), f(x, 1, False), f(x, 1, correction=2), f(x, (0, 2))],
        "var_mean": lambda f, x: [*f(x), *f(x, 1), *f(x, False), *f(x, 1, correction=0)],
        "std_mean": lambda f, x: [*f(x), *f(x, 1), *f(x, False), *f(x, [1, 2], keepdim=True)],
        "max": lambda f, x: [f(x), *f(x, 1), f(x, x * 0), *f(x, 1, True), f(x, other=x * 0)],
        "min": lambda f, x: [f(x), *f(x, 1), f(x, x * 0), *f(x, dim=1)],
        "argmax": lambda f, x: [f(x), f(x, 1), f(x, -1, True)],
        "prod": lambda f, x: [f(x), f(x, 1), f(x, 1, True)],
        "softmax": lambda f, x: [f(x, 1), f(x, dim=-1)],
        "log_softmax": lambda f, x: [f(x, 1)],
        "logsumexp": lambda f, x: [f(x, 1), f(x, [0, 1], True)],
        "norm": lambda f, x: [f(x), f(x, 1), f(x, 2, 1), f(x, 3, [0, 1], True)],
        "isin": lambda f, x: [f(x, x[0]), f(x, 0.0), f(0.0, x)],
        "all": lambda f, x: [f(x > 0), f(x > 0, 1)],
        "median": lambda f, x: [f(x), *f(x, 1)],
        "squeeze": lambda f, x: [f(x[:1]), f(x[:1], 0), f(x, 1)],
        "transpose": lambda f, x: [f(x, 0, 1)],
        "flatten": lambda f, x: [f(x), f(x, 1)],
    }.items()
}  # fmt: skip


def test_every_operator_has_its_name():
    flat = set(dir(aten)) - {"OPERATORS", "missing", "packets", "Operators"}
    families = {aten.OPERATORS.family(name) for name in aten.OPERATORS}
    assert packets() <= flat
    assert flat - packets() - families == {name for name in flat if name.startswith("__")} | {"_packets"} | {
        name for name in flat if inspect.ismodule(getattr(aten, name)) and name.startswith("_")
    }
    for name in aten.OPERATORS:
        assert inspect.getdoc(getattr(aten, name.removeprefix("aten::").partition(".")[0])), name


@fast("sum", "var")
@pytest.mark.parametrize("name", CALLS)
def test_a_call_means_what_it_means_in_pytorch(name: str):
    calls, theirs = CALLS[name]
    ours = getattr(aten, name.partition(" ")[0])
    found, right = calls(ours, jnp.asarray(X)), calls(theirs, torch.from_numpy(X))
    assert len(found) == len(right) > 0
    for i, (a, b) in enumerate(zip(found, right, strict=True)):
        assert a.shape == tuple(b.shape), i
        # Sums and products of 24 numbers of about 1: 24 units in the last place, and as many in PyTorch's.
        np.testing.assert_allclose(a, b.numpy(), rtol=48 * 2**-52, atol=48 * 2**-52, err_msg=str(i))


def test_the_first_overload_alone_would_be_wrong():
    """The dispatch decides: `aten::var` alone is the variance of everything."""
    assert aten.OPERATORS["var"](jnp.asarray(X), 1).shape == ()
    assert aten.var(jnp.asarray(X), 1).shape == (2, 4)


def test_every_overload_is_reached():
    x, image = jnp.asarray(X), jnp.ones((1, 1, 4, 4))
    index = jnp.asarray(AT)
    reached = {
        "scatter": [aten.scatter(x, 0, index, x), aten.OPERATORS["scatter"](x, 0, index, x)],
        "scatter.value": [aten.scatter(x, 0, index, value=2.0), aten.OPERATORS["scatter"](x, 0, index, 2.0)],
        "upsample_nearest2d": [aten.upsample_nearest2d(image, [8, 2], None, 0.5), jnp.ones((1, 1, 8, 2))],
        "upsample_nearest2d.vec": [aten.upsample_nearest2d(image, None, [2.0, 0.5]), jnp.ones((1, 1, 8, 2))],
        "isin.Tensor_Scalar": [aten.isin(x, test_element=X[0, 0, 0]), x == X[0, 0, 0]],
    }
    for name, (found, right) in reached.items():
        np.testing.assert_array_equal(found, right, err_msg=name)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("sofmax", "jax_ref.aten has no operator 'sofmax'; did you mean 'softmax' or "),
        ("add_", r"a JAX array is not written to: x = aten.add\(x, ...\)"),
        (
            "cross_entropy",
            "torch.nn.functional's is jax_ref.functional.cross_entropy; did you mean 'cross_entropy_loss'",
        ),
        ("quite_another", r"has no operator 'quite_another'; dir\(jax_ref.aten\) has the names of all"),
    ],
)
def test_a_name_that_there_is_not(name: str, message: str):
    with pytest.raises(AttributeError, match=message):
        getattr(aten, name)


def test_a_key_that_there_is_not():
    assert aten.OPERATORS["log_softmax"] is aten.OPERATORS["aten::log_softmax.int"] is aten.log_softmax
    with pytest.raises(KeyError, match="no aten::log_sofmax; did you mean 'log_softmax'"):
        aten.OPERATORS["log_sofmax"]


def test_arguments_that_no_overload_takes():
    with pytest.raises(TypeError) as raised:
        aten.var(jnp.ones((2, 3), "float32"), "rows")
    first, *shown = str(raised.value).splitlines()
    assert first == "aten.var does not take (float32[2,3], 'rows'), but"
    assert shown[0] == "    var(self: ArrayLike, unbiased: bool = True) -> Array"


def test_an_operator_with_the_name_of_a_family_is_refused():
    with pytest.raises(ValueError, match=r"jax_ref.aten.tanh is a module"):
        _packets.packets(aten.OPERATORS, taken={"tanh"})


@pytest.mark.parametrize("path", STUBS)
def test_the_stubs_are_up_to_date(path: str):
    """`python -m parity_tests.sweep.stubs`"""
    assert (ROOT / path).read_text(encoding="utf-8") == STUBS[path]()


def test_a_stub_that_is_not_up_to_date_is_noticed(monkeypatch: pytest.MonkeyPatch):
    def tanh(self: jax.Array, bogus: int = 1) -> jax.Array:
        """Another signature."""
        return self

    monkeypatch.setitem(aten.OPERATORS._functions, "aten::var", tanh)
    assert (ROOT / "jax_ref/aten/__init__.pyi").read_text(encoding="utf-8") != of_aten()
