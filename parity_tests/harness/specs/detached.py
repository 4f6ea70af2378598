"""References that detach what matters: their gradient is no derivative of their values, and is judged as it is.

An input that is used detached only is none of it: of the others, the gradient is the derivative where that one stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity_tests.harness.numbers.numerics import pinned_jax
from parity_tests.harness.specs.samples import samples
from parity_tests.harness.specs.spec import OpSpec

_ALIKE = 1e-6  # a relative difference of two gradients in float64 that no rounding at a few entries explains


class DetachedGradient:
    """The gradient of a primal that has `stop_gradient` in it, as JAX computes it: the arguments are those of a VJP."""

    def __init__(self, spec: OpSpec) -> None:
        self._spec = spec
        domains = spec.drawn_from
        self.moving = tuple(i for i, domain in enumerate(domains) if domain.differentiable)

    def __call__(self, *args: Any, **params: object) -> tuple[Any, ...]:
        """Return the cotangents of the inputs; None for one that is absent."""
        inputs, bars = list(args[: self._spec.count]), args[self._spec.count :]
        present = [i for i in self.moving if inputs[i] is not None]

        def outputs(*moving: Any) -> list[Any]:
            at = dict(zip(present, moving, strict=True))
            given = self._spec.arranged([at.get(i, x) for i, x in enumerate(inputs)])
            found = jax.tree.leaves(self._spec.primal(*given, **params))
            return [y for y in found if jnp.issubdtype(y.dtype, jnp.inexact)]

        _, pulled_back = jax.vjp(outputs, *(inputs[i] for i in present))
        found = dict(zip(present, pulled_back(list(bars)), strict=True))
        return tuple(found.get(i) for i in self.moving)


def with_detached_gradient(spec: OpSpec, undetached: Callable) -> OpSpec:
    """Return the specification with the gradient of its primal as `surrogate`, if it is no derivative.

    So it is if that of `undetached`, the same function with nothing detached, is another at the first sample, with
    respect to what is not among `OpSpec.detached`. As a surrogate it is compared with as it is, and no difference of
    the values has to agree with it.
    """
    if spec.surrogate is not None or spec.vjp is not None or spec.jvp is not None:
        return spec
    with pinned_jax():
        gradients = _gradient(spec), _gradient(replace(spec, primal=undetached))
    pairs = zip(*gradients, strict=True)
    if all(np.allclose(x, y, rtol=_ALIKE, atol=_ALIKE * float(np.max(np.abs(y), initial=0.0))) for x, y in pairs):
        return spec
    return replace(spec, surrogate=DetachedGradient(spec))


def _gradient(spec: OpSpec) -> Sequence[np.ndarray]:
    """The gradient of a random combination of all outputs at the first sample; not that of detached inputs."""
    sample, rng = next(samples(spec, 0)), np.random.default_rng(0)
    remaining = iter(sample.primals(sample.differentiated(spec.names)))
    inputs = [sample.constants[i] if i in sample.constants else next(remaining) for i in range(spec.count)]
    params = spec.params_at(sample.sizes)
    outputs = jax.tree.leaves(spec.primal(*spec.arranged(inputs), **params))
    bars = [rng.standard_normal(y.shape).astype(y.dtype) for y in outputs if jnp.issubdtype(y.dtype, jnp.inexact)]
    gradient, names = DetachedGradient(spec), spec.names
    found = zip(gradient.moving, gradient(*inputs, *bars, **params), strict=True)
    return [np.asarray(x) for i, x in found if x is not None and names[i] not in spec.detached]
