"""The calls of a node of autograd as a graph, from what it has gradients by to its results."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx

from parity_tests.auditing.calls import Call, Held, written_to
from parity_tests.auditing.structures import leaves, mapped
from parity_tests.conversion.graph import named_arguments

_BY_MEMORY = (torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_.default)


class NotFollowed(Exception):
    """Raised where calls are no function of tensors that can be followed; the message says why."""


def stop_gradient(x: Any) -> Any:
    """Mark what no gradient passes through in a graph; unlike `detach`, which a Function's forward may call."""
    return x


@dataclass(frozen=True)
class Arguments:
    """The arguments of an operation, as far as they are known.

    Attributes:
        named: by name, in the order in which it takes them, with `Held` in place of tensors.
        keywords: the names of those that it takes by name only.
    """

    named: Mapping[str, Any] = field(default_factory=dict)
    keywords: Collection[str] = ()


@dataclass(frozen=True)
class Program:
    """Calls as a graph.

    Attributes:
        graph: the graph; its outputs are tensors that the calls return.
        text: tells graphs apart, but for the shapes and numbers of their inputs.
        inputs: the tensors that it takes, each once.
        names: of the inputs, such as "weight".
        arguments: of the operation that the calls are of.
        outputs: the tensors that it returns.
        is_finite: whether all numbers in the calls are that are no tensors.
    """

    graph: fx.Graph
    text: str
    inputs: Sequence[Held]
    names: Sequence[str]
    arguments: Arguments
    outputs: Sequence[Held]
    is_finite: bool

    def index_of(self, result: Held) -> int | None:
        """The place of a tensor among the outputs: of itself, or of one with its numbers; None if it is none."""
        return _place_among(dict(enumerate(self.outputs)), result)

    def places_of(self, returned: Mapping[int, Held]) -> list[int | None]:
        """Return the places of the outputs among all that the calls return."""
        return [_place_among(returned, y) for y in self.outputs]


def _place_among(tensors: Mapping[int, Held], x: Held) -> int | None:
    same = [k for k, y in tensors.items() if y.tensor is x.tensor]
    return next(iter([*same, *(k for k, y in tensors.items() if y.place == x.place)]), None)


def program_of(
    calls: Sequence[Call],
    wanted: Sequence[Held],
    is_function: bool,
    arguments: Arguments,
    stopped: Collection[Held] = (),
) -> Program:
    """Return the graph of some calls: a tensor that none of them has made is an input.

    Args:
        calls: in their order.
        wanted: the results that it returns.
        is_function: whether they are those of a Function's forward, of which some may only follow it.
        arguments: of the operation, after which its inputs are called.
        stopped: the results of the calls that no gradient passes through, see `stop_gradient`.

    Raises:
        NotFollowed: a call writes to memory that another tensor shares, or has no version that returns its results.
        Overwritten: the numbers of an input are lost.
    """
    if is_function:
        calls = _leading_to(wanted, calls)
    graph, inputs, outputs = fx.Graph(), list[Held](), list[Held]()
    known, at = dict[int, fx.Node](), dict[Any, fx.Node]()  # by the tensor itself, and by its place

    def node_of(x: Any) -> Any:
        if not isinstance(x, Held):
            return x
        if id(x.tensor) not in known:
            if is_function and not x.is_made and x.place in at:  # by `.data`, which no operator makes
                return at[x.place]
            _verify_given(x, inputs, outputs)
            node = known[id(x.tensor)] = at[x.place] = graph.placeholder(f"x{len(inputs)}")
            node.meta["val"] = x.before()
            inputs.append(x)
        return known[id(x.tensor)]

    for call in calls:
        args, kwargs = mapped(node_of, (call.args, call.kwargs))
        target = call.target
        _verify_in_order(call)
        if target._schema.is_mutable:
            if is_function:  # which may read the others afterwards
                _verify_alone(call, [*inputs, *outputs])
            target = _returning(target)
        node = graph.call_function(target, args, kwargs)
        made = [_getitem(graph, node, i) for i in range(len(call.results))] if call.several else [node]
        node.meta["val"] = None if call.several else _before(call.results[0])
        for each, result in zip(made, call.results, strict=True):
            if isinstance(result, Held):
                each.meta["val"] = result.before()
                if result in stopped:
                    each = graph.call_function(stop_gradient, ([each],))
                    each.meta["val"] = result.before()
                same = [x for x in (*inputs, *outputs) if x.place == result.place] if written_to(call) else []
                known |= {id(x.tensor): each for x in (*same, result)}
                at[result.place] = each
                outputs.append(result)
    known |= {id(y.tensor): at[y.place] for y in wanted if y.place in at and id(y.tensor) not in known}
    outputs = [y for y in wanted if y.place in {each.place for each in outputs}]
    graph.output(tuple(known[id(y.tensor)] for y in outputs))
    text = "\n".join(f"{x.name} = {x.target}{x.args}{x.kwargs}" for x in graph.nodes)
    return Program(graph, text, inputs, names_of(inputs, arguments), arguments, outputs, _have_finite_numbers(calls))


def _have_finite_numbers(calls: Sequence[Call]) -> bool:
    numbers = [x for call in calls for x in leaves((call.args, call.kwargs)) if isinstance(x, float)]
    return all(map(math.isfinite, numbers))


def _leading_to(wanted: Sequence[Held], calls: Sequence[Call]) -> Sequence[Call]:
    """The calls that have a part in some results: the others only follow.

    Raises:
        NotFollowed: they may depend on the Function's arguments in ways that no operator shows.
    """
    found, needed = list[Call](), {y.memory for y in wanted}
    for call in reversed(calls):
        if any(y.memory in needed for y in leaves(call.results) if isinstance(y, Held)):
            found.append(call)
            needed |= {x.memory for x in leaves((call.args, call.kwargs)) if isinstance(x, Held)}
    for call in found:
        if any(is_real(x.tensor) for x in call.new):
            raise NotFollowed("its forward reads a tensor that was not there before, and may be made by a kernel")
    last = calls.index(found[0]) if found else 0
    if any(call.target is torch.ops.aten._local_scalar_dense.default for call in calls[:last]):
        raise NotFollowed("its forward reads a number from a tensor")
    return found[::-1]


def arguments_of(call: Call) -> Arguments:
    """Return the arguments of an operator."""
    keywords = {each.name for each in call.target._schema.arguments if each.kwarg_only}
    return Arguments(named_arguments(call.target, call.args, call.kwargs), keywords)


def names_of(inputs: Sequence[Held], arguments: Arguments) -> list[str]:
    """Return the names of some tensors, by the arguments that they are; one that is none has a number."""
    known = [each for name, value in arguments.named.items() for each in _leaves_of(name, value)]
    found = list[str]()
    for i, x in enumerate(inputs):
        itself = [name for name, y in known if y.tensor is x.tensor]
        alike = [name for name, y in known if y.place == x.place]
        named = [name for name in (*itself, *alike) if name not in found]
        found.append(named[0] if named else f"input {i}")
    return found


def _leaves_of(name: str, value: Any) -> Iterator[tuple[str, Held]]:
    """The tensors of an argument, with their names."""
    if isinstance(value, Held):
        yield name, value
    elif isinstance(value, list | tuple):
        for i, each in enumerate(value):
            yield from _leaves_of(f"{name}[{i}]", each)


def _before(x: Any) -> Any:
    return x.before() if isinstance(x, Held) else x


def _getitem(graph: fx.Graph, node: fx.Node, i: int) -> fx.Node:
    return graph.call_function(operator.getitem, (node, i))


def _verify_given(x: Held, inputs: Sequence[Held], outputs: Sequence[Held]) -> None:
    """Refuse a view of a result that no operator has made, such as one by `.data`, as if it were given."""
    if x.memory in {y.memory for y in outputs} - {y.memory for y in inputs}:
        raise NotFollowed("it reads a view of its own result that no operator of PyTorch's has made")


def _verify_in_order(call: Call) -> None:
    """Refuse a call that reads the memory of a view in another order than that of its numbers."""
    if call.target in _BY_MEMORY:
        x = next(x for x in leaves(call.args) if isinstance(x, Held)).tensor
        if not x.is_contiguous() or x.storage_offset():
            raise NotFollowed(f"{call.target.name()} reads the memory of a view, and not its numbers")


def _verify_alone(call: Call, others: Sequence[Held]) -> None:
    """Refuse a call that writes to what another tensor sees."""
    for x in written_to(call):
        for other in others:
            if other.place != x.place and other.memory == x.memory:
                raise NotFollowed(f"{call.target.name()} writes to memory that another tensor of the function shares")


def _returning(target: Any) -> Any:
    """The operator that returns what another writes to its first argument."""
    if torch.Tag.nondeterministic_seeded in target.tags:
        raise NotFollowed(f"{target.name()} draws random numbers")
    space, _, name = target._schema.name.partition("::")
    packet = getattr(getattr(torch.ops, space), name.removesuffix("_"), None)
    if not name.endswith("_") or packet is None or target._overloadname not in packet.overloads():
        raise NotFollowed(f"{target.name()} writes to its arguments, and no operator returns the same")
    return getattr(packet, target._overloadname)


def results_of(call: Call, which: Callable[[Tensor], bool]) -> list[Held]:
    """Return the results of a call that are of some kind, in their order."""
    return [y for y in leaves(call.results) if isinstance(y, Held) and which(y.tensor)]


def is_integral(x: Tensor) -> bool:
    """Return whether a tensor is of integers or booleans."""
    return not x.is_floating_point() and not x.is_complex()


def is_real(x: Tensor) -> bool:
    """Return whether a tensor is of real numbers."""
    return x.is_floating_point()
