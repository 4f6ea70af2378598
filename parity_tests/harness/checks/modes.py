"""modes: the candidate is the same function in whatever mode it is called.

Without gradients, as in every inference: under `torch.no_grad()` and `torch.inference_mode()`, twice in a row, and of
parameters. Under `torch.use_deterministic_algorithms(True)`. With an `nn.Parameter` for an input, as weights are, and
for each of them. Of inputs that are results of other operations, as in a network: of no leaf, and of one result among
parameters, frozen ones, too. And in `eval()`, where it has modules that mean the same function there; see
`AnyCandidate.evaluating`.

Of PyTorch 2.11 the derivatives by `torch.func` are silently zero under `inference_mode`, which no candidate can help.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence

import numpy as np
import torch
from torch._C._functorch import TransformType, get_interpreter_stack

from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.candidates.torch_modules import has_another_function
from parity_tests.harness.candidates.torch_refusals import Refused, says
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Finding
from parity_tests.harness.solutions.guest.stepping import InStep
from parity_tests.harness.trial.reference_calls import reference_of
from parity_tests.harness.trial.trial import Trial

_WITHOUT_GRADIENTS: dict[str, Callable[[], contextlib.AbstractContextManager]] = {
    "under torch.no_grad()": torch.no_grad,
    "under torch.inference_mode()": torch.inference_mode,
}

# PyTorch's words where code asks for gradients in inference mode, which `enable_grad` cannot turn on again.
_RECORDS_NOTHING = r"does not require grad and does not have a grad_fn|Inference tensors cannot be saved for backward"
_ZEROS = "goes through torch.func, whose derivatives are zero under torch.inference_mode() in this PyTorch"


def _run(trial: Trial) -> Iterator[Finding]:
    zeros = yield from _values_without_gradients(trial)
    yield from _recorded(trial, "under torch.use_deterministic_algorithms(True)", _deterministic)
    yield from _of_parameters_and_results(trial)
    with trial.candidate.evaluating() as changed:  # at last: it asks for buffers that the calls before wrote to
        if changed and not _reference_changes(trial):
            yield from _recorded(trial, "in eval()")
            zeros = (yield from _values_without_gradients(trial, "in eval() ")) or zeros
    if zeros:  # at last: everything else is judged
        raise Refused(_ZEROS, Reason.NO_INFERENCE_MODE)


def _of_parameters_and_results(trial: Trial) -> Iterator[Finding]:
    """Judge calls of which some inputs are parameters, or results of other operations, which are no leaves."""
    names = trial.oracle.inputs
    everywhere = range(len(names))
    for i, name in enumerate(names):
        yield from _recorded(trial, f"{name} is an nn.Parameter", parameters=[i])
    yield from _recorded(trial, "each input is the result of an operation", results=everywhere)
    if len(names) > 1:
        yield from _recorded(trial, "each input is an nn.Parameter", parameters=everywhere)
        for i, name in enumerate(names):
            others = [j for j in everywhere if j != i]
            where = f"{name} is the result of an operation, each other input an nn.Parameter"
            yield from _recorded(trial, where, parameters=others, results=[i])
            where = f"{name} is the result of an operation, each other input a frozen nn.Parameter"
            yield from _recorded(trial, where, parameters=others, results=[i], frozen=others)


def _reference_changes(trial: Trial) -> bool:
    """Whether the oracle was made from a module that is another function in `eval()`: then nothing is known of it."""
    reference = reference_of(trial.oracle.spec)
    return isinstance(reference, torch.nn.Module) and any(map(has_another_function, reference.modules()))


def _values_without_gradients(trial: Trial, mode: str = "") -> Generator[Finding, None, bool]:
    """Compare the values; returns whether they are wrong in inference mode because PyTorch's derivatives are."""
    args = [trial.arguments("forward", example) for example in range(2)]
    calls = (args[0], ", before a call on other inputs"), (args[1], ", after a call on other inputs")
    calls = (*calls, (args[1], ", after a call on other numbers in the same memory"))
    of_parameters = [*_of_parameters(trial, args[0])]
    calls = (*calls, *((args[0], f", {which}") for which, _ in of_parameters))
    for where, without_gradients in _WITHOUT_GRADIENTS.items():
        try:
            with without_gradients(), under(f"{mode}{where}"):
                # All are looked at when all are there: a later call may return, or write to, what an earlier one has.
                first, second = trial.tensors(args[0]), trial.tensors(args[1])
                found = [trial.counted("forward", trial.candidate.forward(x)) for x in (first, second)]
                values = [[y.clone() for y in outputs] for outputs in found]  # they may be inputs
                for x, y in zip(first, second, strict=True):
                    x.copy_(y)
                values.append([*trial.counted("forward", trial.candidate.forward(first))])
                for _, tensors in of_parameters:
                    values.append([*trial.counted("forward", trial.candidate.forward(tensors))])
        except RuntimeError as error:
            if without_gradients is torch.inference_mode and says(error, _RECORDS_NOTHING):
                continue  # a forward that differentiates, as of a force, runs under no_grad alone
            raise
        findings: list[Finding] = []
        for (primals, after), found in zip(calls, values, strict=True):
            findings += trial.compare("forward", primals, found, f"{mode}{where}{after}")
        zeros = without_gradients is torch.inference_mode and not _torch_func_works_in_inference_mode()
        wrong = not all(finding.holds for finding in findings)
        if zeros and wrong and _differentiates_by_torch_func(trial, args[0]):
            return True
        yield from findings
    return False


def _of_parameters(trial: Trial, args: Sequence[np.ndarray | None]) -> Iterator[tuple[str, list[torch.Tensor]]]:
    """The inputs as parameters, which need gradients whatever the mode is: each of them, and each but one."""
    names = trial.oracle.inputs
    yield "each input an nn.Parameter", [torch.nn.Parameter(x) for x in trial.tensors(args)]
    for i, name in enumerate(names if len(names) > 1 else ()):
        tensors = [x if j == i else torch.nn.Parameter(x) for j, x in enumerate(trial.tensors(args))]
        yield f"each input but {name} an nn.Parameter", tensors


@functools.cache
def _torch_func_works_in_inference_mode() -> bool:
    with torch.inference_mode():
        return bool(torch.func.grad(torch.exp)(torch.zeros(())) == 1)


def _differentiates_by_torch_func(trial: Trial, args: Sequence[np.ndarray | None]) -> bool:
    """Whether the forward calls `grad`, `vjp`, `jvp` or what is made of them; `vmap` alone differentiates nothing."""
    seen: set[TransformType] = set()

    def note() -> None:
        seen.update(level.key() for level in get_interpreter_stack() or ())

    with torch.inference_mode(), InStep().running(note):
        trial.candidate.forward(trial.tensors(args))
    return bool(seen & {TransformType.Grad, TransformType.Jvp})


def _recorded(
    trial: Trial,
    where: str,
    mode: Callable[[], contextlib.AbstractContextManager] = contextlib.nullcontext,
    *,
    parameters: Iterable[int] = (),
    results: Collection[int] = (),
    frozen: Collection[int] = (),
) -> Iterator[Finding]:
    """Values and gradients of one call in a mode.

    `parameters`: the inputs that are an `nn.Parameter`; `results`: those that are results of another operation;
    `frozen`: those that need no gradient.
    """
    args, count = trial.arguments("vjp"), len(trial.primals)
    tensors = trial.tensors(args)
    for i in parameters:
        tensors[i] = torch.nn.Parameter(tensors[i])
    candidate = trial.candidate
    if results:
        assert isinstance(candidate, Candidate)
        candidate = candidate.after_operations(results)
    flags = [i not in frozen for i in range(count)]
    with mode(), under(where):
        values = trial.counted("forward", candidate.record(tensors[:count], flags).outputs)
        gradients = candidate.vjp(tensors[:count], tensors[count:], flags)
    labels = [slot.label for slot in trial.oracle.map("vjp").results]
    wanted = {label for label, flag in zip(labels, flags, strict=True) if flag}
    yield from trial.compare("forward", args[:count], values, where)
    yield from trial.compare("vjp", args, gradients, where, only=wanted)


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    """Ask PyTorch for deterministic algorithms, and for no more than a warning where it has none."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*(deterministic implementation|use_deterministic_algorithms)", UserWarning)
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])


CHECK = Check(
    "modes",
    "another function under no_grad, inference_mode or deterministic algorithms, in eval(), of parameters, of no leaf",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="these modes are PyTorch's",
)
