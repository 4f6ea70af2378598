"""crosscheck(candidate, spec): the harness as one call."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from parity_tests.harness.candidates.base import AnyCandidate
from parity_tests.harness.candidates.definition import definitions
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.checks import CHECKS
from parity_tests.harness.isolation.budget import Check, Spent, clock
from parity_tests.harness.isolation.by_name import Calls, pickled, replay_line
from parity_tests.harness.isolation.guard import TRIAL_SECONDS, Guarded
from parity_tests.harness.isolation.messages import WorkerError
from parity_tests.harness.isolation.processes import Pool
from parity_tests.harness.judging import hints, remedies
from parity_tests.harness.judging.judge import Plan, judge
from parity_tests.harness.judging.references import spec_of
from parity_tests.harness.judging.selection import (
    left_out,
    select_checks,
    select_precisions,
    select_samples,
)
from parity_tests.harness.numbers import devices
from parity_tests.harness.numbers.contracts import Arithmetic
from parity_tests.harness.oracle.oracle import OracleError
from parity_tests.harness.report.environment import environment
from parity_tests.harness.report.progress import shown
from parity_tests.harness.report.report import Report
from parity_tests.harness.report.results import Note, Row
from parity_tests.harness.specs.spec import ArrayLike, OpSpec

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Callables = Callable | AnyCandidate | Mapping[str, Callable | AnyCandidate] | Sequence[Callable | AnyCandidate]


@dataclass(frozen=True)
class Assertions:
    """The options and receivers that a run of tests gives to each `assert_parity`.

    Attributes:
        options: of `crosscheck`, where a call does not give them itself.
        receivers: what is called with each report.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    receivers: tuple[Callable[[Report], object], ...] = ()


_assertions = Assertions()


def assertions() -> Assertions:
    """Return what each `assert_parity` is given now."""
    return _assertions


@contextlib.contextmanager
def asserting(receiver: Callable[[Report], object] | None = None, **options: Any) -> Iterator[None]:
    """While the block runs, in all threads, each `assert_parity` has these options, and its report goes to `receiver`.

    Args:
        receiver: what is called with each report, beside those of enclosing blocks.
        options: of `crosscheck`; they count before those of enclosing blocks, and after those of the call itself.
    """
    global _assertions
    before = _assertions
    receivers = before.receivers if receiver is None else (*before.receivers, receiver)
    _assertions = Assertions({**before.options, **options}, receivers)
    try:
        yield
    finally:
        _assertions = before


def crosscheck(
    candidate: Callables,
    spec: OpSpec | Callable,
    *,
    inputs: str | Sequence[ArrayLike] | None = None,
    checks: Iterable[str] | None = None,
    dtypes: Iterable[str] | None = None,
    device: str | torch.device = "cpu",
    seed: int = 0,
    limits: Mapping[str, str] | None = None,
    arithmetic: Arithmetic | None = None,
    name: str | None = None,
    quick: bool = False,
    budget: float | None = None,
    progress: bool = True,
    isolate: bool = False,
    trial_seconds: float = TRIAL_SECONDS,
    allow_suspect: bool = False,
) -> Report:
    """Judge a PyTorch callable, or a new JAX function, by a function that says what it should compute.

    Args:
        candidate: the callable on tensors: a function, an `autograd.Function.apply`, an operator; or an `nn.Module`,
            whose parameters, in the order of `named_parameters`, are inputs after those of its `forward` if the spec
            has so many. A function of JAX arrays: `JaxCandidate(f)`. Several, by name, {"mine": f, "other": g}, or in
            a list, where those of one name are numbered: the oracle is certified once for all, and they share a table.
        spec: an `OpSpec`; or, if `inputs` are given, just the JAX function, or the PyTorch function or module that the
            candidate replaces, whose values JAX differentiates: see `OpSpec.from_torch`.
        inputs: the arrays to judge at, for a plain function; an `OpSpec` makes or holds its own. For a PyTorch function
            also the names and axes of its inputs, "x: (n,d), w: (d)", to judge at many sizes.
        checks, dtypes: which ones (see `gradparity checks`, and `OpSpec.dtypes`); by default all checks but those that
            are run on request only, and the spec's dtypes.
        device: on which the candidate runs, "cpu", "cuda:1", "mps" or any other of PyTorch, or a torch.device; the
            oracle is on the CPU.
        seed: of the random inputs, cotangents and tangents.
        limits: checks that every candidate is known to fail, each with the reason; they must fail. By default what its
            author declared by PyTorch's own means (no `jvp`, no vmap rule, `once_differentiable`) and what PyTorch
            lacks, each for the checks that it is about. A report passes only if a derivative of each was judged.
        arithmetic: what every candidate rounds in the 16-bit dtypes, an `Arithmetic`; one of several may have its own:
            `Candidate(f, arithmetic=...)`. Values and first derivatives are then held to it. By default a result may be
            off as if every operation was rounded, and is SUSPECT if its error does not look like rounding.
        name: the candidate's name in the report; by default its own.
        quick: judge at a few samples, and, unless `checks` and `dtypes` say otherwise, by the cheap checks in float64
            and bfloat16. The report's `skipped` says what was left out.
        budget: stop after this many seconds; the report's `error` names the checks not finished. The clock is read
            after every row, and all the time with `isolate`.
        progress: show a bar on stderr, if that is a terminal.
        isolate: judge in another process, so that a candidate that crashes, ends its process or hangs costs its own row
            and not this process. The process imports the candidates and what the spec refers to: they must be defined
            at the top level of a module, and a script must have its `if __name__ == "__main__"`.
        trial_seconds: with `isolate`, how long the candidate may take at one sample before it is said to hang.
        allow_suspect: whether a report with SUSPECT, an error in 16 bits that does not look like rounding, may pass.

    Returns:
        A `Report`: `.passed`, `print(report)`, `.raise_if_failed()`, `.to_json(path)`.

    Raises:
        TypeError, ValueError: an argument that cannot be used.
        OracleError: the JAX function fails to run or does not fit its signature, so it cannot judge.
    """
    candidates = as_candidates(_calls(candidate, name), limits, arithmetic)
    spec = _spec(spec, inputs)
    hints.check_contracts(spec, [each.name for each in candidates])
    device = _device_to_judge_on(device, budget)
    plan = Plan(
        spec=spec,
        candidates=candidates,
        checks=select_checks(checks, quick),
        precisions=select_precisions(dtypes, spec, quick),
        device=device,
        seed=seed,
        replay=partial(replay_line, quick),
        samples=select_samples(quick),
    )
    report = _begun(plan, quick, allow_suspect)
    with contextlib.ExitStack() as stack:
        if isolate:
            calls, pool = _sent(plan, quick), stack.enter_context(Pool())
            pool.prepare()
            deadline, check_time = clock(budget)
            guarded = Guarded([replace(calls, deadline=deadline)], pool, trial_seconds)
            rows = report.collect(guarded.events(), guarded.remaining)
        else:
            deadline, check_time = clock(budget)
            rows = report.collect(judge(replace(plan, deadline=deadline)))
        stack.enter_context(contextlib.closing(rows))
        _collect(rows, report, stack.enter_context(shown(plan.length, progress)), check_time)
    return report


def _begun(plan: Plan, quick: bool, allow_suspect: bool) -> Report:
    """The report of a plan before any row."""
    catches = {check.name: check.catches for check in plan.checks}
    report = Report(environment((plan.device,), plan.seed), catches=catches, allow_suspect=allow_suspect)
    report.definitions += definitions(plan.spec.name, plan.candidates, None, Path.cwd())
    if quick:
        report.add(Note(left_out(plan.checks, plan.precisions)))
    return report


def _device_to_judge_on(device: str | torch.device, budget: float | None) -> str:
    """The name of a device on which candidates can be judged, in that many seconds."""
    if budget is not None and not budget >= 0:
        raise ValueError(f"crosscheck: budget must be a number of seconds, got {budget!r}")
    if not isinstance(device, str | torch.device):
        raise TypeError(f'crosscheck: device must be a name, such as "cuda:1", or a torch.device, got {device!r}')
    name = str(device)
    try:
        devices.check(name)
    except ValueError as error:
        raise ValueError(f"crosscheck: {error}") from None
    return name


def _collect(rows: Iterable[Row | None], report: Report, move_on: Callable[[Row], None], check_time: Check) -> None:
    """Take rows until the budget is spent, or the first row of a candidate shows that it is none."""
    first_rows = remedies.FirstRows()
    try:
        for row in rows:
            if row is not None:
                move_on(row)
                first_rows.check(row)
            check_time(row)
    except (Spent, remedies.NotOnTensors, WorkerError) as error:
        report.error = str(error)
    except OracleError as error:
        raise OracleError(remedies.of_oracle_error(error)) from error


def _sent(plan: Plan, quick: bool) -> Calls:
    """The plan, for another process."""
    return Calls(
        pickled(plan.spec, plan.present),
        plan.device,
        tuple(check.name for check in plan.checks),
        tuple(precision.name for precision in plan.precisions),
        plan.seed,
        math.inf,
        quick,
    )


def _calls(candidate: Callables, name: str | None) -> Mapping[str, Callable | AnyCandidate]:
    if isinstance(candidate, Sequence):
        candidate = named(candidate)
    if not isinstance(candidate, Mapping):
        return {name or name_of(candidate): candidate}
    if name is not None:
        raise TypeError("crosscheck: several candidates have their own names; leave name out")
    hints.check_names(candidate)
    return candidate


def _spec(spec: OpSpec | Callable, inputs: str | Sequence[ArrayLike] | None) -> OpSpec:
    if isinstance(spec, OpSpec):
        if inputs is not None:
            raise TypeError("crosscheck: an OpSpec makes its own inputs; give inputs to OpSpec(...) instead of here")
    else:
        if not callable(spec):
            raise TypeError(f"crosscheck: spec must be an OpSpec or a JAX function, got {type(spec).__name__}")
        if inputs is None:
            raise TypeError("crosscheck: give inputs=(...) with a plain JAX function, or an OpSpec with a signature")
        spec = spec_of(spec, inputs, name_of(spec))
    hints.check_primal(spec)
    return spec


def assert_parity(candidate: Callables, spec: OpSpec | Callable, **options: Any) -> Report:
    """`crosscheck` for a test: everything must agree.

    Args:
        candidate, spec, options: those of `crosscheck`.

    Returns:
        The report, for further questions.

    Raises:
        ParityError: not everything agrees; the message is the first failure in a line, and the report.
        TypeError, ValueError, OracleError: as `crosscheck`.
    """
    __tracebackhide__ = True  # of pytest: the message says more
    given = assertions()
    report = crosscheck(candidate, spec, **{**given.options, **options})
    for receive in given.receivers:
        receive(report)
    report.raise_if_failed()
    return report


def as_candidates(
    calls: Mapping[str, Callable | AnyCandidate], limits: Mapping[str, str] | None, arithmetic: Arithmetic | None
) -> list[AnyCandidate]:
    """Callables by name as candidates, with what is stated of all of them.

    Raises:
        TypeError, ValueError: they are none, or what is stated cannot be used; the message has the remedy.
    """
    hints.check_limits(limits, CHECKS)
    hints.check_arithmetic_of_all(arithmetic)
    return [as_candidate(call, name, limits, arithmetic) for name, call in calls.items()]


def as_candidate(
    call: Callable | AnyCandidate,
    name: str,
    limits: Mapping[str, str] | None,
    arithmetic: Arithmetic | None = None,
) -> AnyCandidate:
    """A callable on tensors, or a candidate of another framework, under this name and with these limits.

    `arithmetic`: that of a candidate which states none itself.

    Raises:
        TypeError: it is neither; the message has the remedy.
    """
    hints.check_candidate(call, name)
    if not _is_candidate(call):
        return Candidate(call, name, limits, arithmetic)
    return call.named(name, limits, call.arithmetic or arithmetic)


def _is_candidate(call: object) -> TypeIs[AnyCandidate]:
    """Return whether this is a candidate already; a mock is none, although it has an attribute of every name."""
    return isinstance(call, AnyCandidate) and hasattr(type(call), "named")


def name_of(call: Callable | AnyCandidate) -> str:
    """The name that a callable goes by: a Function's class for its `apply`, else its own ("lambda" if it has none)."""
    if _is_candidate(call):
        return call.name or name_of(call.source)
    owner = getattr(call, "__self__", None)
    if isinstance(owner, type) and getattr(call, "__name__", "") == "apply":
        return owner.__name__
    return (getattr(call, "__name__", None) or type(call).__name__).strip("<>")


def named(calls: Iterable[Callable | AnyCandidate]) -> dict[str, Callable | AnyCandidate]:
    """Callables by the names that they go by; of several with one name, the second is "name#2", and so on."""
    found: dict[str, Callable | AnyCandidate] = {}
    for call in calls:
        name = numbered = name_of(call)
        count = 1
        while numbered in found:
            count += 1
            numbered = f"{name}#{count}"
        found[numbered] = call
    return found
