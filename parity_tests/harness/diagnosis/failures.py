"""The description of a failure: what is wrong, where, what it looks like, what agrees, and who is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from parity_tests.harness.diagnosis import diagnosis
from parity_tests.harness.diagnosis.arguments_in_words import entries, in_words, numbers
from parity_tests.harness.diagnosis.heat_map import heat_map
from parity_tests.harness.diagnosis.no_gradient import why_zero
from parity_tests.harness.diagnosis.remark import Remark
from parity_tests.harness.diagnosis.right_where import right_where
from parity_tests.harness.diagnosis.rounds_more import rounds_more
from parity_tests.harness.diagnosis.third_witness import arbitrate
from parity_tests.harness.exceptions.explaining import Explained, explain, unexplained
from parity_tests.harness.findings import Comparison, Finding
from parity_tests.harness.maps import ORDERS
from parity_tests.harness.report.results import Failure, Row, Smallest, WrongResult
from parity_tests.harness.specs.samples import Sample
from parity_tests.harness.specs.seeds import shown
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.harness.trial.trial import Trial


def explained(row: Row, trial: Trial, findings: list[Finding]) -> Failure:
    """Return the failure of a row on a trial, with every explanation that fits.

    An explanation that raises leaves a line in the failure's `unexplained`. What to do is told if it is known of each
    result; else the page of the check has it.
    """
    wrong = [f for f in findings if not f.holds]
    worst: dict[str, Finding] = {}
    for finding in wrong:  # the same result may be wrong under many circumstances: tell the first
        worst.setdefault(finding.label, finding)
    comparisons = [f for f in findings if isinstance(f, Comparison)]
    failure = described(row, trial.sample, list(worst.values()), trial.oracle.spec)
    results = [
        _recognized(result, finding, trial, comparisons) if isinstance(finding, Comparison) else Explained((result, ""))
        for result, finding in zip(failure.wrong, worst.values(), strict=True)
    ]
    steps = [step for _, step in (each.value for each in results)]
    right = {f.label: f for f in comparisons if f.label not in worst and f.evidence}
    agrees = tuple(f"{label} ({f.error_over_bound:.2g} of its bound)" for label, f in right.items())
    numbers_differ = any(isinstance(f, Comparison) for f in wrong)  # else there is none to be right about
    judge = explain("the third witness", lambda: arbitrate(row.check, trial) if numbers_differ else None)
    return replace(
        failure,
        wrong=tuple(result for result, _ in (each.value for each in results)),
        to_do="; ".join(dict.fromkeys(steps)) if all(steps) else "",
        agrees=agrees,
        judge=judge.value,
        unexplained=unexplained(Explained(failure, failure.unexplained), *results, judge),
    )


def _recognized(
    result: WrongResult, finding: Comparison, trial: Trial, comparisons: list[Comparison]
) -> Explained[tuple[WrongResult, str]]:
    """A wrong result, with which entries are wrong by the values of the arguments, and what it looks like.

    And what to do about it, if that is known.
    """
    label = finding.label
    known = explain(f"what {label} looks like", lambda: diagnosis.looks_like(trial, comparisons, finding))
    remark, further = known.value, Explained[Remark | None](None)
    if remark == Remark(f"{label} = 0"):
        further = explain(f"why {label} is 0", lambda: why_zero(trial, finding))
        if further.value is not None:
            remark = replace(further.value, text=f"{label} = 0: {further.value.text}")
    elif remark is None:
        further = explain(f"where else {label} is right", lambda: _right_elsewhere(trial, finding))
        remark = further.value
    looks_like, to_do = (remark.text, remark.to_do) if remark else (None, "")
    pattern = explain(f"the pattern of {label}", lambda: diagnosis.pattern(finding, trial))
    recognized = replace(result, pattern=pattern.value or result.pattern, looks_like=looks_like)
    return Explained((recognized, to_do), unexplained(known, further, pattern))


def _right_elsewhere(trial: Trial, finding: Comparison) -> Remark | None:
    remark = rounds_more(trial, finding)
    if remark is not None:
        return remark
    text = right_where(trial, finding)
    return None if text is None else Remark(text)


def described(row: Row, sample: Sample, wrong: Sequence[Finding], spec: OpSpec) -> Failure:
    """A failure that tells what is wrong at a sample, and no more."""
    results = [wrong_result(finding, spec, row.check) for finding in wrong]
    options = explain("the parameters", lambda: in_words(spec.params_at(sample.sizes)))
    return Failure(
        op=row.op,
        candidate=row.candidate,
        check=row.check,
        dtype=row.dtype,
        device=row.device,
        sample=sample.name,
        why=sample.why,
        sizes=dict(sample.sizes),
        seed=shown(sample.seed),
        wrong=tuple(result.value for result in results),
        unexplained=unexplained(*results, options),
        options=options.value or {},
    )


def smallest_of(failure: Failure, trial: Trial, wrong: Finding) -> Explained[Smallest]:
    """The smallest trial that fails, in words; what its result looks like, where that of the failure is not known."""
    plain = wrong_result(wrong, trial.oracle.spec, failure.check)
    result, looks_like = replace(plain.value, heat=None), Explained[str | None](None)
    known = any(other.looks_like for other in failure.wrong if other.label == wrong.label)
    if isinstance(wrong, Comparison) and not known:
        looks_like = explain(
            f"what {wrong.label} looks like",
            lambda: _plainly(trial, wrong),
        )
        result = replace(result, looks_like=looks_like.value)
    arguments = entries(trial, wrong), numbers(trial, wrong)
    smallest = Smallest(dict(trial.sample.sizes), arguments[0], result, arguments[1])
    return Explained(smallest, unexplained(plain, looks_like))


def _plainly(trial: Trial, wrong: Comparison) -> str | None:
    remark = diagnosis.looks_like(trial, [wrong], wrong)
    return diagnosis.plain_factor(wrong) if remark is None else remark.text


def wrong_result(finding: Finding, spec: OpSpec, check: str) -> Explained[WrongResult]:
    """One finding that does not hold, under a check of this name."""
    if not isinstance(finding, Comparison):
        return Explained(WrongResult(finding.label, finding.violation, finding.circumstance))
    pattern = explain(f"the pattern of {finding.label}", lambda: diagnosis.pattern(finding))
    heat = explain(f"the heat map of {finding.label}", lambda: _heat(finding))
    # An entry that cannot be judged, with an infinite bound, is none of the wrong ones.
    excess = np.where(finding.wrong, finding.error, -np.inf) - np.where(finding.wrong, finding.bound, 0.0)
    index = tuple(int(i) for i in np.unravel_index(int(excess.argmax()), excess.shape))
    equation = spec.equations.get(f"{check}/{finding.label}") or (
        spec.equations.get(finding.label) if len(ORDERS.get(check, ())) <= 1 else None
    )
    result = WrongResult(
        label=finding.label,
        pattern=pattern.value or "differs",
        circumstance=finding.circumstance,
        index=index,
        candidate=finding.candidate[index].item(),
        oracle=finding.oracle[index].item(),
        error=float(finding.error[index]),
        allowed=float(finding.bound[index]),
        equation=equation,
        heat=heat.value,
    )
    return Explained(result, unexplained(pattern, heat))


def _heat(finding: Comparison) -> tuple[tuple[float, ...], ...]:
    """Error over bound of every entry."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return heat_map(np.where(finding.error == 0, 0.0, finding.error / finding.bound))
