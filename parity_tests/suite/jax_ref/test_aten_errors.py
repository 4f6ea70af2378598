"""`jax_ref.aten` refuses a wrong call in the words of the caller: the operator, the argument, the axis, the sizes."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import pytest

from jax_ref import aten
from parity_tests.suite.marks import fast


def o(*shape: int) -> jax.Array:
    return jnp.ones(shape, "float32")


def i(*shape: int) -> jax.Array:
    return jnp.zeros(shape, "int32")


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "mm rank": (lambda: aten.mm(o(2, 3, 4), o(4, 2)), r"mm: self must have 2 axes, \(n, k\), and has the shape"),
    "mm sizes": (lambda: aten.mm(o(2, 3), o(4, 2)), "mm: axis k is 3 in self but 4 in mat2"),
    "bmm": (lambda: aten.bmm(o(2, 3, 4), o(3, 4, 2)), "bmm: axis b is 2 in self but 3 in mat2"),
    "mv": (lambda: aten.mv(o(2, 3), o(4)), "mv: axis k is 3 in self but 4 in vec"),
    "dot": (lambda: aten.dot(o(3), o(4)), "dot: axis k is 3 in self but 4 in tensor"),
    "vdot": (lambda: aten.vdot(o(3), o(4)), "vdot: axis k is 3 in self but 4 in other"),
    "outer": (lambda: aten.outer(o(3, 2), o(4)), r"outer: self must have 1 axes, \(n\)"),
    "addmm": (lambda: aten.addmm(o(5), o(2, 3), o(3, 4)), r"self has the shape \(5,\), .* not broadcast to \(2, 4\)"),
    "addbmm": (lambda: aten.addbmm(o(5), o(2, 3, 4), o(2, 3, 4)), "addbmm: axis k is 4 in batch1 but 3 in batch2"),
    "matmul": (lambda: aten.matmul(o(2, 3), o(4, 2)), r"the axis of the sum is 3 in self \(2, 3\) but 4 in other"),
    "matmul number": (lambda: aten.matmul(o(), o(4, 2)), "matmul: both arguments need an axis"),
    "linear": (lambda: aten.linear(o(2, 3), o(4, 5)), r"linear: the last axis is 3 in input \(2, 3\) but 5 in weight"),
    "linear bias": (lambda: aten.linear(o(2, 3), o(4, 3), o(5)), "linear: bias has the shape"),
    "conv2d channels": (lambda: aten.conv2d(o(1, 3, 8, 8), o(4, 2, 3, 3)), "the number of channels is 3 in input"),
    "conv2d rank": (lambda: aten.conv2d(o(8, 8), o(4, 3, 3, 3)), "input must have the axes"),
    "conv2d groups": (lambda: aten.conv2d(o(1, 3, 8, 8), o(4, 1, 3, 3), groups=3), "4, is no multiple of groups, 3"),
    "conv2d bias": (lambda: aten.conv2d(o(1, 3, 8, 8), o(4, 3, 3, 3), o(5)), "the number of outputs is 4 .* 5 in bias"),
    "conv2d stride": (lambda: aten.conv2d(o(1, 3, 8, 8), o(4, 3, 3, 3), None, 0), "stride must be at least 1, got 0"),
    "conv1d stride": (lambda: aten.conv1d(o(1, 3, 8), o(4, 3, 3), None, (1, 2)), "one for each of 1 axes, got"),
    "softmax": (lambda: aten.softmax(o(2, 3), 2), r"dim is out of range: expected one of \[-2, 1\]"),
    "layer_norm shape": (lambda: aten.layer_norm(o(2, 3), [4]), r"normalized_shape is \(4,\), and the input has"),
    "layer_norm weight": (lambda: aten.layer_norm(o(2, 3), [3], o(4)), "is 4 in weight but 3 in the axes it scales"),
    "layer_norm int": (lambda: aten.layer_norm(o(2, 3), 3), r"must be a sequence of sizes; give \[3\]"),
    "group_norm": (lambda: aten.group_norm(o(2, 3, 4), 2), "3 channels of input .* are no multiple of 2"),
    "group_norm 0": (lambda: aten.group_norm(o(2, 3, 4), 0), "num_groups must be at least 1, got 0"),
    "batch_norm": (
        lambda: aten.batch_norm(o(2, 3), None, None, None, None, False, 0.1, 1e-5, False),
        "without training it needs running_mean and running_var",
    ),
    "cross_entropy rows": (lambda: aten.cross_entropy_loss(o(2, 3), i(3)), r"target has the shape \(2,\), got \(3,\)"),
    "cross_entropy dtype": (lambda: aten.cross_entropy_loss(o(2, 3), o(2)), "target must be of integers, got float32"),
    "nll_loss weight": (lambda: aten.nll_loss(o(2, 3), i(2), o(2)), "3 classes: weight has one number each"),
    "mse_loss": (lambda: aten.mse_loss(o(2, 3), o(4)), r"the shapes \(2, 3\) and \(4,\) do not broadcast"),
    "reduction": (lambda: aten.mse_loss(o(2), o(2), "mean"), "reduction is 'mean'; give 0 for none, 1 for the mean"),
    "attention features": (
        lambda: aten.scaled_dot_product_attention(o(2, 4, 3), o(2, 5, 4), o(2, 5, 4)),
        r"the last axis is 3 in query \(2, 4, 3\) but 4 in key",
    ),
    "attention keys": (
        lambda: aten.scaled_dot_product_attention(o(2, 4, 3), o(2, 5, 3), o(2, 6, 3)),
        r"5 in key \(2, 5, 3\) but 6 in value",
    ),
    "attention mask": (
        lambda: aten.scaled_dot_product_attention(o(2, 4, 3), o(2, 5, 3), o(2, 5, 3), o(4, 6)),
        r"attn_mask has the shape \(4, 6\), which does not broadcast to \(2, 4, 5\)",
    ),
    "attention heads": (
        lambda: aten.scaled_dot_product_attention(o(1, 4, 4, 3), o(1, 2, 5, 3), o(1, 2, 5, 3)),
        "fewer heads of keys than of queries need enable_gqa=True",
    ),
    "gather rank": (lambda: aten.gather(o(2, 3), 1, i(2)), "gather: index must have as many axes as self"),
    "gather dtype": (lambda: aten.gather(o(2, 3), 1, o(2, 3)), "gather: index must be of integers, got float32"),
    "scatter": (lambda: aten.scatter(o(2, 3), 1, i(2, 3), o(1, 2)), "index no more entries along one than src"),
    "scatter_reduce": (lambda: aten.scatter_reduce(o(2), 0, i(2), o(2), "add"), "reduce is 'add'; give one of"),
    "embedding": (lambda: aten.embedding(o(2, 3), o(2)), "embedding: indices must be of integers"),
    "index": (lambda: aten.index(o(2, 3), [i(2), i(2), i(2)]), "index: 3 indices for an array of shape"),
    "cat": (lambda: aten.cat([], 0), "cat: there are no arrays"),
    "chunk": (lambda: aten.chunk(o(2, 3), 0, 1), "chunk: chunks must be at least 1, got 0"),
    "narrow": (lambda: aten.narrow(o(2, 3), 1, 2, 3), "narrow: 3 entries from 2 on are not in axis 1"),
    "topk": (lambda: aten.topk(o(2, 3), 4, 1), "topk: k is 4, and axis 1 .* has 3 entries"),
    "kthvalue": (lambda: aten.kthvalue(o(2, 3), 0, 1), "kthvalue: k is 0; give one of 1 to 3"),
    "div": (lambda: aten.div(o(2), o(2), rounding_mode="up"), "rounding_mode is 'up'; give one of None, 'trunc'"),
    "gelu": (lambda: aten.gelu(o(2), approximate="erf"), "approximate is 'erf'; give one of 'none', 'tanh'"),
    "glu": (lambda: aten.glu(o(2, 3), 1), "glu: axis 1 has no two halves"),
    "dim": (lambda: aten.cumsum(o(2, 3), None), "dim must be an integer, got None"),
    "dims": (lambda: aten.sum(o(2, 3), 1.0), "dim must be an integer or a sequence of them, got 1.0"),
    "pool": (lambda: aten.avg_pool2d(o(1, 1, 8, 8), 0), "kernel_size must be at least 1, got 0"),
    "pad": (lambda: aten.pad(o(2, 3), [1]), r"two numbers an axis, from the last one on; got \(1,\)"),
    "pad mode": (lambda: aten.pad(o(2, 3), [1, 1], "mirror"), "mode is 'mirror'; give one of"),
    "expand": (lambda: aten.expand(o(2, 3), [2, 4]), r"expand: self has the shape \(2, 3\)"),
    "arange": (lambda: aten.arange(0, 5, 0), "arange: step is 0"),
    "pixel_shuffle": (lambda: aten.pixel_shuffle(o(1, 3, 4, 4), 2), "3 channels .* no multiple of 4"),
    "linalg_solve": (lambda: aten.linalg_solve(o(2, 3), o(2)), r"must be of square matrices, got the shape \(2, 3\)"),
    "cholesky": (lambda: aten.cholesky(o(3)), r"must be of square matrices, got the shape \(3,\)"),
}  # fmt: skip


@fast("mm sizes", "conv2d channels", "gather dtype", "softmax")
@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_call(name: str) -> None:
    call, message = REFUSED[name]
    for of in (call, lambda: jax.eval_shape(call)):  # as is, and as under `jax.jit`
        with pytest.raises((ValueError, TypeError, IndexError), match=message) as raised:
            of()
        assert not isinstance(raised.value, ZeroDivisionError)
