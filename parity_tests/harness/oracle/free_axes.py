"""An axis that only an output has: something must say how long it is.

Every axis of an input has a size at each sample, and the oracle's outputs are held to it. An axis that no input has
would match whatever the oracle returns: "(n)->(m)", a slip of the pen for "(n)->(n)", would fit an elementwise
operator.
"""

from __future__ import annotations

from collections.abc import Iterable

from parity_tests.harness.oracle.oracle import Oracle, OracleError
from parity_tests.harness.specs.output_axes import Probe, rule_for
from parity_tests.harness.specs.samples import Sample
from parity_tests.harness.specs.signature import BATCH, Signature
from parity_tests.harness.specs.spec import OpSpec


def check_free_axes(oracle: Oracle, cases: Iterable[Sample]) -> None:
    """Check that the size of each such axis is defined by `OpSpec.sizes`, or is the same at all samples.

    Raises:
        OracleError: it is neither; the message has the sizes that differ, and the remedy.
    """
    spec = oracle.spec
    if spec.parsed is None:
        return
    signature = spec.parsed.at(BATCH)
    named = (axis for axes in signature.outputs for axis in axes if not axis.isdigit())
    free = [axis for axis in dict.fromkeys(named) if axis not in {*signature.axes, *spec.size_rules.defined}]
    if not free:
        return
    found = [(sample, _sizes(oracle.at(sample), spec.parsed, sample)) for sample in cases]
    for axis in free:
        if len({sizes[axis] for _, sizes in found}) > 1:
            raise OracleError(_refusal(oracle, axis, found))


def _sizes(oracle: Oracle, signature: Signature, sample: Sample) -> dict[str, int]:
    """The size of every named axis at a sample, those of outputs included."""
    shapes = (y.shape for y in oracle.outputs_at(sample.shapes))
    pairs = zip(signature.at(sample.sizes).outputs, shapes, strict=True)
    return {axis: size for axes, shape in pairs for axis, size in zip(axes, shape, strict=True)} | dict(sample.sizes)


def _refusal(oracle: Oracle, axis: str, found: list[tuple[Sample, dict[str, int]]]) -> str:
    spec = oracle.spec
    assert spec.parsed is not None
    (first, sizes), (other, other_sizes) = found[0], next(pair for pair in found if pair[1][axis] != found[0][1][axis])
    where = " and ".join(
        f"{s[axis]} at {', '.join(f'{name} = {size}' for name, size in sample.sizes.items())}"
        for sample, s in ((first, sizes), (other, other_sizes))
    )
    same = [name for name in spec.parsed.axes if all(s.get(name) == s[axis] for _, s in found)]
    remedy = f"it is always as long as {same[0]}: write {same[0]} for it" if same else _definition(spec, axis)
    return (
        f"{spec.name}: no input has the axis {axis} of the signature {spec.signature}, and the primal makes it "
        f"{where}; {remedy}"
    )


def _definition(spec: OpSpec, axis: str) -> str:
    """The field that defines the axis: by the rule that is fitted to its sizes, or else by an example of one."""
    assert spec.parsed is not None
    signature = spec.parsed
    place = next((i, axes.index(axis)) for i, axes in enumerate(signature.outputs) if axis in axes)
    rule = None if signature.any_rank else rule_for(Probe(spec), place)
    written = [*([spec.sizes] if spec.sizes else []), f"{axis} = {rule}"]
    if rule is not None:
        return f'define it by the others: sizes="{", ".join(written)}"'
    example = "".join(f"2*{name}" for name in signature.core[:1]) or "3"
    return f'define it by the others, such as sizes="{axis} = {example}"'
