"""The oracle: every map of an operator in float64 JAX, with an error bound for the candidate's format.

Of complex numbers in complex128, beside real ones in float64, by PyTorch's convention: a VJP is the adjoint of the JVP
under Re(conj(a) b). JAX's is the transpose, so that V(x, w) = conj(V_jax(x, conj(w))). This holds of nested maps, too:
a cotangent, and the result of a VJP, is conjugated once for every VJP that it comes from; of what is real that does
nothing. The spec's explicit formulas are JAX's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from parity_tests.harness.candidates.outputs import Outputs, leaves
from parity_tests.harness.exceptions.errors import described_call
from parity_tests.harness.language import jaxprs
from parity_tests.harness.language.live import live
from parity_tests.harness.language.values import evaluate
from parity_tests.harness.maps import BASES, ORDERS, Map, derivative_map
from parity_tests.harness.numbers.contracts import THROUGHOUT
from parity_tests.harness.numbers.fingerprint import fingerprint
from parity_tests.harness.numbers.formats import FLOAT64, Precision
from parity_tests.harness.oracle.formulas import about_none, and_absent, of_present_inputs
from parity_tests.harness.oracle.programs import Program, Programs, Request
from parity_tests.harness.oracle.transforms import conjugated, jvp_of, transposed, vjp_of
from parity_tests.harness.oracle.truth import Truth
from parity_tests.harness.rounding.analysis import bounded
from parity_tests.harness.rounding.bounds import INPUT
from parity_tests.harness.rounding.linearized import narrowed
from parity_tests.harness.specs.samples import Sample
from parity_tests.harness.specs.spec import FORMULAS, OpSpec

Arrays = Sequence[np.ndarray | None]
_TOGETHER = 2**22  # entries, of the arrays of points that are evaluated at once


class OracleError(ValueError):
    """Raised when the spec's JAX side cannot judge: it fails to run, or does not fit its own signature."""


class Oracle:
    """The maps of one operator. Explicit formulas of the spec take precedence over JAX autodiff of its primal.

    Must be used inside `numerics.pinned()`.
    """

    def __init__(self, spec: OpSpec, sample: Sample) -> None:
        """Find out how many outputs the operator has, from one sample.

        Raises:
            OracleError: the primal does not run on the sample, or its outputs do not fit the signature.
        """
        self.spec = spec
        self.constants: Mapping[int, Any] = sample.constants
        self.params = spec.params_at(sample.sizes)
        names = spec.names
        self.inputs = sample.differentiated(names)
        self.domains = dict(zip(self.inputs, sample.domains, strict=True))
        self._others, self._truths = dict[tuple, Oracle](), dict[tuple, list[Truth]]()
        self.programs = Programs()
        self.kept: dict[tuple, Any] = {}  # what others have found out at its samples, by their own keys
        self._batched, self._returned = dict[core.ClosedJaxpr, Callable](), dict[tuple, tuple]()
        self.dtypes = dict(zip(self.inputs, map(np.dtype, sample.numbers), strict=True))
        self.returns = Outputs((), ())
        returned = self.outputs_at(sample.shapes)
        default = spec.names_of_outputs(len(returned))
        names = default if spec.output_names else self.returns.names(default, names)
        self.outputs, self.integers = self.returns.real(names), self.returns.integers(names)
        self.dtypes |= zip(self.outputs, (np.dtype(y.dtype) for y in self.returns.real(returned)), strict=True)
        self.check(sample)
        if spec.surrogate is None and jaxprs.has_custom_vjp(self.program(sample.shapes)):
            raise OracleError(
                f"{spec.name}: primal goes through a jax.custom_vjp, whose rule would be compared with itself and "
                "which JAX cannot differentiate forward; give the plain function as primal and the rule as vjp, or as "
                "surrogate if it is no derivative of the primal"
            )

    def without_cached_values(self) -> Oracle:
        """Return the same oracle, keeping its traces, which depend on shapes alone, but none of its values."""
        oracle = copy.copy(self)
        oracle._truths, oracle._others, oracle.kept = {}, {}, {}
        return oracle

    def at(self, sample: Sample) -> Oracle:
        """Return the oracle for a sample: this one, unless the sample has its own constants or keyword parameters."""
        if not sample.constants and not self.spec.params_have_sizes:
            return self
        key = (sample.name, *sample.sizes.items(), *((i, fingerprint(x)) for i, x in sample.constants.items()))
        if key not in self._others:
            self._others[key] = Oracle(self.spec, sample)
        return self._others[key]

    @property
    def is_complex(self) -> bool:
        """True if an input or an output is complex."""
        return any(dtype.kind == "c" for dtype in self.dtypes.values())

    def directed(self, like: str, x: np.ndarray) -> np.ndarray:
        """The part of x, shaped like this input or output, in which derivatives are compared: see `domains`.

        Of an output that is real although the inputs are complex, the real part. A detached input stays where it is.
        """
        if like in self.spec.detached:
            return np.zeros_like(x)
        domain = self.domains.get(like)
        if domain is None and self.dtypes[like].kind == "f":
            return np.real(x)
        return x if domain is None else domain.project(x)

    def directed_errors(self, like: str, errors: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the error bounds of `directed(like, x)` if x has these errors, with the rounding of the projection."""
        domain = self.domains.get(like)
        if domain is None or domain.project_errors is None or like in self.spec.detached:
            return self.directed(like, errors)
        return domain.project_errors(errors) + 2 * FLOAT64.u * np.abs(self.directed(like, x))

    def is_whole(self, name: str, like: str) -> bool:
        """Return whether all of it is compared: of values, and of what a detached input gets, which must be 0."""
        return name == "forward" or (len(ORDERS[name]) == 1 and like in self.spec.detached)

    def compared(self, name: str, like: str, x: np.ndarray) -> np.ndarray:
        """The part of an argument or result of a map in which it is compared: all of it, or what is `directed`."""
        return x if self.is_whole(name, like) else self.directed(like, x)

    def compared_errors(self, name: str, like: str, errors: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Return the error bounds of `compared(name, like, x)` if x has these errors."""
        return errors if self.is_whole(name, like) else self.directed_errors(like, errors, x)

    def check(self, sample: Sample) -> None:
        """Check that the primal runs on a sample and fits the signature.

        Raises:
            OracleError: the primal does not run, or does not fit.
        """
        shapes, signature = tuple(y.shape for y in self.outputs_at(sample.shapes)), self.spec.parsed
        if wrong := signature and signature.output_mismatch(sample.sizes, shapes):
            sizes = ", ".join(f"{axis} = {size}" for axis, size in sample.sizes.items())
            raise OracleError(f"{self.spec.name}: primal {wrong} (signature {self.spec.signature} at {sizes})")

    def outputs_at(self, input_shapes: tuple[tuple[int, ...], ...]) -> tuple[jax.ShapeDtypeStruct, ...]:
        """Return the shape and dtype of every output, integers included."""
        if input_shapes not in self._returned:
            name = self.spec.name
            try:
                outputs = [jax.ShapeDtypeStruct(y.shape, y.dtype) for y in self._of_primal(input_shapes).out_avals]
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # sys.exit(), too
                shapes = ", ".join(map(str, input_shapes)) + and_absent(self.spec, self.constants)
                why = described_call(error, self.params)
                raise OracleError(f"{name}: primal fails on inputs of shapes {shapes}: {why}") from error
            for i, y in enumerate(outputs):
                if y.dtype not in (jnp.float64, jnp.complex128) and jnp.issubdtype(y.dtype, jnp.inexact):
                    kinds = " and ".join(dict.fromkeys(str(self.dtypes[x]) for x in self.inputs))
                    raise OracleError(
                        f"{name}: primal returns {y.dtype} for output {i} although its inputs are {kinds}; "
                        "let its dtypes follow those of its inputs"
                    )
            if not outputs:
                raise OracleError(f"{name}: primal returns nothing; it must return an array or a tuple of arrays")
            if not any(self.returns.differentiable):
                raise OracleError(f"{name}: primal returns integers only, which have no derivative")
            self._returned[input_shapes] = tuple(outputs)
        return self._returned[input_shapes]

    def shapes(self, input_shapes: tuple[tuple[int, ...], ...]) -> dict[str, tuple[int, ...]]:
        """Return the shape of every input and output that is differentiable, by name."""
        outputs = self.returns.real(self.outputs_at(input_shapes))
        names, shapes = (*self.inputs, *self.outputs), (*input_shapes, *(y.shape for y in outputs))
        return dict(zip(names, shapes, strict=True))

    def primal(self, *args: jax.Array) -> tuple[jax.Array, ...]:
        """Run the plain primal's program, and return a tuple of the outputs that are differentiable."""
        return self.returns.real(core.jaxpr_as_fun(self._of_primal(tuple(x.shape for x in args)))(*args))

    def _of_primal(self, shapes: tuple[tuple[int, ...], ...]) -> core.ClosedJaxpr:
        return self.programs.primal(shapes, lambda: jax.make_jaxpr(self.every_output)(*self._zeros(shapes)))

    def every_output(self, *args: jax.Array) -> tuple[jax.Array, ...]:
        """All of them; and where they are in what the spec's primal returns, which does not depend on the arguments."""
        found = dict(leaves(self.spec.primal(*self.spec.arranged(self._with_constants(args)), **self.params)))
        if not all(hasattr(y, "dtype") for y in found.values()):
            kinds = [type(y).__name__ for y in found.values()]
            raise TypeError(f"it must return an array or a tuple of arrays, not {kinds}")
        differentiable = tuple(bool(jnp.issubdtype(y.dtype, jnp.inexact)) for y in found.values())
        self.returns = Outputs(tuple(found), differentiable)
        return tuple(found.values())

    def _with_constants(self, args: Sequence) -> list:
        remaining, count = iter(args), len(args) + len(self.constants)
        # NumPy would compare its own arrays before JAX sees it, and with that what rounding may change: u > 0.3.
        known = {i: jnp.asarray(x) if x is not None and x.dtype.kind in "fc" else x for i, x in self.constants.items()}
        return [known[i] if i in known else next(remaining) for i in range(count)]

    def largest_array(self, input_shapes: tuple[tuple[int, ...], ...]) -> int:
        """Return the size in entries of the largest array that the primal makes of inputs of these shapes."""
        return jaxprs.largest(self.program(input_shapes))

    def program(self, input_shapes: tuple[tuple[int, ...], ...]) -> core.Jaxpr:
        """Return the primal's jaxpr at inputs of these shapes."""
        return self.traced("forward", self._zeros(input_shapes), by_autodiff=False).closed.jaxpr

    def map(self, name: str) -> Map:
        """Return the names of a map's arguments and results."""
        return derivative_map(name, self.inputs, self.outputs)

    def arguments(self, name: str, sample: Sample, example: int = 0) -> list[np.ndarray]:
        """Return float64 or complex128 arguments for a map: a sample's primals, then random tangents and cotangents."""
        inputs = sample.primals(self.inputs, example)
        shapes = self.shapes(tuple(x.shape for x in inputs))
        slots = self.map(name).arguments[len(inputs) :]
        drawn = [sample.draw(f"{s.label} {example}", shapes[s.like], self.dtypes[s.like].kind == "c") for s in slots]
        return [*inputs, *(self.compared(name, slot.like, x) for slot, x in zip(slots, drawn, strict=True))]

    def direction(self, sample: Sample, role: str, like: str, shapes: Mapping[str, tuple[int, ...]]) -> np.ndarray:
        """A random tangent or cotangent of an input or output, in its domain; the same for the same sample and role."""
        return self.directed(like, sample.draw(role, shapes[like], self.dtypes[like].kind == "c"))

    def _zeros(self, input_shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
        return [np.zeros(shape, self.dtypes[name]) for name, shape in zip(self.inputs, input_shapes, strict=True)]

    def explicit(self, name: str) -> Callable | None:
        """Return the spec's own formula for a map, on flat arguments; None where the spec has none."""
        f = getattr(self.spec, name) if name in FORMULAS else None
        return None if f is None else self._flat(f, name)

    def is_surrogate(self, name: str) -> bool:
        """Return whether a map is the spec's surrogate gradient, so that it is no derivative of the primal."""
        return self.spec.surrogate is not None and len(ORDERS[name]) == 1

    def _flat(self, f: Callable, name: str) -> Callable:
        """Return the spec's formula for a map as a function of the differentiated inputs and of directions."""
        n, called = len(self.inputs), of_present_inputs(f, self.spec, name, self.inputs, self.outputs)
        return lambda *args: called(self._with_constants(args[:n]), args[n:], self.params)

    @property
    def stops_gradients(self) -> bool:
        """True if the primal's program has a `lax.stop_gradient`."""
        return self._has("stop_gradient")

    def _has(self, primitives: str | tuple[str, ...]) -> bool:
        return any(name.startswith(primitives) for name in self.programs.primitives)

    @property
    def chooses(self) -> bool:
        """True if a program of the oracle has an operation that puts one of several equal numbers first."""
        return self._has(("sort", "top_k", "argmax", "argmin", "select_and_"))

    def has_formula(self, name: str) -> bool:
        """Return whether an explicit formula takes part in a map, so that autodiff is a second witness."""
        return name != "forward" and (self.explicit(name) is not None or self.has_formula(BASES[name]))

    def formula(self, name: str, by_autodiff: bool = False) -> Callable:
        """Return a map on flat arguments: the explicit formula, or else, or `by_autodiff`, JAX's of the base map."""
        if name == "forward":
            return self.primal
        if self.is_surrogate(name):
            return self._surrogate(name)
        return (None if by_autodiff else self.explicit(name)) or self._differentiated(name, by_autodiff)

    def _surrogate(self, name: str) -> Callable:
        """Return the spec's surrogate gradient, or its transpose, which is the corresponding JVP."""
        assert self.spec.surrogate is not None
        formula = self._flat(self.spec.surrogate, "vjp")

        def outputs_at(*inputs):
            shapes = self.shapes(tuple(x.shape for x in inputs))
            return [jnp.zeros(shapes[y], self.dtypes[y]) for y in self.outputs]

        return formula if name == "vjp" else transposed(formula, len(self.inputs), outputs_at)

    def _differentiated(self, name: str, by_autodiff: bool) -> Callable:
        """Return the outermost VJP or JVP of a map, by JAX from the program of the map of one order less."""
        count, base = self.map(name).base, BASES[name]

        def dense(*args):
            if self.is_complex and base != "forward":  # its program is in PyTorch's convention
                results = self.formula(base, by_autodiff)(*args)
            else:
                results = self.traced(base, args, by_autodiff and self.has_formula(base)).run(args)
            shapes = self.shapes(tuple(x.shape for x in args[: len(self.inputs)]))
            pairs = zip(results, self.map(base).results, strict=True)
            return tuple(jnp.zeros(shapes[slot.like], self.dtypes[slot.like]) if y is None else y for y, slot in pairs)

        return vjp_of(dense, count) if ORDERS[name][-1] == "vjp" else jvp_of(dense, count)

    def evaluate(
        self, name: str, args: Arrays, precision: Precision, by_autodiff: bool = False, inputs: int = INPUT
    ) -> list[Truth]:
        """A map's results at float64 or complex128 arguments, each with the error bound of computing in `precision`.

        By the formula that judges, or by autodiff of the plain primal. `None` arguments are exact zeros; so are `None`
        results, which come back as zeros without error. `inputs`: see `rounding.bounded`.

        Raises:
            OracleError: a formula returns a wrong number of results, a wrong shape, or complex numbers for
                real ones.
            rounding.NoRule: the map uses a primitive whose rounding cannot be bounded yet.
            rounding.NotFloat64: the map computes in a lower precision than its arguments have.
        """
        slots, present = self.map(name).results, [x for x in args if x is not None]
        shapes = self.shapes(tuple(x.shape for x in args[: len(self.inputs)] if x is not None))
        closed, zero = self.traced(name, args, by_autodiff)
        if len(zero) != len(slots):
            raise OracleError(f"{self.spec.name}: {name} returns {len(zero)} results, expected {len(slots)}")
        values = {}
        if len(ORDERS[name]) > 1:
            precision = precision.under(THROUGHOUT)  # what one derivative hands to the next is stored
        elif precision.arithmetic.stored:
            values = self.outputs_by_name(args)
        running = bounded(closed, *present, precision=precision, inputs=inputs, values=values)
        nonzero, results = iter(narrowed(closed, present, running, precision, inputs)), []
        for slot, is_zero in zip(slots, zero, strict=True):
            shape = shapes[slot.like]
            zeros = np.zeros(shape, self.dtypes[slot.like]), np.zeros(shape), None
            value, bound, before = zeros if is_zero else next(nonzero)
            if value.shape != shape:
                what = f"shape {value.shape} for {slot.label}, expected {shape}"
                raise OracleError(f"{self.spec.name}: {name} returns {what}")
            if np.iscomplexobj(value) and self.dtypes[slot.like].kind != "c":
                what = f"complex numbers for {slot.label}, which is real: take their real part"
                raise OracleError(f"{self.spec.name}: {name} returns {what}")
            results.append(Truth(slot, value.astype(self.dtypes[slot.like]), bound, running=before))
        return results

    def values_along(self, name: str, inputs: Sequence[np.ndarray], others: Arrays) -> list[np.ndarray]:
        """Return a map's float64 results at many points, which lie along a new first axis of the operator's inputs."""
        closed, zero = self.traced(name, [*(x[0] for x in inputs), *others], by_autodiff=False)
        if closed not in self._batched:
            f = core.jaxpr_as_fun(closed)
            at_once = max(1, _TOGETHER // max(1, jaxprs.largest(closed.jaxpr)))
            self._batched[closed] = jax.jit(
                lambda inputs, others: lax.map(lambda x: f(*x, *others), inputs, batch_size=at_once)
            )
        nonzero = iter(self._batched[closed](tuple(inputs), tuple(x for x in others if x is not None)))
        shapes = self.shapes(tuple(x.shape[1:] for x in inputs))
        return [
            np.zeros((len(inputs[0]), *shapes[slot.like])) if is_zero else np.asarray(next(nonzero))
            for slot, is_zero in zip(self.map(name).results, zero, strict=True)
        ]

    def values(self, name: str, args: Arrays) -> list[np.ndarray]:
        """Return a map's float64 results, without bounds."""
        closed, zero = self.traced(name, args, by_autodiff=False)
        nonzero = iter(evaluate(closed, *(x for x in args if x is not None)))
        shapes = self.shapes(tuple(x.shape for x in args[: len(self.inputs)] if x is not None))
        return [
            np.zeros(shapes[slot.like], self.dtypes[slot.like]) if is_zero else next(nonzero)
            for slot, is_zero in zip(self.map(name).results, zero, strict=True)
        ]

    def outputs_by_name(self, args: Arrays) -> dict[str, np.ndarray]:
        """Return the operator's float64 outputs at the inputs that a map's arguments begin with."""
        return dict(zip(self.outputs, self.values("forward", args[: len(self.inputs)]), strict=True))

    def traced(self, name: str, args: Arrays, by_autodiff: bool) -> Program:
        """A map's program for arguments such as these, of which the values do not matter; they may be tracers."""
        request = Request.of(name, args, by_autodiff)
        return self.programs.get(request, lambda: self._trace(name, request.example(), by_autodiff))

    def _trace(self, name: str, args: Arrays, by_autodiff: bool) -> Program:
        f = self._conjugating(name, self.formula(name, by_autodiff))
        zero: list[bool] = []

        def f_of_present(*arrays):
            remaining = iter(arrays)
            results = f(*(None if x is None else next(remaining) for x in args))
            zero[:] = [y is None for y in results]
            return [y for y in results if y is not None]

        try:
            closed = jax.make_jaxpr(f_of_present)(*(x for x in args if x is not None))
        except Exception as error:
            own = self.has_formula(name) or (self.spec.surrogate is not None and name != "forward")
            if by_autodiff or not own or all(x is not None for x in args):
                raise
            raise OracleError(about_none(self.spec, self.map(name), args, error)) from error
        return Program(closed if all(self.returns.differentiable) else live(closed), zero)

    def _conjugating(self, name: str, f: Callable) -> Callable:
        """Return a map of JAX's in PyTorch's convention; it is the same for real numbers."""
        if not self.is_complex:
            return f
        m = self.map(name)
        return lambda *args: conjugated(m.results, f(*conjugated(m.arguments, args)))

    def ask(self, name: str, args: Arrays, precision: Precision, inputs: int = INPUT) -> list[Truth]:
        """Return the cached result of `evaluate` by the formula that judges, so that all candidates share one truth."""
        given = (None if x is None else fingerprint(x) for x in args)
        key = (name, precision.name, precision.arithmetic, inputs, *given)
        if key not in self._truths:
            self._truths[key] = self.evaluate(name, args, precision, inputs=inputs)
        return self._truths[key]
