"""PyTorch's batching rules: `torch.func.vmap` of a VJP against the same VJP, one example after the other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.sweep.cases import Arrays, Case, Side, tensors_of
from parity_tests.sweep.compared_case import REFUSALS, shortened
from parity_tests.sweep.comparison import HALF_OF_THE_DIGITS, MOST_OF_THE_DIGITS, differing
from parity_tests.sweep.lines import Finding, Verdict
from parity_tests.sweep.point_text import in_short
from parity_tests.sweep.tallies import Tally, plain

_EXAMPLES = 3
_SCALES = (1.0, 1 - 2**-6, 1 - 2**-5)  # of the inputs of the examples: towards 0, so that they stay in a domain
_WITNESS = "the examples one by one, and JAX's gradients of them"


@dataclass(frozen=True)
class Layout:
    """Which arguments have a batch axis, and where.

    Attributes:
        name: of it, in words.
        inputs, cotangents: whether the inputs, and the cotangents, have one.
        middle: the axis is the second one, where an example has axes, and otherwise the first.
    """

    name: str
    inputs: bool
    cotangents: bool
    middle: bool = False

    def axes(self, arguments: Sequence[np.ndarray], count: int) -> tuple[int | None, ...]:
        """The `in_dims`, of which the first `count` are those of the inputs."""
        has = [self.inputs] * count + [self.cotangents] * (len(arguments) - count)
        return tuple((1 if self.middle and x.ndim else 0) if h else None for x, h in zip(arguments, has, strict=True))


LAYOUTS = (
    Layout("all in front", True, True),
    Layout("all in the middle", True, True, middle=True),
    Layout("the cotangents alone", False, True),
    Layout("the inputs alone", True, False),
)


def judge_batched(
    case: Case,
    jax: Side | None,
    tallies: Mapping[str, Tally],
    function: Callable[..., Sequence[torch.Tensor]] | None = None,
    layouts: Sequence[Layout] = LAYOUTS,
) -> None:
    """Compare the gradients of batches with those of their examples, and note what came of each.

    Args:
        case: whose inputs the first example has.
        jax: the maps of the reference, if there is one.
        tallies: by the inputs' names.
        function: the operator as a function of tensors; by default PyTorch's own.
        layouts: of the batches.
    """
    function = case.torch_function() if function is None else function
    examples = [case.arguments("vjp", seed) for seed in range(_EXAMPLES)]
    count = len(case.inputs)
    for given, scale in zip(examples, _SCALES, strict=True):
        given[:count] = [x * scale for x in given[:count]]
    for layout in layouts:
        axes = layout.axes(examples[0], count)
        of_layout = [_with_common(example, examples[0], axes) for example in examples]
        try:
            right = [case.by_function(function, "vjp", example) for example in of_layout]
            found = _batched(function, count, axes, of_layout)
        except REFUSALS as error:
            for tally in tallies.values():
                tally.refused(f"{layout.name}: {shortened(error)}")
            continue
        for index, label in enumerate(case.labels("vjp")):
            tally = tallies.get(plain(label))
            if tally is not None:
                one_by_one = np.stack([gradients[index] for gradients in right])
                tally.compared(case.call, bool((one_by_one != 0).any()))
                _compare(tally, case, jax, layout, of_layout, index, found[index], one_by_one)


def _with_common(example: Arrays, first: Arrays, axes: Sequence[int | None]) -> Arrays:
    """An example that has the first one's arguments where these have no batch axis."""
    return [y if axis is None else x for x, y, axis in zip(example, first, axes, strict=True)]


def _batched(function: Callable, count: int, axes: tuple[int | None, ...], examples: Sequence[Arrays]) -> Arrays:
    columns = zip(*examples, strict=True)
    stacked = [c[0] if axis is None else np.stack(c, axis) for c, axis in zip(columns, axes, strict=True)]
    with _without_fallback():
        found = Candidate(function, "vmap").vmap_of_vjp(count, axes, tensors_of(stacked))
    like = [np.stack([x] * _EXAMPLES) for x in examples[0][:count]]
    return [_array(y, x) for y, x in zip(found, like, strict=True)]


def _array(y: torch.Tensor | None, like: np.ndarray) -> np.ndarray:
    """A gradient; of one that PyTorch knows to be zero, zeros."""
    if y is None or y._is_zerotensor():
        return np.zeros_like(like)
    return y.detach().resolve_conj().resolve_neg().numpy()


@contextlib.contextmanager
def _without_fallback() -> Iterator[None]:
    """Have PyTorch raise an error where it has no batching rule; the setting is put back."""
    functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
    before = functorch._is_vmap_fallback_enabled()
    functorch._set_vmap_fallback_enabled(False)
    try:
        yield
    finally:
        functorch._set_vmap_fallback_enabled(before)


def _compare(
    tally: Tally,
    case: Case,
    jax: Side | None,
    layout: Layout,
    examples: Sequence[Arrays],
    index: int,
    found: np.ndarray,
    right: np.ndarray,
) -> None:
    if found.shape != right.shape:
        what = f"{layout.name}: the gradients have the shape {found.shape}, not {right.shape}"
        tally.found(Verdict.WRONG_IN_PYTORCH, what, lambda: _finding(case, examples[0], (), np.array(np.nan), right))
        return
    if not differing(found, right, MOST_OF_THE_DIGITS, MOST_OF_THE_DIGITS).any():
        return
    wrong = differing(found, right, HALF_OF_THE_DIGITS, HALF_OF_THE_DIGITS)
    where = wrong if wrong.any() else differing(found, right, MOST_OF_THE_DIGITS, MOST_OF_THE_DIGITS)
    place = tuple(int(i) for i in np.unravel_index(int(np.argmax(where)), where.shape))
    example = examples[place[0]]
    verdict = Verdict.WRONG_IN_PYTORCH if wrong.any() else Verdict.LOSES_DIGITS
    if (
        jax is None
        or differing(right[place[0]], jax("vjp", example)[index], HALF_OF_THE_DIGITS, HALF_OF_THE_DIGITS).any()
    ):
        verdict = Verdict.UNDECIDED
    tally.found(verdict, layout.name, lambda: _finding(case, example, place, found[place], right))


def _finding(case: Case, example: Arrays, place: tuple[int, ...], found: Any, right: np.ndarray) -> Finding:
    expected = repr(right[place].item()) if place else ""
    return Finding(in_short(case, "vjp", example), place, repr(found.item()), expected, expected, _WITNESS)
