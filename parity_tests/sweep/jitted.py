"""JAX's functions compiled by `jax.jit` against the same, operation by operation.

XLA fuses operations, orders sums anew and replaces what it can by what is equal for real numbers. Where the two differ,
the sweep's witness says which is right about a gradient; of values PyTorch's operator is the witness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity_tests.sweep.cases import Arrays, Case, NoReference, Side
from parity_tests.sweep.compared_case import REFUSALS, Comparison, shortened
from parity_tests.sweep.comparison import HALF_OF_THE_DIGITS, MOST_OF_THE_DIGITS, differing, floor_of, is_extreme
from parity_tests.sweep.jax_own import Own
from parity_tests.sweep.lines import Finding, Verdict
from parity_tests.sweep.point_text import in_short
from parity_tests.sweep.tallies import Tally, plain

_CALLS = 4  # that are judged, with the special points of the first one
_BOTH = "the jitted function, and op by op"
_OF = {  # the comparison has what goes op by op in PyTorch's place
    Verdict.WRONG_IN_PYTORCH: "op by op",
    Verdict.WRONG_IN_JAX: "of the jitted function",
    Verdict.WRONG_IN_BOTH: _BOTH,
}
_WITNESS = "PyTorch"


class JittedComparison(Comparison):
    """A case with JAX's function op by op in PyTorch's place, and the jitted one in JAX's."""

    def judge_values(self, tallies: Mapping[str, Tally]) -> None:
        """Compare the values, and note what came of it; raises what JAX refuses with."""
        inputs = list(self.case.inputs.values())
        by_op, jitted = self.pytorch("forward", inputs), self.jax("forward", inputs)
        for index, (name, number) in enumerate(self.case.results.items()):
            tally = tallies.get(plain(name))
            if tally is not None:
                tally.compared(self.case.call, bool((by_op[index] != 0).any()))
                self._compare_values(tally, by_op[index], jitted[index], self.case.call.results[number])

    def _compare_values(self, tally: Tally, one: np.ndarray, other: np.ndarray, right: np.ndarray) -> None:
        off = self._off(one, other, MOST_OF_THE_DIGITS)
        if not off.any():
            return
        place = tuple(int(i) for i in np.unravel_index(int(np.argmax(off)), off.shape))
        wrong = [bool(self._off(y, right, HALF_OF_THE_DIGITS)[place]) for y in (one, other)]
        if not self._off(one, other, HALF_OF_THE_DIGITS)[place]:
            verdict, reason = Verdict.LOSES_DIGITS, "one of the two"
        elif wrong[0] == wrong[1]:
            verdict, reason = Verdict.UNDECIDED, "PyTorch has neither number"
        else:
            verdict, reason = Verdict.WRONG_IN_JAX, "op by op" if wrong[0] else "of the jitted function"
        if verdict is not Verdict.LOSES_DIGITS and any(is_extreme(x).any() for x in self.case.inputs.values()):
            verdict, reason = Verdict.OVERFLOWS, f"{verdict}: {reason}"
        point, numbers = in_short(self.case, "forward", list(self.case.inputs.values())), (one, other, right)
        by_op, jitted, expected = (repr(y[place].item()) for y in numbers)
        text = f"{by_op} op by op, {jitted} jitted"
        tally.found(verdict, reason, lambda: Finding(point, place, expected, text, expected, _WITNESS))

    def _off(self, x: np.ndarray, y: np.ndarray, digits: float) -> np.ndarray:
        if self.entrywise:
            return differing(x, y, digits, 0.0, floor_of(list(self.case.inputs.values())))
        return differing(x, y, digits, digits)

    def _both_undefined(self, mode: str, arguments: Arrays, p: np.ndarray, j: np.ndarray) -> np.ndarray:
        """Where both say NaN they agree: the other modes judge that."""
        return np.zeros(p.shape, bool)

    def _decided(self, *arguments: Any) -> tuple[Verdict, str, Callable[[], Finding]]:
        """The verdict on a number in which the two differ; the reason says which of them is meant."""
        verdict, reason, finding = super()._decided(*arguments)
        if verdict is Verdict.LOSES_DIGITS and "PyTorch" in reason and "JAX" in reason:
            return Verdict.AGREES, "", finding  # both lose them, by the same formula
        reason = reason.replace("PyTorch", "what goes op by op").replace("JAX", "the jitted function")
        return (Verdict.WRONG_IN_JAX if verdict in _OF else verdict), _OF.get(verdict, reason), finding

    def _finding(self, *arguments: Any) -> Finding:
        found = super()._finding(*arguments)
        return replace(found, pytorch="", jax=f"{found.pytorch} op by op, {found.jax} jitted", repro="")


def op_by_op(case: Case, function: Callable[..., Any]) -> Side:
    """The maps of a function in JAX, each of whose operations is run by itself."""

    def side(mode: str, arguments: Sequence[Any]) -> Arrays:
        with jax.disable_jit():
            found = case.program(function, mode)(*(jnp.asarray(np.asarray(x)) for x in arguments))
        return [np.asarray(y) for y in found]

    return side


def judge_jitted(
    cases: Sequence[Case], special: Callable[[Case], Iterable[Case]], own: Own, tallies: Mapping[str, Tally]
) -> None:
    """Compare the values and gradients of JAX's jitted function with those op by op, and note what came of each.

    Args:
        cases: of one entry, of which the first ones are judged.
        special: a case at special points.
        own: JAX's own function of a case, if there is one.
        tallies: by the names of inputs, for their gradients, and of results.
    """
    for case in [*cases[:_CALLS], *(special(cases[0]) if cases else ())]:
        try:
            function = own(case) or case.jax_function()
            comparison = JittedComparison.of(case, op_by_op(case, function), own(case))
            comparison.judge_values(tallies)
        except (NoReference, *REFUSALS) as error:
            for tally in tallies.values():
                tally.refused(str(error) if isinstance(error, NoReference) else shortened(error))
            continue
        inputs = {*map(plain, case.inputs)}
        comparison.judge(["vjp"], {("vjp", name): tally for name, tally in tallies.items() if name in inputs})
