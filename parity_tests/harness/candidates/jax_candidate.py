"""Candidates in JAX: functions of JAX arrays, whose maps are made by JAX's own transforms."""

from __future__ import annotations

import contextlib
import inspect
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import torch
from jax.extend import core

from parity_tests.harness.candidates.base import InDims, MaybeTensors, Tensors
from parity_tests.harness.candidates.jax_programs import NO_FORWARD_MODE, Programs, Transformed, Untraced
from parity_tests.harness.candidates.outputs import Outputs
from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_refusals import BadOutput, Refused, is_raised_by_python_outside_of
from parity_tests.harness.candidates.transformed import TransformedCandidate
from parity_tests.harness.exceptions.defects import message_of
from parity_tests.harness.language.jaxprs import has_custom_vjp
from parity_tests.harness.numbers import conversion
from parity_tests.harness.numbers.contracts import Arithmetic, check_arithmetic
from parity_tests.harness.numbers.numerics import jax_missing, pinned_jax

Arrays = tuple[jax.Array, ...]

# A missing rule cannot be wrong; it is recognized by the words of JAX's error. An author decides about these, ...
_NO_RULE = (
    ("is a custom_vjp, which JAX cannot differentiate forward", NO_FORWARD_MODE),
    (
        "goes through what JAX cannot differentiate in reverse (a Pallas kernel or a custom_vmap without a custom_vjp)",
        r"Linearization failed to produce known values",
    ),
    ("goes through a callback without a rule", r"callbacks do not support (JVP|transpose)"),
    ("goes through a callback without a vmap_method", r"vmap is only supported for the \w+ primitive when vmap_method"),
)
# ... and JAX about these.
_REFUSED = (
    r"[Rr]ule (\(for reverse-mode differentiation\) )?for '.*' not implemented",
    r"Reverse-mode differentiation does not work for",
    r"Unsupported dtype",
    r"^UNIMPLEMENTED: ",  # of XLA, as a product of bfloat16 numbers with a sum in float32, of some shapes on a CPU
)
# Until JAX 0.12 its number was wrong; since then it raises an error, or is right by this argument of `defvjp`.
_SAYS_SO = "generic_batching" in inspect.signature(jax.custom_vjp.defvjp).parameters
UNBATCHED_OUTPUT = "JAX's VJP of a vmapped custom_vjp " + (
    "refuses the cotangents of an output that is not batched, but for defvjp(..., generic_batching=True)"
    if _SAYS_SO
    else "counts the cotangents of an output that is not batched once for every example"
)


@dataclass(frozen=True)
class JaxCandidate(TransformedCandidate):
    """A function of JAX arrays to be judged: plain, jitted, a `custom_vjp`, a `custom_jvp`, a Pallas kernel, ...

    It has all maps, by `jax.vjp`, `jax.jvp` and `jax.vmap` of the function, run operation by operation, but for what is
    under `jax.jit` itself. Batches are along the first axis: JAX moves any other there before it calls anybody's rule.

    Attributes:
        call: the function: (inputs...) -> array or tuple of arrays.
        name: its name in reports.
        returns: what the operator returns, if that is more than a tuple of numbers; the harness finds out.
        limits: the checks that it is known to fail, each with the reason. `None`: where it has no rule of its own
            (forward mode of a `custom_vjp`, ...).
        arithmetic: what it rounds in the 16-bit dtypes, if that is to be held against it; see `Arithmetic`.
        programs: what has been compiled of it, for all checks; see `jax_programs`.
    """

    call: Callable
    name: str = ""
    limits: Mapping[str, str] | None = None
    arithmetic: Arithmetic | None = None
    returns: Outputs | None = None
    programs: Programs = field(default_factory=Programs, repr=False, compare=False)

    framework = "jax"

    @property
    def source(self) -> Callable:
        """The callable that the author wrote, for names and reproducers."""
        return self.call

    def __post_init__(self) -> None:
        if not callable(self.call):
            raise TypeError(f"JaxCandidate: needs a function of JAX arrays, got {type(self.call).__name__}")
        check_arithmetic(f"JaxCandidate {self.name}".rstrip(), self.arithmetic)

    def __reduce__(self) -> tuple:
        """Pickle the candidate without its compiled programs; see `isolation.by_name`."""
        return JaxCandidate, (self.call, self.name, self.limits, self.arithmetic)

    def named(self, name: str, limits: Mapping[str, str] | None, arithmetic: Arithmetic | None = None) -> JaxCandidate:
        """Return the same candidate under this name, with these limits, and this arithmetic if it is given."""
        return JaxCandidate(self.call, name, limits, arithmetic or self.arithmetic)

    def bound(
        self,
        constants: Mapping[int, torch.Tensor | None],
        params: Mapping[str, object],
        returns: Outputs | None = None,
        arranged: Callable[[Sequence], Sequence] | None = None,
    ) -> JaxCandidate:
        """Return the candidate as a function of the differentiated inputs alone; see `AnyCandidate.bound`."""
        returns = self.returns if returns is None or returns.is_plain else returns
        if not constants and not params and arranged is None:
            return replace(self, returns=returns)

        def call(*args: jax.Array) -> object:
            remaining, count = iter(args), len(args) + len(constants)
            known = {i: None if x is None else conversion.to_jax(x) for i, x in constants.items()}
            given = [known[i] if i in known else next(remaining) for i in range(count)]
            return self.call(*(given if arranged is None else arranged(given)), **params)

        return replace(self, call=call, returns=returns)

    @property
    def untraced(self) -> JaxCandidate:
        """The same candidate, run as outside of `jax.jit`."""
        return replace(self, programs=Untraced())

    def forward(self, args: Sequence[torch.Tensor]) -> Tensors:
        """Return the outputs that are differentiable.

        Raises:
            BadOutput: the outputs are not arrays, or not as many as the operator has.
            Refused: the candidate, or its framework, says that it does not support this.
        """
        return self._evaluated(Transformed(_itself, self._outputs), args, required=True)

    def every_output(self, args: Sequence[torch.Tensor]) -> Tensors:
        """Return all outputs, integers included, in the oracle's order; raises what `forward` does."""
        return self._evaluated(Transformed(_itself, self._every_output), args, required=True)

    def vjp(
        self,
        primals: Sequence[torch.Tensor],
        cotangents: Sequence[torch.Tensor | None],
        requires_grad: Sequence[bool] | None = None,
    ) -> MaybeTensors:
        """Reverse mode; an absent cotangent is a symbolic zero. `requires_grad`: which inputs need a gradient."""
        flags = [True] * len(primals) if requires_grad is None else requires_grad
        present = [w is not None for w in cotangents]
        with _pinned(primals), _refusals(required=True):
            varied, chosen = self._varied(primals, flags, present)
            arrays = [conversion.to_jax(w) for w in cotangents if w is not None]
            results = self.programs.run(self._vjp(varied, len(chosen)), *chosen, *arrays)
            gradients = iter(results)
            return tuple(conversion.from_jax(next(gradients)) if flag else None for flag in flags)

    def record(
        self,
        primals: Sequence[torch.Tensor],
        requires_grad: Sequence[bool] | None = None,
        present: Sequence[bool] | None = None,
    ) -> Pullback:
        """Return the outputs flagged by `present` and the function that pulls cotangents back, by one `jax.vjp`."""
        flags = [True] * len(primals) if requires_grad is None else requires_grad
        with _pinned(primals), _refusals(required=True):
            varied, chosen = self._varied(primals, flags, present)
            outputs, pullback = self.programs.run(lambda *x: jax.vjp(varied, *x), *chosen)
            return Pullback(primals, tuple(map(conversion.from_jax, outputs)), flags, pullback, self.programs)

    def _varied(
        self, primals: Sequence[torch.Tensor], flags: Sequence[bool], present: Sequence[bool] | None
    ) -> tuple[Callable, list[jax.Array]]:
        """Return the outputs flagged by `present` as a function of the inputs flagged by `flags`, and those inputs."""
        arrays = [conversion.to_jax(x) for x in primals]
        if all(flags) and (present is None or all(present)):
            return self._outputs, arrays

        def varied(*some: jax.Array) -> Arrays:
            remaining = iter(some)
            outputs = self._outputs(*(next(remaining) if flag else x for x, flag in zip(arrays, flags, strict=True)))
            return outputs if present is None else _chosen(outputs, present)

        return varied, [x for x, flag in zip(arrays, flags, strict=True) if flag]

    def program(self, primals: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor] | None = None) -> core.Jaxpr:
        """Return the jaxpr of the function, or, with cotangents, that of its VJP."""
        f = self._outputs if cotangents is None else self._vjp(self._outputs, len(primals))
        with _pinned(primals), _refusals(required=True):
            return jax.make_jaxpr(f)(*map(conversion.to_jax, (*primals, *(cotangents or ())))).jaxpr

    def vjp_undefined(self, primals: Sequence[torch.Tensor]) -> MaybeTensors | None:
        """Reverse mode when every cotangent is zero."""
        graph = self.record(primals)
        return graph.vjp([torch.zeros_like(y) for y in graph.outputs])

    def vjp_of_vmap(self, in_dims: InDims, args: Sequence[torch.Tensor]) -> MaybeTensors:
        """Return the gradients of a vmapped call; that of an unbatched input is the sum over the examples.

        Raises:
            Refused: JAX's own answer would be wrong for a right rule, or JAX says that it would.
        """
        with _pinned(args):
            inputs = [conversion.to_jax(x) for x in args[: len(in_dims)]]
            if not _SAYS_SO and self._meets_unbatched_output(in_dims, inputs):
                raise Refused(UNBATCHED_OUTPUT, Reason.UNBATCHED_OUTPUT_IN_JAX)
        return super().vjp_of_vmap(in_dims, args)

    def _meets_unbatched_output(self, in_dims: Sequence[int | None], args: Sequence[jax.Array]) -> bool:
        """True if a custom_vjp is called that has an output independent of all batched inputs."""
        example = [
            x if dim is None else jax.eval_shape(lambda x, dim=dim: jnp.take(x, 0, dim), x)
            for x, dim in zip(args, in_dims, strict=True)
        ]
        closed = jax.make_jaxpr(self._outputs)(*example)

        def unbatched(i: int) -> bool:
            try:
                jax.eval_shape(jax.vmap(lambda *x: self._outputs(*x)[i], tuple(in_dims), out_axes=None), *args)
            except ValueError as error:
                if "out_axes" not in str(error):
                    raise
                return False
            return True

        return has_custom_vjp(closed.jaxpr) and any(map(unbatched, range(len(closed.out_avals))))

    def _outputs(self, *args: jax.Array) -> Arrays:
        outputs = self._every_output(*args)
        return outputs if self.returns is None else self.returns.real(outputs)

    def _every_output(self, *args: jax.Array) -> Arrays:
        outputs = self.call(*args)
        if self.returns is not None:
            outputs = self.returns.arranged(outputs)
        outputs = tuple(outputs) if isinstance(outputs, tuple | list) else (outputs,)
        for y in outputs:
            if not isinstance(y, jax.Array):
                raise BadOutput(f"returned {type(y).__name__} where an array, or a tuple of arrays, is expected")
        return outputs

    def _evaluated(self, f: Callable, args: Sequence[torch.Tensor], required: bool = False) -> Tensors:
        with _pinned(args), _refusals(required):
            return tuple(conversion.from_jax(y) for y in self.programs.run(f, *map(conversion.to_jax, args)))

    @staticmethod
    def _vjp(f: Callable, count: int) -> Callable:
        return Transformed(_vjp_of, f, (count,))

    @staticmethod
    def _jvp(f: Callable, count: int) -> Callable:
        return Transformed(_jvp_of, f, (count,))

    @staticmethod
    def _vmapped(f: Callable, in_dims: InDims, outer: InDims | None) -> Callable:
        batched = Transformed(jax.vmap, f, (tuple(in_dims),))
        return batched if outer is None else Transformed(jax.vmap, batched, (tuple(outer),))


@dataclass(frozen=True)
class Pullback:
    """A recorded call with the linear function that pulls its cotangents back to the inputs flagged by `flags`."""

    inputs: Sequence[torch.Tensor]
    outputs: Tensors
    flags: Sequence[bool]
    pullback: Callable
    programs: Programs

    def vjp(self, cotangents: Sequence[torch.Tensor], retain_graph: bool = False) -> MaybeTensors:
        """Return the gradients; may be called any number of times."""
        if len(cotangents) != len(self.outputs):
            raise BadOutput(f"returned {len(self.outputs)} outputs, expected {len(cotangents)}")
        with _pinned(self.inputs), _refusals(required=True):
            arrays = map(conversion.to_jax, cotangents)
            gradients = iter(self.programs.run(lambda *w: _adjoint(self.pullback, w), *arrays))
            return tuple(conversion.from_jax(next(gradients)) if flag else None for flag in self.flags)


def _itself(f: Callable) -> Callable:
    return f


def _vjp_of(f: Callable, count: int) -> Callable:
    """Return the VJP on flat arguments: `count` primals, then a cotangent for each result."""

    def vjp(*args: jax.Array) -> Arrays:
        outputs, pullback = jax.vjp(f, *args[:count])
        if len(outputs) != len(args) - count:
            raise BadOutput(f"returned {len(outputs)} outputs, expected {len(args) - count}")
        return _adjoint(pullback, args[count:])

    return vjp


def _jvp_of(f: Callable, count: int) -> Callable:
    return lambda *args: jax.jvp(f, args[:count], args[count:])[1]


def _adjoint(pullback: Callable, cotangents: Iterable[jax.Array]) -> Arrays:
    """Return the pulled-back cotangents in PyTorch's convention: JAX's VJP is the transpose, without conjugates."""
    return tuple(map(_conjugate, pullback(tuple(map(_conjugate, cotangents)))))


def _conjugate(x: jax.Array) -> jax.Array:
    return jax.lax.conj(x) if jnp.iscomplexobj(x) else x


def _chosen(outputs: Arrays, present: Sequence[bool]) -> Arrays:
    if len(outputs) != len(present):
        raise BadOutput(f"returned {len(outputs)} outputs, expected {len(present)}")
    return tuple(y for y, flag in zip(outputs, present, strict=True) if flag)


def _pinned(tensors: Sequence[torch.Tensor]) -> contextlib.AbstractContextManager[None]:
    """Pin JAX's settings in this thread: they are thread-local, and a check may run a candidate in several threads.

    Raises:
        Refused: JAX does not run where the tensors are.
    """
    device = tensors[0].device
    if (missing := jax_missing(device.type)) is not None:
        raise Refused(missing, Reason.OUT_OF_REACH)
    return pinned_jax(str(device))


@contextlib.contextmanager
def _refusals(required: bool) -> Iterator[None]:
    """Turn the errors by which JAX says "not supported" into `Refused`.

    Args:
        required: True for maps that an operator must have, its value and its VJP. Other maps the author may decline by
            writing no rule for them.
    """
    try:
        yield
    except (TypeError, ValueError, NotImplementedError, AssertionError, jax.errors.JaxRuntimeError) as error:
        text, lacking = message_of(error), Reason.OWN if required else Reason.NO_RULE
        own = is_raised_by_python_outside_of(error, Path(jax.__file__).parent)  # whatever it says
        for reason, pattern in () if own else _NO_RULE:
            if re.search(pattern, text):
                raise Refused(reason, lacking) from error
        if not own and "has a primal output that is shared across the batch" in text:
            raise Refused(UNBATCHED_OUTPUT, Reason.UNBATCHED_OUTPUT_IN_JAX) from error
        where = traceback.extract_tb(error.__traceback__)[-1].filename.replace("\\", "/")
        if isinstance(error, AssertionError | NotImplementedError) and "/jax/_src/pallas/" in where:
            raise Refused("goes through a Pallas kernel without a rule", lacking) from error
        if any(re.search(pattern, text) for pattern in _REFUSED):
            raise Refused(f"{type(error).__name__}: {text.splitlines()[0]}", Reason.OWN) from error
        raise
