"""Without data: fake and meta tensors, symbolic sizes, and everything that records an operator to run it later."""

from __future__ import annotations

import logging
import warnings

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext
from torch.library import opcheck

from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating
from parity_tests.suite.torch_impl._common import (
    COTANGENTS,
    OUTPUTS,
    PRIMALS,
    SIZES,
    TANGENTS,
    Attn,
    assert_same,
    draw,
    loss,
    native_implementations,
    only,
    pull,
    shape_of,
    subsets,
)
from torch_impl import attn_composite

OTHER_SIZES = (6, 7, 8, 9)


def both_orders(attn, primals, cotangents, directions):
    """Values, gradients and double backward; the last two are leaves of nothing."""
    outputs = attn(*primals)
    grads = pull(outputs, primals, cotangents, create_graph=True)
    return [*outputs, *grads, *pull(grads, primals, directions)]


def layouts(tensors) -> list[tuple]:
    return [(tuple(x.shape), x.stride(), x.dtype, x.requires_grad) for x in tensors]


# Fake and meta


@rotating(5)
@fast("*-float64-native")
@native_implementations
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.complex64], ids=lambda x: str(x)[6:])
@pytest.mark.parametrize("sizes", [SIZES, (3, 2, 0, 5), (1, 1, 1, 1), (3, 0, 4, 0)], ids=str)
@pytest.mark.parametrize("transposed", [False, True], ids=["contiguous", "transposed"])
def test_meta_device(attn: Attn, transposed, sizes, dtype):
    """Shapes, strides, dtypes and who requires grad are those of the real ones, in both orders."""

    def real(names, seed, **options):
        return [x.mT.contiguous().mT if transposed else x for x in draw(names, sizes, dtype=dtype, seed=seed)]

    groups = real(PRIMALS, 0), real(COTANGENTS, 1), real(PRIMALS, 2)
    meta = [[x.to("meta").as_strided(x.shape, x.stride()) for x in xs] for xs in groups]
    for xs in (groups[0], meta[0]):
        for x in xs:
            x.requires_grad_()
    actual = both_orders(attn, *meta)
    assert all(x.is_meta for x in actual)
    assert layouts(actual) == layouts(both_orders(attn, *groups))


@native_implementations
def test_fake_tensors(attn: Attn):
    """As on the meta device."""
    with FakeTensorMode():
        primals = [torch.empty(shape_of(name), requires_grad=True) for name in PRIMALS]
        cotangents = [torch.empty(shape_of(name)) for name in COTANGENTS]
        results = both_orders(attn, primals, cotangents, [torch.empty(shape_of(name)) for name in PRIMALS])
    assert {(x.device.type, x.dtype) for x in results} == {("cpu", torch.float32)}
    assert [tuple(x.shape) for x in results] == [shape_of(name) for name in (*OUTPUTS, *PRIMALS, *PRIMALS)]


@native_implementations
def test_fake_tensors_of_a_device_that_is_not_here(attn: Attn):
    """Values only: PyTorch without CUDA aborts where autograd records on such a device, torch.mm as any other."""
    with FakeTensorMode():
        outputs = attn(*(torch.empty(shape_of(name), device="cuda") for name in PRIMALS))
    assert [(x.device.type, tuple(x.shape)) for x in outputs] == [("cuda", shape_of(name)) for name in OUTPUTS]


@native_implementations
def test_fake_tensors_of_two_devices(attn: Attn):
    """As PyTorch refuses any operator's, here with its name."""
    with FakeTensorMode(), quiet_fake_tensors():
        q, k, v = (torch.empty(shape_of(name)) for name in PRIMALS)
        with pytest.raises(RuntimeError, match=r"two different devices|Expected all tensors to be on the same device"):
            attn(torch.empty_like(q, device="cuda"), k, v)


# Symbolic sizes


class quiet_fake_tensors:
    """PyTorch logs an error of a fake kernel before it raises it."""

    def __enter__(self):
        logging.getLogger("torch._subclasses.fake_tensor").disabled = True

    def __exit__(self, *exception):
        logging.getLogger("torch._subclasses.fake_tensor").disabled = False


def symbolic(shapes: dict[str, tuple[int, ...]]) -> tuple[FakeTensorMode, list[Tensor]]:
    """Fake tensors of which each size is a symbol of its own."""
    mode = FakeTensorMode(shape_env=ShapeEnv(duck_shape=False))
    return mode, [
        mode.from_tensor(
            torch.empty(shape),
            symbolic_context=StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * len(shape)),
            source=torch._dynamo.source.ConstantSource(name),
        )
        for name, shape in shapes.items()
    ]


@native_implementations
def test_symbolic_sizes(attn: Attn):
    """Only that d and m agree is assumed: nothing else about the sizes, and nothing of their values."""
    mode, primals = symbolic({name: shape_of(name) for name in PRIMALS})
    q, k, v = primals
    with mode:
        outputs = attn(*(x.requires_grad_() for x in primals))
        grads = pull(outputs, primals, [torch.empty_like(x) for x in outputs], create_graph=True)
        seconds = pull(grads, primals, [torch.empty_like(x) for x in grads])
    (n, d), m, e = q.shape, k.shape[0], v.shape[1]
    assert [tuple(x.shape) for x in outputs] == [(n, e), (n, m)]
    for results in (grads, seconds):
        assert [tuple(x.shape) for x in results] == [(n, d), (m, d), (m, e)]
    guards = {str(guard.expr) for guard in mode.shape_env.guards}
    assert len({str(s) for s in (n, d, m, e)}) == 4
    assert len(guards) == 2, guards
    assert all(guard.startswith("Eq(") for guard in guards)


@native_implementations
@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        (
            {"q": (3, 2), "k": (4, 6), "v": (4, 5)},
            "attn: axis d is {q[1]} in q but {k[1]} in k (q has shape ({q[0]}, {q[1]}), k has shape ({k[0]}, {k[1]})); "
            "make them equal",
        ),
        (
            {"q": (3, 2), "k": (4, 2), "v": (6, 5)},
            "attn: axis m is {k[0]} in k but {v[0]} in v (k has shape ({k[0]}, {k[1]}), v has shape ({v[0]}, {v[1]})); "
            "make them equal",
        ),
        (
            {"q": (3, 2, 7), "k": (4, 2), "v": (4, 5)},
            "attn: q must have 2 axes (n, d), got 3 (shape ({q[0]}, {q[1]}, {q[2]})); map over batch axes with vmap",
        ),
        (
            {"q": (3, 2), "k": (4,), "v": (4, 5)},
            "attn: k must have 2 axes (m, d), got 1 (shape ({k[0]},)); map over batch axes with vmap",
        ),
    ],
    ids=["axis_d", "axis_m", "rank_3", "rank_1"],
)
def test_errors_name_the_symbols(attn: Attn, shapes, text):
    mode, primals = symbolic(shapes)
    sizes = dict(zip(PRIMALS, (x.shape for x in primals), strict=True))
    with mode, quiet_fake_tensors(), pytest.raises(ValueError, match=r"^attn: ") as raised:
        attn(*primals)
    assert str(raised.value) == text.format(**sizes)
    assert "s" in str(sizes["q"][0])
    with mode, pytest.raises(ValueError, match=r"^attn: ") as raised_by_composite:
        attn_composite(*primals)
    assert str(raised_by_composite.value) == str(raised.value)


# make_fx


OWN = {"attn": ["attn", "attn_backward"], "attn_implicit": []}


def own_operators(graph: torch.fx.Graph) -> list[str]:
    targets = [node.target for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
    return [x._schema.name.removeprefix("gradparity::") for x in targets if x.namespace == "gradparity"]


@native_implementations
@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx(attn: Attn, mode):
    """The explicit operator is one node of the graph, its backward another; the graph computes what was traced."""

    def first_order(attn):
        def gradients(*args):
            primals = [x.detach().requires_grad_() for x in args[:3]]
            return pull(attn(*primals), primals, args[3:])

        return gradients

    names = (*PRIMALS, *COTANGENTS)
    graph = make_fx(first_order(attn), tracing_mode=mode)(*draw(names))
    assert own_operators(graph.graph) == OWN[attn.__name__]
    for sizes in (SIZES, OTHER_SIZES) if mode == "symbolic" else (SIZES,):
        args = draw(names, sizes, seed=3)
        assert_same(graph(*args), first_order(attn_composite)(*args))


TRANSFORMS = {
    "grad": lambda attn: torch.func.grad(scalar(attn), argnums=(0, 1, 2)),
    "jacfwd": lambda attn: torch.func.jacfwd(attn, argnums=(0, 1, 2)),
    "hessian": lambda attn: torch.func.hessian(scalar(attn), argnums=(0, 1, 2)),
    "vmap": torch.vmap,
}


def scalar(attn):
    """As `loss`, but without tensors of its own, which a trace with fake ones refuses."""

    def function(q, k, v):
        output, attn_matrix = attn(q, k, v)
        return output.sin().square().sum() + (attn_matrix.exp() * attn_matrix).sum()

    return function


@fast("grad-real-native", "vmap-*-native")
@native_implementations
@pytest.mark.parametrize(
    ("transform", "mode"),
    [
        *((name, "real") for name in TRANSFORMS),
        ("grad", "symbolic"),
        ("vmap", "symbolic"),
    ],  # the others' sizes are fixed
)
def test_make_fx_of_transforms(attn: Attn, transform, mode):
    batch = (2,) if transform == "vmap" else ()
    graph = make_fx(TRANSFORMS[transform](attn), tracing_mode=mode)(*draw(PRIMALS, batch=batch))
    for sizes in (SIZES, OTHER_SIZES) if mode == "symbolic" else (SIZES,):
        args = draw(PRIMALS, sizes, batch=batch, seed=3)
        zeros = transform == "jacfwd"  # attn does not depend on v
        assert_same(graph(*args), TRANSFORMS[transform](attn_composite)(*args), zeros=zeros, atol=1e-11)


@native_implementations
def test_forward_mode_of_fake_tensors(attn: Attn):
    with FakeTensorMode():
        primals, tangents = (tuple(torch.empty(shape_of(name)) for name in names) for names in (PRIMALS, TANGENTS))
        _, results = torch.func.jvp(attn, primals, tangents)
    assert [tuple(x.shape) for x in results] == [shape_of(name) for name in OUTPUTS]


# torch.func.functionalize


@native_implementations
@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_functionalize(attn: Attn, remove):
    """Also of and under a gradient; in a trace nothing is left that writes."""
    args = draw(PRIMALS)
    grad = torch.func.grad(loss(attn), argnums=(0, 1, 2))
    functional = torch.func.functionalize(attn, remove=remove)
    assert_same(functional(*args), attn_composite(*args))
    expected = torch.func.grad(loss(attn_composite), argnums=(0, 1, 2))(*args)
    assert_same(torch.func.functionalize(grad, remove=remove)(*args), expected)
    assert_same(torch.func.grad(loss(functional), argnums=(0, 1, 2))(*args), expected)
    graph = make_fx(torch.func.functionalize(grad, remove=remove))(*args).graph
    targets = [node.target for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
    assert targets
    assert not any(x._schema.is_mutable for x in targets)


# torch.export


class Module(torch.nn.Module):
    def __init__(self, attn: Attn) -> None:
        super().__init__()
        self.attn = attn

    def forward(self, q, k, v):
        return self.attn(q, k, v)


@fast("native")
@native_implementations
@pytest.mark.filterwarnings("ignore::FutureWarning")  # torch.export uses what torch deprecates
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_export(attn: Attn):
    """With every size dynamic; a program for other backends has the explicit operator and not the implicit one."""
    n, d, m, e = map(torch.export.Dim, "ndme")
    program = torch.export.export(
        Module(attn), tuple(draw(PRIMALS)), dynamic_shapes=({0: n, 1: d}, {0: m, 1: d}, {0: m, 1: e})
    )
    assert own_operators(program.graph) == [attn.__name__]
    decomposed = program.run_decompositions()
    assert own_operators(decomposed.graph) == [name for name in ["attn"] if name == attn.__name__]
    for module in (program.module(), decomposed.module()):
        for sizes in (SIZES, OTHER_SIZES):
            args = draw(PRIMALS, sizes, seed=3)
            assert_same(module(*args), attn_composite(*args))
    with pytest.raises((AssertionError, RuntimeError), match=r"(?i)guard failed|to be equal|expected"):
        program.module()(*draw(["q"]), *draw(["k", "v"], (3, 9, 4, 5)))


# torch.jit


@native_implementations
@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_jit_trace(attn: Attn):
    """One node of the trace, and a trace that differentiates twice."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*torch.jit")
        traced = torch.jit.trace(lambda q, k, v: attn(q, k, v), tuple(draw(PRIMALS)))
    assert f"gradparity::{attn.__name__}(" in str(traced.graph)
    groups = [draw(PRIMALS, OTHER_SIZES, requires_grad=PRIMALS)]
    groups += [draw(COTANGENTS, OTHER_SIZES, seed=1), draw(PRIMALS, OTHER_SIZES, seed=2)]
    assert_same(both_orders(traced, *groups), both_orders(attn_composite, *groups))


# PyTorch's own check of an operator


def samples_of_opcheck() -> dict[str, list[Tensor]]:
    x = draw(PRIMALS)
    return {
        "plain": x,
        "requires_grad": draw(PRIMALS, requires_grad=PRIMALS),
        "q_requires_grad": draw(PRIMALS, requires_grad=["q"]),
        "transposed": [x.mT.contiguous().mT.requires_grad_() for x in x],
        "expanded": [x[:1].expand_as(x) for x in x],
        "no_keys": draw(PRIMALS, (3, 2, 0, 5), requires_grad=PRIMALS),
        "all_empty": draw(PRIMALS, (0, 0, 0, 0)),
        "one_of_all": draw(PRIMALS, (1, 1, 1, 1), requires_grad=PRIMALS),
        "float16": draw(PRIMALS, dtype=torch.float16, requires_grad=PRIMALS),
        "complex64": draw(PRIMALS, dtype=torch.complex64, requires_grad=PRIMALS),
    }


CHECKS = {"test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic"}


def assert_passes(operator, args) -> None:
    assert opcheck(operator, tuple(args)) == dict.fromkeys(CHECKS, "SUCCESS")


@rotating(5)
@fast("plain-native", "requires_grad-native", "expanded-native", "all_empty-native")
@native_implementations
@pytest.mark.parametrize("sample", samples_of_opcheck())
def test_opcheck(attn: Attn, sample):
    assert_passes(attn.default, samples_of_opcheck()[sample])


@rotating(5)
@fast(
    "plain-output_bar-attn_bar-[True, True, True]-native",
    "qv-none-[True, True, True]-native",
    "all-output_bar-attn_bar-[False, True, False]-native",
)
@pytest.mark.parametrize("attn", ["native"], indirect=True)
@pytest.mark.parametrize("mask", [[True, True, True], [False, True, False], [True, False, True]], ids=str)
@pytest.mark.parametrize("defined", subsets(COTANGENTS, empty=True))
@pytest.mark.parametrize("requires_grad", [(), ("q", "v"), (*COTANGENTS, *PRIMALS, "attn")], ids=["plain", "qv", "all"])
@pytest.mark.usefixtures("attn")
def test_opcheck_of_the_backward(requires_grad, defined, mask):
    names = (*COTANGENTS, *PRIMALS, "attn")
    args = only({*defined, *PRIMALS, "attn"}, names, draw(names, requires_grad=requires_grad))
    assert_passes(torch.ops.gradparity.attn_backward.default, [*args, mask])
