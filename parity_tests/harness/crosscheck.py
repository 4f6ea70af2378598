"""crosscheck(candidate, spec): the harness as one call."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from parity_tests.harness.candidate import Candidate
from parity_tests.harness.checks import CHECKS, Check
from parity_tests.harness.environment import environment
from parity_tests.harness.jax_candidate import JaxCandidate
from parity_tests.harness.judge import Docket, judge
from parity_tests.harness.numerics import cuda_missing
from parity_tests.harness.precision import FORMATS, PRECISIONS, Precision
from parity_tests.harness.report import Report, Row
from parity_tests.harness.spec import ArrayLike, OpSpec

DEVICES = ("cpu", "cuda")

LISTENERS: list[Callable[[Report], object]] = []  # of assert_parity: who collects reports, registers for as long


def crosscheck(
    candidate: Callable | JaxCandidate,
    spec: OpSpec | Callable,
    *,
    inputs: Sequence[ArrayLike] | None = None,
    checks: Iterable[str] | None = None,
    dtypes: Iterable[str] | None = None,
    device: str = "cpu",
    seed: int = 0,
    limits: Mapping[str, str] | None = None,
    name: str | None = None,
) -> Report:
    """Judge a PyTorch callable, or a new JAX function, by a JAX function that says what it should compute.

    Args:
        candidate: the callable on tensors: a function, an `autograd.Function.apply`, an operator; or an `nn.Module`,
            whose parameters, in the order of `named_parameters`, are inputs after those of its `forward` if the spec
            has so many. A function of JAX arrays: `JaxCandidate(f)`.
        spec: an `OpSpec`, or just the JAX function if `inputs` are given.
        inputs: the arrays to judge at, for a plain JAX function; an `OpSpec` makes or holds its own.
        checks, dtypes: which ones (see `gradparity checks`, and `OpSpec.dtypes`); by default all checks but those that
            are run on request only, and the spec's dtypes.
        device: "cpu" or "cuda".
        seed: of the random inputs, cotangents and tangents.
        limits: checks that the candidate is known to fail, each with the reason; they must fail. By default what its
            author declared by PyTorch's own means: no `jvp`, no vmap rule, `once_differentiable`.
        name: the candidate's name in the report; by default its own.

    Returns:
        A `Report`: `.passed`, `print(report)`, `.raise_if_failed()`, `.to_json(path)`.

    Raises:
        TypeError, ValueError: an argument that cannot be used.
        OracleError: the JAX function fails to run or does not fit its signature, so it cannot judge.
    """
    if not isinstance(spec, OpSpec):
        if not callable(spec):
            raise TypeError(f"crosscheck: spec must be an OpSpec or a JAX function, got {type(spec).__name__}")
        if inputs is None:
            raise TypeError("crosscheck: give inputs=(...) with a plain JAX function, or an OpSpec with a signature")
        spec = OpSpec(name_of(spec), primal=spec, inputs=inputs)
    elif inputs is not None:
        raise TypeError("crosscheck: an OpSpec makes its own inputs; give inputs to OpSpec(...) instead of here")
    unknown = [check for check in limits or () if check not in CHECKS]
    if unknown:
        raise ValueError(f"crosscheck: limits names an unknown check {unknown[0]!r}; there are {', '.join(CHECKS)}")
    missing = cuda_missing() if one_of("device", device, DEVICES) == "cuda" else None
    if missing:
        raise ValueError(f"crosscheck: device 'cuda' cannot be judged here: {missing}")
    docket = Docket(
        spec=spec,
        candidates=[as_candidate(candidate, name or name_of(candidate), limits)],
        checks=select_checks(checks),
        precisions=select_precisions(dtypes, spec),
        device=device,
        seed=seed,
        replay=_replay,
    )
    report = Report(environment((device,), seed))
    for _ in judge(docket, report):
        pass
    return report


def assert_parity(candidate: Callable | JaxCandidate, spec: OpSpec | Callable, **options: Any) -> Report:
    """`crosscheck` for a test: everything must agree.

    Args:
        candidate, spec, options: those of `crosscheck`.

    Returns:
        The report, for further questions.

    Raises:
        ParityError: not everything agrees; the message is the report.
        TypeError, ValueError, OracleError: as `crosscheck`.
    """
    __tracebackhide__ = True  # of pytest: the message says more
    report = crosscheck(candidate, spec, **options)
    for listener in LISTENERS:
        listener(report)
    report.raise_if_failed()
    return report


def select_checks(names: Iterable[str] | None) -> list[Check]:
    """The checks of these names, in the harness's order; if None, all but those that are run on request only.

    Raises:
        ValueError: an unknown name, or none at all.
    """
    chosen = _selected("check", names, tuple(CHECKS))
    return [CHECKS[name] for name in chosen if names is not None or not CHECKS[name].on_request]


def select_precisions(names: Iterable[str] | None, spec: OpSpec | None = None) -> list[Precision]:
    """The formats of these names, in the harness's order; if None those of the spec, without one all real ones.

    Raises:
        ValueError: an unknown name, or none at all; real formats where the spec's inputs are given as complex numbers.
    """
    if names is None:
        names = PRECISIONS if spec is None else spec.formats
    selected = _selected("dtype", names, tuple(FORMATS))
    if spec is not None:
        for name in selected:
            spec.check_dtype(name)
    return [FORMATS[name] for name in selected]


def _selected(kind: str, names: Iterable[str] | None, known: tuple[str, ...]) -> list[str]:
    if names is None:
        return list(known)
    if isinstance(names, str):
        raise TypeError(f"{kind}s must be a sequence of names, got the string {names!r}; write [{names!r}]")
    wanted = {one_of(kind, name, known) for name in names}
    if not wanted:
        raise ValueError(f"no {kind} is selected, so nothing would be compared")
    return [name for name in known if name in wanted]


def one_of(kind: str, name: str, known: Sequence[str]) -> str:
    """The name, if it is known.

    Raises:
        ValueError: it is not; the message has the known ones, and the nearest.
    """
    if name not in known:
        near = difflib.get_close_matches(str(name), known, n=1)
        guess = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(f"unknown {kind} {name!r}{guess}; there are {', '.join(known)}")
    return name


def as_candidate(
    call: Callable | JaxCandidate, name: str, limits: Mapping[str, str] | None
) -> Candidate | JaxCandidate:
    """A callable on tensors, or a function in JAX, under this name and with these limits."""
    return JaxCandidate(call.call, name, limits) if isinstance(call, JaxCandidate) else Candidate(call, name, limits)


def name_of(call: Callable | JaxCandidate) -> str:
    """The name that a callable goes by: a Function's class for its `apply`, else its own ("lambda" if it has none)."""
    if isinstance(call, JaxCandidate):
        return call.name or name_of(call.call)
    owner = getattr(call, "__self__", None)
    if isinstance(owner, type) and getattr(call, "__name__", "") == "apply":
        return owner.__name__
    return (getattr(call, "__name__", None) or type(call).__name__).strip("<>")


def _replay(row: Row) -> str:
    return (
        f'crosscheck(..., checks=["{row.check}"], dtypes=["{row.dtype}"], device="{row.device}")  # and the same seed'
    )
