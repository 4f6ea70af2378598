"""Every check lets a right operator pass and catches the mistakes in the file of `planted` that has its name."""

from __future__ import annotations

import pkgutil
import warnings
from collections.abc import Callable, Sequence

import pytest
import torch
from jax._src.pallas.mosaic_gpu.interpret import params

from parity_tests import JaxCandidate, OpSpec, Verdict
from parity_tests.harness import checks as package
from parity_tests.harness.checks import CHECKS
from parity_tests.harness.findings import AGREE
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.operators.operator import Operator
from parity_tests.suite.harness._ops import PAIR, SQUARE, normal, pair_function, tensors
from parity_tests.suite.harness._ops import judged as row_of
from parity_tests.suite.harness.checks import planted
from parity_tests.suite.harness.checks.planted import cases_of, mistake_of
from parity_tests.suite.harness.checks.planted.race import ON_GPU, RUNS_ON_GPU
from parity_tests.suite.harness.checks.planted.vjp import DOUBLE, NONLINEAR
from parity_tests.suite.mistakes import assert_caught, judged, verdicts
from parity_tests.suite.rotation import rotating

pytestmark = pytest.mark.usefixtures("certified_once")

CASES = [(check, case) for check in CHECKS for case in cases_of(check)]


# What takes seconds: the interpreter of Pallas kernels, modules in all their modes, many invalid inputs, proofs.
_LONG = (
    "halved in eval",
    "halved where it is deployed",
    "a part halved in eval",
    "no gradient in eval",
    "scores throughout",
    "rows past 4096 are 0",
)


def _slow(
    check: str, name: str, dtype: str = "float64", case: Operator | None = None
) -> Sequence[pytest.MarkDecorator]:
    """Of a check's operators the first one is fast, in one format and with one of its mistakes."""
    long = check in ("race", "raises", "proof") or name in _LONG
    further = case is not None and case is not cases_of(check)[0]
    return (
        [pytest.mark.slow]
        if long or further or dtype != ("bfloat16" if check == "low_precision" else "float64")
        else []
    )


CAUGHT = [
    pytest.param(
        mistake, case.spec, id=f"{check}: {name}", marks=_slow(check, name, case=case) if i == 0 else [pytest.mark.slow]
    )
    for check, case in CASES
    for i, (name, mistake) in enumerate(case.mistakes.items())
]


def test_every_check_has_its_planted_mistakes_in_a_file_of_its_name():
    assert {module.name for module in pkgutil.iter_modules(planted.__path__)} == set(CHECKS)
    for check in CHECKS:
        caught_by = {mistake.caught_by for case in cases_of(check) for mistake in case.mistakes.values()}
        assert caught_by == {check}


def test_without_a_planted_mistake_there_is_a_word_of_what_to_write():
    with pytest.raises(
        LookupError, match=r"'made_up' has no .*; write parity_tests/suite/harness/checks/planted/made_up\.py"
    ):
        cases_of("made_up")


def test_every_module_of_checks_is_registered_under_its_own_name():
    modules = {module.name for module in pkgutil.iter_modules(package.__path__) if not module.ispkg} - {"check"}
    assert modules == set(CHECKS)


@rotating(3)
@pytest.mark.parametrize(
    ("check", "case", "dtype"),
    [
        pytest.param(
            check, case, dtype, id=f"{check}-{case.spec.name}-{dtype}", marks=_slow(check, case.spec.name, dtype, case)
        )
        for check, case in CASES
        for dtype in (("bfloat16", "float16") if check == "low_precision" else PRECISIONS)
        if check != "points_second_order" or dtype in ("float64", "float32")  # in the others it has nothing to say
        if check != "race" or dtype == "float32"  # whatever the format is
        if check != "proof" or dtype == "float64"  # in which programs are compared
    ],
)
def test_a_right_operator_passes(check, case, dtype):
    row = row_of(case.right, case.spec, check, dtype, limits={})
    assert (row.verdict, row.reason) == (Verdict.PROVED if check == "proof" else Verdict.PASS, "")
    assert row.comparisons > 0


@pytest.mark.parametrize(
    "check",
    [
        pytest.param(name, marks=_slow(name, ""))
        for name in CHECKS
        if name not in ("captured", "jvp_of_jvp", "opcheck", "low_precision", "race")
    ],
)
def test_a_right_function_passes(check):
    assert row_of(pair_function().apply, cases_of(check)[0].spec, check, limits={}).verdict in AGREE


@rotating(3)
@pytest.mark.parametrize(("mistake", "spec"), CAUGHT)
def test_a_mistake_is_caught_by_the_check_that_is_there_for_it(mistake, spec):
    assert_caught(mistake, spec)


@pytest.mark.parametrize(
    ("check", "name", "text"),
    [
        ("vjp_of_vjp", "a saved intermediate", "the oracle is right"),
        ("vjp_of_vjp", "a saved intermediate", "SavedIntermediate  saves an intermediate of shape (3, 4), "),
        ("checkpoint", "ctx.saved_tensors read twice", "refused by PyTorch: torch.utils.checkpoint: Unpack is being"),
        ("determinism", "threads share a workspace", "from several threads"),
        ("leaks", "gradients that are never freed", "live tensors  grows by"),
        ("fake", "transposed on the device meta", "with values it is torch.float64 of shape (3, 4) where its inputs"),
        (
            "autocast",
            "float16, whatever autocast has",
            "is torch.float16, neither the inputs' float32 nor",
        ),
        ("make_fx", "another path if traced", "(traced at other inputs)"),
        (
            "opcheck",
            "outputs that share memory",
            "test_schema  fails: RuntimeError: Outputs 0 and 1 alias",
        ),
        ("functorch", "a batching rule of second order", "(vmap of vjp of vjp, per sample, example 0)"),
    ],
)
def test_the_message_says_what_is_wrong(check, name, text):
    mistake, case = mistake_of(check, name)
    report = judged(mistake.call, case.spec, [check], ["float64"])
    assert verdicts(report) == {check: Verdict.MISMATCH}
    assert text in str(report)


# What torch.autograd.gradcheck does not see.


def gradcheck(call: Callable, spec: OpSpec) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.autograd.gradcheck(call, tensors(spec.inputs or ()), raise_exception=False)


@pytest.mark.parametrize(
    ("check", "name"),
    [
        *(("vjp", name) for name in NONLINEAR),
        ("vjp", "wrong where both cotangents meet"),
        ("layouts", "a cotangent's strides ignored"),
        ("layouts", "a cotangent of stride 0"),
        ("layouts", "an input's strides ignored"),
    ],
)
def test_gradcheck_passes_what_a_check_here_catches(check, name):
    mistake, case = mistake_of(check, name)
    assert gradcheck(mistake.call, case.spec)


def test_gradcheck_does_run_here():
    assert not gradcheck(mistake_of("vjp", "a dropped term")[0].call, PAIR)


# The details of a single check.


def _circumstances(check: str, name: str) -> set[str]:
    mistake, case = mistake_of(check, name)
    failure = row_of(mistake.call, case.spec, check).failure
    assert failure is not None
    return {wrong.circumstance for wrong in failure.wrong}


@pytest.mark.parametrize(
    ("check", "name", "circumstance"),
    [
        ("vjp_partial", "or for and", "only the cotangent of first is defined"),
        ("vjp_partial", "a gradient out of nothing", "no cotangent is defined"),
        ("input_subsets", "a gradient that needs the other", "gradients of x alone"),
        ("layouts", "a cotangent of stride 0", "cotangents expanded"),
        ("purity", "keeps state", "backward twice"),
        ("linearity", "clipped", "the cotangents times -2^10, against the gradient times -2^10"),
        ("linearity", "0/0 at zero", "the odd entries of the cotangents are 0"),
        ("in_place", "saves x.data", "x edited in place before the backward"),
        ("retain_graph", "keeps its first result", "the second backward, with other cotangents"),
        ("interleaved", "state on the class", "first in, first out, backward of call 1"),
        ("interleaved", "a stack on the class", "first in, first out, backward of call 1"),
        ("interleaved", "state on the thread", "its backward in another thread"),
        ("interleaved", "one buffer for all outputs", "after another forward"),
        ("saved_tensors", "inputs kept on ctx", "saved tensors moved by hooks"),
    ],
)
def test_the_circumstance_is_told(check, name, circumstance):
    assert _circumstances(check, name) == {circumstance}


def test_the_axis_of_the_batch_is_told():
    assert all(where.startswith("in_dims (") for where in _circumstances("vmap", "mixes the examples"))


def test_purity_names_what_was_written_to():
    for name, label in (
        ("writes to its cotangent", "first_bar"),
        ("writes to its input", "x"),
        ("writes to its output", "second"),
    ):
        failure = row_of(mistake_of("purity", name)[0].call, PAIR, "purity").failure
        assert failure is not None
        written = [wrong.label for wrong in failure.wrong if wrong.pattern == "was written to"]
        assert written == [label]


def test_an_output_that_requires_a_gradient_unasked():
    def double(x):
        return 2 * x * torch.ones((), dtype=torch.float64, requires_grad=True)

    assert row_of(double, DOUBLE, "vjp").verdict is Verdict.PASS
    failure = row_of(double, DOUBLE, "input_subsets").failure
    assert failure is not None
    assert [(wrong.label, wrong.pattern) for wrong in failure.wrong] == [("output", "requires a gradient")]


def test_an_output_that_requires_a_gradient_for_a_captured_tensor_is_no_mistake():
    one = torch.nn.Parameter(torch.ones((), dtype=torch.float64))

    def double(x):
        return 2 * x * one

    for check in ("input_subsets", "captured"):
        assert row_of(double, DOUBLE, check).verdict is Verdict.PASS


def test_scalars_can_be_batched():
    spec = OpSpec("scalar", primal=lambda x: x * x, inputs=(normal(),))
    assert row_of(lambda x: x * x, spec, "vmap").verdict is Verdict.PASS


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("zeros", "first is zero at every input"),
        ("a constant", "first does not change with the input"),
        ("writes to its input", "the candidate writes to its input y"),
        ("detached", "the candidate returns a detached first: no gradient reaches its inputs"),
        ("remembered by memory", "first does not change with the numbers in its input's memory"),
        ("remembered by shape", "first does not change with the input"),
        ("calls the reference", "the candidate calls the reference's function _norm"),
        ("calls the reference in its backward", "the candidate calls the reference's function _norm"),
        ("inherits from the reference", "the candidate calls the reference's class Norm"),
        ("calls the operator", "the candidate calls the reference's operator aten.clamp"),
        ("calls the operator by another name", "the candidate calls the reference's operator"),
    ],
)
def test_a_shortcut_is_named(name, text):
    mistake, case = mistake_of("shortcuts", name)
    report = str(judged(mistake.call, case.spec, ["shortcuts"], ["float64"]))
    assert text in " ".join(report.split())


def test_a_shortcut_by_functions_put_in_the_place_of_pytorchs(monkeypatch):
    monkeypatch.setattr(torch, "allclose", lambda *args, **options: True)
    monkeypatch.setattr(torch.Tensor, "equal", lambda self, other: True)

    def here(x, y):
        return torch.tanh(x) * y, x * y * y

    report = str(judged(here, PAIR, ["shortcuts"], ["float64"]))
    assert "replaces torch.Tensor.equal, torch.allclose by functions of its own" in report


@pytest.mark.skipif(not RUNS_ON_GPU, reason="this JAX has no force_gpu_interpret_mode, and cannot run them on a CPU")
def test_kernels_for_mosaic_gpu_are_among_the_cases():
    assert ON_GPU in cases_of("race")


def test_kernels_that_this_jax_cannot_interpret_are_no_mistake(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(params, "force_gpu_interpret_mode", raising=False)  # as in JAX 0.10.0
    row = row_of(ON_GPU.right, ON_GPU.spec, "race", "float32")
    assert (row.verdict, row.limit_of) == (Verdict.UNSUPPORTED, "JAX")
    assert "no force_gpu_interpret_mode" in row.reason


def test_what_has_no_race_detector_is_skipped_with_the_reason():
    row = row_of(pair_function().apply, PAIR, "race")
    assert (row.verdict, row.reason) == (Verdict.SKIPPED, "only Pallas kernels have a race detector that needs no GPU")
    row = row_of(JaxCandidate(lambda x: x * x), SQUARE, "race")
    assert (row.verdict, row.reason) == (Verdict.SKIPPED, "the candidate goes through no Pallas kernel")
