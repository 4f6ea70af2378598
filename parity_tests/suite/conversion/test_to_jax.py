"""`to_jax`: values and gradients are PyTorch's, and structures, keywords, buffers and weights are kept."""

from __future__ import annotations

import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from gradparity import CannotConvert, to_jax
from parity_tests.suite.conversion.compared import assert_close, assert_same, double, numbers
from parity_tests.suite.marks import fast

pytestmark = pytest.mark.usefixtures("float64")


Pair = namedtuple("Pair", "first second")


@dataclass
class Batch:
    x: Tensor
    scale: float


class Structures(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, batch: Batch, pair: Any, *, weights: dict[str, Tensor], twice: bool = False) -> Any:
        y = self.linear(batch.x) * batch.scale + pair.first * weights["w"]
        return {"pair": Pair(y, pair.second), "batch": Batch(2 * y if twice else y, 3.0), "none": None}


class Tied(nn.Module):
    positions: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("positions", torch.arange(4), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(torch.tanh(self.embedding(tokens) + self.positions[:, None]))


class Averages(nn.Module):
    """Writes to a buffer under no_grad, replaces another one, and returns what they are made of."""

    mean: Tensor
    steps: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("steps", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        y = x * self.weight
        with torch.no_grad():
            self.mean.mul_(0.9).add_(y.mean(0), alpha=0.1)
        self.steps = self.steps + 1
        return y + self.mean


_TOKENS = torch.tensor([[1, 4, 0, 4], [2, 2, 3, 1]])
_MODULES: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...], dict[str, Any]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 2)), (numbers(5, 3),), {}),
    "tied": (Tied, (_TOKENS,), {}),
    "averages": (Averages, (numbers(4, 3),), {}),
    "batch-norm": (lambda: nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)), (numbers(2, 2, 5, 4),), {}),
    "batch-norm-eval": (lambda: nn.BatchNorm1d(3).eval(), (numbers(4, 3),), {}),
    "lstm": (lambda: nn.LSTM(3, 2, num_layers=2, bidirectional=True), (numbers(4, 2, 3),), {}),
    "gru": (lambda: nn.GRU(3, 2), (numbers(4, 2, 3),), {}),
    "attention": (lambda: nn.MultiheadAttention(4, 2), (numbers(3, 2, 4),) * 2, {"value": numbers(3, 2, 4, seed=2)}),
    "encoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), 2),
        (numbers(2, 3, 4),),
        {"src_key_padding_mask": torch.tensor([[False, False, True], [False, False, False]])},
    ),
    "transformer": (
        lambda: nn.Transformer(4, 2, 1, 1, 8, dropout=0.0, batch_first=True),
        (numbers(2, 3, 4), numbers(2, 3, 4, seed=2)),
        {"tgt_mask": nn.Transformer.generate_square_subsequent_mask(3, dtype=torch.float64)},
    ),
}


@fast("mlp", "tied", "averages", "batch-norm-eval")
@pytest.mark.parametrize("name", _MODULES)
def test_values_and_gradients_are_those_of_pytorch(name: str) -> None:
    make, args, kwargs = _MODULES[name]
    if name == "attention":
        kwargs = kwargs | {"key": args[1]}
        args = args[:1]
    assert_same(double(make()), *args, **kwargs)


def test_a_wrong_gradient_is_noticed() -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return torch.sin(x)

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Tensor:
            return grads[0]

    class Module(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            return Wrong.apply(x * self.weight)

    with pytest.raises(AssertionError):
        assert_same(double(Module()), numbers(3))


def test_structures_in_and_out() -> None:
    module, batch, pair = double(Structures()), Batch(numbers(2, 3), 0.5), Pair(numbers(2, 2), numbers(1))
    weights = {"w": numbers(2)}
    f, params = to_jax(module, batch, pair, weights=weights)
    for twice in (False, True):
        found = f(params, batch, pair, weights=weights, twice=twice)
        expected = module(batch, pair, weights=weights, twice=twice)
        assert type(found["pair"]) is Pair
        assert found["none"] is None
        assert found["batch"]["scale"] == 3.0
        assert_close(found["batch"]["x"], expected["batch"].x)
        assert_close(found["pair"].first, expected["pair"].first)


@pytest.mark.slow
def test_other_shapes_dtypes_and_a_changed_mode() -> None:
    module = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5)).eval()
    f, params = to_jax(module, torch.zeros(1, 3))
    module.train()  # f is in the mode in which the module was
    for shape in ((4, 3), (2, 5, 3)):
        x = numbers(*shape).float()
        assert np.allclose(f(params, x), module.eval()(x).detach(), atol=1e-6)
        module.train()
    wide = {name: x.astype(jnp.float64) for name, x in params.items()}
    assert f(wide, numbers(4, 3)).dtype == jnp.float64
    narrow = {name: x.astype(jnp.bfloat16) for name, x in params.items()}
    assert f(narrow, jnp.ones((4, 3), jnp.bfloat16)).dtype == jnp.bfloat16
    assert module.training


def test_precision_as_written_and_exact() -> None:
    def function(x: Tensor) -> Tensor:
        return x.to(torch.bfloat16).float() * 3

    x = torch.tensor([1.001953125])
    as_written, _ = to_jax(function, x)
    exact, _ = to_jax(function, x, precision="exact")
    assert float(as_written({}, x)[0]) == float(function(x)[0]) == 3.0
    assert float(exact({}, x)[0]) == 3 * 1.001953125
    with pytest.raises(ValueError, match="precision is 'as written' or 'exact', got 'wide'"):
        to_jax(function, x, precision="wide")


@pytest.mark.parametrize("exact", [False, True])
def test_without_64_bits(exact: bool) -> None:
    with jax.enable_x64(False):
        module = Tied()
        f, params = to_jax(module, _TOKENS, precision="exact" if exact else "as written")
        assert np.allclose(f(params, _TOKENS.numpy()), module(_TOKENS).detach(), atol=1e-6)
        assert {str(x.dtype) for x in params.values()} == {"float32", "int32"}


@pytest.mark.slow  # it is installed for the slow tests only
@pytest.mark.parametrize(
    "module", [Tied(), nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).eval()], ids=["tied", "norm"]
)
def test_weights_come_from_a_file_of_safetensors_and_go_back(module: nn.Module, tmp_path: Path) -> None:
    """Such a file has one of the names of a tied weight."""
    pytest.importorskip("safetensors", reason="safetensors is not installed: pip install safetensors")
    import safetensors.flax
    import safetensors.torch

    f, params = to_jax(module, _TOKENS if isinstance(module, Tied) else torch.zeros(2, 3))
    theirs, ours = tmp_path / "theirs.safetensors", tmp_path / "ours.safetensors"
    safetensors.torch.save_model(module, str(theirs))
    loaded = f.load(safetensors.flax.load_file(theirs))
    assert loaded.keys() == params.keys()
    assert all(np.array_equal(loaded[name], x) and loaded[name].dtype == x.dtype for name, x in params.items())
    twice = {name: 2 * x if name in f.split(params)[0] else x for name, x in loaded.items()}
    safetensors.torch.save_file(f.state_dict(twice), ours)
    module.load_state_dict(safetensors.torch.load_file(ours))
    again = f.load(module.state_dict())
    assert all(np.array_equal(again[name], x) for name, x in twice.items())


def test_weights_come_from_a_state_and_go_back() -> None:
    module, other = Tied(), Tied()
    f, params = to_jax(module, _TOKENS)
    assert list(params) == ["embedding.weight", "positions"]
    assert f.split(params)[0].keys() == {"embedding.weight"}
    loaded = f.load(other.state_dict())
    assert np.array_equal(f(loaded, _TOKENS), to_jax(other, _TOKENS)[0](loaded, _TOKENS))
    module.load_state_dict(f.state_dict(loaded))
    assert torch.equal(module.head.weight, other.head.weight)
    with pytest.raises(ValueError, match=r"the state has no 'embedding.weight'"):
        f.load({})
    with pytest.raises(ValueError, match=r"the module has no 'x', which the state has"):
        f.load({**other.state_dict(), "x": torch.zeros(1)})
    with pytest.raises(ValueError, match=r"params\['embedding.weight'\] has shape \(5,\), the module's \(5, 3\)"):
        f(loaded | {"embedding.weight": jnp.ones(5)}, _TOKENS)
    with pytest.raises(ValueError, match=r"params has no 'positions'; pass all parameters and buffers"):
        f({"embedding.weight": loaded["embedding.weight"]}, _TOKENS)


def test_what_is_refused_names_the_line() -> None:
    def bessel(x: Tensor) -> Tensor:
        return torch.special.bessel_j0(x)

    def writes(x: Tensor) -> Tensor:
        return x.mul_(2)

    with pytest.raises(CannotConvert, match=rf'File "{__file__}", line \d+, in bessel: jax_ref.aten has no aten::sp'):
        to_jax(bessel, torch.ones(2))
    with pytest.raises(CannotConvert, match="the function writes to one of its inputs; let it clone that first"):
        to_jax(writes, torch.ones(2))
    with pytest.raises(CannotConvert, match="the function returns type, whose parts are not known here"):
        to_jax(lambda x: (x, int), torch.ones(2))
    with pytest.raises(TypeError, match="function must be a PyTorch module or function, got int"):
        to_jax(3)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_judge_is_not_imported() -> None:
    code = "import sys; from gradparity import to_jax; print([m for m in sys.modules if '.harness' in m])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


class Caching(nn.Module):
    """Keeps a tensor of its last call, and runs one batch norm twice."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.mask, self.kept = nn.BatchNorm1d(3), None, {"first": 1}

    def forward(self, x: Tensor) -> Tensor:
        self.mask = torch.arange(len(x), dtype=x.dtype)
        self.kept["last"] = x
        return self.mask[:, None] * self.norm(self.norm(x))


def test_the_module_stays_as_it_is():
    module, x = Caching().double(), torch.randn(5, 3, dtype=torch.float64)
    kept, statistics = module.kept, module.norm.running_mean
    to_jax(module, x)
    assert module.mask is None
    assert module.norm.running_mean is statistics
    assert module.kept is kept == {"first": 1}
    assert type(module(x)) is Tensor
