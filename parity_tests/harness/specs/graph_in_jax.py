"""Programs of PyTorch as the harness reads them: exported ones, and traces of candidates.

What an operator of ATen computes is told by `parity_tests.conversion.graph`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax.extend.core import ClosedJaxpr
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from parity_tests.conversion.cannot_convert import CannotConvert, NoOperator
from parity_tests.conversion.exported import decompositions
from parity_tests.conversion.graph import DETACHING, Graph, OneReal, constant_of, is_inexact, is_known, line_of
from parity_tests.harness.exceptions.errors import first_line
from parity_tests.harness.specs.traced_dtypes import (
    check_casts,
    check_scalars,
    compute_short_constants,
    put_constants_meant,
)

# (module, tensors) -> functions of JAX for some of its nodes.
FunctionsOf = Callable[[GraphModule, Sequence[torch.Tensor]], Mapping[Node, Callable]]


def evaluated(program: ExportedProgram, inputs: Sequence[jax.Array], detaches: bool = True) -> list[jax.Array]:
    """Return the outputs of an exported function; unless it `detaches`, as if nothing in it were detached.

    All real numbers have the dtype of the first input that is not an integer, all complex ones the corresponding one.

    Raises:
        CannotConvert: an operator has no counterpart in JAX, or draws random numbers; the message has the line.
    """
    graph = Graph(program.graph_module, OneReal(_real_dtype(inputs)), _refuse_to_draw, detaches)
    given, remaining = dict[str, Any](), iter(inputs)
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT:
            given[spec.arg.name] = next(remaining)
        else:
            given[spec.arg.name] = graph.array(constant_of(program, spec.target or ""))
    try:
        found = graph.run([given[node.name] for node in program.graph.nodes if node.op == "placeholder"])
    except NoOperator as error:
        raise CannotConvert(f"{error}, or give OpSpec a primal in JAX") from error
    kinds = [spec.kind for spec in program.graph_signature.output_specs]
    return [y for y, kind in zip(found, kinds, strict=True) if kind is OutputKind.USER_OUTPUT]


def _refuse_to_draw(node: Node, named: Mapping[str, Any]) -> Any:
    name = getattr(node.target, "name", lambda: "")()
    raise CannotConvert(
        f"{line_of(node)}the reference draws random numbers ({name}), which no oracle can draw again; make "
        "them an input, such as the mask of a dropout, or call the module's eval() first"
    )


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
    graph = Graph(
        module, OneReal(np.dtype(np.float64)), _refuse_to_draw, detaches=True, functions=functions_of(module, tensors)
    )
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
        if is_input or (node.target not in DETACHING and reached & {*node.all_input_nodes}):
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
        if any(user.op == "output" or (user in differentiated and user.target not in DETACHING) for user in users):
            differentiated |= {node} if any(map(is_inexact, jax.tree.leaves(node.meta.get("val")))) else set()
        if any(user in behind or (user in reaching and user.target in DETACHING) for user in users):
            behind.add(node)
    kinds = {spec.arg.name: spec.kind for spec in program.graph_signature.input_specs}
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    inputs = [node for node in placeholders if kinds[node.name] is InputKind.USER_INPUT]
    return {i for i, node in enumerate(inputs) if node in behind and node not in differentiated}


def detaches(program: ExportedProgram) -> bool:
    """Return whether something is detached in it."""
    return any(node.target in DETACHING for node in program.graph.nodes)


def _real_dtype(inputs: Sequence[jax.Array]) -> np.dtype:
    for x in inputs:
        if is_inexact(x):
            return np.dtype(jnp.finfo(x.dtype).dtype)  # of a complex one, that of its parts
    return np.dtype(jax.dtypes.canonicalize_dtype(np.float64))
