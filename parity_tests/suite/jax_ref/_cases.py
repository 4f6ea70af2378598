"""What the tests share: sizes, inputs by name, and the comparison to 1e-12."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

import jax_ref
from jax_ref import attn_primal


class Sizes(NamedTuple):
    """The axes: n queries, m keys, d and e features."""

    n: int
    m: int
    d: int
    e: int


ALL_DIFFER = Sizes(n=3, m=5, d=4, e=2)

AXES = {"q": "nd", "k": "md", "v": "me", "output": "ne", "attn": "nm"}


def shape(sizes: Sizes, name: str) -> tuple[int, ...]:
    """The shape of an argument or result; `q_dot`, `output_bar` and so on are shaped like their primal."""
    return tuple(getattr(sizes, axis) for axis in AXES[name.split("_")[0]])


def draw(sizes: Sizes, names: str | tuple[str, ...], *, seed: int, complex: bool = False) -> tuple[np.ndarray, ...]:
    """Random inputs, float64 or complex128, of a size that leaves tanh neither linear nor saturated."""
    rng = np.random.default_rng(seed)
    names = names.split() if isinstance(names, str) else names
    real = [0.7 * rng.normal(size=shape(sizes, name)) for name in names]
    if not complex:
        return tuple(real)
    # Half as large: tanh has poles at ±iπ/2.
    return tuple(0.5 * (x + 0.7j * rng.normal(size=x.shape)) for x in real)


def _is_none(x: Any) -> bool:
    return x is None


def same(actual: Any, expected: Any, *, zeros: bool | set[str] = False) -> None:
    """Every leaf equals its reference to 1e-12 of the reference's largest entry, in shape and in dtype.

    Sums of at most 8 terms leave about 1e-15; a mistake leaves about 1. `None` stands for zeros. Zeros in the reference
    would be no evidence, so they are an error unless the caller expects them: everywhere, or at the named leaves.
    """
    actual, expected = (jax.tree.leaves_with_path(tree, is_leaf=_is_none) for tree in (actual, expected))
    assert expected, "nothing to compare"
    assert [path for path, _ in actual] == [path for path, _ in expected]
    for (path, x), (_, reference) in zip(actual, expected, strict=True):
        at = jax.tree_util.keystr(path)
        reference = np.asarray(reference)
        scale = np.max(np.abs(reference), initial=0.0)
        assert np.isfinite(scale), at
        expected_zero = at in zeros if isinstance(zeros, set) else zeros
        assert expected_zero or scale > 0, f"{at}: the reference is zero"
        if x is None:
            assert scale == 0, f"{at} is None, an exact zero, but the reference has entries of {scale}"
            continue
        x = np.asarray(x)
        assert (x.shape, x.dtype) == (reference.shape, reference.dtype), at
        error = np.max(np.abs(x - reference), initial=0.0)
        assert error <= 1e-12 * scale, f"{at}: off by {error}, entries up to {scale}"


# The six maps by JAX's autodiff of the plain primal: each takes the arguments of the formula of the same name.


def jvp(q, k, v, *tangents):
    return jax.jvp(attn_primal, (q, k, v), tangents)[1]


def vjp(q, k, v, *cotangents):
    return jax.vjp(attn_primal, q, k, v)[1](cotangents)


def vjp_of_vjp(*args):
    return jax.vjp(vjp, *args[:5])[1](args[5:])


def jvp_of_vjp(*args):
    return jax.jvp(vjp, args[:5], args[5:])[1]


def vjp_of_jvp(*args):
    return jax.vjp(jvp, *args[:6])[1](args[6:])


def jvp_of_jvp(*args):
    return jax.jvp(jvp, args[:6], args[6:])[1]


class Formula(NamedTuple):
    """An explicit formula, the same map by autodiff, and the names of its arguments."""

    explicit: Callable
    autodiff: Callable
    arguments: tuple[str, ...]

    @property
    def directions(self) -> tuple[str, ...]:
        """The arguments that may be absent: all after q, k, v."""
        return self.arguments[3:]


def _formula(autodiff: Callable) -> Formula:
    explicit = getattr(jax_ref, f"attn_{autodiff.__name__}")
    return Formula(explicit, autodiff, tuple(inspect.signature(explicit).parameters))


FORMULAS = {f"attn_{f.__name__}": _formula(f) for f in (jvp, vjp, vjp_of_vjp, jvp_of_vjp, vjp_of_jvp, jvp_of_jvp)}


def _known(options: Mapping[str, object]) -> dict[str, object]:
    """Those of XLA's options that the installed one has; by JAX 0.12 it has lost one."""

    def is_known(name: str) -> bool:
        try:
            jax.jit(lambda x: x, compiler_options={name: options[name]})(0.0)
        except jax.errors.JaxRuntimeError as error:
            if "No such compile option" not in str(error):
                raise
            return False
        return True

    return {name: value for name, value in options.items() if is_known(name)}


# The arrays here are tiny and their compilation is not: these options make it five times as fast.
QUICK = _known({"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False})


def quick_jit(f: Callable) -> Callable:
    """jit, compiled in a hurry."""
    return jax.jit(f, compiler_options=QUICK)
