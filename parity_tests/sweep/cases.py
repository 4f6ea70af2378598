"""A call of an operator as a case: PyTorch's operator and JAX's reference as maps of the same arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from jax_ref import aten
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.maps import BASES, ORDERS, Map, derivative_map
from parity_tests.harness.oracle.transforms import as_tuple, conjugated, jvp_of, vjp_of
from parity_tests.sweep.domains import Projection, projections
from parity_tests.sweep.drawn import DRAWN, seeded
from parity_tests.sweep.elementwise import is_elementwise
from parity_tests.sweep.invariants import INVARIANTS, NOT_COMPARED
from parity_tests.sweep.operators import operator_of
from parity_tests.sweep.recorded_calls import RecordedCall, as_jax, as_numpy, as_torch
from parity_tests.sweep.torch_invariants import TORCH_INVARIANTS
from torch_impl.derivatives import Entry

Arrays = list[np.ndarray]
Side = Callable[[str, Sequence[Any]], Arrays]  # a map's name and its arguments, arrays; PyTorch's may be tensors


class NoReference(LookupError):
    """`jax_ref.aten` has no such operator."""


@dataclass(frozen=True, eq=False)
class Case:
    """A call of the operator of an entry, as a function of the inputs that the entry has formulas for.

    Of an operator for Hermitian or triangular matrices it is the operator after the projection on these; see `domains`.
    All maps are in PyTorch's convention of complex derivatives: the gradient of L is ∂L/∂Re + i ∂L/∂Im.

    Attributes:
        inputs: the arrays that are differentiated, with their names: "self", "tensors[1]".
        results: the numbers of the results that are differentiable, with their names.
    """

    entry: Entry
    call: RecordedCall
    inputs: Mapping[str, np.ndarray]
    results: Mapping[str, int]

    def map(self, mode: str) -> Map:
        """Return the arguments and results of a map: "forward", "vjp", "jvp_of_vjp", ..."""
        return derivative_map(mode, tuple(self.inputs), tuple(self.results))

    def labels(self, mode: str) -> list[str]:
        """Return of what each result of a mode is the derivative: of a VJP an argument's name, of a JVP a result's."""
        base = self.map(BASES[mode])
        slots = base.arguments if ORDERS[mode][-1] == "vjp" else base.results
        return [slot.label for slot in slots]

    def arguments(self, mode: str, seed: int = 0) -> Arrays:
        """Return the inputs, and random cotangents and tangents, in the order of the map's arguments."""
        rng = np.random.default_rng(seed)
        like = {**self.inputs, **{name: self.call.results[i] for name, i in self.results.items()}}
        given = [self.inputs.get(slot.label) for slot in self.map(mode).arguments]
        slots = zip(given, self.map(mode).arguments, strict=True)
        return [_drawn(like[slot.like], rng) if x is None else x for x, slot in slots]

    def at(self, inputs: Sequence[np.ndarray]) -> Case:
        """Return the case at other inputs, with PyTorch's results there."""
        moved = dict(zip(self.inputs, inputs, strict=True))
        arguments = _with(self.call.arguments, moved)
        given = {key: as_torch(value) for key, value in arguments.items()}
        given = _with(given, self._projected([as_torch(x) for x in inputs]))
        found = _flat(self._operator()(**given))
        found = TORCH_INVARIANTS[self.call.name](given, *found) if self.call.name in TORCH_INVARIANTS else found
        results = tuple(map(as_numpy, found))
        return replace(self, call=replace(self.call, arguments=arguments, results=results), inputs=moved)

    @functools.cached_property
    def _projections(self) -> Mapping[str, Projection]:
        return projections(self.entry.name, self.call.arguments)

    def _projected(self, inputs: Sequence[Any]) -> dict[str, Any]:
        return _projected(self._projections, tuple(self.inputs), inputs)

    @property
    def _packet(self) -> str:
        return self.entry.name.partition(".")[0]

    def _overload(self) -> Any:
        return operator_of(self.entry.name)

    def _operator(self) -> Callable[..., Any]:
        """PyTorch's operator; one that has a reference for what it draws always draws the same numbers."""
        return functools.partial(seeded, self._overload()) if self._packet in DRAWN else self._overload()

    def in_pytorch(self, mode: str, arguments: Sequence[np.ndarray]) -> Arrays:
        """Return the results of a map by PyTorch's autograd.

        Raises:
            RuntimeError, NotImplementedError: PyTorch refuses.
        """
        return self.by_function(self.torch_function(), mode, arguments)

    def by_function(
        self, function: Callable[..., Sequence[torch.Tensor]], mode: str, arguments: Sequence[np.ndarray]
    ) -> Arrays:
        """Return the results of a map of a function of tensors, by PyTorch's autograd; raises what that raises.

        An argument may be a tensor: then it is used as it lies in memory.
        """
        candidate, count, base = Candidate(function, self.entry.name), len(self.inputs), self.map(mode).base
        tensors = tensors_of(arguments)
        if mode == "forward":
            found = candidate.forward(tensors)
        elif mode in ("vjp", "jvp"):
            found = getattr(candidate, mode)(tensors[:base], tensors[base:])
        else:
            found = getattr(candidate, mode)(count, tensors[:base], tensors[base:])
        like = [slot.like for slot in self.map(mode).results]
        return [self._array(y, name) for y, name in zip(found, like, strict=True)]

    def _array(self, y: torch.Tensor | None, like: str) -> np.ndarray:
        if y is not None and not y._is_zerotensor():
            return y.detach().resolve_conj().resolve_neg().numpy().copy()
        shaped = self.inputs[like] if like in self.inputs else self.call.results[self.results[like]]
        return np.zeros_like(shaped)

    def torch_function(self) -> Callable[..., tuple[torch.Tensor, ...]]:
        """Return PyTorch's operator as a function of the inputs alone."""
        call, constants = self.torch_call(), {k: as_torch(v) for k, v in self.call.arguments.items()}
        return lambda *inputs: call(constants, inputs)

    def torch_call(self) -> Callable[[Mapping[str, Any], Sequence[torch.Tensor]], tuple[torch.Tensor, ...]]:
        """Return PyTorch's operator as a function of all its arguments, in which the inputs replace those they name."""
        operator, invariants = self._operator(), TORCH_INVARIANTS.get(self.call.name)
        names, chosen, projections = tuple(self.inputs), tuple(self.results.values()), self._projections
        written_to = self.entry.argument_names[0] if self.entry.in_place else ""

        def function(arguments: Mapping[str, Any], inputs: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
            given = _with(arguments, _projected(projections, names, inputs))
            if written_to:
                given[written_to] = _copies(given[written_to])
            found = _flat(operator(**given))
            found = found if invariants is None else invariants(given, *found)
            return tuple(found[i] for i in chosen)

        return function

    def jax_function(self) -> Callable[..., tuple[jax.Array, ...]]:
        """Return the reference in JAX as a function of the inputs alone.

        Raises:
            NoReference: there is none.
        """
        drawn = DRAWN.get(self._packet)
        reference = reference_of(self.entry) if drawn is None else functools.partial(drawn, self.call.results)
        constants = {key: as_jax(value) for key, value in self.call.arguments.items()}

        def function(*inputs: jax.Array) -> tuple[jax.Array, ...]:
            given = _with(constants, self._projected(inputs))
            found = _flat(reference(**given))
            found = INVARIANTS[self.call.name](given, *found) if self.call.name in INVARIANTS else found
            if self.entry.in_place:  # what is written to a tensor of numbers is a number, as a comparison's result
                found = [jnp.asarray(y, given.dtype) for y, given in zip(found, self.call.results, strict=False)]
            return tuple(found[i] for i in self.results.values())

        return function

    def in_jax(self, function: Callable[..., Any] | None = None) -> Side:
        """Return the maps of the reference, or of another function of the inputs, as JAX differentiates it.

        Raises:
            NoReference: there is none.
        """
        function = self.jax_function() if function is None else function
        program = functools.cache(lambda mode: self.program(function, mode))
        compiled = functools.cache(lambda mode: jax.jit(program(mode)))

        def side(mode: str, arguments: Sequence[np.ndarray]) -> Arrays:
            given = [jnp.asarray(x) for x in arguments]
            try:
                found = compiled(mode)(*given)
            except jax.errors.JAXTypeError:  # the result's shape, or Python value, is up to the numbers
                found = program(mode)(*given)
            return [np.asarray(y) for y in found]

        return side

    @property
    def may_draw(self) -> bool:
        """Whether the operator draws random numbers, perhaps with some of its options only."""
        return torch.Tag.nondeterministic_seeded in self._overload().tags

    @functools.cached_property
    def entrywise(self) -> bool:
        """Whether each number of the only result depends on the inputs at its own place alone."""
        if self._projections or any("[" in name for name in self.inputs):
            return False
        shapes = {np.shape(x) for x in (*self.inputs.values(), *self.call.results)}
        return len(shapes) == 1 and is_elementwise(self.call, list(self.inputs))

    def program(self, function: Callable[..., Any], mode: str) -> Callable[..., tuple]:
        """Return a map of a function in JAX, in PyTorch's convention, to be traced."""
        inner, made = (lambda *inputs: as_tuple(function(*inputs))), "forward"
        for i, step in enumerate(ORDERS[mode]):
            count = len(self.map(made).arguments)
            inner = (vjp_of if step == "vjp" else jvp_of)(inner, count)
            made = next(name for name, order in ORDERS.items() if order == ORDERS[mode][: i + 1])
        m = self.map(mode)

        def converted(*arguments: Any) -> tuple:
            return tuple(conjugated(m.results, inner(*conjugated(m.arguments, arguments))))

        return converted


def tensors_of(arguments: Sequence[np.ndarray | torch.Tensor]) -> list[torch.Tensor]:
    """Return arrays as tensors of their own; what is a tensor stays as it lies in memory."""
    return [x if isinstance(x, torch.Tensor) else as_torch(np.asarray(x)) for x in arguments]


def case_of(entry: Entry, call: RecordedCall) -> Case | None:
    """Return a call as a case; None if none of its inputs with a formula, or none of its results, has a derivative.

    Where the operator leaves signs or orders of vectors open, the results are what does not depend on them.
    """
    every = dict.fromkeys(name for formula in entry.vjps for name in formula.names)
    names = [name for name in every if name not in entry.not_implemented]
    inputs = {}
    for name in names:
        value = call.arguments.get(name)
        inputs |= {f"{name}[{i}]": x for i, x in enumerate(value)} if isinstance(value, list) else {name: value}
    inputs = {name: x for name, x in inputs.items() if _is_inexact(x)}
    if call.name in INVARIANTS:
        found = INVARIANTS[call.name](call.arguments, *call.results)
        call = replace(call, results=tuple(map(np.asarray, found)))
        results = {f"invariants[{i}]": i for i in range(len(found))}
    else:
        results = {name: i for name, i in _named_results(entry, call).items() if _is_inexact(call.results[i])}
    if not inputs or not results:
        return None
    case = Case(entry, call, inputs, results)
    # What was recorded may have been drawn, or lie off the domain on which the operator is compared.
    is_recorded = entry.name.partition(".")[0] not in DRAWN and not projections(entry.name, call.arguments)
    return case if is_recorded else case.at(list(inputs.values()))


def _named_results(entry: Entry, call: RecordedCall) -> dict[str, int]:
    """The numbers of the results that the entry says are differentiable, by the names that its formulas use."""
    names, flags = entry.result_names, entry.differentiable_outputs
    skipped = NOT_COMPARED.get(f"aten::{entry.name.partition('.')[0]}", ())
    if len(names) == 1:
        many = len(call.results) != 1
        return {f"{names[0]}[{i}]" if many else names[0]: i for i in range(len(call.results)) if flags[0]}
    named = enumerate(zip(names, flags, strict=True))
    return {name: i for i, (name, flag) in named if flag and i < len(call.results) and i not in skipped}


def reference_of(entry: Entry) -> Callable[..., Any]:
    """Return the reference of an entry's operator: of one that writes to its input, of one for lists of tensors, too.

    Raises:
        NoReference: there is none.
    """
    packet, dot, overload = entry.name.partition(".")
    if packet.startswith("_foreach_"):
        return _of_each(packet.removeprefix("_foreach_").removesuffix("_"), overload)
    plain = packet.removesuffix("_") if entry.in_place else packet
    for name in (f"aten::{plain}{dot}{overload}", f"aten::{plain}"):
        if name in aten.OPERATORS:
            return aten.OPERATORS[name]
    raise NoReference(f"jax_ref.aten has no {packet}")


def _of_each(packet: str, overload: str) -> Callable[..., Any]:
    """The reference of an operator for lists of tensors: that of the operator for one, item by item."""
    name = f"aten::{packet}"
    if name not in aten.OPERATORS:
        raise NoReference(f"jax_ref.aten has no {packet}")
    function = aten.OPERATORS[name]

    def each(**arguments: Any) -> list[Any]:
        count = next(len(v) for v in arguments.values() if isinstance(v, list | tuple))

        def of(i: int) -> Any:
            items = {k: v[i] if isinstance(v, list | tuple) and len(v) == count else v for k, v in arguments.items()}
            renamed = {"scalars": "other", "scalar": "other", "tensors": "other", "tensor": "other", "ord": "p"}
            return function(**{renamed.get(key, key): value for key, value in items.items()})

        return [of(i) for i in range(count)]

    return each


def _projected(projections: Mapping[str, Projection], names: Sequence[str], inputs: Sequence[Any]) -> dict[str, Any]:
    """The inputs by name, on the operator's domain."""
    by_name = dict(zip(names, inputs, strict=True))
    return by_name | {name: project(by_name[name]) for name, project in projections.items() if name in by_name}


def _with(arguments: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments with other inputs; "tensors[1]" is an item of the list "tensors"."""
    given = {key: list(value) if isinstance(value, list) else value for key, value in arguments.items()}
    for name, x in inputs.items():
        plain, bracket, index = name.partition("[")
        if bracket:
            given[plain][int(index.removesuffix("]"))] = x
        else:
            given[name] = x
    return given


def _flat(results: Any) -> list[Any]:
    if not isinstance(results, list | tuple):
        return [results]
    return [leaf for each in results for leaf in _flat(each)]


def _copies(value: Any) -> Any:
    return [x.clone() for x in value] if isinstance(value, list) else value.clone()


def _is_inexact(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind in "fc"


def _drawn(like: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    y = rng.standard_normal(like.shape)
    return (y + 1j * rng.standard_normal(like.shape) if like.dtype.kind == "c" else y).astype(like.dtype)
