"""torch.compile: one graph for all sizes and no graph break, forward and backward, and sizes known at run time only."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence

import pytest
import torch
from functorch import compile as aot

from parity_tests.suite.marks import fast

with warnings.catch_warnings():
    # What Dynamo and Inductor import is deprecated by torch itself.
    warnings.simplefilter("ignore")
    import torch._dynamo
    import torch._dynamo.compiled_autograd
    import torch._dynamo.testing
    import torch._inductor.compile_fx

from parity_tests.suite.rotation import rotating
from parity_tests.suite.torch_impl._common import (
    COTANGENTS,
    PRIMALS,
    Attn,
    assert_same,
    draw,
    native_implementations,
    only,
    pull,
    subsets,
    zeros_for_none,
)
from torch_impl import attn_composite

MANY_SIZES = [(3, 2, 4, 5), (6, 7, 8, 9), (10, 3, 2, 4), (4, 9, 11, 6)]
OWN = {"attn": ["attn", "attn_backward"], "attn_implicit": []}


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def own_operators(graph: torch.fx.GraphModule) -> list[str]:
    """The nodes of the namespace gradparity, `attn` for `gradparity.attn` and for `gradparity.attn.default`."""
    targets = [str(node.target).split(".") for node in graph.graph.nodes]
    return [target[1] for target in targets if target[0] == "gradparity"]


def compiled(attn: Attn, backend, **options):
    # Through a Python function: an operator by itself is nothing to compile.
    return torch.compile(lambda q, k, v: attn(q, k, v), backend=backend, fullgraph=True, dynamic=True, **options)


def assert_right(function, sizes, *, requires_grad=PRIMALS, defined=COTANGENTS, atol=1e-12, dtype=torch.float64):
    primals = draw(PRIMALS, sizes, requires_grad=requires_grad, seed=sum(sizes), dtype=dtype)
    cotangents = only(defined, COTANGENTS, draw(COTANGENTS, sizes, seed=1, dtype=dtype))
    inputs = [x for x in primals if x.requires_grad]
    outputs, expected = function(*primals), attn_composite(*primals)
    assert_same(list(outputs), list(expected), atol=atol)
    if inputs:
        grads, expected_grads = pull(outputs, inputs, cotangents), pull(expected, inputs, cotangents)
        if any(x is not None for x in expected_grads):
            actual = zeros_for_none(grads, inputs)
            assert_same(actual, zeros_for_none(expected_grads, inputs), atol=atol, zeros=True)


@rotating(3)
@fast("*-native")
@native_implementations
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_one_graph_for_many_sizes(attn: Attn, backend):
    """Forward and backward; Dynamo's graph has the operator, whichever, as one node."""
    counter = torch._dynamo.testing.CompileCounterWithBackend(backend)
    function = compiled(attn, counter)
    for sizes in MANY_SIZES:
        assert_right(function, sizes)
    assert counter.frame_count == 1
    assert own_operators(counter.graphs[0]) == [attn.__name__]


@fast("native")
@native_implementations
def test_graphs_of_forward_and_backward(attn: Attn):
    """AOTAutograd: the explicit operator and its backward are one node each, the implicit one is taken apart."""
    graphs = []

    def keep(graph, _):
        graphs.append(graph)
        return aot.make_boxed_func(graph.forward)

    backend = torch._dynamo.backends.common.aot_autograd(fw_compiler=keep, bw_compiler=keep)
    function = compiled(attn, backend)
    for sizes in MANY_SIZES:
        assert_right(function, sizes)
    assert len(graphs) == 2  # a second size compiles neither again
    assert [name for graph in graphs for name in own_operators(graph)] == OWN[attn.__name__]


@pytest.mark.slow
@native_implementations
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_inductor(attn: Attn):
    function = compiled(attn, "inductor")
    for sizes in MANY_SIZES[:2]:
        assert_right(function, sizes)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def _mark_of(requires_grad: Sequence[str], defined: Sequence[str]) -> Sequence[pytest.MarkDecorator]:
    """Each of the two in all its values by default; of their pairs those with all inputs are slow, the others soak."""
    if len(requires_grad) < 2 and (defined == COTANGENTS or requires_grad == ("v",)):
        return ()
    return (pytest.mark.slow if len(requires_grad) == 3 or defined == COTANGENTS else pytest.mark.soak,)


@rotating(3)
@fast("q-output_bar-attn_bar-native")
@native_implementations
@pytest.mark.parametrize(
    ("requires_grad", "defined"),
    [
        pytest.param(
            requires_grad,
            defined,
            id=f"{'-'.join(requires_grad) or 'none'}-{'-'.join(defined)}",
            marks=_mark_of(requires_grad, defined),
        )
        for r in range(4)
        for requires_grad in itertools.combinations(PRIMALS, r)
        for defined in (COTANGENTS, COTANGENTS[:1], COTANGENTS[1:])
    ],
)
def test_who_requires_grad(attn: Attn, requires_grad, defined):
    assert_right(compiled(attn, "aot_eager"), (3, 2, 4, 5), requires_grad=requires_grad, defined=defined)


@rotating(3)
@fast("float32-native")
@native_implementations
@pytest.mark.parametrize("dtype", [torch.complex128, torch.float32], ids=["complex128", "float32"])
def test_dtypes(attn: Attn, dtype):
    # float32: sums of at most 8 terms of size about 1, so 16 roundings of 2**-24 or so.
    atol = 1e-12 if dtype is torch.complex128 else 16 * 2**-24
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Torchinductor does not support code generation for complex")
        assert_right(compiled(attn, "aot_eager"), (3, 2, 4, 5), dtype=dtype, atol=atol)


@fast("native")
@native_implementations
@pytest.mark.slow
def test_function_around(attn: Attn):
    """Among other operations, and with an input that is a view; gradients of gradients are not AOTAutograd's."""

    def around(attn):
        def function(q, k, v):
            output, attn_matrix = attn(q.mT.sin().mT, 2 * k, v[:, ::2])
            return output.cos() + 1, attn_matrix[1:].exp()

        return function

    function = torch.compile(around(attn), backend="aot_eager", fullgraph=True, dynamic=True)
    for sizes in MANY_SIZES[:2]:
        primals = draw(PRIMALS, sizes, requires_grad=PRIMALS)
        outputs, expected = function(*primals), around(attn_composite)(*primals)
        assert_same(outputs, expected)
        cotangents = [torch.cos(3 * x.detach()) for x in expected]
        assert_same(pull(outputs, primals, cotangents), pull(expected, primals, cotangents))


@fast("native")
@native_implementations
def test_error_of_a_size(attn: Attn):
    """A wrong size is the operator's own error, whether compiled or not."""
    function = compiled(attn, "aot_eager")
    assert_right(function, (3, 2, 4, 5))
    q, k, v = draw(["q"], (3, 2, 4, 5)) + draw(["k", "v"], (3, 6, 4, 5))
    with pytest.raises(Exception, match=r"attn: axis d is .* in q but .* in k") as raised:
        function(q, k, v)
    assert isinstance(raised.value, (ValueError, torch._dynamo.exc.TorchRuntimeError))


# Sizes that are known at run time only


def selected(attn: Attn):
    """k and v are chosen by masks, so that their sizes depend on data."""

    def function(q, k, v, of_k, of_v):
        return attn(q, k[of_k.nonzero().squeeze(1)], v[of_v.nonzero().squeeze(1)])

    return function


SOME, OTHERS = torch.tensor([1, 0, 1, 0]), torch.tensor([0, 1, 0, 1])
THREE, ALSO_THREE = torch.tensor([1, 1, 1, 0]), torch.tensor([0, 1, 1, 1])


# The backward of mm guards on an unbacked size (below), and with it the implicit operator's; the explicit one's not.
@fast("native-values")
@pytest.mark.parametrize(
    ("attn", "requires_grad"),
    [("native", PRIMALS), ("native", ()), ("native_implicit", ())],
    indirect=["attn"],
    ids=["native-gradients", "native-values", "native_implicit-values"],
)
def test_unbacked_sizes(attn: Attn, requires_grad):
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
        function = torch.compile(selected(attn), backend=counter, fullgraph=True, dynamic=True)
        for masks in ((SOME, OTHERS), (OTHERS, SOME), (THREE, ALSO_THREE)):
            primals = draw(PRIMALS, requires_grad=requires_grad)
            outputs, expected = function(*primals, *masks), selected(attn_composite)(*primals, *masks)
            assert_same(outputs, expected)
            if requires_grad:
                cotangents = [torch.cos(3 * x.detach()) for x in expected]
                assert_same(pull(outputs, primals, cotangents), pull(expected, primals, cotangents))
        assert counter.frame_count == 1
        # The check of the sizes is part of the compiled code.
        with pytest.raises(RuntimeError, match=r"Runtime assertion failed for expression Eq\(u\d+, u\d+\)"):
            function(*draw(PRIMALS, requires_grad=requires_grad), SOME, THREE)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Error detected in MmBackward0:UserWarning")
@pytest.mark.parametrize("attn", ["native_implicit"], indirect=True)
@pytest.mark.parametrize("function", ["mm", "attn"])
def test_unbacked_sizes_in_the_backward_of_mm(attn: Attn, function):
    """What PyTorch cannot do for its own operator, it cannot for one that is made of it."""

    def product(q, k, v, of_k, of_v):
        return torch.mm(torch.mm(q, k[of_k.nonzero().squeeze(1)].mT), v[of_v.nonzero().squeeze(1)])

    of = {"mm": product, "attn": selected(attn)}[function]
    with (
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True),
        pytest.raises(Exception, match="Could not guard on data-dependent expression"),
    ):
        torch.compile(of, backend="aot_eager", fullgraph=True, dynamic=True)(
            *draw(PRIMALS, requires_grad=PRIMALS), SOME, OTHERS
        )


# torch.func and autocast inside


@rotating(3)
@fast("grad-native")
@native_implementations
@pytest.mark.parametrize("transform", ["grad", "vmap", "jvp"])
def test_transforms_inside(attn: Attn, transform):
    def transformed(attn):
        def function(q, k, v):
            if transform == "vmap":
                return torch.vmap(attn, (0, None, None))(torch.stack([q, 2 * q, q.sin()]), k, v)
            if transform == "jvp":
                return torch.func.jvp(attn, (q, k, v), (q.sin(), k.sin(), v.sin()))
            return torch.func.grad(lambda *xs: attn(*xs)[0].sin().square().sum(), argnums=(0, 1, 2))(q, k, v)

        return function

    function = torch.compile(transformed(attn), backend="aot_eager", fullgraph=True, dynamic=True)
    for sizes in MANY_SIZES[:2]:
        args = draw(PRIMALS, sizes)
        assert_same(function(*args), transformed(attn_composite)(*args))


@fast("native")
@native_implementations
def test_autocast_inside(attn: Attn):
    """What is compiled casts as what is not, to the bit, and so do its gradients."""

    def function(q, k, v):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return attn(q, k, v)

    primals = draw(PRIMALS, dtype=torch.float32, requires_grad=PRIMALS)
    cotangents = draw(COTANGENTS, dtype=torch.bfloat16, seed=1)
    outputs = torch.compile(function, backend="aot_eager", fullgraph=True)(*primals)
    expected = function(*primals)
    assert {x.dtype for x in outputs} == {torch.bfloat16}
    assert_same(list(outputs), list(expected), atol=0)
    assert_same(pull(outputs, primals, cotangents), pull(expected, primals, cotangents), atol=0)


# AOTAutograd and compiled autograd by themselves


@rotating(3)
@fast("*-native")
@native_implementations
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_aot_function(attn: Attn, dynamic):
    function = aot.aot_function(lambda q, k, v: attn(q, k, v), aot.nop, dynamic=dynamic)
    for sizes in MANY_SIZES[: 2 if dynamic else 1]:
        assert_right(function, sizes)


# Dynamo hides this warning of its own by a way that an error filter overrides.
reads_grad = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")


@pytest.mark.slow
@rotating(3)
@native_implementations
@reads_grad
@pytest.mark.parametrize("defined", subsets(COTANGENTS))
def test_compiled_autograd(attn: Attn, defined):
    """The engine's run becomes a graph, with the explicit operator's node in it, once for all sizes."""
    graphs = []

    def compiler(graph):
        graphs.append(graph)
        return torch.compile(graph, backend="aot_eager", fullgraph=True, dynamic=True)

    for sizes in MANY_SIZES:
        primals = draw(PRIMALS, sizes, requires_grad=PRIMALS)
        used = [i for i, name in enumerate(COTANGENTS) if name in defined]
        cotangents = [draw(COTANGENTS, sizes, seed=1)[i] for i in used]
        outputs, expected_outputs = attn(*primals), attn_composite(*primals)
        with torch._dynamo.compiled_autograd._enable(compiler, dynamic=True):
            torch.autograd.backward([outputs[i] for i in used], cotangents)
        expected = pull([expected_outputs[i] for i in used], primals, cotangents)
        zeros = "output_bar" not in defined
        actual = zeros_for_none([x.grad for x in primals], primals)
        assert_same(actual, zeros_for_none(expected, primals), zeros=zeros)
    assert len(graphs) == 1
    names = [str(node.target) for node in graphs[0].graph.nodes]
    own = [name for name in names if name.endswith("AttnBackward0")]
    assert len(own) == (attn.__name__ == "attn")
    assert any(name.endswith("MmBackward0") for name in names) == (attn.__name__ != "attn")


def engine_as_graph(tensors, cotangents, graphs: list[torch.fx.GraphModule]) -> None:
    with torch._dynamo.compiled_autograd._enable(lambda graph: graphs.append(graph) or graph):
        torch.autograd.backward(tensors, cotangents)


def gradients(attn: Attn, primals) -> tuple[torch.Tensor, ...]:
    inputs = [x for x in primals if x.requires_grad]
    return pull(attn(*primals), inputs, draw(COTANGENTS, seed=1), create_graph=True)


@native_implementations
@reads_grad
def test_compiled_autograd_of_second_order(attn: Attn):
    """The second order is in a node of the explicit operator, too, and goes through its first."""
    primals, directions = draw(PRIMALS, requires_grad=["q", "k"]), draw(["q", "k"], seed=2)
    expected = pull(gradients(attn_composite, primals), primals[:2], directions)
    graphs = []
    engine_as_graph(gradients(attn, primals), directions, graphs)
    assert_same([x.grad for x in primals[:2]], list(expected))
    own = [str(node.target).split(".")[-1] for node in graphs[0].graph.nodes if "Attn" in str(node.target)]
    nodes = ["AttnBackwardBackward0", "AttnBackward0"] if attn.__name__ == "attn" else []
    assert [name.removeprefix("gradparity_") for name in own] == nodes


@reads_grad
@pytest.mark.parametrize("attn", ["native"], indirect=True)
@pytest.mark.parametrize(
    "operator",
    [
        "attn",
        pytest.param(
            "native_group_norm",
            marks=pytest.mark.skipif(torch.__version__ >= "2.14", reason="PyTorch has mended its group norm"),
        ),
    ],
)
def test_compiled_autograd_adds_gradients_that_are_not_there(attn: Attn, operator):
    """PyTorch does not expect a node to leave a gradient undefined where another one adds to it: group norm's does so,
    too, for the weight if only the mean has a cotangent."""
    if operator == "attn":  # (31) is added to the gradient by way of attn, which has none for v
        results = gradients(attn, draw(PRIMALS, requires_grad=PRIMALS))
    else:
        x, w = torch.randn(2, 4, 3, requires_grad=True), torch.randn(4, requires_grad=True)
        results = [torch.native_group_norm(x, w, None, 2, 4, 3, 2, 1e-5)[i] for i in (0, 1)]
    with pytest.raises(TypeError, match=r"add\(\): argument .* must be Tensor, not NoneType"):
        engine_as_graph(results, [torch.cos(x.detach()) for x in results], [])
