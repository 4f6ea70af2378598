"""An exported graph as a function of JAX arrays: each node by the operator of `jax_ref.aten`, which JAX differentiates.

This is the only place of the harness that knows ATen's operators, but for those of `traced_dtypes`.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from jax.extend.core import ClosedJaxpr
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

from jax_ref import aten
from parity_tests.harness.exceptions.conversion import CannotConvert
from parity_tests.harness.exceptions.errors import first_line
from parity_tests.harness.specs.exported import LINE, decompositions
from parity_tests.harness.specs.traced_dtypes import (
    check_casts,
    check_scalars,
    compute_short_constants,
    is_inexact,
    put_constants_meant,
)

_WHERE_IT_LIES = ("device", "layout", "pin_memory", "memory_format", "non_blocking")
_NO_NUMBERS = ("condition", "mask", "index", "indices")  # arguments that stay integers, or booleans


# (module, tensors) -> functions of JAX for some of its nodes.
FunctionsOf = Callable[[GraphModule, Sequence[torch.Tensor]], Mapping[Node, Callable]]

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
_DETACHING = (torch.ops.aten.detach.default, torch.ops.aten._local_scalar_dense.default)


# Arrays of one number. Memory with no numbers yet has NaN, which is seen if somebody reads it.
_FILLED = {
    torch.ops.aten.empty.memory_format: np.nan,
    torch.ops.aten.empty_permuted.default: np.nan,
    torch.ops.aten._new_zeros_with_same_feature_meta.default: 0.0,
}


def is_known(name: str) -> bool:
    """Return whether there is a JAX function for an operator's name, such as "aten::std.correction"."""
    return _plain(name) in aten.OPERATORS


def _plain(name: str) -> str:
    packet = name.removeprefix("aten::").partition(".")[0]
    return f"aten::{_SAME_AS[packet]}" if packet in _SAME_AS else name


def evaluated(program: ExportedProgram, inputs: Sequence[jax.Array], detaches: bool = True) -> list[jax.Array]:
    """Return the outputs of an exported function; unless it `detaches`, as if nothing in it were detached.

    All real numbers have the dtype of the first input that is not an integer, all complex ones the corresponding one.

    Raises:
        CannotConvert: an operator has no counterpart in JAX, or draws random numbers; the message has the line.
    """
    graph = _Graph(program.graph_module, _real_dtype(inputs), detaches)
    given, remaining = dict[str, Any](), iter(inputs)
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            given[spec.arg.name] = next(remaining)
        else:
            given[spec.arg.name] = graph.constant(program, spec.target or "")
    found = graph.run([given[node.name] for node in program.graph.nodes if node.op == "placeholder"])
    kinds = [spec.kind for spec in program.graph_signature.output_specs]
    return [y for y, kind in zip(found, kinds, strict=True) if kind is OutputKind.USER_OUTPUT]


def traced(f: Callable[..., Sequence[torch.Tensor]], tensors: Sequence[torch.Tensor]) -> GraphModule:
    """Return the program of a function at tensors of these shapes, derivatives in it included, in PyTorch's operators.

    Python's branches are those that these tensors take.

    Raises:
        Exception: the function raises, or PyTorch cannot trace it.
    """
    return make_fx(f)(*tensors)


def in_jax(
    module: GraphModule, tensors: Sequence[torch.Tensor], functions_of: FunctionsOf = lambda module, tensors: {}
) -> ClosedJaxpr:
    """Return a traced program in JAX's primitives, at tensors of these shapes.

    All real numbers are float64: conversions of dtypes are left out, as if they were exact.

    Args:
        module: the program.
        tensors: its arguments.
        functions_of: makes functions of JAX for those nodes that have no operator of ATen, each of the node's first
            argument, a list of arrays.

    Raises:
        CannotConvert: an operator has no counterpart in JAX, or a constant may have been rounded.
    """
    table = decompositions(is_known)
    functional = torch.func.functionalize(module, remove="mutations_and_views")
    module = make_fx(functional, decomposition_table=table)(*tensors)
    _drop_writes_to_inputs(module)
    module.graph.eliminate_dead_code()
    compute_short_constants(module)
    graph = _Graph(module, np.dtype(np.float64), detaches=True, functions=functions_of(module, tensors))
    dtypes = {x.dtype for x in tensors if x.is_floating_point()}
    check_casts(module, dtypes)
    if dtypes - {torch.float64}:
        check_scalars(module)
        put_constants_meant(module, dtypes)
    arrays = [graph.array(x) for x in tensors]
    try:
        return jax.make_jaxpr(lambda *inputs: graph.run(inputs))(*arrays)
    except TypeError as error:  # what an operator of PyTorch keeps for its own backward may be another array in JAX
        raise CannotConvert(first_line(error)) from error


def _drop_writes_to_inputs(module: GraphModule) -> None:
    """Leave out the writes to its inputs with which a functionalized program ends: no result is read from there.

    A copy in the place of another array of its kind is what is copied.
    """
    for node in module.graph.nodes:
        to_input = node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder"
        if to_input or (node.target is torch.ops.aten.copy.default and _are_alike(*node.args[:2])):
            node.replace_all_uses_with(node.args[1])
            module.graph.erase_node(node)


def _are_alike(x: Node, y: Node) -> bool:
    one, other = x.meta.get("val"), y.meta.get("val")
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return False
    return one.shape == other.shape and one.dtype == other.dtype


def depends_on_inputs(program: ExportedProgram) -> bool:
    """Return whether an output depends on an input otherwise than through `detach`."""
    inputs = {spec.arg.name for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT}
    reached: set[Node] = set()
    for node in program.graph.nodes:
        is_input = node.op == "placeholder" and node.name in inputs and is_inexact(node.meta["val"])
        if is_input or (node.target not in _DETACHING and reached & {*node.all_input_nodes}):
            reached.add(node)
    return any(node.op == "output" for node in reached)


def only_detached(program: ExportedProgram) -> set[int]:
    """The positions of those inputs that reach an output through `detach`, and in no other way that has a derivative.

    What integers and booleans are made of has none.
    """
    reaching, differentiated, behind = set[Node](), set[Node](), set[Node]()
    for node in reversed(program.graph.nodes):
        users = [*node.users]
        if node.op == "output" or any(user in reaching for user in users):
            reaching.add(node)
        if any(user.op == "output" or (user in differentiated and user.target not in _DETACHING) for user in users):
            differentiated |= {node} if any(map(is_inexact, jax.tree.leaves(node.meta.get("val")))) else set()
        if any(user in behind or (user in reaching and user.target in _DETACHING) for user in users):
            behind.add(node)
    kinds = {spec.arg.name: spec.kind for spec in program.graph_signature.input_specs}
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    inputs = [node for node in placeholders if kinds[node.name] is InputKind.USER_INPUT]
    return {i for i, node in enumerate(inputs) if node in behind and node not in differentiated}


def detaches(program: ExportedProgram) -> bool:
    """Return whether something is detached in it."""
    return any(node.target in _DETACHING for node in program.graph.nodes)


def _real_dtype(inputs: Sequence[jax.Array]) -> np.dtype:
    for x in inputs:
        if is_inexact(x):
            return np.dtype(jnp.finfo(x.dtype).dtype)  # of a complex one, that of its parts
    return np.dtype(jax.dtypes.canonicalize_dtype(np.float64))


class _Graph:
    """A graph in arrays of one real dtype."""

    def __init__(
        self, module: GraphModule, real: np.dtype, detaches: bool, functions: Mapping[Node, Callable] | None = None
    ) -> None:
        self._module, self._real, self._detaches, self._functions = module, real, detaches, functions or {}

    def constant(self, program: ExportedProgram, name: str) -> jax.Array:
        """A tensor that the reference has closed over."""
        tensor = program.state_dict.get(name, program.constants.get(name))
        assert isinstance(tensor, torch.Tensor)
        return self.array(tensor)

    def array(self, tensor: torch.Tensor) -> jax.Array:
        """The numbers of a tensor, in the dtype that real numbers have here."""
        array = tensor.detach().resolve_conj().resolve_neg().cpu()
        wide = {torch.bfloat16: torch.float64, torch.float16: torch.float64}.get(array.dtype, array.dtype)
        return jnp.asarray(array.to(wide).numpy(), self._dtype(tensor.dtype))

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        values, remaining = dict[Node, Any](), iter(inputs)
        for node in self._module.graph.nodes:
            if node.op == "placeholder":
                values[node] = next(remaining)
            elif node.op == "get_attr":
                found = getattr(self._module, node.target)
                values[node] = self.array(found) if isinstance(found, torch.Tensor) else found
            elif node.op == "output":
                return [values.get(y) if isinstance(y, Node) else y for y in node.args[0]]
            else:
                values[node] = self._called(node, values)
        raise AssertionError("a graph without an output")

    def _called(self, node: Node, values: Mapping[Node, Any]) -> Any:
        args: Any = map_arg(node.args, values.__getitem__)
        kwargs: Any = map_arg(node.kwargs, values.__getitem__)
        if node in self._functions:
            return self._functions[node](*args[0])
        if node.target is operator.getitem:
            return self._checked(node, args[0][args[1]])
        if not isinstance(node.target, torch._ops.OpOverload):
            raise CannotConvert(
                f"{_line_of(node)}the reference uses {getattr(node.target, '__name__', node.target)}, which has no "
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
        if node.target in _DETACHING:
            return lax.stop_gradient(args[0]) if self._detaches else args[0]
        return self._checked(node, self._operator(node, node.target)(**self._arguments(node, args, kwargs)))

    @staticmethod
    def _check_shape(node: Node) -> None:
        expected = node.meta.get("val")
        if isinstance(expected, torch.Tensor) and any(not isinstance(size, int) for size in expected.shape):
            raise CannotConvert(
                f"{_line_of(node)}the shape of {node.target} depends on numbers, and the shapes of JAX's arrays must "
                "not; multiply by a mask, or write torch.where, in place of a selection"
            )

    def _operator(self, node: Node, target: Any) -> Callable[..., Any]:
        name = target.name()
        draws = torch.Tag.nondeterministic_seeded in target.tags and _named(target, node.args, node.kwargs).get(
            "dropout_p", not name.startswith("aten::scaled_dot_product")
        )
        if draws:
            raise CannotConvert(
                f"{_line_of(node)}the reference draws random numbers ({name}), which no oracle can draw again; make "
                "them an input, such as the mask of a dropout, or call the module's eval() first"
            )
        if not is_known(name):
            raise CannotConvert(
                f"{_line_of(node)}jax_ref.aten has no {name}; write the reference in other operators, or give OpSpec "
                "a primal in JAX"
            )
        return aten.OPERATORS[_plain(name)]

    def _arguments(self, node: Node, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        target: Any = node.target
        function, named = aten.OPERATORS[_plain(target.name())], _named(target, args, kwargs)
        named = {key: value for key, value in named.items() if key not in _WHERE_IT_LIES}
        known = inspect.signature(function).parameters
        defaults = {argument.name: argument.default_value for argument in target._schema.arguments}
        named = {key: value for key, value in named.items() if key in known or value != defaults[key]}
        unknown = [key for key in named if key not in known]
        if unknown:
            raise CannotConvert(
                f"{_line_of(node)}jax_ref.aten has no {target.name()}, with {unknown[0]}; write the reference in other "
                "operators, or give OpSpec a primal in JAX"
            )
        result = node.meta.get("val")
        if "dtype" in known and isinstance(result, torch.Tensor) and "dtype" in defaults:
            made = not any(isinstance(x, jax.Array | np.ndarray) for x in jax.tree.leaves(named))
            if made or named.get("dtype") is not None:
                named["dtype"] = result.dtype
        elif is_inexact(result) and not any(map(is_inexact, jax.tree.leaves(named))):
            # Of integers alone ATen makes real numbers of its default dtype.
            named = {k: v if k in _NO_NUMBERS else jax.tree.map(self._as_real, v) for k, v in named.items()}
        return {key: self._dtype(value) if isinstance(value, torch.dtype) else value for key, value in named.items()}

    def _as_real(self, x: Any) -> Any:
        return jnp.asarray(x).astype(self._real) if isinstance(x, jax.Array | np.ndarray) else x

    def _dtype(self, dtype: torch.dtype) -> np.dtype:
        """The dtype of arrays for that of tensors: real numbers have one only."""
        if dtype.is_floating_point:
            return self._real
        if dtype.is_complex:
            return np.dtype(jnp.result_type(self._real, np.complex64))
        return np.dtype(jax.dtypes.canonicalize_dtype(torch.empty(0, dtype=dtype).numpy().dtype))

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
                f"{_line_of(node)}jax_ref.aten's {node.target} returns {value.dtype}{value.shape}, and PyTorch's "
                f"{dtype}{shape}, which is a defect of jax_ref.aten"
            )
        return value


def _named(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return {argument.name: x for argument, x in zip(target._schema.arguments, args, strict=False)} | dict(kwargs)


def _line_of(node: Node) -> str:
    line = node.meta.get("custom", {}).get(LINE)
    return f"{line}: " if line else ""
