"""Certifies `jax_ref.aten` on PyTorch's own samples: `python -m benchmarks.certification [OPINFO ...]`.

Of each OpInfo all samples run, in float64 and complex128. On every call of an operator that is named like the OpInfo,
or that it is named after, the values are PyTorch's; of calls with the same arguments one counts. On the first three
calls of an operator with different shapes or options JAX's JVP is held against differences, and the VJP against the
JVP. Of the other operators that the samples call, such as `aten::mul.Tensor`, the first four are certified.

What came of an OpInfo is written to `results/certification.json` and `.md` when it has ended. Without OPINFO those run
that have no result with the installed versions, so a run that was stopped goes on where it was.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import jax
import numpy as np
import torch
import typer

from benchmarks.campaign import RESULTS, Campaign, Stamped, stamp, versions
from jax_ref import aten
from parity_tests.sweep.certification import certify
from parity_tests.sweep.recorded_calls import RecordedCall, opinfo_names, recorded_calls

DTYPES = (torch.float64, torch.complex128)
WITH_DERIVATIVES = 3  # calls of an operator and a dtype
OF_ANOTHER = 4  # calls of an operator and a dtype that the OpInfo is not named after


@dataclass(frozen=True)
class Outcome(Stamped):
    """The result of certifying the samples of an OpInfo.

    Attributes:
        seconds: of the processor.
        calls: how many were held against PyTorch, by operator.
        derivatives: of how many calls the derivatives were, too.
        wrong: of each disagreement the operator and what is wrong.
    """

    seconds: float
    calls: dict[str, int]
    derivatives: int
    wrong: list[str]


@dataclass
class Progress:
    """The calls that were certified so far, of all OpInfos."""

    contents: set[bytes] = field(default_factory=set)
    signatures: set[Any] = field(default_factory=set)
    others: Counter[Any] = field(default_factory=Counter)
    derived: Counter[Any] = field(default_factory=Counter)

    def takes(self, call: RecordedCall, dtype: torch.dtype, own: bool) -> bool:
        """Whether a call is one to certify: its arguments are new and, of another operator, its shapes."""
        content = _digest(call)
        if content in self.contents:
            return False
        self.contents.add(content)
        if not own:
            self.others[call.name, dtype] += 1
        return own or (call.signature not in self.signatures and self.others[call.name, dtype] <= OF_ANOTHER)

    def derives(self, call: RecordedCall, dtype: torch.dtype) -> bool:
        """Whether the derivatives are to be certified: of the first few calls with different shapes or options."""
        new = call.signature not in self.signatures
        self.signatures.add(call.signature)
        self.derived[call.name, dtype] += new
        return new and self.derived[call.name, dtype] <= WITH_DERIVATIVES


class _Wanted(frozenset[str]):
    """The operators of `jax_ref.aten` that write to no argument."""

    def __contains__(self, name: object) -> bool:
        return _is_wanted(str(name))


@functools.cache
def _is_wanted(name: str) -> bool:
    if name not in aten.OPERATORS:
        return False
    packet, _, overload = name.removeprefix("aten::").partition(".")
    return not getattr(getattr(torch.ops.aten, packet), overload or "default")._schema.is_mutable


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(help="OpInfos; by default all.")] = None,
    out: Annotated[Path, typer.Option(help="The results, .json; an .md beside it.")] = RESULTS / "certification.json",
) -> None:
    """Certify `jax_ref.aten` on PyTorch's own samples; OpInfos that have a result are not certified again.

    Exit codes: 0 nothing is wrong, 1 something is, 2 the run was interrupted.
    """
    unknown = [name for name in names or () if name not in opinfo_names()]
    if unknown:
        raise typer.BadParameter(f"PyTorch has no OpInfo {unknown[0]!r}")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # of PyTorch's own, about its samples
    found = campaign(out)
    found.keep(_certified(names or found.due(opinfo_names())), _tell)
    raise typer.Exit(found.exit_code(any(outcome.wrong for outcome in found.kept.values())))


def campaign(path: Path) -> Campaign[str, Outcome]:
    """The outcomes by OpInfo, of which those with other versions are out of date."""
    return Campaign(
        path,
        Outcome,
        lambda _, outcomes: page(outcomes, opinfo_names()),
        order=str,
        since=lambda outcome: None if outcome.versions == versions() else outcome.ended,
    )


def _certified(names: Sequence[str]) -> Iterator[tuple[str, Outcome]]:
    progress = Progress()
    for name in names:
        yield name, certified(name, progress)
        jax.clear_caches()


def _tell(name: str, outcome: Outcome) -> None:
    print(name, sum(outcome.calls.values()), outcome.seconds, *outcome.wrong, sep="  ", flush=True)  # noqa: T201


def certified(opinfo: str, progress: Progress, functions: Mapping[str, Callable[..., Any]] = aten.OPERATORS) -> Outcome:
    """Certify the functions on the samples of an OpInfo, in float64 and complex128."""
    start, calls, derivatives, wrong = time.process_time(), Counter[str](), 0, []
    compiled: dict[Any, Callable[..., Any]] = {}
    for dtype in DTYPES:
        for call in recorded_calls(_Wanted(), [opinfo], [dtype]):
            if not progress.takes(call, dtype, is_named_after(opinfo, call.name)):
                continue
            with_derivatives = progress.derives(call, dtype)
            calls[call.name] += 1
            derivatives += with_derivatives
            for each in certify(functions[call.name], call, with_derivatives, compiled):
                wrong.append(f"{call.name} in {str(dtype).removeprefix('torch.')}: {each.kind}: {each.text}")
    seconds = round(time.process_time() - start, 1)
    return Outcome(*stamp(), seconds, dict(sorted(calls.items())), derivatives, wrong)


def is_named_after(opinfo: str, operator: str) -> bool:
    """Whether one name is part of the other: of "nn.functional.gelu" `aten::gelu` and `aten::gelu_backward`."""
    last = opinfo.partition("nn.functional.")[2] or opinfo.replace(".", "_")
    packet = operator.removeprefix("aten::").partition(".")[0].strip("_")
    return packet in last or last.strip("_") in packet or opinfo.rpartition(".")[2] in packet


def _digest(call: RecordedCall) -> bytes:
    """Return a digest that only calls with the same arguments share, bit for bit."""
    digest = hashlib.sha256(call.name.encode())

    def feed(value: Any) -> None:
        if isinstance(value, np.ndarray):
            digest.update(repr((value.shape, value.dtype.str)).encode() + np.ascontiguousarray(value).tobytes())
        elif isinstance(value, list):
            digest.update(f"[{len(value)}".encode())
            for each in value:
                feed(each)
        else:
            digest.update(repr(value).encode())

    for name, value in call.arguments.items():
        digest.update(name.encode())
        feed(value)
    return digest.digest()


def page(outcomes: Mapping[str, Outcome], names: Sequence[str]) -> str:
    """The results as text: how far it came, what is wrong, and which OpInfos call nothing that `jax_ref.aten` has."""
    done = [name for name in names if name in outcomes]
    calls = sum((Counter(outcome.calls) for outcome in outcomes.values()), Counter[str]())
    packets = {name.partition(".")[0] for name in calls}
    wrong = [f"- `{name}`: {text}" for name in done for text in outcomes[name].wrong]
    derivatives = sum(outcome.derivatives for outcome in outcomes.values())
    silent = ", ".join(f"`{name}`" for name in done if not outcomes[name].calls)
    missing = ", ".join(f"`{name}`" for name in names if name not in outcomes)
    days = sorted({outcome.ended[:10] for outcome in outcomes.values()})
    return "\n".join(
        [
            "# jax_ref.aten on PyTorch's own samples",
            "",
            "Made by `python -m benchmarks.certification`, whose docstring says what is compared.",
            "",
            f"{len(done)} of {len(names)} OpInfos, all samples of each, in float64 and complex128:",
            f"{calls.total()} calls of {len(packets)} operators, {derivatives} with derivatives;",
            f"{len(wrong)} disagreements. {sum(each.seconds for each in outcomes.values()):.0f} s of a processor;",
            f"{' to '.join(dict.fromkeys((days[0], days[-1])))}." if days else "",
            "",
            *sorted({outcome.versions for outcome in outcomes.values()}),
            *(["", "## Wrong", "", *wrong] if wrong else []),
            *(["", "## Not run so far", "", missing] if missing else []),
            *(["", "## OpInfos that call no operator of jax_ref.aten with numbers", "", silent] if silent else []),
            "",
        ]
    )


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    app()
