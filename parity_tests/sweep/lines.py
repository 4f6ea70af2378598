"""The lines of a sweep, as plain data: each is the verdict on one derivative of an operator."""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass
from typing import Any

MODES = ("vjp", "jvp", "vjp_of_vjp", "jvp_of_jvp", "vjp_of_jvp")
THIRD_ORDER = "vjp_of_vjp_of_vjp"  # by default of these only:
NORMS = (
    *("dist", "norm.Scalar", "norm.ScalarOpt_dim", "norm.ScalarOpt_dtype", "norm.ScalarOpt_dim_dtype", "renorm"),
    *("linalg_vector_norm", "_pdist_forward", "_cdist_forward", "_euclidean_dist", "_foreach_norm.Scalar"),
    *("native_layer_norm", "native_batch_norm"),
)
BATCHED = "vmap_of_vjp"  # PyTorch's batching rules against PyTorch, one example after the other
DECOMPOSITION = "decomposition"  # PyTorch's decompositions of the operators that its backward calls against these
COMPILED = "inductor"  # values and gradients of what torch.compile makes of the operator
JITTED = "jit"  # values and gradients of JAX's functions under jax.jit against the same, op by op
ALL_MODES = (*MODES, THIRD_ORDER, BATCHED, DECOMPOSITION, COMPILED, JITTED)
DTYPES = ("float64", "complex128")
LOW_DTYPES = ("float32", "bfloat16")  # on request: what PyTorch's derivatives lose in them, and whether rounding may
ALL_DTYPES = (*DTYPES, *LOW_DTYPES)


class Verdict(enum.StrEnum):
    """The result of comparing PyTorch's derivative with JAX's, from the best to the worst."""

    AGREES = "agrees"
    CONVENTION = "convention"  # the function has no derivative there, and the frameworks choose differently
    LOSES_DIGITS = "loses digits"
    OVERFLOWS = "overflows"  # they differ only at numbers whose squares no format holds; the reason says who is wrong
    UNREACHED = "cannot be reached"
    UNDECIDED = "undecided"  # they differ, and no witness can tell who is right
    WRONG_IN_JAX = "wrong in JAX"
    WRONG_IN_PYTORCH = "wrong in PyTorch"
    WRONG_IN_BOTH = "wrong in both"

    @property
    def is_wrong(self) -> bool:
        """True if one framework is wrong, or both."""
        return self.rank > Verdict.UNDECIDED.rank

    @property
    def rank(self) -> int:
        """The place in this order: of several verdicts the one with the largest rank counts."""
        return list(Verdict).index(self)


@dataclass(frozen=True)
class Finding:
    """One number in which PyTorch and JAX differ.

    Attributes:
        point: the inputs, in short.
        place: the index of the number in the derivative.
        pytorch, jax: what the frameworks say.
        right: what the witness says, as text: a number, or the interval between two one-sided slopes.
        witness: which: "differences of PyTorch's own values", ...
        repro: a script in PyTorch or JAX that prints the number which is wrong; "" if there is none.
    """

    point: str
    place: tuple[int, ...]
    pytorch: str
    jax: str
    right: str
    witness: str
    repro: str = ""


@dataclass(frozen=True)
class Line:
    """The verdict on one derivative of an operator.

    Attributes:
        operator: the entry of PyTorch's derivatives.yaml, with its overload: "logaddexp", "sum.dim_IntList".
        mode: one of `ALL_MODES`.
        of: the input whose gradient it is, or the result whose tangent: "self", "result0"; of a decomposition, the
            operator that is decomposed.
        dtype: one of `ALL_DTYPES`.
        calls: on how many calls of the operator the two were compared.
        reason: why the derivative cannot be reached, or what else there is to say.
        finding: the simplest number in which the frameworks differ, if they do.
        seconds: CPU time of the operator's judgement, shared out to its lines.
    """

    operator: str
    mode: str
    of: str
    dtype: str
    verdict: Verdict
    calls: int = 0
    reason: str = ""
    finding: Finding | None = None
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The key of the line, the same in every run of the sweep."""
        return self.operator, self.mode, self.of, self.dtype

    def as_json(self) -> dict[str, Any]:
        """Return the line as JSON's objects."""
        return dataclasses.asdict(self) | {"verdict": str(self.verdict)}
