"""The torch layer against the layers of JAX, with the parameters as inputs; and their weights in one file."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict, crosscheck
from parity_tests.catalog.model import plain
from parity_tests.harness.numbers.numerics import pinned
from torch_impl import nn as torch_layers

pytestmark = pytest.mark.slow
for _package in ("flax", "equinox"):
    pytest.importorskip(_package, reason=f"{_package} is not installed: pip install 'gradparity[{_package}]'")
pytest.importorskip("safetensors", reason="safetensors is not installed: pip install safetensors")

import safetensors.flax  # noqa: E402
import safetensors.torch  # noqa: E402
from flax import nnx  # noqa: E402

from jax_ref import dot_product_attention  # noqa: E402
from jax_ref.nn import equinox as of_equinox  # noqa: E402
from jax_ref.nn import flax as of_flax  # noqa: E402

NAMES = [f"{layer}.{part}" for layer in ("query", "key", "value", "out") for part in ("kernel", "bias")]
CHECKS = ["forward", "vjp", "jvp", "vjp_of_vjp", "vmap"]
BIASES = dict.fromkeys(("use_query_bias", "use_key_bias", "use_value_bias", "use_output_bias"), True)
DTYPES = ["float64", "float32", "bfloat16"]


def _as_exported(parameters: tuple[jax.Array, ...], heads: int, kv_heads: int) -> Mapping[str, jax.Array]:
    """torch's parameters, (out, in) and (out,), under the names and in the shapes that travel."""
    weights = dict(zip(NAMES, parameters, strict=True))
    for name, n in (("query", heads), ("key", kv_heads), ("value", kv_heads)):
        kernel = weights[f"{name}.kernel"].T
        weights |= {f"{name}.kernel": kernel.reshape(kernel.shape[0], n, -1)}
        weights |= {f"{name}.bias": weights[f"{name}.bias"].reshape(n, -1)}
    return weights | {"out.kernel": weights["out.kernel"].T.reshape(heads, -1, weights["out.bias"].shape[0])}


def _plain_attention(query, key, value, *, mask=None, is_causal, return_attn) -> jax.Array:
    """Attention written a second time, without rules of its own, for `attention_fn`."""
    allowed = np.tri(query.shape[-3], key.shape[-3], dtype=bool) if is_causal else None
    return plain(query, key, value, None, allowed, scale=query.shape[-1] ** -0.5)[0]


def _grouped(attention_fn: Callable) -> Callable:
    """The layer of Flax as a function of its inputs and of torch's parameters."""
    with pinned():
        layer = of_flax.TanhAttention(
            2,
            4,
            num_kv_heads=1,
            in_kv_features=3,
            param_dtype=jnp.float64,
            attention_fn=attention_fn,
            rngs=nnx.Rngs(0),
        )
    graph, state = nnx.split(layer)

    def function(query, key, value, *parameters):
        layer = nnx.merge(graph, state, copy=True)
        of_flax.import_weights(layer, _as_exported(parameters, 2, 1))
        return layer(query, key, value)

    return function


def _causal(attention_fn: Callable) -> Callable:
    """... of Equinox, for self-attention."""
    with pinned():
        fresh = of_equinox.TanhAttention(2, 4, attention_fn=attention_fn, key=jax.random.key(0), **BIASES)

    def function(x, *parameters):
        return of_equinox.import_weights(fresh, _as_exported(parameters, 2, 2))(x, x, x, is_causal=True)

    return function


def _spec(name: str, layer: Callable, signature: str) -> OpSpec:
    """The layer's own derivatives are the oracle; autodiff of the layer with plain attention certifies them."""
    explicit = layer(dot_product_attention)

    def vjp(*args):
        return jax.vjp(explicit, *args[:-1])[1](args[-1])

    return OpSpec(name, layer(_plain_attention), signature, vjp=vjp)


@functools.cache  # not at import: collecting these tests would draw parameters, which compiles
def grouped() -> OpSpec:
    signature = "(b,t,4),(b,s,3),(b,s,3),(4,4),(4),(2,3),(2),(2,3),(2),(4,4),(4)->(b,t,4)"
    return _spec("layer_grouped", _grouped, signature)


@functools.cache
def causal() -> OpSpec:
    return _spec("layer_causal", _causal, "(t,4),(4,4),(4),(4,4),(4),(4,4),(4),(4,4),(4)->(t,4)")


class Grouped(torch_layers.TanhAttention):
    def __init__(self) -> None:
        super().__init__(4, 2, num_kv_heads=1, kdim=3, vdim=3)


class Causal(torch_layers.TanhAttention):
    def __init__(self) -> None:
        super().__init__(4, 2)

    def forward(self, x):
        return super().forward(x, is_causal=True)


class HalfTheKeys(Causal):
    def __init__(self) -> None:
        super().__init__()
        self.k_proj.register_forward_hook(lambda module, inputs, key: key / 2 + key.detach() / 2)


class InterleavedHeads(Causal):
    """Of the values, as if every head had each second feature: a plain matrix has room for either reading."""

    def __init__(self) -> None:
        super().__init__()
        self.v_proj.register_forward_hook(lambda module, inputs, value: value.unflatten(-1, (2, 2)).mT.flatten(-2))


@pytest.mark.parametrize(
    ("module", "spec", "checks", "dtypes"),
    [(Grouped, grouped, CHECKS[:2], DTYPES[:2]), (Causal, causal, CHECKS, DTYPES)],
    ids=["grouped", "causal"],
)
def test_layer_by_layer(
    module: type[torch.nn.Module], spec: Callable[[], OpSpec], checks: list[str], dtypes: list[str]
) -> None:
    report = crosscheck(module(), spec(), checks=checks, dtypes=dtypes)
    report.raise_if_failed()
    assert not [row for row in report.rows if row.verdict is Verdict.UNSUPPORTED], str(report)
    assert not [reason for reason in map(str, report.skipped) if "fails" in reason], str(report)


@pytest.mark.parametrize(
    ("module", "verdicts"),
    [(HalfTheKeys, [Verdict.PASS, Verdict.MISMATCH]), (InterleavedHeads, [Verdict.MISMATCH, Verdict.MISMATCH])],
)
def test_a_wrong_layer_is_noticed(module: type[torch.nn.Module], verdicts: list[Verdict]) -> None:
    report = crosscheck(module(), causal(), checks=["forward", "vjp"], dtypes=["float64"])
    assert [row.verdict for row in report.rows if row.candidate != "oracle"] == verdicts, str(report)


def _torch_layer(dtype: torch.dtype) -> torch_layers.TanhAttention:
    torch.manual_seed(0)
    layer = torch_layers.TanhAttention(8, 4, dtype=dtype)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    return layer


@pytest.mark.parametrize("module", [of_flax, of_equinox, torch_layers], ids=["flax", "equinox", "torch"])
def test_every_side_has_the_same_names(module: ModuleType) -> None:
    own = {name for name, x in vars(module).items() if getattr(x, "__module__", None) == module.__name__}
    assert {name for name in own if not name.startswith("_")} == {"TanhAttention", "export_weights", "import_weights"}


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_file_of_torch_is_read_in_jax_and_back(tmp_path: Path, dtype: str) -> None:
    """Bit by bit, through both libraries of JAX."""
    theirs = _torch_layer(getattr(torch, dtype))
    first, second, third = (str(tmp_path / f"{i}.safetensors") for i in range(3))
    with pinned():
        safetensors.torch.save_file(torch_layers.export_weights(theirs), first)
        ours = of_flax.TanhAttention(4, 8, param_dtype=dtype, rngs=nnx.Rngs(1))
        of_flax.import_weights(ours, safetensors.flax.load_file(first))
        safetensors.flax.save_file(of_flax.export_weights(ours), second)
        layer = of_equinox.TanhAttention(4, 8, dtype=dtype, key=jax.random.key(1), **BIASES)
        layer = of_equinox.import_weights(layer, safetensors.flax.load_file(second))
        safetensors.flax.save_file(of_equinox.export_weights(layer), third)
    fresh = torch_layers.TanhAttention(8, 4, dtype=getattr(torch, dtype))
    torch_layers.import_weights(fresh, safetensors.torch.load_file(third))
    for name, parameter in theirs.state_dict().items():
        assert torch.equal(fresh.state_dict()[name], parameter), name


def test_the_layers_compute_the_same() -> None:
    theirs = _torch_layer(torch.float64)
    x = np.random.default_rng(0).standard_normal((3, 6, 8))
    mask = np.random.default_rng(1).random((3, 1, 6, 6)) < 0.7
    expected, weights = theirs(torch.from_numpy(x), mask=torch.from_numpy(mask), need_weights=True)
    exported = {name: w.numpy() for name, w in torch_layers.export_weights(theirs).items()}
    with pinned():
        ours = of_flax.TanhAttention(4, 8, param_dtype=jnp.float64, rngs=nnx.Rngs(1))
        of_flax.import_weights(ours, exported)
        output, attn = ours(jnp.asarray(x), mask=jnp.asarray(mask), return_attn=True)
    np.testing.assert_allclose(output, expected.detach().numpy(), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(attn, weights.detach().numpy(), rtol=1e-12, atol=1e-13)
