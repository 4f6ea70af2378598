"""The results of converting models as a page, and the bars that they should meet."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from benchmarks.campaign import table
from benchmarks.models.judged import BOUND, CONVERTERS, Outcome

SHARE = 0.9  # of the models that should be converted


def bars(outcomes: Sequence[Outcome], refused: Container[str] | None = None) -> Iterator[tuple[str, str, bool]]:
    """Yield the bars for gradparity, what was measured, and whether each is met.

    Of a part of the models those may be refused that are known to be: `refused`.
    """
    own = [one for one in outcomes if one.by == "gradparity"]
    done = [one for one in own if not one.error]
    if refused is None:
        yield f"at least {SHARE:.0%} of the models convert", f"{len(done)} of {len(own)}", len(done) >= SHARE * len(own)
    else:
        new = [one.name for one in own if one.error and one.name not in refused]
        yield "no model is refused that was converted before", ", ".join(new) or "none", not new
    worst = max(done, key=lambda one: one.gap, default=None)
    gap = worst.gap if worst else 0.0
    what = f"values and gradients to {BOUND:.0e}, but for defects of PyTorch"
    yield what, f"{gap:.1e}, {worst.name if worst else 'none'}", gap <= BOUND


def as_markdown(about: Mapping[str, Any], outcomes: Sequence[Outcome]) -> str:
    """The page."""
    own = {one.name: one for one in outcomes if one.by == "gradparity"}
    peers = {(one.name, one.by): one for one in outcomes if one.by != "gradparity"}
    by = [each for each in CONVERTERS[1:] if any(name == each for _, name in peers)]
    head = "| model | parameters | values | gradients | trace, s | compilation, s | MB |"
    head += "".join(f" {each} | trace, s |" for each in by)
    rows = [
        (
            one.name,
            f"{one.parameters:,}" if not one.error else "",
            *(one.numbers if not one.error else (f"refused: {one.error.splitlines()[0][:140]}", *[""] * 4)),
            *(cell for each in by for cell in _beside(peers.get((one.name, each)))),
        )
        for one in own.values()
    ]
    return "\n".join(
        [
            "# A hundred models in JAX",
            "",
            "Written by `python -m benchmarks.models`. `benchmarks/models/models.toml` has the models, and the rule by",
            "which they were chosen. Each is converted in a process of its own with one thread; its values, and the",
            "gradients of a random combination of its outputs by all parameters, are compared with PyTorch's run in",
            "float64: the largest difference of a tensor in parts of its largest entry, or of a thousandth of the",
            "model's largest gradient where that is more. Trace is from the module to JAX's program of both. Of the",
            "others a number is the larger of both differences.",
            "",
            *(f"- {bar}: {measured}" for bar, measured, _ in bars(outcomes)),
            *(f"- {each}: {_told([one for key, one in peers.items() if key[1] == each])}" for each in by),
            "",
            *table(head, rows),
            "",
            *(
                f"- {one.name}: {one.gap:.1e} without [{one.defect}](../../docs/found.md)."
                for one in own.values()
                if one.defect
            ),
            "",
            *(f"{versions}." for versions in sorted({one.versions for one in outcomes})),
            "",
        ]
    )


def _beside(one: Outcome | None) -> tuple[str, str]:
    if one is None:
        return "", ""
    if one.error:
        return "refused", ""
    return f"{one.gap:.1e}", f"{one.traced:.1f}"


def _told(peers: Sequence[Outcome]) -> str:
    done = [one for one in peers if not one.error]
    right = [one for one in done if one.gap <= BOUND]
    return f"{len(done)} of {len(peers)} convert, {len(right)} of them to {BOUND:.0e}"
