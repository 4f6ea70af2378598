"""The known failures of MLX's operators: the sections of docs/found/mlx*.md that say why."""

from __future__ import annotations

from collections.abc import Iterable


def _by(number: int, checks: str) -> dict[str, int]:
    return dict.fromkeys(checks.split(), number)


def _each(names: Iterable[str], found: dict[str, int]) -> dict[str, dict[str, int]]:
    return dict.fromkeys(names, found)


_FIRST, _SECOND = "vjp jvp", "vjp_of_vjp jvp_of_vjp vjp_of_jvp jvp_of_jvp points_second_order"
_PRODUCTS = (
    *("matmul", "matmul, batched", "matmul by a vector", "inner", "tensordot", "einsum", "Bilinear"),
    "fast.scaled_dot_product_attention",
)

# Of each operator: the checks that fail, and the section that says why; "process" where its process ended.
FOUND: dict[str, dict[str, int]] = {
    "erf": _by(134, "forward points interleaved vmap"),
    "gelu": _by(134, "forward vjp jvp vmap"),
    "reciprocal": _by(133, "points_second_order"),
    "divide": _by(133, "points points_second_order"),
    "softsign": _by(133, "points"),
    **_each(("tanh", "gelu_approx", "mish"), _by(131, "points_second_order")),
    "add": _by(126, "vjp_of_vjp points_second_order exact"),
    "logaddexp": _by(132, "vjp digits"),
    **_each(("elu", "selu"), _by(130, "points_second_order")),
    **_each(("prelu", "celu"), _by(129, "points")),
    **_each(("cumsum", "cumsum, reverse", "cumsum, exclusive"), _by(139, "forward vjp jvp low_precision")),
    "cumprod": _by(137, "vjp_of_vjp points_second_order exact") | _by(139, "vjp low_precision"),
    "cummax": _by(139, "vjp"),
    "logcumsumexp": _by(138, f"{_FIRST} vjp_of_vjp jvp_of_jvp points_second_order input_subsets points vmap")
    | _by(138, "nonfinite_cotangents")
    | _by(139, "forward low_precision"),
    "losses.gaussian_nll_loss": _by(133, "points_second_order"),
    "log_softmax": _by(136, "process"),
    "losses.smooth_l1_loss": _by(141, "points_second_order exact"),
    "losses.huber_loss": _by(140, "vjp input_subsets points digits vmap") | _by(141, "points_second_order exact"),
    **_each(_PRODUCTS, _by(128, "vmap")),
    "addmm": _by(127, "jvp vjp_of_jvp jvp_of_jvp adjoint points exact") | _by(128, "vmap"),
    **_each(("conv1d, two groups", "conv1d, two groups, stride 2"), _by(142, "vmap")),
    "fft.rfft": _by(143, "jvp_of_vjp points_second_order"),
    "fft.irfft after rfft": _by(
        143, "jvp jvp_of_vjp vjp_of_jvp jvp_of_jvp points_second_order adjoint points purity vmap"
    ),
    "slice_update": _by(144, "vmap"),
    "at maximum": _by(145, "points"),
}
# Rows that do not pass although it is documented, each with the reason.
MEANT: dict[str, dict[str, str]] = {
    **{
        name: dict.fromkeys(("forward", "points", "digits"), "documented: `exp(x) - 1` near 0")
        for name in ("elu", "selu")
    },
    "celu": dict.fromkeys(("forward", "digits"), "documented: `exp(x) - 1` near 0"),
    **{
        name: dict.fromkeys(("forward", "vjp", "jvp"), "documented: sums in 16 bits unless `precise`")
        for name in ("softmax", "softmin")
    },
    "losses.cross_entropy": dict.fromkeys(
        ("points", "points_second_order"), "targets that are rounded add up to 1.002, which counts as 1"
    ),
    "fft.irfft after rfft": {"forward": "transforms are computed, and returned, in float32"},
    "losses.binary_cross_entropy of probabilities": {"points": "`log(1 - p)`, which rounds 1 - p"},
}
