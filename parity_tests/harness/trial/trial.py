"""One candidate on one sample, in one format, on one device: what a check is given."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from parity_tests.harness.candidates.base import AnyCandidate
from parity_tests.harness.candidates.torch_candidate import BadOutput
from parity_tests.harness.findings import Comparison, Fact, Finding
from parity_tests.harness.maps import ORDERS
from parity_tests.harness.numbers import conversion, devices
from parity_tests.harness.numbers.formats import Precision
from parity_tests.harness.oracle.defined import where_defined
from parity_tests.harness.oracle.kinks import accept_one_sided_derivatives
from parity_tests.harness.oracle.oracle import Arrays, Oracle
from parity_tests.harness.oracle.shifts import judged_with_shifts
from parity_tests.harness.oracle.truth import Truth
from parity_tests.harness.specs.samples import Sample


@dataclass(frozen=True)
class Trial:
    """Everything that a check needs, and the comparison itself.

    `elsewhere`: the trial of the same candidate in this format at another sample of the operator; None where only this
    one is known.
    """

    candidate: AnyCandidate
    oracle: Oracle
    sample: Sample
    precision: Precision
    device: str
    elsewhere: Callable[[Sample], Trial] | None = None

    @functools.cached_property
    def _arguments(self) -> dict[tuple[str, int], list[np.ndarray]]:
        """The arguments that were asked for, by the map and the example; a check asks again for each of its calls."""
        return {}

    @property
    def primals(self) -> list[np.ndarray]:
        """The operator's inputs: float64 (or complex128) arrays, exact in the format."""
        return self.arguments("forward")

    def exists_in(self, precision: Precision) -> bool:
        """Return whether the operator exists in a format on this device."""
        return self.absent_in(precision) is None

    def absent_in(self, precision: Precision) -> str | None:
        """Return why the operator does not exist in a format on this device; None if it does."""
        if not self.oracle.spec.exists_in(precision.name):
            casts = getattr(self.oracle.spec.primal, "rounds", False)  # as a reference in PyTorch says of itself
            which = f"the reference casts to a narrower dtype, and {precision.name} is not among the dtypes"
            return which if casts else f"OpSpec.dtypes leaves {precision.name} out"
        return devices.lacks(self.device, precision.name)

    def widened(self) -> Trial:
        """The same trial in the double format."""
        return self.in_format(self.precision.double)

    def in_format(self, precision: Precision) -> Trial:
        """The same trial in another format, to which its floating-point constants are rounded, too."""
        candidate = self.candidate
        if any(x is not None and x.dtype.kind in "fc" for x in self.sample.constants.values()):
            candidate = candidate.with_constants(conversion.constants(self.sample.constants, precision, self.device))
        return replace(self, candidate=candidate, precision=precision)

    def arguments(self, name: str, example: int = 0) -> list[np.ndarray]:
        """Read-only arguments for a map: the primals, then random tangents and cotangents; exact in the format."""
        if (name, example) not in self._arguments:
            drawn = self.oracle.arguments(name, self.sample, example)
            self._arguments[name, example] = [_read_only(self.precision.rounded(x)) for x in drawn]
        return [*self._arguments[name, example]]

    def truth(self, name: str, args: Arrays) -> list[Truth]:
        """The oracle's results of a map, with their bounds; none of a derivative where there is no value."""

        @functools.cache
        def in_any_order() -> list[Truth]:
            return self.oracle.evaluate(name, args, self.precision.with_any_order)

        truths = where_defined(self.oracle, name, args, self.precision)
        return [replace(y, overflows=lambda i=i: np.isinf(in_any_order()[i].bound)) for i, y in enumerate(truths)]

    def tensors(self, arrays: Arrays) -> list[torch.Tensor]:
        """Fresh contiguous tensors with the arrays' values."""
        return [conversion.to_torch(x, self.precision, self.device) for x in arrays if x is not None]

    def evaluate(self, name: str, args: Arrays) -> Sequence[torch.Tensor | None]:
        """A map of the candidate at these arguments, as contiguous tensors.

        Raises:
            BadOutput: a wrong number of results.
        """
        return self.evaluate_at(name, self.tensors(args))

    def evaluate_at(self, name: str, tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor | None]:
        """Return a map of the candidate at these tensors.

        Raises:
            BadOutput: a wrong number of results.
        """
        count, split = len(self.oracle.inputs), self.oracle.map(name).base
        f = getattr(self.candidate, name)
        if name == "forward":
            return self.counted(name, f(tensors))
        if len(ORDERS[name]) == 1:
            return self.counted(name, f(tensors[:split], tensors[split:]))
        return self.counted(name, f(count, tensors[:split], tensors[split:]))

    def counted(self, name: str, results: Sequence) -> Sequence:
        """The results of a map of the candidate, after a check that they are as many as the map has.

        Raises:
            BadOutput: they are not.
        """
        expected = len(self.oracle.map(name).results)
        if len(results) != expected:
            raise BadOutput(f"returned {len(results)} outputs, expected {expected}")
        return results

    def compare(
        self,
        name: str,
        args: Arrays,
        results: Sequence[torch.Tensor | None],
        circumstance: str = "",
        room: float = 0.0,
        only: Collection[str] | None = None,
    ) -> Iterator[Finding]:
        """Compare a map's results with the oracle's, or with what lies between its limits at a kink.

        An absent result is a zero. `room` is added to the bounds. `only`: the labels of the results that are compared.

        Raises:
            BadOutput: a wrong number of results.
        """

        def judge(oracle: Oracle) -> list[Finding]:
            trial = self if oracle is self.oracle else replace(self, oracle=oracle)
            findings = [
                replace(f, call=(name, args), bound=f.bound + room) if isinstance(f, Comparison) else f
                for f in trial.compare_with(trial.truth(name, args), name, results, circumstance)
                if only is None or f.label in only
            ]
            return list(accept_one_sided_derivatives(trial, name, args, findings, circumstance))

        yield from judged_with_shifts(self, name, args, judge)

    def compare_with(
        self, truths: Sequence[Truth], name: str, results: Sequence[torch.Tensor | None], circumstance: str = ""
    ) -> Iterator[Finding]:
        """Compare a map's results with truths that are known already.

        Raises:
            BadOutput: a wrong number of results.
        """
        for truth, result in zip(truths, self.counted(name, results), strict=True):
            yield from self.compare_result(name, truth, result, circumstance)

    def compare_result(
        self, name: str, truth: Truth, result: torch.Tensor | None, circumstance: str = ""
    ) -> Iterator[Finding]:
        """Compare one result of a map with its truth, in the part that `Oracle.compared` says."""
        oracle = truth.value
        dtype = getattr(torch, self.precision.dtype_of(oracle))
        if result is not None and tuple(result.shape) != oracle.shape:
            text = f"has shape {tuple(result.shape)}, the oracle's is {oracle.shape}"
            yield Fact(truth.label, False, text, circumstance)
            return
        if result is not None and (result.dtype != dtype or not devices.is_on(result, self.device)):
            inputs = getattr(torch, self.precision.name)
            required = f"its inputs are {dtype}" if dtype == inputs else f"should be {dtype}, for inputs of {inputs},"
            text = f"is {result.dtype} on {result.device}, {required} on {self.device}"
            yield Fact(truth.label, False, text, circumstance)
            return
        values = np.zeros_like(oracle) if result is None else conversion.to_numpy(result)
        bound = truth.bound_of(values)
        bound = self.oracle.compared_errors(name, truth.like, bound, oracle)
        values, oracle = (self.oracle.compared(name, truth.like, x) for x in (values, oracle))
        yield Comparison(truth.label, values, oracle, bound, circumstance, linearized=truth.linearized)


def _read_only(x: np.ndarray) -> np.ndarray:
    x.flags.writeable = False
    return x
