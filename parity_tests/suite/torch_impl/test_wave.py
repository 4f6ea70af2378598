"""Operators other than attn, from folders of their own with the same code; docs/native_operator.md is the guide."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jax.numpy as jnp
import pytest
import torch
from torch._dynamo import compiled_autograd

from parity_tests import OpSpec, crosscheck
from parity_tests.suite.rotation import rotating
from parity_tests.suite.torch_impl._common import assert_same
from torch_impl.native.build import HERE, BuildError, ToolchainMissing, load

WAVE = Path(__file__).parent / "wave"


pytestmark = pytest.mark.slow  # a second folder is compiled


@pytest.fixture(scope="module")
def ops():
    """torch.ops.gradparity_wave, compiled when the first test asks for it."""
    try:
        load(WAVE)
    except ToolchainMissing as reason:
        pytest.skip(str(reason))
    return torch.ops.gradparity_wave


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(shape, dtype=dtype, generator=generator).requires_grad_()


@pytest.mark.parametrize(
    "dtypes", [["float64"], pytest.param(None, marks=pytest.mark.soak)], ids=["float64", "every_format"]
)
def test_every_derivative_agrees_with_jax(ops, dtypes: list[str] | None) -> None:
    spec = OpSpec("scaled_sin", primal=lambda x: jnp.sin(1.5 * x), signature="(n)->(n)")
    crosscheck(lambda x: ops.scaled_sin(x, 1.5), spec, limits={}, dtypes=dtypes).raise_if_failed()
    spec = OpSpec("mm", primal=lambda x, y: x @ y, signature="(n,k),(k,m)->(n,m)")
    limits = {"autocast": "registers no kernel for it"}
    crosscheck(ops.mm, spec, limits=limits, dtypes=dtypes).raise_if_failed()


@rotating(4, turn=1)
def test_the_example_of_the_guide_passes() -> None:
    """By a path as text, as the guide has it."""
    try:
        load(str(HERE / "example"))
    except ToolchainMissing as reason:
        pytest.skip(str(reason))
    spec = OpSpec("scaled_sin", primal=lambda x: jnp.sin(1.5 * x), signature="(n)->(n)")
    crosscheck(lambda x: torch.ops.my_operators.scaled_sin(x, 1.5), spec, limits={}, quick=True).raise_if_failed()


def test_a_wrong_parameter_is_noticed(ops) -> None:
    spec = OpSpec("scaled_sin", primal=lambda x: jnp.sin(1.5 * x), signature="(n)->(n)")
    assert not crosscheck(lambda x: ops.scaled_sin(x, 1.5000001), spec, dtypes=["float64"], checks=["vjp"]).passed


def test_names(ops) -> None:
    x, y = draw(3, 4), draw(4, 5)
    assert ops.scaled_sin(x, 2.0).grad_fn.name() == "ScaledSinBackward0"
    assert ops.scaled_sin(x, 2.0).grad_fn._saved_scale == 2.0
    ours, theirs = ops.mm(x, y).grad_fn, torch.mm(x, y).grad_fn
    assert ours.name() == theirs.name() == "MmBackward0"
    assert type(ours) is not type(theirs)


@pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
)  # PyTorch's own look
def test_an_operator_with_the_name_of_pytorchs_own_in_one_compiled_backward(ops) -> None:
    x, y = draw(3, 4), draw(4, 5)

    def loss(product: Callable) -> torch.Tensor:
        return product(x, y).sin().sum() + torch.mm(x, y).cos().sum()

    expected = torch.autograd.grad(loss(torch.mm), (x, y))
    result = loss(ops.mm)
    with compiled_autograd._enable(lambda graph: torch.compile(graph, backend="eager")):
        result.backward()
    torch._dynamo.reset()
    assert_same((x.grad, y.grad), expected)


def test_no_formula_no_tangent(ops) -> None:
    x = draw(3)
    assert torch.autograd.gradgradcheck(ops.cubed, (x,))
    with pytest.raises(NotImplementedError, match="Trying to use forward AD with cubed that does not support it"):
        torch.func.jvp(ops.cubed, (x,), (x,))


def test_no_formula_no_gradient(ops) -> None:
    halved = ops.halved(draw(3))
    assert_same(halved, draw(3) / 2)
    with pytest.raises(RuntimeError, match="derivative for gradparity_wave::halved is not implemented"):
        halved.sum().backward()


def test_complex_only_where_the_entry_says_so(ops) -> None:
    """Also of an operator whose name is that of one of PyTorch's own that may be complex."""
    with pytest.raises(RuntimeError, match=r"sin does not support automatic differentiation .* complex dtype"):
        ops.sin(draw(3, dtype=torch.complex128))
    x, y = draw(3, 4, dtype=torch.complex128), draw(4, 5, dtype=torch.complex128)
    assert torch.autograd.gradcheck(ops.mm, (x, y), check_forward_ad=True)
    with pytest.raises(RuntimeError, match=r"scaled_sin does not support automatic differentiation .* complex dtype"):
        ops.scaled_sin(x, 2.0)


def test_a_namespace_is_taken_once(ops, tmp_path: Path) -> None:
    for name in ("native_functions.yaml", "derivatives.yaml"):
        (tmp_path / name).write_text((WAVE / name).read_text())
    with pytest.raises(BuildError, match=r"the namespace gradparity_wave is taken by .*wave in this process"):
        load(tmp_path)
