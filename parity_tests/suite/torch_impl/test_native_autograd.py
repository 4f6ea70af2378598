"""What the autograd engine does to any operator: nodes and their names, saved tensors, hooks, grad modes, threads."""

from __future__ import annotations

import copy
import io
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual

import torch_impl
from parity_tests.suite.torch_impl._common import (
    COTANGENTS,
    OUTPUTS,
    PRIMALS,
    TANGENTS,
    Attn,
    assert_same,
    draw,
    native_implementations,
    only,
    pull,
    subsets,
)
from torch_impl import attn_composite

explicit = pytest.mark.parametrize("attn", ["native"], indirect=True)
implicit = pytest.mark.parametrize("attn", ["native_implicit"], indirect=True)
SAVED = (*PRIMALS, "attn")


def nodes(tensors) -> set[str]:
    """The names of all nodes that the tensors depend on."""
    names, todo = set(), [x.grad_fn for x in tensors]
    while todo:
        node = todo.pop()
        if node is not None:
            names.add(node.name())
            todo += [before for before, _ in node.next_functions]
    return names


@explicit
def test_node_of_the_explicit_operator(attn: Attn):
    primals = draw(PRIMALS, requires_grad=PRIMALS)
    output, attn_matrix = attn(*primals)
    node = output.grad_fn
    assert node is attn_matrix.grad_fn
    assert node.name() == type(node).__name__ == "AttnBackward0"
    assert repr(node).startswith("<AttnBackward0 object at ")
    assert "grad_fn=<AttnBackward0>" in repr(output)
    assert (output.output_nr, attn_matrix.output_nr) == (0, 1)
    assert [before.variable is x for (before, _), x in zip(node.next_functions, primals, strict=True)] == [True] * 3


@explicit
def test_saved_attributes(attn: Attn):
    """The tensors themselves and not copies; of the output no second reference to the node, which would be a cycle."""
    primals = draw(PRIMALS, requires_grad=PRIMALS)
    output, attn_matrix = attn(*primals)
    node = output.grad_fn
    assert {name for name in dir(node) if name.startswith("_saved")} == {f"_saved_{name}" for name in SAVED}
    for name, x in zip(SAVED, (*primals, attn_matrix), strict=True):
        saved = getattr(node, f"_saved_{name}")
        assert saved.data_ptr() == x.data_ptr()
        assert torch.equal(saved, x)
        assert saved.requires_grad
    assert node._saved_attn.grad_fn is node


@explicit
def test_nodes_of_the_second_order(attn: Attn):
    primals = draw(PRIMALS, requires_grad=PRIMALS)
    cotangents = draw(COTANGENTS, seed=1)
    grads = pull(attn(*primals), primals, cotangents, create_graph=True)
    (node,) = {x.grad_fn for x in grads}
    assert node.name() == type(node).__name__ == "AttnBackwardBackward0"
    for name, x in zip((*COTANGENTS, *PRIMALS), (*cotangents, *primals), strict=True):
        assert getattr(node, f"_saved_{name}").data_ptr() == x.data_ptr()
    assert node._saved_attn.grad_fn.name() == "AttnBackward0"  # the way of second order through attn


@implicit
def test_nodes_of_the_implicit_operator(attn: Attn):
    """Those of the operators that it is made of, as for the composite in Python."""
    primals = draw(PRIMALS, requires_grad=PRIMALS)
    outputs = attn(*primals)
    assert [x.grad_fn.name() for x in outputs] == ["MmBackward0", "TanhBackward0"]
    assert nodes(outputs) == nodes(attn_composite(*primals))
    grads = pull(outputs, primals, draw(COTANGENTS, seed=1), create_graph=True)
    assert not any("Attn" in name for name in nodes(grads))


@native_implementations
def test_backward_twice(attn: Attn):
    primals, cotangents = draw(PRIMALS, requires_grad=PRIMALS), draw(COTANGENTS, seed=1)
    outputs = attn(*primals)
    node = outputs[1].grad_fn
    first = pull(outputs, primals, cotangents, retain_graph=True)
    assert_same(pull(outputs, primals, cotangents), first, atol=0)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        pull(outputs, primals, cotangents)
    saved = "_saved_attn" if attn is torch_impl.attn_native else "_saved_result"
    with pytest.raises(RuntimeError, match="after they have already been freed"):
        getattr(node, saved)


@native_implementations
def test_second_order_twice(attn: Attn):
    primals, directions = draw(PRIMALS, requires_grad=PRIMALS), draw(PRIMALS, seed=2)
    grads = pull(attn(*primals), primals, draw(COTANGENTS, seed=1), create_graph=True)
    first = pull(grads, primals, directions, retain_graph=True)
    assert_same(pull(grads, primals, directions), first, atol=0)
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        pull(grads, primals, directions)


@explicit
@pytest.mark.parametrize("modified", [*COTANGENTS, *PRIMALS, "attn"])
def test_modified_before_second_order_raises(attn: Attn, modified):
    primals, cotangents = draw(PRIMALS, requires_grad=PRIMALS), draw(COTANGENTS, seed=1)
    outputs = attn(*primals)
    grads = pull(outputs, primals, cotangents, create_graph=True)
    named = dict(zip((*COTANGENTS, *PRIMALS, "attn"), (*cotangents, *primals, outputs[1]), strict=True))
    with torch.no_grad():
        named[modified].add_(1)
    with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
        pull(grads, primals, draw(PRIMALS, seed=2))


@native_implementations
def test_cotangent_may_be_modified_after_first_order(attn: Attn):
    """Only create_graph keeps it."""
    primals, cotangents = draw(PRIMALS, requires_grad=PRIMALS), draw(COTANGENTS, seed=1)
    outputs = attn(*primals)
    expected = pull(outputs, primals, draw(COTANGENTS, seed=1), retain_graph=True)
    actual = pull(outputs, primals, cotangents, retain_graph=True)
    for x in cotangents:
        x.zero_()
    assert_same(actual, expected, atol=0)


@native_implementations
def test_output_modified_in_place(attn: Attn):
    """An in-place operation on a result is recorded: the gradient is that of the modified result."""
    primals, cotangents = draw(PRIMALS, requires_grad=PRIMALS), draw(COTANGENTS, seed=1)
    output, attn_matrix = attn(*primals)
    output.mul_(3)
    expected, expected_matrix = attn_composite(*primals)
    assert_same(
        pull((output, attn_matrix), primals, cotangents), pull((3 * expected, expected_matrix), primals, cotangents)
    )


@explicit
@pytest.mark.parametrize("name", SAVED)
def test_hooks_of_one_saved_tensor(attn: Attn, name):
    """Its pack hook ran when it was set, its unpack hook runs in the backward, and what that returns is used."""
    primals, cotangents = draw(PRIMALS, requires_grad=PRIMALS), draw(COTANGENTS, seed=1)
    outputs = attn(*primals)
    expected = pull(outputs, primals, cotangents, retain_graph=True)
    packed = []
    getattr(outputs[0].grad_fn, f"_raw_saved_{name}").register_hooks(
        lambda x: packed.append(x.detach()), lambda _: 2 * packed[0]
    )
    assert len(packed) == 1
    changed = [not torch.equal(x, y) for x, y in zip(pull(outputs, primals, cotangents), expected, strict=True)]
    # q is in k_bar, k in q_bar, v in both, attn in all three
    assert changed == {"q": [0, 1, 0], "k": [1, 0, 0], "v": [1, 1, 0], "attn": [1, 1, 1]}[name]


@explicit
def test_hooks_of_the_node(attn: Attn):
    primals, cotangents = draw(PRIMALS, requires_grad=PRIMALS), draw(COTANGENTS, seed=1)
    outputs = attn(*primals)
    seen = []
    node = outputs[0].grad_fn
    node.register_prehook(lambda grad_outputs: seen.append(grad_outputs))
    node.register_hook(lambda grad_inputs, grad_outputs: (2 * grad_inputs[0], *grad_inputs[1:]))
    q_bar, k_bar, v_bar = torch.autograd.grad(attn_composite(*primals), primals, cotangents)
    assert_same(pull(outputs, primals, cotangents), (2 * q_bar, k_bar, v_bar))
    assert_same(seen, [tuple(cotangents)], atol=0)


@native_implementations
@pytest.mark.parametrize("used", subsets(OUTPUTS))
def test_materialize_grads(attn: Attn, used):
    """Zeros in place of `None` where no gradient flows, of the right shape."""
    primals = draw(PRIMALS, requires_grad=PRIMALS)

    def materialized(attn):
        outputs = [x for x in only(used, OUTPUTS, attn(*primals)) if x is not None]
        bars = [x for x in only(used, OUTPUTS, draw(COTANGENTS, seed=1)) if x is not None]
        return torch.autograd.grad(outputs, primals, bars, materialize_grads=True)

    assert_same(materialized(attn), materialized(attn_composite), zeros="output" not in used)


@native_implementations
def test_accumulates(attn: Attn):
    """`.backward()` adds to `.grad`, of the inputs that it is told."""
    primals, cotangents = draw(PRIMALS, requires_grad=PRIMALS), draw(COTANGENTS, seed=1)
    q_bar, k_bar, _ = torch.autograd.grad(attn_composite(*primals), primals, cotangents)
    outputs = attn(*primals)
    for _ in range(2):
        torch.autograd.backward(outputs, cotangents, retain_graph=True, inputs=primals[:2])
    assert_same([x.grad for x in primals[:2]], [2 * q_bar, 2 * k_bar])
    assert primals[2].grad is None


@native_implementations
def test_no_grad(attn: Attn):
    primals = draw(PRIMALS, requires_grad=PRIMALS)
    with torch.no_grad():
        outputs = attn(*primals)
    assert [(x.requires_grad, x.grad_fn) for x in outputs] == [(False, None)] * 2
    assert_same(outputs, attn_composite(*(x.detach() for x in primals)))


@native_implementations
def test_nothing_requires_grad(attn: Attn):
    outputs = attn(*draw(PRIMALS))
    assert [(x.requires_grad, x.grad_fn) for x in outputs] == [(False, None)] * 2


@native_implementations
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_forward_mode_needs_no_grad_mode(attn: Attn, mode):
    """Except in inference mode, which is without derivatives of any kind."""
    primals, tangents = draw(PRIMALS), draw(TANGENTS, seed=1)
    with dual_level():
        duals = [make_dual(x, y) for x, y in zip(primals, tangents, strict=True)]
        with mode():
            derivatives = [unpack_dual(y).tangent for y in attn(*duals)]
    if mode is torch.inference_mode:
        assert derivatives == [None, None]
    else:
        assert_same(derivatives, list(torch.func.jvp(attn_composite, tuple(primals), tuple(tangents))[1]))


@native_implementations
def test_inference_mode(attn: Attn):
    primals = draw(PRIMALS, requires_grad=PRIMALS)
    with torch.inference_mode():
        outputs = attn(*primals)
        assert all(x.is_inference() and not x.requires_grad for x in outputs)
        inference = draw(PRIMALS)
    assert_same(outputs, attn_composite(*(x.detach() for x in primals)))
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        attn(inference[0], *primals[1:])


@native_implementations
def test_anomaly_mode_names_the_node(attn: Attn):
    primals, (output_bar,) = draw(PRIMALS, requires_grad=PRIMALS), draw(["output_bar"])
    output_bar[0, 0] = torch.nan
    name = "AttnBackward0" if attn is torch_impl.attn_native else "MmBackward0"
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        with torch.autograd.detect_anomaly():
            output = attn(*primals)[0]
            with pytest.raises(RuntimeError, match=f"Function '{name}' returned nan values in its 0th output"):
                torch.autograd.grad(output, primals, output_bar)
    assert any(f"Error detected in {name}" in str(w.message) for w in warned)


@native_implementations
def test_threads(attn: Attn):
    """Forward, backward and double backward in eight threads at once, each with its own tensors and one in common."""
    shared = draw(PRIMALS, requires_grad=PRIMALS)

    def both_orders(attn, seed):
        primals = [shared[0], *draw(PRIMALS, requires_grad=PRIMALS, seed=seed)[1:]]
        grads = pull(attn(*primals), primals, draw(COTANGENTS, seed=seed + 1), create_graph=True)
        return grads, pull(grads, primals, draw(PRIMALS, seed=seed + 2))

    seeds = range(8)
    with ThreadPoolExecutor(len(seeds)) as pool:
        rounds = list(pool.map(lambda seed: [both_orders(attn, seed) for _ in range(5)], seeds))
    for seed, results in zip(seeds, rounds, strict=True):
        assert_same(results, [both_orders(attn_composite, seed)] * 5)


@native_implementations
def test_one_graph_in_two_threads(attn: Attn):
    primals, cotangents = draw(PRIMALS, requires_grad=PRIMALS), draw(COTANGENTS, seed=1)
    outputs, expected = attn(*primals), pull(attn_composite(*primals), primals, cotangents)
    with ThreadPoolExecutor(2) as pool:
        rounds = list(pool.map(lambda _: pull(outputs, primals, cotangents, retain_graph=True), range(20)))
    assert_same(rounds, [expected] * 20)


@pytest.mark.slow
@native_implementations
def test_deterministic(attn: Attn):
    """Values, gradients, second order and tangents, to the bit in every run, and with deterministic algorithms only."""
    sizes = (33, 17, 65, 19)  # products of more than one block

    def everything():
        primals = draw(PRIMALS, sizes, requires_grad=PRIMALS)
        outputs = attn(*primals)
        grads = pull(outputs, primals, draw(COTANGENTS, sizes, seed=1), create_graph=True)
        seconds = pull(grads, primals, draw(PRIMALS, sizes, seed=2))
        jvp = torch.func.jvp(attn, tuple(x.detach() for x in primals), tuple(draw(TANGENTS, sizes, seed=3)))
        return [x.detach() for x in (*outputs, *grads, *seconds, *jvp[0], *jvp[1])]

    first = everything()
    assert not torch.are_deterministic_algorithms_enabled()
    torch._C._set_deterministic_algorithms(True)
    try:
        for _ in range(5):
            assert_same(everything(), first, atol=0)
    finally:
        torch._C._set_deterministic_algorithms(False)


class Layer(torch.nn.Module):
    """A module that has an operator among its attributes, by name, and one of its arguments as a parameter."""

    def __init__(self, attn: Attn) -> None:
        super().__init__()
        self.attn = attn.__name__
        self.k = torch.nn.Parameter(draw(["k"])[0])

    def forward(self, q, v):
        return getattr(torch.ops.gradparity, self.attn)(q, self.k, v)


@native_implementations
def test_modules_are_copied_and_saved(attn: Attn):
    layer, (q, v) = Layer(attn), draw(["q", "v"])
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    other = Layer(attn)
    with torch.no_grad():
        other.k.zero_()
    other.load_state_dict(torch.load(buffer))
    for same in (copy.deepcopy(layer), other):
        assert_same(same(q, v), attn_composite(q, layer.k, v))
        assert same.k is not layer.k


@native_implementations
def test_outputs_are_copied_and_saved(attn: Attn):
    """Without a graph as any tensor. With one as any operator's: deepcopy refuses, a pickle is of the values."""
    primals = draw(PRIMALS, requires_grad=PRIMALS)
    outputs = attn(*primals)
    detached = [x.detach() for x in outputs]
    assert_same(copy.deepcopy(detached), detached, atol=0)
    for refused in (outputs[0], torch.mm(primals[1], primals[0].mT)):
        with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
            copy.deepcopy(refused)
    buffer = io.BytesIO()
    torch.save(outputs, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer)
    assert_same([x.detach() for x in loaded], detached, atol=0)
    assert [x.grad_fn for x in loaded] == [None, None]
