"""The graph of a function: one of operators that stay as they are needs no decomposition, and is the same without."""

from __future__ import annotations

from collections.abc import Callable
from unittest import mock

import pytest
import torch
from torch.export import ExportedProgram

from parity_tests.conversion import exported as of_graph
from parity_tests.conversion.exported import exported
from parity_tests.conversion.graph import is_known


def _writes(x):
    y = x.clone()
    y[0] = 0
    return [y]


def _unused(x):
    torch.exp(x)
    return [x.sin()]


PLAIN = {
    "elementwise": lambda x: [torch.tanh(x) * 2 + x.sum()],
    "several results": lambda x: [*torch.max(x, dim=0)],
    "a view": lambda x: [x.t() @ x],
    "the input itself": lambda x: [x, x.sin()],
    "no gradient": lambda x: [x * torch.no_grad()(torch.cos)(x)],
}
DECOMPOSED = {
    "written to": _writes,
    "not used": _unused,
    "in place": lambda x: [x.sin().mul_(2)],
    "an operator that does not stay": lambda x: [torch.nn.functional.silu(x)],
}


def _lines(program: ExportedProgram) -> list[str]:
    """The graph in text, its nodes numbered."""
    names = {node.name: f"%{i}" for i, node in enumerate(program.graph.nodes)}
    return [
        f"{node.op} {node.target if node.op == 'call_function' else ''} "
        f"{[names.get(str(x), x) for x in node.args]} {dict(node.kwargs)} {node.meta.get('val')}"
        for node in program.graph.nodes
    ]


def _graph(function: Callable) -> tuple[ExportedProgram, bool]:
    """The graph, and whether PyTorch has decomposed it."""
    run = ExportedProgram.run_decompositions
    with mock.patch.object(ExportedProgram, "run_decompositions", autospec=True, side_effect=run) as decomposed:
        x = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)
        program = exported(function, [x], lambda name: is_known(name) and "silu" not in name).program
    return program, decomposed.called


@pytest.mark.parametrize("kind", PLAIN)
def test_a_plain_graph_is_as_if_decomposed(kind: str, monkeypatch: pytest.MonkeyPatch):
    plain, decomposed = _graph(PLAIN[kind])
    assert not decomposed
    monkeypatch.setattr(of_graph, "_is_plain", lambda *_: False)
    other, decomposed = _graph(PLAIN[kind])
    assert decomposed
    assert _lines(plain) == _lines(other)


@pytest.mark.parametrize("kind", DECOMPOSED)
def test_any_other_graph_is_decomposed(kind: str):
    assert _graph(DECOMPOSED[kind])[1]
