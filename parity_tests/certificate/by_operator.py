"""Each operator of a program by itself, in JAX and in PyTorch, at the numbers that PyTorch has there."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import torch
from torch.fx import Interpreter, Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_leaves

from parity_tests.certificate.certificate import Row, compared
from parity_tests.certificate.within_bounds import bounds_of, cotangents_of
from parity_tests.conversion.drawing import refuse
from parity_tests.conversion.exported import default_dtype
from parity_tests.conversion.graph import Graph, OneReal, line_of, numbers_of
from parity_tests.conversion.program import Program
from parity_tests.conversion.weights import as_tensor

_MOST = 8  # operators that are named


def culprits(program: Program, inputs: Sequence[np.ndarray], seed: int) -> list[Row]:
    """Return the operators whose values or gradients differ from PyTorch's, the first of the program first."""
    found = list[Row]()
    graph = Graph(program.exported.graph_module, OneReal(np.dtype(np.float64)), refuse)
    given, constants = iter(inputs), program.constants
    nodes = [node for node in program.exported.graph.nodes if node.op == "placeholder"]
    arrays = [constants[node.name][0] if node.name in constants else next(given) for node in nodes]

    moved = _differentiated(program, nodes)

    class Compared(Interpreter):
        def run_node(self, n: Node) -> Any:
            result = super().run_node(n)
            if isinstance(n.target, torch._ops.OpOverload) and n.target._schema.returns and len(found) < _MOST:
                values = {x: self.env[x] for x in n.all_input_nodes}
                found.extend(row for row in _rows(graph, n, values, moved, seed) if not row.agrees)
            return result

    with torch.no_grad(), default_dtype(torch.float64):
        Compared(program.exported.graph_module).run(*map(as_tensor, arrays))
    return found


def _differentiated(program: Program, placeholders: Sequence[Node]) -> set[Node]:
    """The nodes that have a derivative by an input that is neither a buffer nor a number that the function reads."""
    inputs = [node for node in placeholders if node.name not in program.constants]
    reached = {node for i, node in enumerate(inputs) if i not in {*program.buffers, *program.read}}
    for node in program.exported.graph.nodes:
        if reached.intersection(node.all_input_nodes):
            reached.add(node)
    return reached


def _rows(
    graph: Graph, node: Node, values: Mapping[Node, Any], differentiated: Container[Node], seed: int
) -> list[Row]:
    """The comparison of one operator's results, and of their gradients by its real arguments."""
    leaves = {x: y for x, y in values.items() if isinstance(y, torch.Tensor)}
    moved = [x for x, y in leaves.items() if y.dtype == torch.float64 and x in differentiated]
    own = {x: y.detach().clone().requires_grad_(x in moved) for x, y in leaves.items()}
    target: Any = node.target
    with torch.enable_grad():
        args: Any = map_arg(node.args, lambda x: own.get(x, values[x]))
        kwargs: Any = map_arg(node.kwargs, lambda x: own.get(x, values[x]))
        outputs = [y for y in tree_leaves(target(*args, **kwargs)) if isinstance(y, torch.Tensor)]
        real = [k for k, y in enumerate(outputs) if y.dtype == torch.float64]
        cotangents = cotangents_of(outputs, seed)
        total: Any = sum((torch.as_tensor(cotangents[k]) * outputs[k]).sum() for k in real if outputs[k].requires_grad)
    differentiates = isinstance(total, torch.Tensor)
    gradients = torch.autograd.grad(total, [own[x] for x in moved], materialize_grads=True) if differentiates else ()

    def in_jax(*arrays: jax.Array) -> list[jax.Array]:
        def results(*arrays: jax.Array) -> Any:
            given = dict(values) | {x: numbers_of(y) for x, y in leaves.items()} | dict(zip(moved, arrays, strict=True))
            found = [y for y in jax.tree.leaves(graph.called(node, given)) if isinstance(y, jax.Array | np.ndarray)]
            return [found[k] for k in real], found

        _, pull, found = jax.vjp(results, *arrays, has_aux=True)
        of_results = [cotangents[k] if outputs[k].requires_grad else np.zeros(outputs[k].shape) for k in real]
        return [*found, *(pull(of_results) if differentiates else ())]

    names = [f"value {k}" if k else "value" for k in range(len(outputs))]
    names += [f"gradient of {x.name}" for x in moved] if differentiates else []
    arrays = [numbers_of(leaves[x]) for x in moved]
    pairs = bounds_of(jax.make_jaxpr(in_jax)(*arrays), arrays)
    where = f"{line_of(node)}{target.name()}"
    if isinstance(pairs, str):
        return [Row(where, None, f"not compared, no bound: {pairs}")]
    expected = [numbers_of(y) for y in (*outputs, *gradients)]
    return [compared(f"{where}, {name}", x, e, y) for name, (x, e), y in zip(names, pairs, expected, strict=True)]
