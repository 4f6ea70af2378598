"""An exported graph as a function of JAX arrays: each node is computed by its operator in `jax_ref.aten`."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from torch import fx
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.node import map_arg

from jax_ref import aten
from parity_tests.conversion.cannot_convert import CannotConvert, NoOperator
from parity_tests.conversion.higher_order import FUNCTIONS
from parity_tests.conversion.recording import LINE

_WHERE_IT_LIES = ("device", "layout", "pin_memory", "memory_format", "non_blocking")
_NO_NUMBERS = ("condition", "mask", "index", "indices")  # arguments that stay integers, or booleans


# Python's operators on integers, and a view's copy, which are other operators by another name.
_SAME_AS = {
    "_neg_view_copy": "neg",
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__lshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
}


# x.item(), too, of which PyTorch has no derivative.
DETACHING = (torch.ops.aten.detach.default, torch.ops.aten._local_scalar_dense.default)


# Arrays of one number. Memory with no numbers yet has NaN, which is seen if somebody reads it.
_FILLED = {
    torch.ops.aten.empty.memory_format: np.nan,
    torch.ops.aten.empty_permuted.default: np.nan,
    torch.ops.aten._new_zeros_with_same_feature_meta.default: 0.0,
}


def is_known(name: str) -> bool:
    """Return whether there is a JAX function for an operator's name, such as "aten::std.correction"."""
    return listed(name) in aten.OPERATORS


def listed(name: str) -> str:
    """Return the name by which `jax_ref.aten` has an operator, such as "aten::neg" for "aten::_neg_view_copy"."""
    packet = name.removeprefix("aten::").partition(".")[0]
    return f"aten::{_SAME_AS[packet]}" if packet in _SAME_AS else name


class Dtypes(Protocol):
    """The dtypes that arrays have, by those of PyTorch's tensors."""

    def of(self, dtype: torch.dtype) -> np.dtype:
        """Return the dtype of an array in the place of a tensor."""
        ...


class OneReal:
    """All real numbers have one dtype, and all complex ones the corresponding one."""

    def __init__(self, real: np.dtype) -> None:
        self._real = real

    def of(self, dtype: torch.dtype) -> np.dtype:
        """Return the dtype of an array in the place of a tensor."""
        if dtype.is_floating_point:
            return self._real
        return np.dtype(jnp.result_type(self._real, np.complex64)) if dtype.is_complex else as_written(dtype)


class AsWritten:
    """Numbers have the dtypes that PyTorch's have, as far as JAX has them: float32 for float64, by default."""

    def of(self, dtype: torch.dtype) -> np.dtype:
        """Return the dtype of an array in the place of a tensor."""
        return as_written(dtype)


def as_written(dtype: torch.dtype) -> np.dtype:
    """Return JAX's dtype for one of PyTorch's."""
    found = jnp.dtype(str(dtype).removeprefix("torch."))
    return np.dtype(jax.dtypes.canonicalize_dtype(found))


# (node, its arguments by name) -> what it draws.
Draw = Callable[[Node, Mapping[str, Any]], Any]


class HasGraph(Protocol):
    """A module with a graph, or whatever has one."""

    @property
    def graph(self) -> fx.Graph:
        """The graph; the constants that it has are attributes by their names."""
        ...


class Graph:
    """A graph as a function of arrays.

    Args:
        module: has the graph.
        dtypes: those that arrays have.
        draw: what draws random numbers.
        detaches: False for the function with nothing detached.
        functions: what takes the place of some nodes.
    """

    def __init__(
        self,
        module: HasGraph,
        dtypes: Dtypes,
        draw: Draw,
        detaches: bool = True,
        functions: Mapping[Node, Callable] | None = None,
    ) -> None:
        self._module, self._dtypes, self._dtype, self._draw = module, dtypes, dtypes.of, draw
        self._detaches, self._functions = detaches, functions or {}

    def array(self, tensor: torch.Tensor) -> jax.Array:
        """The numbers of a tensor, in the dtype that they have here."""
        return jnp.asarray(numbers_of(tensor), self._dtype(tensor.dtype))

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs of the graph.

        Raises:
            CannotConvert: an operator has no counterpart in JAX; the message has the line.
        """
        values, remaining = dict[Node, Any](), iter(inputs)
        for node in self._module.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(remaining)
            elif node.op == "get_attr":
                values[node] = self._attribute(node)
            elif node.op == "output":
                found = node.args[0] if isinstance(node.args[0], tuple | list) else [node.args[0]]
                return [values.get(y) if isinstance(y, Node) else y for y in found]
            else:
                values[node] = self.called(node, values)
        raise AssertionError("a graph without an output")

    def _attribute(self, node: Node) -> Any:
        found = getattr(self._module, str(node.target))
        if isinstance(found, fx.GraphModule):
            inner = Graph(found, self._dtypes, _refuse_in_a_branch, self._detaches)
            return lambda *inputs: inner.run(inputs)
        return self.array(found) if isinstance(found, torch.Tensor) else found

    def called(self, node: Node, values: Mapping[Node, Any]) -> Any:
        """Return what a node computes of the values of those before it."""
        args: Any = map_arg(node.args, values.__getitem__)
        kwargs: Any = map_arg(node.kwargs, values.__getitem__)
        if node in self._functions:
            return self._functions[node](*args[0])
        if node.target is operator.getitem:
            return self._checked(node, args[0][args[1]])
        if isinstance(node.target, torch._ops.HigherOrderOperator) and node.target.name() in FUNCTIONS:
            found = FUNCTIONS[node.target.name()](*args, **kwargs)
            return [y.astype(self._dtype(x.dtype)) for y, x in zip(found, node.meta["val"], strict=True)]
        if not isinstance(node.target, torch._ops.OpOverload):
            raise CannotConvert(
                f"{line_of(node)}the function uses {getattr(node.target, '__name__', node.target)}, which has no "
                "counterpart in JAX here; a number that is read from a tensor must stay a tensor, and a loop must be "
                "one of Python, with a fixed number of steps"
            )
        if not node.target._schema.returns:
            return None  # an assertion about shapes or dtypes
        self._check_shape(node)
        if node.target in _FILLED and is_inexact(node.meta.get("val")):
            return jnp.full(node.meta["val"].shape, _FILLED[node.target], self._dtype(node.meta["val"].dtype))
        if node.target in _FILLED and all(user in self._functions for user in node.users):
            return jnp.zeros(node.meta["val"].shape, self._dtype(node.meta["val"].dtype))  # none of them reads it
        if node.target is torch.ops.aten.lift_fresh_copy.default:  # of a constant, in a graph of make_fx
            return args[0]
        if node.target in DETACHING:
            return lax.stop_gradient(args[0]) if self._detaches else args[0]
        if draws(node):
            return self._checked(node, self._draw(node, named_arguments(node.target, args, kwargs)))
        return self._checked(node, self._operator(node, node.target)(**self._arguments(node, args, kwargs)))

    @staticmethod
    def _check_shape(node: Node) -> None:
        expected = node.meta.get("val")
        if isinstance(expected, torch.Tensor) and any(not isinstance(size, int) for size in expected.shape):
            raise CannotConvert(
                f"{line_of(node)}the shape of {node.target} depends on numbers, and the shapes of JAX's arrays must "
                "not; multiply by a mask, or write torch.where, in place of a selection"
            )

    def _operator(self, node: Node, target: Any) -> Callable[..., Any]:
        name = target.name()
        if not is_known(name):
            raise NoOperator(f"{line_of(node)}jax_ref.aten has no {name}; write the function in other operators")
        return aten.OPERATORS[listed(name)]

    def _arguments(self, node: Node, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        target: Any = node.target
        function, named = aten.OPERATORS[listed(target.name())], named_arguments(target, args, kwargs)
        named = {key: value for key, value in named.items() if key not in _WHERE_IT_LIES}
        known = inspect.signature(function).parameters
        defaults = {argument.name: argument.default_value for argument in target._schema.arguments}
        named = {key: value for key, value in named.items() if key in known or value != defaults[key]}
        unknown = [key for key in named if key not in known]
        if unknown:
            raise NoOperator(
                f"{line_of(node)}jax_ref.aten has no {target.name()}, with {unknown[0]}; write the function in other "
                "operators"
            )
        result = node.meta.get("val")
        if "dtype" in known and isinstance(result, torch.Tensor) and "dtype" in defaults:
            made = not any(isinstance(x, jax.Array | np.ndarray) for x in jax.tree.leaves(named))
            if made or named.get("dtype") is not None:
                named["dtype"] = result.dtype
        elif is_inexact(result) and not any(map(is_inexact, jax.tree.leaves(named))):
            # Of integers alone ATen makes real numbers of its default dtype.
            assert isinstance(result, torch.Tensor)
            real = self._dtype(result.real.dtype)
            named = {k: v if k in _NO_NUMBERS else _as_real(v, real) for k, v in named.items()}
        return {key: self._dtype(value) if isinstance(value, torch.dtype) else value for key, value in named.items()}

    def _checked(self, node: Node, value: Any) -> Any:
        """The value, after a check that it has the shape and kind of PyTorch's."""
        expected = node.meta.get("val")
        if not isinstance(expected, torch.Tensor) or not node.users:
            return value
        value, shape, dtype = jnp.asarray(value), tuple(expected.shape), self._dtype(expected.dtype)
        if jnp.issubdtype(dtype, jnp.integer) and jnp.issubdtype(value.dtype, jnp.integer):
            value = value.astype(dtype)
        if value.shape != shape or value.dtype != dtype:
            raise TypeError(
                f"{line_of(node)}jax_ref.aten's {node.target} returns {value.dtype}{value.shape}, and PyTorch's "
                f"{dtype}{shape}, which is a defect of jax_ref.aten"
            )
        return value


def _refuse_in_a_branch(node: Node, named: Mapping[str, Any]) -> Any:
    raise CannotConvert(
        f"{line_of(node)}a function that torch.cond or the like calls draws random numbers ({node.target}); draw them "
        "before, and give them to it"
    )


def _as_real(value: Any, real: np.dtype) -> Any:
    return jax.tree.map(lambda x: jnp.asarray(x).astype(real) if isinstance(x, jax.Array | np.ndarray) else x, value)


def draws(node: Node) -> bool:
    """Return whether a node draws random numbers; attention does with dropout only."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
        return False
    by_default = {argument.name: argument.default_value for argument in target._schema.arguments}
    return bool((by_default | named_arguments(target, node.args, node.kwargs)).get("dropout_p", True))


def named_arguments(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an operator's call by their names."""
    return {argument.name: x for argument, x in zip(target._schema.arguments, args, strict=False)} | dict(kwargs)


def line_of(node: Node) -> str:
    """Return the line of the function at which a node was recorded, and a colon; nothing if it is not known."""
    line = node.meta.get("custom", {}).get(LINE)
    return f"{line}: " if line else ""


def constant_of(program: ExportedProgram, name: str) -> torch.Tensor:
    """Return a tensor that an exported function has closed over.

    Raises:
        CannotConvert: it is no tensor.
    """
    found = program.state_dict.get(name, program.constants.get(name))
    if isinstance(found, torch.Tensor):
        return found
    if isinstance(found, torch.Generator):
        raise CannotConvert("the function draws from a torch.Generator; leave generator= out, and draw by a key of JAX")
    raise CannotConvert(f"the function closes over {type(found).__name__}, which has no counterpart in JAX")


def numbers_of(tensor: torch.Tensor) -> np.ndarray:
    """Return the numbers of a tensor; those in 16 bits in float64."""
    array = tensor.detach().resolve_conj().resolve_neg().cpu()
    wide = {torch.bfloat16: torch.float64, torch.float16: torch.float64}.get(array.dtype, array.dtype)
    return array.to(wide).numpy()


def is_inexact(x: Any) -> bool:
    """Whether an array is of real or complex numbers."""
    if isinstance(x, torch.Tensor):
        return x.is_floating_point() or x.is_complex()
    return hasattr(x, "dtype") and bool(jnp.issubdtype(x.dtype, jnp.inexact))
