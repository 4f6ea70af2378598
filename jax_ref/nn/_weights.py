"""The names and shapes under which a layer's weights travel; `torch_impl.nn` writes and reads the same.

    query.kernel (in, N, H)     query.bias (N, H)       N heads of queries, K heads of keys and values,
    key.kernel   (in, K, H)     key.bias   (K, H)       H and E features for each
    value.kernel (in, K, E)     value.bias (K, E)
    out.kernel   (N, E, out)    out.bias   (out,)

A layer without biases has only the kernels. The heads are an axis of their own, as in Flax, so that a layer with
another number of heads refuses the weights: as plain matrices they would fit, and mean something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def check_weights(weights: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Check that these are the weights of a layer with these shapes.

    Raises:
        ValueError: a name is missing, or one too many, or a shape differs.
    """
    if missing := sorted({*shapes} - {*weights}):
        raise ValueError(f"the weights lack {', '.join(missing)}; they have {', '.join(sorted(weights))}")
    if unknown := sorted({*weights} - {*shapes}):
        raise ValueError(f"the layer has no {', '.join(unknown)}; it has {', '.join(sorted(shapes))}")
    for name, shape in shapes.items():
        if tuple(weights[name].shape) != shape:
            raise ValueError(
                f"{name} is {shape} in the layer but {tuple(weights[name].shape)} in the weights; "
                "make the layer with the same sizes and the same number of heads"
            )
