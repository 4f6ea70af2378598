"""The shape of a check."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from parity_tests.harness.findings import Finding
from parity_tests.harness.maps import rests_on
from parity_tests.harness.specs.samples import Sample
from parity_tests.harness.trial.trial import Trial

PYTORCH_ONLY = "this check applies to PyTorch candidates only"


@dataclass(frozen=True)
class Check:
    """One property of a candidate.

    Attributes:
        name: stable; it is what reports, limits and the command line say.
        catches: the mistakes that it is there to catch.
        maps: the oracle's maps that it relies on, which must have their certificates (see `harness.maps`).
        run: yields what it finds on one trial; raises `Refused` where the candidate does not support the property,
            `NotApplicable` where the check has nothing to say about it.
        large: does it look at every sample, those that are judged to first order only, too?
        kernel_sized: does it look at samples of the sizes of kernels only? See `Sample.kernel_sized`. Where there is
            none, at the largest.
        whole: does it look at nothing but the inputs of which the spec judges a part? See `OpSpec.given_size`. No other
            check looks at these.
        only_short: does it judge the 16-bit formats only?
        one_dtype: is the first of the dtypes enough? For properties that do not depend on the format.
        on_request: is it run only if it is asked for by its name? For what few need and all would wait for.
        torch_only: why it has nothing to say about a candidate in JAX, nor in any other framework than PyTorch; empty
            if it has.
        not_jax: why it has nothing to say about a candidate in JAX, though it has about all others; empty if it has.
        real_only: why it has nothing to say about complex numbers; empty if it has.
        generic: does it look at generic samples only? For properties that do not depend on sizes; see `Sample.generic`.
        costly: is it left out of a quick run? For those that take most of the time.
    """

    name: str
    catches: str
    maps: tuple[str, ...]
    run: Callable[[Trial], Iterator[Finding]]
    large: bool = False
    generic: bool = False
    kernel_sized: bool = False
    whole: bool = False
    only_short: bool = False
    one_dtype: bool = False
    costly: bool = False
    on_request: bool = False
    torch_only: str = ""
    not_jax: str = ""
    real_only: str = ""

    @property
    def rests_on(self) -> frozenset[str]:
        """The checks of what this one is made of: of the maps that it uses, and of those that these differentiate."""
        return rests_on(self.name, self.maps)

    def inapplicable_to(self, framework: str) -> str:
        """Return why it has nothing to say about candidates in this framework; empty if it has."""
        if framework == "torch":
            return ""
        if framework == "jax":
            return self.torch_only or self.not_jax
        return PYTORCH_ONLY if self.torch_only else ""

    def chosen(self, samples: Sequence[Sample]) -> list[Sample]:
        """Return the samples that the check looks at."""
        samples = [sample for sample in samples if sample.whole is self.whole]
        if self.whole:
            return samples
        if self.kernel_sized:
            sized = [sample for sample in samples if sample.kernel_sized]
            usual = [sample for sample in samples if not sample.one_sign]  # many nearly equal numbers round alike
            return sized or sorted(usual, key=lambda sample: sum(map(math.prod, sample.shapes)))[-1:]
        return [s for s in samples if (self.large or not s.first_order_only) and (s.generic or not self.generic)]
