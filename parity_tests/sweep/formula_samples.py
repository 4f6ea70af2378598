"""The samples of PyTorch's own at which an entry of a derivatives.yaml is judged."""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Iterable

import numpy as np
import torch

from parity_tests.sweep.all_own_calls import written_call
from parity_tests.sweep.formula_results import is_double
from parity_tests.sweep.invariants import INVARIANTS
from parity_tests.sweep.operators import is_operator, operator_of
from parity_tests.sweep.own_calls import own_calls
from parity_tests.sweep.recorded_calls import RecordedCall, as_torch, opinfo_names, recorded_calls

_MOST = 16  # calls of an operator, from which those that can be judged are chosen
_PLACES_TAKEN_ONCE = {"aten::max_unpool2d": 2, "aten::max_unpool3d": 3}  # and the number of axes of a plane
# Of operators that no OpInfo is named after: one that calls it, as itself or when it is differentiated twice.
CALLED_BY = {
    "_fft_c2r": "fft.hfft",
    "_trilinear": "nn.functional.bilinear",
    "_unsafe_view": "cdist",
    "_upsample_bilinear2d_aa_backward": "_upsample_bilinear2d_aa",
    "_upsample_nearest_exact1d": "nn.functional.interpolate.nearest-exact",
    "_upsample_nearest_exact1d_backward": "nn.functional.interpolate.nearest-exact",
    "_upsample_nearest_exact2d_backward": "nn.functional.interpolate.nearest-exact",
    "_upsample_nearest_exact3d_backward": "nn.functional.interpolate.nearest-exact",
    "alias": "nn.functional.instance_norm",
    "batch_norm_backward": "_batch_norm_with_update",
    "clamp": "corrcoef",
    "clamp_min": "nn.functional.normalize",
    "convolution": "nn.functional.conv2d",
    "convolution_backward": "nn.functional.conv2d",
    "fmod.Scalar": "grid_sampler_2d",
    "lift_fresh": "__getitem__",
    "log_sigmoid_backward": "nn.functional.logsigmoid",
    "log_sigmoid_forward": "nn.functional.logsigmoid",
    "norm.ScalarOpt_dim": "nn.functional.pairwise_distance",
    "pow.Scalar": "ldexp",
    "pow.Tensor_Scalar": "nn.functional.normalize",
    "remainder.Scalar": "take_along_dim",
    "replication_pad1d": "nn.functional.pad.replicate",
    "replication_pad1d_backward": "nn.functional.pad.replicate",
    "replication_pad2d": "nn.functional.pad.replicate",
    "replication_pad2d_backward": "nn.functional.pad.replicate",
    "replication_pad3d_backward": "nn.functional.pad.replicate",
    "rsub.Scalar": "nn.functional.multilabel_soft_margin_loss",
    "sub.Scalar": "acosh",
}


def differentiated(name: str) -> list[str]:
    """Return the inputs that PyTorch differentiates an operator by, at one of three samples; none if it has no such."""
    found: dict[str, None] = {}
    for call in samples(f"aten::{name}", torch.float64)[:3] if is_operator(name) else ():
        for moving in (key for key, value in call.arguments.items() if is_double(value)):
            given = {key: as_torch(value) for key, value in call.arguments.items()}
            results = operator_of(call.name)(**given | {moving: given[moving].requires_grad_()})
            several = results if isinstance(results, tuple | list) else (results,)
            if any(isinstance(y, torch.Tensor) and y.requires_grad for y in several):
                found[moving] = None
    return [*found]


@functools.cache
def samples(name: str, dtype: torch.dtype) -> tuple[RecordedCall, ...]:
    """Calls of an operator with different shapes or options, at most sixteen: of the OpInfo of its name.

    Where there are none, of the OpInfos with similar names, or one of our own.
    """
    plain = name.removeprefix("aten::").partition(".")[0].strip("_")
    named = CALLED_BY.get(name.removeprefix("aten::"))
    similar = [each for each in opinfo_names() if plain in each or each.rpartition(".")[2] in plain or each == named]
    exact = [each for each in similar if plain in (*each.split("."), each.replace(".", "_"))]
    found = {call.signature: call for call in own_calls() if call.name == name and dtype == torch.float64}
    for opinfos in (exact, [each for each in similar if each not in exact]):
        if not found:
            found = _different(recorded_calls({name}, opinfos, [dtype], orders=1 if named is None else 2))
    if not found and dtype == torch.float64 and (written := written_call(name)) is not None:
        found = {written.signature: written}
    return tuple(found.values())


def _different(calls: Iterable[RecordedCall]) -> dict[Hashable, RecordedCall]:
    """The first calls that can be compared and differ in shapes or options, at most sixteen, by these."""
    found: dict[Hashable, RecordedCall] = {}
    for call in calls:
        if _is_of_numbers(call) and _is_determined(call):
            found.setdefault(call.signature, call)
        if len(found) == _MOST:
            break
    return found


def _is_of_numbers(call: RecordedCall) -> bool:
    """False if a result is empty that is compared, such as the vectors that were not asked for, or an argument is.

    A buffer of bytes, as the `reserve` of batch norms, is empty wherever a kernel needs none.
    """
    results = call.results if call.name.partition(".")[0] in INVARIANTS else call.results[:1]
    arrays = [x for x in (*call.arguments.values(), *results) if isinstance(x, np.ndarray)]
    return all(x.size or x.dtype == np.uint8 for x in arrays)


def _is_determined(call: RecordedCall) -> bool:
    """False if max_unpool writes to a place twice: which of the two remains is open, by its documentation."""
    rank = _PLACES_TAKEN_ONCE.get(call.name)
    if rank is None:
        return True
    indices = call.arguments["indices"]
    planes = np.sort(indices.reshape(-1, math.prod(indices.shape[-rank:])), axis=-1)
    return bool((np.diff(planes, axis=-1) != 0).all())
