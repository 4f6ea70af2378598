"""raises: at input that does not fit together the candidate raises where the reference does.

One input has an axis one entry longer than the others that share it, or a square matrix is not square. Of a reference
in PyTorch, which a candidate replaces call for call, also: one more axis in front, one axis less, integers for numbers.
Where the reference raises, the candidate must; where it does not, nothing is asked. Integer inputs stay as they are.

On request, for two reasons. Taken at its word it also tells a candidate that takes more than its reference does, such
as a batch of weights: whoever asks for this check wants the same calls to fail. And a kernel that does not check sizes
reads and writes beyond its memory. That may end the process; on a GPU an illegal access ends the context, and with it
the rows of all other checks.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Sequence

import jax
import numpy as np
import torch

from parity_tests.harness.candidates.torch_candidate import BadOutput
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import first_line
from parity_tests.harness.findings import Fact, Finding, NotApplicable
from parity_tests.harness.numbers import conversion
from parity_tests.harness.specs.from_torch import TorchReference
from parity_tests.harness.trial.reference_calls import replaced
from parity_tests.harness.trial.trial import Trial

Invalid = tuple[str, str, list[torch.Tensor]]  # the input, how it does not fit, and all inputs


def _run(trial: Trial) -> Iterator[Finding]:
    asked = False
    for name, where, tensors in _invalid(trial):
        reason = _reference_raises(trial, tensors)
        if reason is not None:
            asked = True
            text = f"is accepted, where the reference raises {reason}: check it and raise an exception that names it"
            yield Fact(name, _raises(trial, tensors), text, where)
    if not asked:
        raise NotApplicable("the reference raises at none of the inputs that were tried, which do not fit together")


def _invalid(trial: Trial) -> Iterator[Invalid]:
    """Inputs that do not fit together, each with one of them changed."""
    spec, sample, primals = trial.oracle.spec, trial.sample, trial.primals
    names = trial.oracle.inputs
    if spec.parsed is not None:
        axes = spec.parsed.at(sample.sizes).inputs
        varied = [axes[i] for i in range(spec.count) if i not in sample.constants]
        for i, j in ((i, j) for i, own in enumerate(varied) for j in range(len(own))):
            axis, size = varied[i][j], primals[i].shape[j]
            others = [*varied[:i], varied[i][:j], varied[i][j + 1 :], *varied[i + 1 :]]
            if size > 1 and axis in itertools.chain(*others):
                longer = np.concatenate([primals[i], np.take(primals[i], [-1], j)], j)
                where = f"axis {axis} of {names[i]} is {size + 1}, elsewhere {size}"
                yield names[i], where, trial.tensors([*primals[:i], longer, *primals[i + 1 :]])
    if isinstance(spec.primal, TorchReference):
        for i, x in enumerate(primals):
            changed = [("one more axis, in front", x[None]), *([("one axis less", x[0])] if x.ndim and len(x) else [])]
            for what, other in changed:
                yield names[i], f"{names[i]} has {what}", trial.tensors([*primals[:i], other, *primals[i + 1 :]])
            tensors = trial.tensors(primals)
            if not tensors[i].is_complex():
                tensors[i] = tensors[i].to(torch.int64)
                yield names[i], f"{names[i]} has integers", tensors


def _raises(trial: Trial, tensors: Sequence[torch.Tensor]) -> bool:
    try:
        trial.candidate.every_output(tensors)
    except BadOutput:
        return False  # that is the harness, of what it returned
    except Exception:
        return True
    return False


def _reference_raises(trial: Trial, tensors: Sequence[torch.Tensor]) -> str | None:
    """The exception that the reference raises; None if it raises none. One in JAX is traced only."""
    spec = trial.oracle.spec
    try:
        constants = conversion.constants(trial.sample.constants, trial.precision, trial.device)
        reference = replaced(spec, constants, trial.oracle.params)
        if reference is not None:
            reference.every_output(tensors)
        else:
            oracle = copy.copy(trial.oracle)  # it remembers the structure of what it has returned last
            dtypes = [trial.oracle.dtypes[name] for name in trial.oracle.inputs]
            shapes = [jax.ShapeDtypeStruct(tuple(x.shape), d) for x, d in zip(tensors, dtypes, strict=True)]
            jax.eval_shape(oracle.every_output, *shapes)
    except Exception as error:
        return f"{type(error).__name__}: {first_line(error)}"
    return None


CHECK = Check(
    "raises",
    "input that does not fit together, accepted where the reference raises an exception",
    (),
    _run,
    generic=True,
    one_dtype=True,
    on_request=True,
)
