"""An operator of the catalogue, a mistake that is planted in it, and how versions are made of formulas."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from parity_tests.harness.candidates.base import AnyCandidate
from parity_tests.harness.findings import Verdict
from parity_tests.harness.specs.spec import OpSpec

Tensors = tuple[torch.Tensor, ...]
Change = Callable[..., torch.Tensor]
At = Callable[..., torch.Tensor]
Kind = Literal[
    "entry",  # one entry is wrong
    "region",  # one row, column or tile is wrong
    "factor",  # a factor is missing, or there once too often
    "formula",  # the formula of a similar operator, or a wrong constant
    "slight",  # 0.1 % too large
    "sum",  # the last block is left out of a sum
    "cotangent",  # a cotangent is ignored, or that of one row is used for all
    "order",  # shifted, transposed or swapped
    "term",  # a summand is left out
    "mask",  # a mask or a boundary is off by one
    "size",  # a mean divides by a wrong size
    "stale",  # a saved value is that of another block or step
    "epsilon",  # the small constant that avoids a division by zero is in the wrong place
    "sign",
    "index",  # an index is off by one, or duplicates are treated wrongly
]
Fault = tuple[str, Kind, Mapping[str, Change]]  # a name, what kind of mistake it is, and the changes by their sites


@dataclass(frozen=True)
class Mistake:
    """A wrong version of an operator.

    Attributes:
        call: the version.
        caught_by: the check that must catch it.
        dtype: the dtype that it must be caught in.
        passes: checks that do not notice, which shows that it is the one named that is needed.
        verdict: the verdict of the check that must catch it.
        kind: what kind of fault it is, if it is one that the benchmark of faults counts.
        changes: of a version that is made of `Formulas`, the changes by their sites: each takes the value there, and
            what else the formulas hand over, and returns the wrong value.
    """

    call: Callable | AnyCandidate
    caught_by: str
    dtype: str = "float64"
    passes: tuple[str, ...] = ()
    verdict: Verdict = Verdict.MISMATCH
    kind: Kind | None = None
    changes: Mapping[str, Change] = field(default_factory=dict)

    @property
    def at(self) -> At:
        """The values at the sites, of which those with a change are wrong."""
        return changing(self.changes)


def changing(changes: Mapping[str, Change]) -> At:
    """Return what formulas are called with so that the values at some sites change."""

    def at(site: str, value: torch.Tensor, *others: Any) -> torch.Tensor:
        change = changes.get(site)
        return value if change is None else change(value, *others)

    return at


right = changing({})


@dataclass(frozen=True)
class Formulas:
    """An operator in PyTorch with a backward of its own, from which versions are made: in an arithmetic, with a fault.

    The backward passes each value that a fault may change through `at(site, value)`, so that one line of code serves
    the right version and every wrong one, in every arithmetic. Values are changed where they arise: what is computed
    from them is wrong as it would be in a kernel with this fault.

    Attributes:
        name: that of the operator in the results of the benchmarks; what is drawn depends on it.
        draw: (generator, sizes) -> the inputs as float64 or int64 arrays.
        forward: (at, *inputs) -> outputs, and what the backward needs. It is also the composition that autograd
            differentiates.
        backward: (at, saved, cotangents) -> the gradients of the inputs, None for one that is not differentiated; at
            the end it may be left out.
        sizes: the sizes of the axes, by "small", "medium" and "kernel".
    """

    name: str
    draw: Callable[[np.random.Generator, Mapping[str, int]], Sequence[np.ndarray]]
    forward: Callable[..., tuple[Tensors, Tensors]]
    backward: Callable[[At, Tensors, Tensors], tuple[torch.Tensor | None, ...]]
    sizes: Mapping[str, Mapping[str, int]]

    def drawn(self, size: str, seed: int = 0) -> Sequence[np.ndarray]:
        """Return the inputs at a size, drawn by a seed and by what depends on the operator and the size only."""
        return self.draw(self.generator(size, f"inputs {seed}" if seed else "inputs"), self.sizes[size])

    def generator(self, size: str, role: str) -> np.random.Generator:
        """Return a generator whose numbers depend on the operator, the size and what they are for."""
        return np.random.default_rng(zlib.crc32(f"{self.name} {size} {role}".encode()))

    def composed(self, *inputs: torch.Tensor) -> Any:
        """Return the outputs by PyTorch's operations, for autograd to differentiate."""
        return _single_or_all(self.forward(right, *inputs)[0])

    def with_backward(
        self,
        at: At = right,
        throughout: bool = False,
        mode: Callable[[torch.dtype], AbstractContextManager[Any]] = lambda dtype: nullcontext(),
        saves_in_format: bool = False,
    ) -> Callable[..., Any]:
        """Return the operator as an autograd.Function with its own backward, right or with a fault.

        `throughout`: every operation is computed in the format of the inputs, as PyTorch rounds it; otherwise all are
        computed in float32, or in float64 if the inputs are, and each result is rounded to the format once. `mode`: of
        a format, the context in which it computes. `saves_in_format`: what the backward needs is rounded to the format,
        too.
        """

        class Own(torch.autograd.Function):
            @staticmethod
            def forward(ctx, *inputs):
                dtype = next(x.dtype for x in inputs if x.is_floating_point())
                ctx.dtype, ctx.inside = dtype, dtype if throughout else torch.promote_types(dtype, torch.float32)
                ctx.count = len(inputs)
                with mode(dtype):
                    outputs, saved = self.forward(at, *floats_to(inputs, ctx.inside))
                ctx.save_for_backward(*(floats_to(floats_to(saved, dtype), ctx.inside) if saves_in_format else saved))
                return _single_or_all(floats_to(outputs, dtype))

            @staticmethod
            def backward(ctx, *bars):
                with mode(ctx.dtype):
                    found = self.backward(at, ctx.saved_tensors, floats_to(bars, ctx.inside))
                gradients = [gradient if gradient is None else gradient.to(ctx.dtype) for gradient in found]
                return (*gradients, *[None] * (ctx.count - len(gradients)))

        return Own.apply

    def mistake(
        self,
        changes: Mapping[str, Change],
        caught_by: str = "vjp",
        dtype: str = "float64",
        passes: tuple[str, ...] = ("forward",),
        kind: Kind | None = None,
    ) -> Mistake:
        """Return the version whose values at some sites are changed.

        What it has saved has no derivative: without a change, too, it may be wrong where it is differentiated twice.
        """
        return Mistake(self.with_backward(changing(changes)), caught_by, dtype, passes, kind=kind, changes=changes)

    def planted(self, *faults: Fault) -> dict[str, Mistake]:
        """Return versions with a fault each, by their names; each of them has the right outputs."""
        return {name: self.mistake(changes, kind=kind) for name, kind, changes in faults}


def floats_to(tensors: Sequence[torch.Tensor], dtype: torch.dtype) -> Tensors:
    """Return tensors in a format, but for those of integers."""
    return tuple(x.to(dtype) if x.is_floating_point() else x for x in tensors)


def _single_or_all(tensors: Tensors) -> Any:
    return tensors[0] if len(tensors) == 1 else tensors


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator, a right version of it, and wrong ones by their names; and formulas of which others are made."""

    spec: OpSpec
    right: Callable | AnyCandidate
    mistakes: Mapping[str, Mistake] = field(default_factory=dict)
    formulas: Formulas | None = None

    @property
    def written(self) -> Formulas:
        """The formulas.

        Raises:
            LookupError: it has none.
        """
        if self.formulas is None:
            raise LookupError(f"{self.spec.name} has no formulas")
        return self.formulas

    @property
    def faults(self) -> dict[str, Mistake]:
        """The mistakes that the benchmark of faults counts."""
        return {name: mistake for name, mistake in self.mistakes.items() if mistake.kind is not None}

    @property
    def differentiated(self) -> tuple[int, ...]:
        """The positions of the inputs that are differentiated."""
        return tuple(i for i, domain in enumerate(self.spec.drawn_from) if domain.differentiable)


def by_formulas(
    primal: Callable[..., Any], formulas: Formulas, *faults: Fault, constants: Sequence[str] = ()
) -> Operator:
    """Return the operator that formulas compute, judged at the inputs that they draw."""
    spec = OpSpec(formulas.name, primal, inputs=formulas.drawn("small"), constants=constants)
    return Operator(spec, formulas.composed, formulas.planted(*faults), formulas)


def function(
    forward: Callable, backward: Callable, jvp: Callable | None = None, vmap: Callable | None = None
) -> Callable:
    """A `torch.autograd.Function`'s `apply`: forward(inputs...), backward(inputs..., output_bars...) -> input_bars,
    jvp(inputs..., input_dots...) -> output_dots, vmap(info, in_dims, inputs...) -> outputs, out_dims."""
    forward_, backward_, jvp_, vmap_ = forward, backward, jvp, vmap

    class Made(torch.autograd.Function):
        generate_vmap_rule = vmap is None

        @staticmethod
        def forward(*inputs):
            return forward_(*inputs)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, *output_bars):
            return backward_(*ctx.saved_tensors, *output_bars)

    if jvp_ is not None:
        Made.jvp = staticmethod(lambda ctx, *dots: jvp_(*ctx.saved_tensors, *dots))
    if vmap_ is not None:
        Made.vmap = staticmethod(vmap_)
    return Made.apply


def saving(forward: Callable, backward: Callable) -> Callable:
    """The same with intermediates: forward(inputs...) -> (output, saved tensors), backward(saved..., output_bar)."""
    forward_, backward_ = forward, backward

    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            output, saved = forward_(*inputs)
            ctx.save_for_backward(*saved)
            return output

        @staticmethod
        def backward(ctx, *output_bars):
            return backward_(*ctx.saved_tensors, *output_bars)

    return Made.apply
