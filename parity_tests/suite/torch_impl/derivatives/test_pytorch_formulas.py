"""Every formula that a call reaches gives what autograd computes for that call, and a planted mistake in it is told."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from torch.utils._pytree import tree_leaves

from parity_tests.suite.rotation import rotating
from parity_tests.suite.torch_impl.derivatives._calls import Call, operators, record
from parity_tests.suite.torch_impl.derivatives._comparison import Mode, compare
from parity_tests.suite.torch_impl.derivatives._explained import EXPLAINED, differences
from parity_tests.suite.torch_impl.derivatives._more_calls import more_calls
from parity_tests.suite.torch_impl.derivatives._survey import (
    Survey,
    default_entries,
    every_call,
    judged,
    outcomes,
    survey,
    whole_survey,
)
from parity_tests.suite.torch_impl.derivatives._unreached import NOT_EVALUATED, UNREACHED, reason_of
from parity_tests.sweep.formula_mutants import planted
from torch_impl.derivatives import Entry, bind, jvp, lookup, vjp

FEW = ("acos", "addmm", "amax", "cat", "clamp", "div", "linalg.qr", "mul", "nn.functional.gelu", "pow", "std", "tanh")
# Formulas with a branch for gradients that nobody differentiates, of the first output alone: no call takes it
OTHER_BRANCH = ("native_group_norm", "_fused_rms_norm")
# Formulas whose gradient is zero though their text does not say so
ZERO = {("fill.Scalar", "jvp"), ("fill_.Scalar", "jvp"), ("native_layer_norm_backward", "vjp")}


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Iterator[None]:
    """Thousands of small calls take several times as long where threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@functools.cache
def _few_calls() -> Mapping[str, Sequence[Call]]:
    calls = record(operators(FEW), samples=5)
    more = more_calls()
    return {**calls, **{name: more[name] for name in ("_foreach_div.List", "elu_", "relu", "slow_conv3d_forward")}}


def _disagreements(found: Survey) -> list[str]:
    return [
        f"{name}, {mode} of {', '.join(names)}: {outcome.detail} [{outcome.source}]"
        for (name, mode, names), of in found.items()
        for outcome in of
        if outcome.verdict == "disagrees"
    ]


@pytest.mark.slow
def test_some_formulas_agree_with_autograd() -> None:
    found = survey(_few_calls())
    assert not _disagreements(found)
    assert sum(judged(of) == "agrees" for of in found.values()) > 80


@pytest.mark.slow
@rotating(4, turn=3)
def test_every_formula_agrees_with_autograd() -> None:
    found = whole_survey()
    assert not _disagreements(found)
    written = {name for name, entry in default_entries().items() if entry.view_of is None}
    tally = Counter((mode, judged(of)) for (name, mode, _), of in found.items() if name in written)
    assert tally["vjp", "agrees"] >= 550, tally
    assert tally["jvp", "agrees"] >= 400, tally


@pytest.mark.slow
@rotating(4, turn=3)
def test_a_derivative_that_is_always_zero_is_meant_to_be() -> None:
    for (name, mode, names), of in whole_survey().items():
        if judged(of) == "zero" and (name, mode) not in ZERO:
            entry = default_entries()[name]
            (text,) = {f.text for f in (entry.vjps if mode == "vjp" else entry.jvps) if f.names == names}
            assert "zero" in text, f"{name}, {mode} of {', '.join(names)}: {text}"


@pytest.mark.slow
@rotating(4, turn=3)
def test_what_is_not_reached_is_listed() -> None:
    found = whole_survey()
    seen: dict[Mode, set[str]] = {"vjp": set(), "jvp": set()}
    for name, entry in default_entries().items():
        for mode, formulas in (("vjp", entry.vjps), ("jvp", entry.jvps)):
            for formula in formulas:
                if (name, mode, formula.names) not in found:
                    pattern = reason_of(mode, name)
                    assert pattern is not None, f"{mode} of {name}, {', '.join(formula.names)} is reached by no call"
                    seen[mode].add(pattern)
    assert seen == {mode: set(patterns) for mode, patterns in UNREACHED.items()}


@pytest.mark.slow
@rotating(4, turn=3)
def test_what_is_not_evaluated_is_listed() -> None:
    refused = {o.detail for of in whole_survey().values() for o in of if o.verdict == "not evaluable"}
    assert refused == set(NOT_EVALUATED)


@pytest.mark.slow
@rotating(4, turn=3)
def test_what_is_explained_does_disagree() -> None:
    found = whole_survey()
    for name, known in EXPLAINED.items():
        assert any(o.verdict == "explained" for o in found[name, known.mode, known.names]), name


def _noticed(entry: Entry, wrong: Entry, calls: Sequence[Call]) -> bool:
    """Whether a mistake changes a verdict; a formula that can no longer be evaluated is told, too."""
    return any(o.verdict in ("disagrees", "not evaluable") for call in calls for o in compare(wrong, call))


def _is_complex(call: Call) -> bool:
    return any(isinstance(x, torch.Tensor) and x.is_complex() for x in tree_leaves((call.args, call.kwargs)))


_ASKS_WHETHER_DEFINED = re.compile(r"\((-|2 \* )\w+(\[\d+\])?\)\.defined\(\)")


def _planted(calls: Mapping[str, Sequence[Call]]) -> tuple[Counter[str], list[str]]:
    """How many mistakes of each kind were planted, and those that no call told."""
    number: Counter[str] = Counter()
    missed = []
    for name, of in calls.items():
        entry = default_entries()[name]
        found = survey({name: of})
        is_complex = any(_is_complex(call) for call in of)
        for kind, formula, wrong in planted(entry):
            if kind not in ("sign", "factor", "dropped term", "dropped conj"):
                continue  # of the others many change no value
            if kind == "dropped conj" and not is_complex:
                continue  # it changes nothing
            if _ASKS_WHETHER_DEFINED.search(formula.text):
                continue  # which does not depend on its sign or size
            mode = "vjp" if wrong.vjps != entry.vjps else "jvp"
            if judged(found.get((name, mode, formula.names), ())) == "agrees":
                number[kind] += 1
                if not _noticed(entry, wrong, of):
                    missed.append(f"{kind}: {name}, {mode} of {', '.join(formula.names)}: {formula.text}")
    return number, missed


@pytest.mark.slow
def test_planted_mistakes_are_noticed() -> None:
    calls = {name: of for name, of in _few_calls().items() if name in ("acos", "mul.Tensor", "tanh", "tanh_backward")}
    number, missed = _planted(calls)
    assert not missed
    assert set(number) == {"sign", "factor", "dropped term", "dropped conj"}


@pytest.mark.soak
def test_planted_mistakes_in_every_formula_are_noticed() -> None:
    number, missed = _planted(every_call())
    kinds = Counter(one.split(":")[0] for one in missed)
    whole = [one for one in missed if one.startswith(("sign", "factor"))]
    assert {one.split(": ")[1].partition(",")[0] for one in whole} == set(OTHER_BRANCH), whole
    assert all(kinds[kind] <= 0.1 * number[kind] for kind in number), missed


def _tangent(entry: str, args: tuple, x: torch.Tensor, x_dot: torch.Tensor, name: str) -> tuple[torch.Tensor, ...]:
    """The tangents of an operator's first result by its formula and by autograd, along one input."""
    found = lookup(entry)
    base, _, overload = entry.partition(".")
    operator = getattr(getattr(torch.ops.aten, base), overload or "default")
    arguments = bind(found, args)
    results = operator(*args)
    listed = list(results) if isinstance(results, tuple) else [results]
    by_formula = jvp(found, arguments, listed, {name: x_dot})[found.result_names[0]]
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(one, x_dot) if one is x else one for one in args]
        outputs = operator(*duals)
        tangent = forward_ad.unpack_dual(outputs[0] if isinstance(outputs, tuple) else outputs).tangent
    assert isinstance(by_formula, torch.Tensor)
    return by_formula, torch.zeros_like(by_formula) if tangent is None else tangent


def _triangle() -> torch.Tensor:
    return torch.randn(4, 4, dtype=torch.float64).tril() + 4 * torch.eye(4, dtype=torch.float64)


def _cases() -> dict[str, tuple[str, str, tuple, int]]:
    torch.manual_seed(0)
    x = torch.randn(3, dtype=torch.float64)
    apart = torch.tensor([3.0, 100.0, 1000.0], dtype=torch.float64)
    index = torch.tensor([0, 0, 1])
    return {
        "cholesky_inverse": ("cholesky_inverse", "self", (_triangle(),), 0),
        "logcumsumexp": ("logcumsumexp", "self", (apart, 0), 0),
        "scatter_reduce.two": ("scatter_reduce.two", "src", (x, 0, index, x + 3, "prod"), 3),
        "triangular_solve": ("triangular_solve", "A", (_triangle(), _triangle(), False, True), 1),
    }


@pytest.mark.parametrize("name", sorted(name for name, known in EXPLAINED.items() if known.mode == "jvp"))
def test_differences_say_that_pytorchs_tangent_is_wrong(name: str) -> None:
    entry, of, args, at = _cases()[name]
    x = args[at]
    torch.manual_seed(1)
    x_dot = torch.randn_like(x)
    if x.dim() == 2:
        x_dot = x_dot.tril()  # of the other triangle the operator reads nothing

    def along(moved: torch.Tensor) -> torch.Tensor:
        base, _, overload = entry.partition(".")
        result = getattr(getattr(torch.ops.aten, base), overload or "default")(*args[:at], moved, *args[at + 1 :])
        return result[0] if isinstance(result, tuple) else result

    by_formula, by_autograd = _tangent(entry, args, x, x_dot, of)
    numeric = differences(along, x, x_dot)
    torch.testing.assert_close(by_formula, numeric, rtol=1e-6, atol=1e-7)
    assert float((by_autograd - numeric).abs().max()) > 1e-3


def test_differences_say_that_pytorchs_gradient_of_as_strided_scatter_is_wrong() -> None:
    torch.manual_seed(0)
    x, source, bar = (torch.randn(shape, dtype=torch.float64) for shape in ((3, 3), (2, 2), (3, 3)))
    where = ([2, 2], [1, 2], 0)
    entry = lookup("as_strided_scatter")
    operator = torch.ops.aten.as_strided_scatter.default
    (found,) = vjp(entry, bind(entry, (x, source, *where)), [operator(x, source, *where)], [bar], ["self"]).values()
    leaf = x.clone().requires_grad_()
    (by_autograd,) = torch.autograd.grad(operator(leaf, source, *where), leaf, bar)
    assert isinstance(found, torch.Tensor)
    for i in range(9):
        x_dot = torch.zeros(9, dtype=torch.float64).index_fill(0, torch.tensor(i), 1).reshape(3, 3)
        numeric = float((differences(lambda moved: operator(moved, source, *where), x, x_dot) * bar).sum())
        assert abs(float((found * x_dot).sum()) - numeric) < 1e-7
        assert abs(float((by_autograd * x_dot).sum()) - numeric) > 1e-3


def test_outcomes_mark_what_is_explained() -> None:
    calls = record(operators(["triangular_solve"]), samples=4)["triangular_solve"]
    verdicts = Counter(o.verdict for o in outcomes(lookup("triangular_solve"), calls))
    assert verdicts["explained"] > 0
    assert "disagrees" not in verdicts
