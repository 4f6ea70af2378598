"""An entry of a derivatives.yaml as a candidate, and what it is judged against: before anything is compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch

from jax_ref import aten
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.sweep.invariants import INVARIANTS, NOT_COMPARED
from parity_tests.sweep.own_calls import own_calls
from parity_tests.sweep.recorded_calls import RecordedCall, as_torch, opinfo_names, recorded_calls
from torch_impl import derivatives

CHECKS = (
    "forward",
    "vjp",
    "vjp_partial",
    "jvp",
    "adjoint",
    "vjp_of_vjp",
    "jvp_of_vjp",
    "input_subsets",
    "linearity",
    "purity",
    "points",
    "points_second_order",
)
_ENTRIES = 4096  # of an input: a sample with more is left out


class NoCase(Exception):
    """Raised where an entry cannot be judged; the message is the reason."""


@dataclass(frozen=True)
class FormulaCase:
    """The callable with the formulas of an entry, and its spec.

    The inputs are one of PyTorch's own samples of its operator or, of an elementwise one, what the harness makes,
    special points among them.
    """

    call: Callable[..., Any]
    spec: OpSpec

    @property
    def where(self) -> str:
        """At which inputs it is judged, in words."""
        if self.spec.inputs is None:
            return "inputs that are made for it"
        return "a sample of " + ", ".join(str(np.shape(x)) for x in self.spec.inputs)


def cases(entry: derivatives.Entry, most: int = 2) -> list[FormulaCase]:
    """Return cases of an entry, with different shapes and options: so many of real numbers, and one of complex ones.

    An elementwise operator of real numbers is also judged at inputs that are made for it.

    Raises:
        NoCase: there is none: no reference in JAX, no sample, a choice that the operator leaves open.
    """
    name = f"aten::{entry.name}"
    packet = name.partition(".")[0]
    if name not in aten.OPERATORS:
        raise NoCase(f"jax_ref.aten has no {packet}; give a spec of your own with --spec")
    if packet in INVARIANTS or packet in NOT_COMPARED:
        raise NoCase(f"{packet} leaves signs, phases or a buffer open, which no oracle can know")
    found = _of(entry, _samples(name, torch.float64), most)
    if found:  # complex numbers are looked for where real ones are, since to find none takes minutes
        found += _of(entry, _samples(name, torch.complex128, everywhere=False), 1)
    if not found:
        raise NoCase(f"no sample of PyTorch's own reaches {name}; give a spec of your own with --spec")
    return found


def _of(entry: derivatives.Entry, calls: Sequence[RecordedCall], most: int) -> list[FormulaCase]:
    usable = [(call, moving) for call in calls if (moving := _moving(entry, call))]
    given = [_case(entry, call, moving) for call, moving in usable[:most]]
    alike = [call for call, moving in usable if _is_elementwise(call, moving)]
    return given + [_made_case(entry, call, _moving(entry, call)) for call in alike[:1]]


@functools.cache
def _samples(name: str, dtype: torch.dtype, everywhere: bool = True) -> tuple[RecordedCall, ...]:
    """Calls of an operator with different shapes or options, at most eight: of the OpInfos that have its name.

    Where these have none, and if `everywhere`, of the others, whose samples take minutes.
    """
    plain = name.removeprefix("aten::").partition(".")[0].strip("_")
    names = opinfo_names()
    alike = [each for each in names if plain in each or each.rpartition(".")[2] in plain]
    others = [each for each in names if each not in alike]
    found = {call.signature: call for call in own_calls() if call.name == name and dtype == torch.float64}
    for group in (alike, others if everywhere else []):
        for call in () if found else recorded_calls({name}, group, [dtype]):
            found.setdefault(call.signature, call)
            if len(found) == 8:
                break
    return tuple(found.values())


def _moving(entry: derivatives.Entry, call: RecordedCall) -> list[str]:
    """The inputs with a formula, as arrays of numbers; none if the sample is empty, too large, or has no such."""
    names = [name for formula in entry.vjps for name in formula.names]
    moving = [name for name in names if _is_double(call.arguments.get(name))]
    sizes = [call.arguments[name].size for name in moving]
    usable = all(0 < size <= _ENTRIES for size in sizes) and all(_is_double(y) for y in call.results[:1])
    return moving if usable else []


def _is_double(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype in (np.float64, np.complex128)


def _case(entry: derivatives.Entry, call: RecordedCall, moving: Sequence[str]) -> FormulaCase:
    spec = OpSpec(
        entry.name.replace(".", "_"),
        primal=_primal(call, moving),
        inputs=[call.arguments[name] for name in moving],
        input_names=list(moving),
        dtypes=["complex128" if any(np.iscomplexobj(call.arguments[name]) for name in moving) else "float64"],
    )
    return FormulaCase(by_formulas(entry, moving, _fixed(call, moving)), spec)


def _made_case(entry: derivatives.Entry, call: RecordedCall, moving: Sequence[str]) -> FormulaCase:
    """The case of an elementwise operator; in float32, too, where squares overflow that have room in float64."""
    spec = OpSpec(
        f"{entry.name.replace('.', '_')}, of each entry",
        primal=_primal(call, moving),
        signature=f"{','.join('(n)' for _ in moving)}->(n)",
        input_names=list(moving),
        domains={name: _domain_of(call.arguments[name]) for name in moving},
        dtypes=["float64", "float32"],
    )
    return FormulaCase(by_formulas(entry, moving, _fixed(call, moving)), spec)


def _domain_of(x: np.ndarray) -> str:
    """The widest domain of which PyTorch's own sample may be."""
    if not (x > 0).all():
        return "real"
    return "unit" if (x < 1).all() else "positive"


def _fixed(call: RecordedCall, moving: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in call.arguments.items() if name not in moving}


def _primal(call: RecordedCall, moving: Sequence[str]) -> Callable[..., Any]:
    """The reference as a function of these arguments, with the others of a call."""
    function = aten.OPERATORS[call.name]
    of_jax = {name: _as_jax(value) for name, value in _fixed(call, moving).items()}

    def primal(*inputs: Any) -> Any:
        return function(**of_jax, **dict(zip(moving, inputs, strict=True)))

    return primal


def _is_elementwise(call: RecordedCall, moving: Sequence[str]) -> bool:
    """Whether each entry of the only result is what the reference makes of the entries at its place alone."""
    inputs = [call.arguments[name] for name in moving]
    arrays = [x for x in _fixed(call, moving).values() if isinstance(x, np.ndarray | list)]
    shapes = {x.shape for x in (*inputs, *call.results)}
    if arrays or len(call.results) != 1 or len(shapes) != 1 or np.iscomplexobj(call.results[0]) or inputs[0].size < 2:
        return False
    primal = _primal(call, moving)
    flat = [x.reshape(-1) for x in inputs]
    try:
        alone = [np.asarray(primal(*(x[i : i + 1] for x in flat))) for i in range(min(8, flat[0].size))]
        together = np.asarray(primal(*flat))
    except (TypeError, ValueError, IndexError):  # one that takes no vectors is not elementwise
        return False
    if together.shape != flat[0].shape or any(y.shape != (1,) for y in alone):
        return False
    return np.allclose(np.concatenate(alone), together[: len(alone)], equal_nan=True)


def _as_jax(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return jnp.asarray(value)
    return [_as_jax(each) for each in value] if isinstance(value, list) else value


def by_formulas(entry: derivatives.Entry, moving: Sequence[str], fixed: Mapping[str, Any]) -> Callable[..., Any]:
    """Return an operator of PyTorch whose derivatives are those of an entry, as a function of some of its inputs.

    `fixed`: the other arguments, by name; arrays, or what PyTorch takes.
    """
    packet, _, overload = entry.name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
    constants = {name: as_torch(value) for name, value in fixed.items()}

    def bound(inputs: Sequence[torch.Tensor]) -> dict[str, Any]:
        return derivatives.bind(entry, (), constants | dict(zip(moving, inputs, strict=True)))

    class ByFormulas(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*inputs: torch.Tensor) -> Any:
            output = operator(**constants, **dict(zip(moving, inputs, strict=True)))
            # A Function must not return an input itself, as lift_fresh does.
            return output.view_as(output) if any(output is x for x in inputs) else output

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.several = isinstance(output, tuple | list)
            outputs = tuple(output) if ctx.several else (output,)
            ctx.set_materialize_grads(False)
            ctx.mark_non_differentiable(*(y for y in outputs if not (y.is_floating_point() or y.is_complex())))
            ctx.save_for_backward(*inputs, *outputs)
            ctx.save_for_forward(*inputs, *outputs)

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            inputs, outputs = _saved(ctx)
            wanted = [name for name, needed in zip(moving, ctx.needs_input_grad, strict=True) if needed]
            found = derivatives.vjp(entry, bound(inputs), outputs, cotangents, wanted)
            return tuple(found.get(name) for name in moving)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            inputs, outputs = _saved(ctx)
            dots = {name: t for name, t in zip(moving, tangents, strict=True) if t is not None}
            found = list(derivatives.jvp(entry, bound(inputs), outputs, dots).values())
            return tuple(found) if ctx.several else found[0]

    def _saved(ctx: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        saved = list(ctx.saved_tensors)
        return saved[: len(moving)], saved[len(moving) :]

    return ByFormulas.apply
