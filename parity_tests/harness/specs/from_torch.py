"""An operator's specification from a function of PyTorch, whose derivatives have no part in it.

The function is exported to a graph of ATen's operators, and each of them is computed by `jax_ref.aten`: the primal is
an ordinary JAX function, which JAX differentiates, and which is bounded and certified as any other.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

from parity_tests.conversion.cannot_convert import CannotConvert
from parity_tests.conversion.exported import Exported, exported, quiet_run
from parity_tests.conversion.graph import is_known
from parity_tests.harness.numbers.fingerprint import contents
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.numbers.numerics import pinned_jax
from parity_tests.harness.specs import graph_in_jax
from parity_tests.harness.specs.call_of_reference import check_call
from parity_tests.harness.specs.detached import with_detached_gradient
from parity_tests.harness.specs.domains import REAL, Domain
from parity_tests.harness.specs.input_text import Inputs
from parity_tests.harness.specs.least_sizes import least_sizes
from parity_tests.harness.specs.operations import Counted
from parity_tests.harness.specs.output_axes import Probe, drawn, output_shapes, with_outputs
from parity_tests.harness.specs.spec import OpSpec

_MOST_OPERATIONS = 2**11  # beyond which a run without numbers takes seconds, as of loops over large sizes
_MOST_RUN = 2**16  # entries of all inputs together, beyond which a run without numbers is taken for one with them


class TorchReference:
    """A function of PyTorch, or a module, as a function of JAX arrays.

    It is exported anew for each set of shapes and dtypes; what is exported does not depend on the arrays' numbers. The
    real numbers of the result are those of the exact function, in the dtype of the inputs: where the reference rounds
    to another floating-point format, this does not.

    Args:
        reference: the function. Of a module the parameters, in the order of `named_parameters`, are arguments after
            those of its `forward` if so many are given, and else constants; its buffers are constants.
        detaches: False for the function with nothing detached.
    """

    def __init__(self, reference: Callable, detaches: bool = True) -> None:
        self.reference, self._detaches = reference, detaches
        self._programs: dict[Any, tuple[Exported, Any]] = {}
        self._at_first: int | None = None  # operations, of the first run without numbers
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple:
        """Pickle the function alone, by its name; a module by its value."""
        return TorchReference, (self.reference, self._detaches)

    @property
    def __name__(self) -> str:
        """The name of the function, or of the module's class."""
        return getattr(self.reference, "__name__", type(self.reference).__name__).strip("<>")

    @property
    def __signature__(self) -> inspect.Signature:
        """The signature of the function, or of the module's `forward`."""
        return inspect.signature(
            self.reference.forward if isinstance(self.reference, torch.nn.Module) else self.reference
        )

    def __call__(self, *args: Any, **params: object) -> Any:
        """Return what the function returns, with arrays in the place of tensors.

        Raises:
            CannotConvert: the function cannot be made one of JAX.
        """
        arrays, tree = jax.tree.flatten(args)
        key = (tree, *((jnp.shape(x), str(jnp.result_type(x))) for x in arrays), contents(params))
        with self._lock:
            if key not in self._programs:
                self._programs[key] = self._exported(arrays, tree, params)
            found, returned = self._programs[key]
        return jax.tree.unflatten(returned, graph_in_jax.evaluated(found.program, arrays, self._detaches))

    def shapes(self, args: Any, params: Mapping[str, object]) -> list[tuple[int, ...]] | None:
        """The shapes of what the function returns, by a run of PyTorch without numbers; None if it raises there.

        None, too, if it is more than `_MOST_OPERATIONS`, and far more than at the first shapes that were asked about.

        Raises:
            CannotConvert: it needs numbers, and cannot be exported.
        """
        counted = Counted(self._at_first and max(_MOST_OPERATIONS, 4 * self._at_first))
        try:
            found = self._without_numbers(args, params, counted)
            self._at_first = self._at_first or counted.operations
            return [tuple(y.shape) for y in jax.tree.leaves(found)]
        except _need_numbers():
            pass
        except Exception:  # whatever the reference raises
            return None
        with pinned_jax():
            found = jax.eval_shape(lambda *args: self(*args, **params), *args)
        return [y.shape for y in jax.tree.leaves(found)]

    def operations(self, args: Any, params: Mapping[str, object], most: int | None = None) -> int:
        """The number of the function's operations, `most` + 1 if they are more; where it raises, up to there."""
        counted = Counted(most)
        with contextlib.suppress(Exception):  # whatever the reference raises
            self._without_numbers(args, params, counted)
        return counted.operations

    def _without_numbers(self, args: Any, params: Mapping[str, object], counted: Counted) -> Any:
        """Return the results of the function for tensors that have shapes only."""
        arrays, tree = jax.tree.flatten(args)
        with quiet_run(), FakeTensorMode(allow_non_fake_inputs=True):
            tensors = [torch.empty(jnp.shape(x), dtype=_dtype(x)) for x in arrays]
            with counted:
                return self._results(jax.tree.unflatten(tree, tensors), params)

    @property
    def detaches(self) -> bool:
        """True if the function was called, and then detached something."""
        return self._detaches and any(graph_in_jax.detaches(found.program) for found, _ in self._programs.values())

    def only_detached(self, count: int) -> frozenset[int]:
        """Which of so many arrays, in the order of their leaves, were used detached only wherever all were given."""
        programs = (found.program for found, _ in self._programs.values())
        found = [graph_in_jax.only_detached(p) for p in programs if len(p.graph_signature.user_inputs) == count]
        return frozenset(set.intersection(*found)) if found else frozenset()

    @property
    def rounds(self) -> bool:
        """True if the function was called, and then cast its real numbers to a narrower format."""
        return any(found.rounds for found, _ in self._programs.values())

    def _results(self, args: Any, params: Mapping[str, object]) -> Any:
        found = _of_tensors(self.reference)(*args, **params)
        # PyTorch's own named tuples, such as that of torch.linalg.qr, are no trees to JAX.
        return tuple(found) if type(found).__module__ == torch.return_types.__name__ else found

    def _exported(self, arrays: Sequence[Any], tree: Any, params: Mapping[str, object]) -> tuple[Exported, Any]:
        returned: list[Any] = []

        def function(*tensors: torch.Tensor) -> list[torch.Tensor]:
            leaves, structure = jax.tree.flatten(self._results(jax.tree.unflatten(tree, tensors), params))
            strange = [type(y).__name__ for y in leaves if not isinstance(y, torch.Tensor)]
            if strange:
                raise CannotConvert(
                    f"the reference returns {strange[0]} where a tensor, or a tuple of tensors, is expected"
                )
            returned.append(structure)
            return leaves

        inputs = [torch.empty(jnp.shape(x), dtype=_dtype(x)) for x in arrays]
        found = exported(function, inputs, is_known)
        if not graph_in_jax.depends_on_inputs(found.program):
            raise CannotConvert(
                "no output of the reference depends on an input, except through detach() or under torch.no_grad(), so "
                "that it has no derivative; leave these out of it"
            )
        return found, returned[0]


def as_spec(
    reference: Callable,
    signature: str | None = None,
    inputs: str | Sequence[Any] | None = None,
    name: str | None = None,
    **fields: Any,
) -> OpSpec:
    """Return the specification of what a function of PyTorch computes: see `OpSpec.from_torch`."""
    if not callable(reference):
        raise TypeError(f"from_torch: reference must be a PyTorch function or module, got {type(reference).__name__}")
    primal = TorchReference(reference)
    parameters = dict(reference.named_parameters()) if isinstance(reference, torch.nn.Module) else {}
    name = name or primal.__name__
    if isinstance(inputs, str):
        if signature is not None:
            raise TypeError(f"OpSpec {name}: give either a signature or inputs, not both")
        return _as_it_is_run(_described(name, primal, inputs, parameters, fields))
    if inputs is not None and parameters:
        fields |= _names_with_parameters(primal, inputs, [*parameters], fields)
        own = [x.detach() for x in parameters.values()]
        inputs = [*inputs, *own]
        if "given_size" in fields:
            fields["given_size"] = [*fields["given_size"], *own]
    spec = OpSpec(name, primal=primal, signature=signature, inputs=inputs, **fields)
    if not isinstance(reference, torch.nn.Module):
        check_call(reference, [*map(str, spec.arranged(spec.names))], spec.params)
    output_shapes(spec)  # what cannot be converted is refused before anything is judged
    return _as_it_is_run(spec)


def _as_it_is_run(spec: OpSpec) -> OpSpec:
    """The specification with what only a run of the reference has shown.

    Without float64 if it, and so what replaces it, computes in float32 there; with the inputs that it uses detached
    only; with a gradient that is no derivative if it detaches more that matters.
    """
    primal = spec.primal
    assert isinstance(primal, TorchReference)
    if primal.detaches:
        names, leaves = spec.names, jax.tree.leaves(spec.arranged([*range(spec.count)]))
        found = {names[leaves[i]] for i in primal.only_detached(spec.count)}
        detached = tuple(name for name in names if name in found.union(spec.detached).difference(spec.constants))
        spec = replace(spec, detached=detached)
        spec = with_detached_gradient(spec, TorchReference(primal.reference, detaches=False))
    if spec.dtypes is not None or not primal.rounds:
        return spec
    return replace(spec, dtypes=[name for name in spec.formats if name not in (FLOAT64.name, "complex128")])


def _need_numbers() -> tuple[type[Exception], ...]:
    """Return the errors of operators that need the numbers of their inputs."""
    # It imports sympy, which takes two thirds of a second
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    return (
        DataDependentOutputException,
        DynamicOutputShapeException,
        GuardOnDataDependentSymNode,
        UnsupportedFakeTensorException,
        UnsupportedOperatorException,
    )


def _described(
    name: str, primal: TorchReference, text: str, parameters: Mapping[str, torch.Tensor], fields: Mapping[str, Any]
) -> OpSpec:
    described = Inputs.parse(text).followed_by({key: tuple(x.shape) for key, x in parameters.items()})
    known = {key: value for key, value in fields.items() if key != "output_names"}
    own = {key: _as_spread(x) for key, x in parameters.items()}
    known["domains"] = {**own, **described.domains, **fields.get("domains", {})}
    known["constants"] = [*dict.fromkeys([*described.constants, *fields.get("constants", ())])]
    spec = OpSpec(name, primal, f"{described.signature}->()", input_names=described.names, **known)
    of_module = isinstance(primal.reference, torch.nn.Module)
    call = primal.reference.forward if of_module else primal.reference
    given = [*map(str, spec.arranged(spec.names))]  # the parameters of a module come last
    check_call(call, given[: len(given) - len(parameters)], spec.params, text)
    rules = _least_sizes(spec, primal)
    if rules:
        spec = replace(spec, sizes=", ".join([*([spec.sizes] if spec.sizes else []), *rules]))
    try:
        spec = with_outputs(spec)
    except CannotConvert as error:
        if rules is not None:
            raise
        assert spec.parsed is not None
        axes = spec.parsed.axes
        where = f': if it does at others, say at which, such as sizes="{axes[-1]} == 100"' if axes else ""
        raise CannotConvert(f"{error}; it runs at none of the sizes that were tried{where}") from error
    return replace(spec, output_names=fields.get("output_names"))


def _as_spread(parameter: torch.Tensor) -> Domain:
    """Real numbers, of the module's own spread if that is less than 1: larger weights saturate what follows."""
    size = float(parameter.detach().double().square().mean().sqrt()) if parameter.numel() else 0.0
    return replace(REAL, spread=size) if 0 < size < 1 else REAL


def _least_sizes(spec: OpSpec, primal: TorchReference) -> list[str] | None:
    """Rules for the sizes at which PyTorch's own run of the reference does not raise; None if it does at all.

    As "n >= 1" of `torch.stack` of the steps of a loop, of which there are none, and "h >= 3" of a kernel's size.
    """
    signature, reference, probe = spec.parsed, _of_tensors(primal.reference), Probe(spec)
    assert signature is not None

    def runs(sizes: Mapping[str, int]) -> bool:
        return probe(sizes) is not None and _runs(reference, spec, sizes)

    return least_sizes(signature.axes, signature.core, spec.size_rules, runs)


def _runs(reference: Callable, spec: OpSpec, sizes: Mapping[str, int]) -> bool:
    try:
        arrays = drawn(spec, sizes)
    except ValueError:  # a domain has no array of these sizes, nor does any sample
        return True
    if sum(x.size for x in arrays) > _MOST_RUN:
        return True
    with quiet_run():
        try:
            reference(*spec.arranged([torch.from_numpy(x) for x in arrays]), **spec.params_at(sizes))
        except Exception:  # whatever the reference raises
            return False
    return True


def _names_with_parameters(
    primal: TorchReference, inputs: Sequence[Any], names: Sequence[str], fields: Mapping[str, Any]
) -> dict[str, tuple[str, ...]]:
    """The field `input_names` of a spec whose last inputs are a module's parameters; nothing if it is given."""
    if "input_names" in fields or any(isinstance(x, Mapping | tuple | list) for x in inputs):
        return {}
    own = [p.name for p in primal.__signature__.parameters.values()]
    return {"input_names": (*own[: len(inputs)], *names)}


def _of_tensors(reference: Callable) -> Callable:
    """A module as a function of its inputs and, if so many are given, its parameters; a function as it is."""
    if not isinstance(reference, torch.nn.Module):
        return reference
    module, names = reference, [name for name, _ in reference.named_parameters()]
    positional = inspect.signature(module.forward).parameters.values()
    required = sum(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD for p in positional)

    def function(*args: Any, **params: Any) -> Any:
        count = len(args) - len(names)
        if count >= required:
            parameters, args = dict(zip(names, args[count:], strict=True)), args[:count]
        else:
            parameters = {name: _exact(p) for name, p in module.named_parameters()}
        buffers = {name: _exact(buffer).clone() for name, buffer in module.named_buffers()}
        return torch.func.functional_call(module, parameters | buffers, args, params)

    return function


def _exact(x: torch.Tensor) -> torch.Tensor:
    x = x.detach()
    return x.to(torch.complex128 if x.is_complex() else torch.float64) if x.is_floating_point() or x.is_complex() else x


def _dtype(x: Any) -> torch.dtype:
    """The dtype in which an input is exported: real numbers are float64, whatever they are given in."""
    dtype = jnp.result_type(x)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return torch.complex128
    return torch.float64 if jnp.issubdtype(dtype, jnp.floating) else getattr(torch, np.dtype(dtype).name)
