"""An engine for derivatives on one page, in NumPy. engine.md walks through it; notation.md has the symbols.

A formula computes with arrays, and returns its outputs and two closures, its VJP and its JVP. These are made of
formulas: what they compute is recorded, too, and has derivatives again, in either mode. Nothing is global.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np


class Variable:
    """An array that is never written to, and the node that made it: `None` for a leaf and for a constant."""

    def __init__(self, value: object) -> None:
        self.value = np.asarray(value)
        self.shape = self.value.shape
        self.node: Node | None = None


@dataclass(eq=False)
class Node:
    """One call of a formula. `depth`: the number of calls on the longest way to it from a leaf."""

    inputs: Sequence[Variable]
    outputs: Sequence[Variable]
    vjp: Callable  # cotangents of the outputs -> cotangents of the inputs
    jvp: Callable  # tangents of the inputs -> tangents of the outputs
    depth: int


def formula(function: Callable) -> Callable:
    """Records the calls of a function (inputs...) -> outputs, vjp, jvp; one output or input need not be a tuple.

    Only tangents and cotangents can be absent, and what they go through is linear in them: the result is absent.
    """

    @functools.wraps(function)
    def call(*inputs, **parameters):
        if any(x is None for x in inputs):
            return None
        like = next(x.value for x in inputs if isinstance(x, Variable))
        inputs = [x if isinstance(x, Variable) else Variable(np.full_like(like, x)) for x in inputs]
        outputs, vjp, jvp = function(*inputs, **parameters)
        node = Node(inputs, several(outputs), vjp, jvp, 1 + max(x.node.depth if x.node else 0 for x in inputs))
        for y in node.outputs:
            y.node = node
        return outputs

    return call


def pull(outputs: Sequence, inputs: Sequence[Variable], cotangents: Sequence) -> tuple[Variable | None, ...]:
    """Jᵀ w, reverse mode: the cotangents of the inputs from those of the outputs."""
    return walk([(n.outputs, n.vjp, n.inputs) for n in reversed(tape(outputs, inputs))], outputs, cotangents, inputs)


def push(outputs: Sequence, inputs: Sequence[Variable], tangents: Sequence) -> tuple[Variable | None, ...]:
    """J u, forward mode: the tangents of the outputs from those of the inputs."""
    return walk([(n.inputs, n.jvp, n.outputs) for n in tape(outputs, inputs)], inputs, tangents, outputs)


def walk(steps: Sequence, start: Sequence, directions: Sequence, end: Sequence) -> tuple[Variable | None, ...]:
    """Takes directions (tangents or cotangents) from start to end, node by node; where some meet, they add up."""
    total: dict[Variable, Variable | None] = {}

    def arrive(variables, directions):
        for x, direction in zip(variables, directions, strict=True):
            if x is not None and direction is not None:
                if direction.shape != x.shape:
                    raise ValueError(f"a direction has shape {direction.shape}, its variable {x.shape}")
                total[x] = add(total.get(x), direction)

    arrive(start, directions)
    for before, closure, after in steps:
        present = [total.get(x) for x in before]
        if any(direction is not None for direction in present):
            arrive(after, several(closure(*present)))
    return tuple(total.get(x) for x in end)


def tape(outputs: Sequence, inputs: Sequence[Variable]) -> list[Node]:
    """The nodes on the ways from the inputs to the outputs, each after those that it is made of."""
    found, stack = {}, [y.node for y in outputs if y is not None]
    while stack:
        node = stack.pop()
        if node is not None and node not in found:
            found[node] = True
            stack += [x.node for x in node.inputs]
    nodes, depends = [], set(inputs)
    for node in sorted(found, key=lambda node: node.depth):
        if not depends.isdisjoint(node.inputs):
            nodes.append(node)
            depends.update(node.outputs)
    return nodes


def several(x) -> tuple:
    """One thing, or a tuple of them, as a tuple."""
    return x if isinstance(x, tuple) else (x,)


def add(a, b):
    """a + b; an absent term is dropped."""
    return (b if a is None else a) if a is None or b is None else plus(a, b)


@formula
def plus(a, b):
    return Variable(a.value + b.value), lambda c_bar: (c_bar, c_bar), add


@formula
def mul(a, b):
    return Variable(a.value * b.value), lambda c_bar: (mul(c_bar, b), mul(a, c_bar)), product_rule(mul, a, b)


@formula
def mm(a, b):
    def vjp(c_bar):
        return mm(c_bar, transpose(b)), mm(transpose(a), c_bar)

    return Variable(a.value @ b.value), vjp, product_rule(mm, a, b)


def product_rule(product: Callable, a: Variable, b: Variable) -> Callable:
    """The JVP of a product, of whichever kind."""
    return lambda a_dot, b_dot: add(product(a_dot, b), product(a, b_dot))


@formula
def transpose(x):
    return Variable(x.value.T), transpose, transpose


@formula
def broadcast_to(x, *, shape):
    y = Variable(np.broadcast_to(x.value, shape))
    return y, lambda y_bar: sum_to(y_bar, shape=x.shape), lambda x_dot: broadcast_to(x_dot, shape=shape)


@formula
def sum_to(x, *, shape):
    """The transpose of broadcast_to: the sum over the axes that it would repeat along."""
    new = len(x.shape) - len(shape)
    axes = tuple(i for i in range(len(x.shape)) if i < new or x.shape[i] != shape[i - new])
    y = Variable(x.value.sum(axes, keepdims=True).reshape(shape))
    return y, lambda y_bar: broadcast_to(y_bar, shape=x.shape), lambda x_dot: sum_to(x_dot, shape=shape)


def entrywise(function: Callable, slope: Callable) -> Callable:
    """The formula of y = f(x), entry by entry; `slope` makes f'(x) of the variables x and y."""

    def apply(x):
        y = Variable(function(x.value))

        def along(direction):  # a diagonal Jacobian is its own transpose
            return mul(slope(x, y), direction)

        return y, along, along

    return formula(apply)


sin = entrywise(np.sin, lambda x, y: cos(x))
cos = entrywise(np.cos, lambda x, y: mul(-1, sin(x)))
tanh = entrywise(np.tanh, lambda x, y: tanh_slope(y))


def tanh_slope(A):  # D in attn.md
    return mul(add(1, mul(-1, A)), add(1, A))  # (4)


def attn_composite(q, k, v):
    """(output, attn) of attn.md, of the formulas above."""
    A = tanh(mm(q, transpose(k)))  # (1), (2)
    return mm(A, v), A  # (3)


@formula
def attn_formula(q, k, v):
    """(output, attn) as one node. Its closures hold on to inputs and outputs only."""
    A = Variable(np.tanh(q.value @ k.value.T))  # (1), (2)
    output = Variable(A.value @ v.value)  # (3)

    def vjp(output_bar, attn_bar):
        G = add(attn_bar, mm(output_bar, transpose(v)))  # (8)
        P = mul(tanh_slope(A), G)  # (9)
        return mm(P, k), mm(transpose(P), q), mm(transpose(A), output_bar)  # (10), (11), (12)

    def jvp(q_dot, k_dot, v_dot):
        T = add(mm(q_dot, transpose(k)), mm(q, transpose(k_dot)))  # (5)
        A_dot = mul(tanh_slope(A), T)  # (6)
        return add(mm(A_dot, v), mm(A, v_dot)), A_dot  # (7)

    return (output, A), vjp, jvp
