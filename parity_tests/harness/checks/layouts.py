"""layouts: values and gradients with inputs, then cotangents, in every layout of memory that PyTorch's users make.

`torch.autograd.gradcheck` gives the backward contiguous cotangents; `output.sum().backward()` gives it stride 0.
"""

import numpy as np
import torch

from parity_tests.harness.checks.check import Check


def transposed(x: torch.Tensor) -> torch.Tensor:
    """Column-major: the same values, with the strides of a transposed tensor."""
    axes = tuple(reversed(range(x.dim())))
    return x.permute(axes).contiguous().permute(axes)


def _sliced(x: torch.Tensor) -> torch.Tensor:
    """Every other entry of the last axis of a larger tensor, with an offset; the gaps hold NaN."""
    wide = x.new_full((*x.shape[:-1], 2 * x.shape[-1] + 1), float("nan"))
    wide[..., 1::2] = x
    return wide[..., 1::2]


def _expanded(x: torch.Tensor) -> torch.Tensor:
    """Stride 0 along the first axis; every row must be the same."""
    return x[:1].expand(x.shape)


def _first_row_everywhere(x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x[:1], x.shape).copy()


_LAYOUTS = {
    "transposed": (transposed, lambda x: x),
    "sliced": (_sliced, lambda x: x),
    "expanded": (_expanded, _first_row_everywhere),
}


def _run(trial):
    args, count = trial.arguments("vjp"), len(trial.primals)
    for layout, (arrange, values) in _LAYOUTS.items():
        for group, members in (("inputs", range(count)), ("cotangents", range(count, len(args)))):
            chosen = [i in members and x.ndim > 0 and x.size > 0 for i, x in enumerate(args)]
            if layout == "expanded":  # a row repeated must still be in the input's domain
                chosen = [f and (i >= count or trial.sample.domains[i].elementwise) for i, f in enumerate(chosen)]
            if not any(chosen):
                continue
            arrays = [values(x) if flag else x for x, flag in zip(args, chosen, strict=True)]
            tensors = [arrange(t) if f else t for t, f in zip(trial.tensors(arrays), chosen, strict=True)]
            circumstance = f"{group} {layout}"
            if group == "inputs":
                outputs = trial.candidate.forward(tensors[:count])
                yield from trial.compare("forward", arrays[:count], outputs, circumstance)
            results = trial.candidate.vjp(tensors[:count], tuple(tensors[count:]))
            yield from trial.compare("vjp", arrays, results, circumstance)


CHECK = Check(
    "layouts",
    "a result that is right only for contiguous inputs, or only for contiguous cotangents",
    ("vjp",),
    _run,
    torch_only="JAX arrays have no strides",
)
