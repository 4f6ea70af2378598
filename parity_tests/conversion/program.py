"""One exported program of a function, for arguments of some shapes, and its evaluation in JAX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from torch._ops import HigherOrderOperator, OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import GraphModule, Node

from parity_tests.conversion.drawing import Drawing, is_drawn, refuse
from parity_tests.conversion.exported import exported
from parity_tests.conversion.graph import (
    AsWritten,
    Dtypes,
    Graph,
    OneReal,
    constant_of,
    draws,
    is_inexact,
    is_known,
    line_of,
    numbers_of,
)
from parity_tests.conversion.known_numbers import KnownNumbers
from parity_tests.conversion.recording import Recording
from parity_tests.conversion.weights import Array


@dataclass(frozen=True)
class Returned:
    """The parts of what a run of the function has returned that are no tensors.

    Attributes:
        leaves: the leaves of its result; `TENSOR` in the place of each tensor.
        tree: its structure, JAX's.
        replaced: the names of the buffers that it has given another tensor.
    """

    leaves: Sequence[Any]
    tree: Any
    replaced: Sequence[str]


TENSOR = object()


@dataclass(frozen=True)
class Program:
    """A program, which holds for arguments of the shapes that it was exported for.

    Attributes:
        exported: the graph.
        returned: what the function returns besides tensors.
        exact: whether all real numbers have one dtype.
        buffers: by the position of an input, the name of the buffer that it is.
        read: by the position of an input that the function reads, the numbers for which the program holds.
        constants: by their names in the graph, the tensors that the function has closed over.
    """

    exported: ExportedProgram
    returned: Returned
    exact: bool
    buffers: Mapping[int, str]
    read: Mapping[int, np.ndarray]
    constants: Mapping[str, tuple[np.ndarray, torch.dtype]] = field(default_factory=dict)

    @staticmethod
    def of(
        function: Callable[..., Sequence[torch.Tensor]],
        inputs: Sequence[torch.Tensor],
        given: Mapping[int, torch.Tensor],
        exact: bool,
        buffers: Mapping[int, str],
        returned: Sequence[Returned],
    ) -> Program:
        """Return the program of a function.

        Args:
            function: takes the inputs, and appends to `returned` in each run.
            inputs: tensors of the shapes and dtypes.
            given: by the position of an input, its numbers, if the function may read them.
            exact: whether all real numbers have one dtype.
            buffers: by the position of an input, the name of the buffer that it is.
            returned: what the last run has returned is its last entry.

        Raises:
            CannotConvert: it cannot be exported.
        """
        known = KnownNumbers(given)
        found = exported(function, inputs, _is_kept, Recording(exact, known), [*buffers])
        program = found.program
        read = {i: numbers_of(given[i]) for i in known.read}
        specs = program.graph_signature.input_specs
        constants = {
            spec.arg.name: constant_of(program, spec.target or "")
            for spec in specs
            if spec.kind is not InputKind.USER_INPUT
        }
        arrays = {name: (numbers_of(x), x.dtype) for name, x in constants.items()}
        return Program(program, returned[-1], exact, buffers, read, arrays)

    @property
    def drawing(self) -> list[Node]:
        """The nodes that draw random numbers."""
        return [node for node in self.exported.graph.nodes if draws(node)]

    @property
    def operators(self) -> list[str]:
        """The names of the operators, such as "aten::tanh" and "cond"; those that the branches of `cond` use, too."""
        graphs = [x.graph for x in self.exported.graph_module.modules() if isinstance(x, GraphModule)]
        targets = [node.target for graph in graphs for node in graph.nodes]
        return [*dict.fromkeys(x.name() for x in targets if isinstance(x, OpOverload | HigherOrderOperator))]

    @property
    def written(self) -> list[str]:
        """The names of the buffers that it writes to."""
        names = self._names()
        return [names[output.target or ""] for output in self._mutations()] + [*self.returned.replaced]

    def evaluated(self, inputs: Sequence[Array], key: jax.Array | None) -> tuple[Any, dict[str, jax.Array]]:
        """Return what the function returns, and the last values of the buffers that it writes to.

        Raises:
            TypeError: it draws random numbers, and there is no key.
            CannotConvert: an operator has no counterpart in JAX.
        """
        if key is None and (drawing := self.drawing):
            raise TypeError(
                f"{line_of(drawing[0])}the function draws random numbers ({drawing[0].target}): call it with "
                "key=jax.random.key(0), another key each time; or call the module's eval() before to_jax"
            )
        dtypes: Dtypes = OneReal(_widest(inputs)) if self.exact else AsWritten()
        draw = Drawing(key, dtypes) if key is not None else refuse
        graph = Graph(self.exported.graph_module, dtypes, draw)
        given: dict[str, Any] = {n: jnp.asarray(x, dtypes.of(dtype)) for n, (x, dtype) in self.constants.items()}
        remaining = iter(inputs)
        placeholders = [node for node in self.exported.graph.nodes if node.op == "placeholder"]
        for node in placeholders:
            if node.name not in given:
                given[node.name] = jnp.asarray(next(remaining)).astype(dtypes.of(node.meta["val"].dtype))
        return self._sorted(graph.run([given[node.name] for node in placeholders]))

    def _sorted(self, found: Sequence[Any]) -> tuple[Any, dict[str, jax.Array]]:
        names, specs = self._names(), self.exported.graph_signature.output_specs
        new = {names[s.target]: y for y, s in zip(found, specs, strict=True) if s.target in names}
        own = iter([y for y, s in zip(found, specs, strict=True) if s.kind is OutputKind.USER_OUTPUT])
        leaves = [next(own) if x is TENSOR else x for x in self.returned.leaves]
        new |= dict(zip(self.returned.replaced, own, strict=True))
        # In PyTorch a buffer's new value has no gradient either.
        return jax.tree.unflatten(self.returned.tree, leaves), {name: lax.stop_gradient(y) for name, y in new.items()}

    def _mutations(self) -> list[Any]:
        outputs = self.exported.graph_signature.output_specs
        return [output for output in outputs if output.kind is OutputKind.USER_INPUT_MUTATION]

    def _names(self) -> dict[str, str]:
        """The names of buffers by those of their placeholders."""
        specs = self.exported.graph_signature.input_specs
        own = [spec.arg.name for spec in specs if spec.kind is InputKind.USER_INPUT]
        return {own[i]: name for i, name in self.buffers.items()}


def _is_kept(name: str) -> bool:
    return is_known(name) or is_drawn(name)


def _widest(inputs: Sequence[Array]) -> np.dtype:
    """The real dtype that holds the real numbers of all inputs."""
    found = [np.dtype(jnp.finfo(x.dtype).dtype) for x in inputs if is_inexact(x)]
    with jax.numpy_dtype_promotion("standard"):
        return np.dtype(jnp.result_type(*found)) if found else np.dtype(jnp.result_type(float))
