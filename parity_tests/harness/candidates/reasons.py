"""Why a candidate refuses something, and the checks that each reason excuses: a table.

No reason excuses a check of values or of reverse mode to first order: an operator that has no gradient, or gets it by
raising, has not been judged. A format that PyTorch's kernels lack excuses the rows of that format, where the forward
lacks it, too. And what the framework of a candidate cannot take at all, an array on a GPU or one without axes, excuses
every check: of each candidate a derivative must be judged somewhere (`report/judged.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum

from parity_tests.harness.names import CHECKS

# Checks of batches nest the other two as well: whoever refuses the nested part alone has been judged by the rest.
BATCHES = frozenset({"vmap", "functorch"})
FORWARD_MODE = BATCHES | {"jvp", "adjoint", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp"}
TWICE = frozenset({"vjp_of_vjp", "jvp_of_vjp", "points_second_order", "third_order", "functorch"})
SECOND_ORDER = TWICE | {"vjp_of_jvp", "jvp_of_jvp"}
TORCH_FUNC = BATCHES | {"jvp_of_jvp"}
TRACED = frozenset({"fake", "make_fx", "compile", "opcheck"})
EVERY = frozenset(CHECKS)
# What every operator must have in every format in which its forward runs, whatever its author has left out.
REQUIRED = EVERY - FORWARD_MODE - SECOND_ORDER - TORCH_FUNC - TRACED - {"autocast"}

AUTHOR, PYTORCH, JAX, ITS_FRAMEWORK = "the author", "PyTorch", "JAX", "its framework"
GRADPARITY = "gradparity"
CANDIDATE = "the candidate"  # nobody has declared it, and PyTorch could do it


class Reason(Enum):
    """Why a candidate refuses something: who decided that, and the checks that it excuses."""

    # Left out by the author of a Function, an operator, or a function in another framework.
    NO_JVP = (AUTHOR, FORWARD_MODE)
    ONCE_DIFFERENTIABLE = (AUTHOR, TWICE)
    NO_SETUP_CONTEXT = (AUTHOR, TORCH_FUNC)
    NO_VMAP_RULE = (AUTHOR, BATCHES)
    NO_FAKE_KERNEL = (AUTHOR, TRACED)
    NO_SECOND_DERIVATIVE = (AUTHOR, SECOND_ORDER)
    NO_RULE = (AUTHOR, FORWARD_MODE | SECOND_ORDER | BATCHES)
    # `.backward()` works where `grad` is refused on purpose: then checks of first order are judged by it.
    BACKWARD_ONLY = (AUTHOR, FORWARD_MODE | SECOND_ORDER | TORCH_FUNC | TRACED)
    # Lacking in PyTorch, for anybody.
    FORMAT = (PYTORCH, EVERY)  # in the rows of that format only, see `Refused.excuses`
    NO_FORWARD_MODE = (PYTORCH, FORWARD_MODE)
    NO_DERIVATIVE = (PYTORCH, SECOND_ORDER)  # of what is a derivative already
    NO_BATCHING_RULE = (PYTORCH, BATCHES)
    CHECKPOINTED = (PYTORCH, FORWARD_MODE)  # `torch.utils.checkpoint`, which runs the forward again without the levels
    INTERNAL = (PYTORCH, TORCH_FUNC)  # an assertion of PyTorch's own fails
    NO_RULE_OF_HIGHER_ORDER = (PYTORCH, FORWARD_MODE | SECOND_ORDER | TORCH_FUNC | TRACED)
    NO_META_KERNEL = (PYTORCH, TRACED)
    UNTRACEABLE = (PYTORCH, TRACED)
    WITHOUT_VALUES = (PYTORCH, TRACED | TORCH_FUNC)
    SAVED_TENSOR_HOOKS = (PYTORCH, frozenset({"saved_tensors", "checkpoint"}) | TORCH_FUNC)
    COMPILED_ONCE = (PYTORCH, SECOND_ORDER)
    DONATED_BUFFERS = (PYTORCH, SECOND_ORDER | {"retain_graph", "purity"})
    NESTED_FORWARD = (PYTORCH, frozenset({"jvp_of_jvp"}))
    JVP_IN_PLACE = (PYTORCH, frozenset({"vjp_of_jvp", "functorch"}))
    UNBATCHED_OUTPUT = (PYTORCH, BATCHES)
    SHARED_LEVEL = (PYTORCH, frozenset({"determinism"}))  # of threads; runs one after the other are compared
    NO_INFERENCE_MODE = (PYTORCH, frozenset({"modes"}))  # of torch.func, in PyTorch 2.11; the other modes are compared
    # Lacking in JAX, in the framework of a candidate, or in how this candidate was made.
    UNBATCHED_OUTPUT_IN_JAX = (JAX, BATCHES)
    NOT_INTERPRETED = (JAX, frozenset({"race"}))
    OUT_OF_REACH = (ITS_FRAMEWORK, EVERY)
    NO_RULE_THERE = (ITS_FRAMEWORK, FORWARD_MODE | SECOND_ORDER | BATCHES)  # of an operation of the framework's own
    # gradparity asks a process of its own for values and first derivatives alone: what else is asked for is not judged.
    APART = (GRADPARITY, frozenset())
    ONE_DEVICE = (CANDIDATE, frozenset({"fake"}))
    TWO_DTYPES = (CANDIDATE, frozenset({"autocast"}))
    # A backward that runs while gradients are not recorded only: nobody gets a wrong number of second order.
    UNRECORDED_BACKWARD = (CANDIDATE, TWICE)
    THREADS = (CANDIDATE, frozenset({"make_fx"}))
    # An exception of the author's, by which nobody declares anything, or a rule that there must be.
    OWN = (CANDIDATE, frozenset())

    whose: str
    checks: frozenset[str]

    def __new__(cls, whose: str, checks: frozenset[str]) -> Reason:
        reason = object.__new__(cls)
        reason._value_ = len(cls.__members__)  # two reasons that excuse the same remain two
        reason.whose, reason.checks = whose, checks
        return reason


class Refused(Exception):
    """Raised when a candidate refuses a map with a clear error.

    Attributes:
        reason: why, which decides over the checks that it excuses.
        formats: those that PyTorch lacks; for `Reason.FORMAT` only.
    """

    def __init__(self, text: str, reason: Reason, formats: Collection[str] = ()) -> None:
        super().__init__(text)
        self.reason, self.formats = reason, formats

    def excuses(self, check: str, dtype: str) -> bool:
        """Return whether a check of this name in this format need not be supported."""
        if self.reason is not Reason.FORMAT:
            return check in self.reason.checks
        return ("bfloat16" if check == "autocast" else dtype) in self.formats


def remedy(refusal: Refused, check: str) -> str:
    """Return what to do about a refusal that excuses nothing in the row of this check."""
    if check == "forward":
        return "it must run: leave the dtype or the sample out (OpSpec.dtypes, domains), or fix it"
    if check in REQUIRED:
        return "no refusal excuses a first derivative: give it one, or judge its values alone (--only forward)"
    if refusal.reason is Reason.OWN:
        return 'if it is meant, list it: limits = {"<check>": "why"}'
    return 'it is not listed; if it is meant, add it: limits = {"<check>": "why"}'


def first_to_tell(refusals: Iterable[Refused], check: str, dtype: str) -> Refused | None:
    """Return the first of these that nothing excuses, else the first; None if there is none."""
    every = list(refusals)
    unexcused = (refusal for refusal in every if not refusal.excuses(check, dtype))
    return next(unexcused, every[0] if every else None)
