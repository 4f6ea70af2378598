"""Converts a model of the zoo and compares it with PyTorch: values and all gradients, in float64."""

from __future__ import annotations

import contextlib
import math
import re
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from unittest import mock

import jax
import numpy as np
import torch

from benchmarks.campaign import Stamped, stamp
from benchmarks.models.zoo import Example, made
from gradparity import to_jax
from parity_tests.conversion import trees
from parity_tests.conversion.cannot_convert import CannotConvert
from parity_tests.conversion.exported import in_float64
from parity_tests.harness.numbers.numerics import pinned

BOUND = 1e-12  # of values and gradients
_FLOOR = 1e-3  # of the largest gradient of all: a gradient below it, such as one that is zero, has no digits of its own


@dataclass(frozen=True)
class Outcome(Stamped):
    """The comparison of a model in JAX with itself in PyTorch.

    Attributes:
        name: "family/name".
        by: what converted it.
        error: why there is no comparison, or "".
        parameters: how many numbers they have.
        values: the largest difference of an output, in parts of its largest entry.
        gradients: the largest difference of a gradient by a parameter, in parts of its largest entry.
        worst: the parameter that has it.
        traced: seconds from the module to the traced program of values and gradients.
        compiled: seconds in which XLA compiles it.
        megabytes: the largest resident memory of the process.
        defect: the title in docs/found/ of a defect of PyTorch that explains a difference, or "".
        without: the largest difference of all, if the operator that has it is written otherwise in PyTorch.
    """

    name: str
    by: str
    error: str = ""
    parameters: int = 0
    values: float = 0.0
    gradients: float = 0.0
    worst: str = ""
    traced: float = 0.0
    compiled: float = 0.0
    megabytes: int = 0
    defect: str = ""
    without: float = 0.0

    @property
    def gap(self) -> float:
        """The largest difference that no defect explains."""
        return self.without if self.defect else max(self.values, self.gradients)

    @property
    def numbers(self) -> tuple[str, ...]:
        """The differences of values and gradients, both times and the memory, as cells of a table."""
        seconds = (f"{each:.1f}" for each in (self.traced, self.compiled))
        return f"{self.values:.1e}", f"{self.gradients:.1e}", *seconds, str(self.megabytes)

    @property
    def told(self) -> str:
        """The outcome in a line."""
        found = "values {}, gradients {}, trace {} s, compilation {} s, {} MB".format(*self.numbers)
        return self.error or found + (f"; {self.gap:.1e} without {self.defect}" if self.defect else "")


Function = Callable[[Mapping[str, jax.Array]], Any]


def judged(name: str, by: str = "gradparity") -> Outcome:
    """Convert and compare a model in this process."""
    found: dict[str, Any]
    try:
        with pinned():
            found = _compared(name, _CONVERTERS[by])
    except CannotConvert as error:
        found = {"error": re.sub(r'"[^"]*/([^/"]+/[^/"]+)"', r'"\1"', str(error))}  # without folders of this machine
    except Exception as error:  # whatever a peer raises is its outcome
        if by == "gradparity":
            raise
        found = {"error": f"{type(error).__name__}: {error}"}
    return Outcome(*stamp(), name, by, **found)


def _in_gradparity(example: Example) -> tuple[Function, Mapping[str, jax.Array]]:
    f, params = to_jax(example.model, *example.args, precision="exact", **example.kwargs)
    if f.draws:
        raise CannotConvert("it draws random numbers in eval mode, too, so that there is nothing to compare it with")
    trained, rest = f.split(params)
    args, kwargs = jax.tree.map(_array, (example.args, dict(example.kwargs)))

    def function(trained: Mapping[str, jax.Array]) -> Any:
        found = f({**trained, **rest}, *args, **kwargs)
        return found[0] if f.writes else found

    return function, trained


def _in_torchax(example: Example) -> tuple[Function, Mapping[str, jax.Array]]:
    with _named_tensors():
        import torchax  # pyright: ignore[reportMissingImports]

        states, f = torchax.extract_jax(example.model)
    args, kwargs = jax.tree.map(_array, (example.args, dict(example.kwargs)))
    trained = {name: states[name] for name, _ in example.model.named_parameters()}
    return lambda trained: f({**states, **trained}, args, kwargs), trained


def _in_torch2jax(example: Example) -> tuple[Function, Mapping[str, jax.Array]]:
    import torch2jax  # pyright: ignore[reportMissingImports]

    f: Any = torch2jax.t2j(example.model)
    args, kwargs = jax.tree.map(_array, (example.args, dict(example.kwargs)))
    buffers = {name: _array(x) for name, x in example.model.named_buffers()}
    trained = {name: _array(x) for name, x in example.model.named_parameters()}
    return lambda trained: f(*args, state_dict={**buffers, **trained}, **kwargs), trained


_CONVERTERS: Mapping[str, Callable[[Example], tuple[Function, Mapping[str, jax.Array]]]] = {
    "gradparity": _in_gradparity,
    "torchax": _in_torchax,
    "torch2jax": _in_torch2jax,
}
CONVERTERS = tuple(_CONVERTERS)


def _hardsigmoid(x: torch.Tensor, inplace: bool = False) -> torch.Tensor:
    return torch.nn.functional.relu6(x + 3) / 6


def _batch_norm(x: torch.Tensor, mean: Any, var: Any, weight: Any, bias: Any, *rest: Any, **kwargs: Any) -> Any:
    """Batch norm of a model in eval mode, by its formula."""
    eps = kwargs.get("eps", rest[-1] if len(rest) == 3 else 1e-5)
    mean, scale, bias = (y.view(-1, *[1] * (x.ndim - 2)) for y in (mean, weight / (var + eps).sqrt(), bias))
    return (x - mean) * scale + bias


# By titles of docs/found/: a function of torch.nn.functional, and the same written otherwise.
DEFECTS: Mapping[str, tuple[str, Callable[..., torch.Tensor]]] = {
    "48. hardsigmoid: gradient in float64": ("hardsigmoid", _hardsigmoid),
    "165. batch_norm, instance_norm: gradient with channels last and an axis of one entry": ("batch_norm", _batch_norm),
}


def _array(x: Any) -> Any:
    return jax.numpy.asarray(x.detach().numpy()) if isinstance(x, torch.Tensor) else x


@contextlib.contextmanager
def _named_tensors() -> Iterator[None]:
    """Give PyTorch the overloads of named tensors, which it no longer has, and which torchax names in its import."""
    packet = torch._ops.OpOverloadPacket
    own = packet.__getattr__

    def found(self: Any, name: str) -> Any:
        try:
            return own(self, name)
        except AttributeError:
            if not any(part in name.lower() for part in ("dimname", "names")):
                raise
            gone = f"{self.__name__}_{name}"
            if not hasattr(torch.ops.gone, gone):
                torch.library.define(f"gone::{gone}", "() -> ()")
            return getattr(torch.ops.gone, gone).default

    with mock.patch.object(packet, "__getattr__", found):
        yield


def _compared(name: str, convert: Callable[[Example], tuple[Function, Mapping[str, jax.Array]]]) -> Any:
    """The fields of an outcome; each run has a model of its own, since some keep what they have computed."""
    outputs, weights, expected = _in_pytorch(made(name))
    example = made(name)
    start = time.perf_counter()
    function, trained = convert(example)

    def loss(trained: Mapping[str, jax.Array]) -> Any:
        found = _real(function(trained), jax.Array)
        pairs = zip(weights, found, strict=True)
        return sum((jax.numpy.asarray(w) * y).sum() for w, y in pairs), found

    program = jax.jit(jax.grad(loss, has_aux=True)).lower(trained)
    traced = time.perf_counter()
    run = program.compile()
    compiled = time.perf_counter()
    gradients, found = run(trained)
    values, gaps = _gaps(found, gradients, outputs, expected)
    worst = max(gaps, key=gaps.__getitem__)
    return {
        "parameters": sum(g.size for g in expected.values()),
        "values": values,
        "gradients": gaps[worst],
        "worst": worst,
        **(_explained(name, found, gradients) if max(values, gaps[worst]) > BOUND else {}),
        "traced": round(traced - start, 2),
        "compiled": round(compiled - traced, 2),
        "megabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def _gaps(found: Any, gradients: Any, outputs: Any, expected: Any) -> tuple[float, dict[str, float]]:
    """The largest difference of the outputs, and that of each gradient."""
    if set(gradients) != set(expected):
        raise ValueError(f"parameters: {sorted(set(gradients) ^ set(expected))[:3]} are on one side only")
    floor = _FLOOR * max((np.abs(g).max(initial=0) for g in expected.values()), default=0)
    values = max(_gap(y, x) for y, x in zip(found, outputs, strict=True))
    return values, {name: _gap(gradients[name], g, floor) for name, g in expected.items()}


def _explained(name: str, found: Any, gradients: Any) -> dict[str, Any]:
    """The defect of PyTorch without which nothing differs, if there is one."""
    for title, (operator, otherwise) in DEFECTS.items():
        with mock.patch.object(torch.nn.functional, operator, otherwise):
            outputs, _, expected = _in_pytorch(made(name))
        values, gaps = _gaps(found, gradients, outputs, expected)
        gap = max(values, *gaps.values())
        if gap <= BOUND:
            return {"defect": title, "without": gap}
    return {}


def _in_pytorch(example: Example) -> tuple[list[np.ndarray], list[np.ndarray], dict[str, np.ndarray]]:
    """The real outputs, the factors of their entries in the loss, and its gradients by the parameters."""
    with in_float64():
        outputs = _real(example.model(*example.args, **example.kwargs), torch.Tensor)
    generator = np.random.default_rng(7)
    weights = [generator.standard_normal(y.shape) for y in outputs]
    total: Any = sum((torch.as_tensor(w) * y).sum() for w, y in zip(weights, outputs, strict=True))
    own = {name: x for name, x in example.model.named_parameters() if x.requires_grad}
    gradients = torch.autograd.grad(total, [*own.values()], materialize_grads=True)
    found = {name: g.numpy() for name, g in zip(own, gradients, strict=True)}
    return [y.detach().numpy() for y in outputs], weights, found


def _real(result: Any, kind: type) -> list[Any]:
    """The arrays of real numbers of a result."""
    leaves = [y for y in jax.tree.leaves(trees.for_jax(result)) if isinstance(y, kind)]
    return [y for y in leaves if "float" in str(y.dtype)]


def _gap(x: Any, expected: np.ndarray, floor: float = 0.0) -> float:
    """The largest difference in parts of the largest entry, infinity if there is something that is not finite."""
    difference = float(np.abs(np.asarray(x) - expected).max(initial=0))
    scale = float(max(np.abs(expected).max(initial=0), floor))
    if not math.isfinite(difference):
        return math.inf
    return difference / scale if scale else math.inf if difference else 0.0
