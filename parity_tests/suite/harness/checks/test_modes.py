"""The checks modes and mixed_dtypes: where they have nothing to say, and that they leave no mode behind."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import jax.numpy as jnp
import pytest
import torch
from torch.utils.checkpoint import checkpoint

from parity_tests import JaxCandidate, OpSpec, Verdict
from parity_tests.cli.sources.evaluated import Evaluated
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.candidates.torch_modules import with_parameters
from parity_tests.harness.checks import modes
from parity_tests.suite.harness._ops import PAIR, Pair, judged, normal, pair
from parity_tests.suite.harness.checks.planted.mixed_dtypes import LAYER_NORM
from parity_tests.suite.harness.checks.planted.modes import CENTRED, PairModule, ReplacedMean, RunningMean, Scaled

MATMUL = OpSpec("matmul", primal=jnp.matmul, inputs=(normal(3, 4), normal(4, 5)))


class OwnTrain(torch.nn.Linear):
    def train(self, mode: bool = True):
        """Folds, or would."""
        return super().train(mode)


def _is_judged_in_eval(call) -> bool:
    with Candidate(call, "it").evaluating() as changed:
        return changed


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        pytest.param(torch.nn.Linear(2, 2), True, id="Linear"),
        pytest.param(torch.nn.Linear(2, 2).eval(), False, id="already in eval"),
        pytest.param(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.0)), True, id="no dropout"),
        pytest.param(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Dropout(0.1)), False, id="dropout"),
        pytest.param(torch.nn.LayerNorm(2), True, id="LayerNorm"),
        pytest.param(torch.nn.BatchNorm1d(2), False, id="BatchNorm1d"),
        pytest.param(torch.nn.BatchNorm1d(2, track_running_stats=False), True, id="no running statistics"),
        pytest.param(torch.nn.InstanceNorm1d(2), True, id="InstanceNorm1d"),
        pytest.param(torch.nn.InstanceNorm1d(2, track_running_stats=True), False, id="InstanceNorm1d that tracks"),
        pytest.param(torch.nn.RReLU(), False, id="RReLU"),
        pytest.param(torch.nn.MultiheadAttention(2, 1), True, id="MultiheadAttention"),
        pytest.param(torch.nn.MultiheadAttention(2, 1, dropout=0.1), False, id="MultiheadAttention with dropout"),
        pytest.param(torch.nn.LSTM(2, 2, 2, dropout=0.1), False, id="LSTM with dropout"),
        pytest.param(OwnTrain(2, 2), False, id="a train of its own"),
        pytest.param(torch.relu, False, id="no module"),
    ],
)
def test_what_is_judged_in_eval(module, expected: bool):
    assert _is_judged_in_eval(module) is expected


@pytest.mark.parametrize("kind", [RunningMean, ReplacedMean])
def test_statistics_by_hand_are_known_once_a_call_has_written_to_them(kind):
    candidate = Candidate(kind(), "it")
    with candidate.evaluating() as changed:
        assert changed
    candidate.forward([torch.ones(5, 4)])
    with candidate.evaluating() as changed:
        assert not changed


def test_a_module_that_is_called_by_a_function():
    module, statistics = Scaled(), RunningMean()
    assert _is_judged_in_eval(lambda x, y: module(x, y))
    assert not _is_judged_in_eval(lambda x: statistics(x))
    assert _is_judged_in_eval(Evaluated(module, with_parameters(module)))


def test_every_part_is_in_its_own_mode_again():
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh(), torch.nn.Dropout(0.5).eval())
    before = [part.training for part in module.modules()]
    assert before == [True, True, True, False]
    with contextlib.suppress(KeyError), Candidate(module, "it").evaluating() as changed:
        assert changed
        assert not any(part.training for part in module.modules())
        raise KeyError
    assert [part.training for part in module.modules()] == before


@pytest.mark.parametrize(("enabled", "warn_only"), [(False, False), (True, True), (True, False)])
def test_the_choice_of_algorithms_is_left_alone(enabled: bool, warn_only: bool):
    torch.use_deterministic_algorithms(enabled, warn_only=warn_only)
    try:
        assert judged(pair, PAIR, "modes").verdict is Verdict.PASS
        found = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        assert found == (enabled, warn_only)
    finally:
        torch.use_deterministic_algorithms(False)


def test_a_solution_that_is_wrong_where_it_is_deployed_is_told_by_its_mode():
    """As an evaluator makes its candidate."""
    module = Scaled()
    failure = judged(Evaluated(module, with_parameters(module)), PAIR, "modes").failure
    assert failure is not None
    assert {wrong.circumstance for wrong in failure.wrong} == {"in eval()"}


def _force(x):
    with torch.enable_grad():
        z = x if x.requires_grad else x.detach().requires_grad_()
        return torch.autograd.grad((z**4).sum(), z, create_graph=True)[0]


def _checkpointed(x):
    return checkpoint(lambda z: 4 * z**3, x, use_reentrant=True)


@pytest.mark.parametrize("call", [_force, _checkpointed])
def test_what_pytorch_runs_in_some_modes_only_is_no_mistake(call):
    """A forward that differentiates has no inference mode; a reentrant checkpoint goes backward by `.backward()`."""
    spec = OpSpec("force", primal=lambda x: 4 * x**3, inputs=(normal(3),))
    row = judged(call, spec, "modes", limits={})
    assert (row.verdict, row.reason) == (Verdict.PASS, "")
    assert row.comparisons > 0


def _by_grad(x):
    return torch.func.grad(lambda z: (z**4).sum())(x)


def _by_jvp(x):
    return torch.func.jvp(lambda z: z**4, (x,), (torch.ones_like(x),))[1]


def _by_vmap(x):
    return torch.func.vmap(lambda z: 4 * z**3)(x)


def _wrong_if_inferred(call: Callable) -> Callable:
    return lambda x: call(x) * (0 if torch.is_inference_mode_enabled() else 1)


def _wrong_without_gradients(call: Callable) -> Callable:
    return lambda x: call(x) * (1 if torch.is_grad_enabled() else 2)


FORCE = OpSpec("force", primal=lambda x: 4 * x**3, inputs=(normal(3),))
OF_TORCH_FUNC = (
    "goes through torch.func, whose derivatives are zero under torch.inference_mode() in this PyTorch",
    "PyTorch",
)


@pytest.mark.parametrize("call", [_by_grad, _by_jvp])
def test_a_forward_by_torch_func_is_not_charged_with_inference_mode(call: Callable):
    """Where PyTorch, as 2.11, has no derivatives there."""
    with torch.inference_mode():
        works = bool(call(torch.ones(3)).all())
    row = judged(call, FORCE, "modes")
    assert row.verdict is (Verdict.PASS if works else Verdict.UNSUPPORTED)
    assert (row.reason, row.limit_of) == (("", "") if works else OF_TORCH_FUNC)
    assert row.comparisons > 0


@pytest.mark.parametrize("call", [_by_grad, _by_jvp])
def test_inference_mode_where_torch_func_has_no_derivatives_there(call: Callable, monkeypatch: pytest.MonkeyPatch):
    """As in PyTorch 2.11, whichever is installed."""
    monkeypatch.setattr(modes, "_torch_func_works_in_inference_mode", lambda: False)
    row = judged(_wrong_if_inferred(call), FORCE, "modes")
    assert (row.verdict, row.reason, row.limit_of) == (Verdict.UNSUPPORTED, *OF_TORCH_FUNC)
    assert judged(_wrong_without_gradients(call), FORCE, "modes").verdict is Verdict.MISMATCH
    # Nothing of these goes through its derivatives.
    for plain in (lambda x: 4 * x**3, _by_vmap):
        assert judged(plain, FORCE, "modes").verdict is Verdict.PASS
        assert judged(_wrong_if_inferred(plain), FORCE, "modes").verdict is Verdict.MISMATCH


def _in_one_dtype(x, y):
    if x.dtype != y.dtype:
        raise ValueError("x and y must share one dtype")
    return pair(x, y)


class RefusedLater(Pair):
    """Has a backward that multiplies matrices of two dtypes."""

    @staticmethod
    def backward(ctx, *cotangents):
        """Both gradients, and a product that refuses."""
        x, y = ctx.saved_tensors
        _ = x @ y.mT
        return Pair.backward(ctx, *cotangents)


class Fails(Pair):
    """Has a backward that raises what is no refusal."""

    @staticmethod
    def backward(ctx, *cotangents):
        """Both gradients."""
        x, y = ctx.saved_tensors
        if x.dtype != y.dtype:
            raise IndexError("too far")
        return Pair.backward(ctx, *cotangents)


@pytest.mark.parametrize(
    ("call", "spec"),
    [
        pytest.param(torch.matmul, MATMUL, id="PyTorch refuses"),
        pytest.param(_in_one_dtype, PAIR, id="the author refuses"),
        pytest.param(RefusedLater.apply, PAIR, id="PyTorch refuses in the backward"),
    ],
)
def test_whoever_takes_one_dtype_is_not_judged_by_two(call, spec: OpSpec):
    row = judged(call, spec, "mixed_dtypes")
    assert row.verdict is Verdict.SKIPPED
    assert row.reason.startswith("it takes no inputs of two dtypes: ")


def test_another_error_of_the_backward_is_no_refusal():
    assert judged(Fails.apply, PAIR, "mixed_dtypes").verdict is Verdict.MISMATCH


@pytest.mark.parametrize(
    ("call", "spec"),
    [
        (torch.sin, OpSpec("sin", primal=jnp.sin, inputs=(normal(3),))),
        (
            torch.mul,
            OpSpec("mul", primal=jnp.multiply, signature="(n),(n)->(n)", constants=["y"], input_names=["x", "y"]),
        ),
    ],
    ids=["alone", "beside a constant"],
)
def test_one_dtype_of_one_input_that_is_differentiated(call: Callable, spec: OpSpec):
    row = judged(call, spec, "mixed_dtypes")
    assert row.verdict is Verdict.SKIPPED
    assert row.reason == "it has one input that is differentiated, so there are no dtypes to mix"


def test_an_operator_of_one_dtype():
    spec = OpSpec("pair", primal=PAIR.primal, inputs=PAIR.inputs, dtypes=("float64",))
    assert judged(pair, spec, "mixed_dtypes").reason == "OpSpec.dtypes leaves float32 out"


def test_some_calls_are_judged_where_others_are_refused():
    """PyTorch's layer norm takes a bfloat16 input with float32 weights, and no other two dtypes."""
    row = judged(
        lambda x, w, b: torch.nn.functional.layer_norm(x, (6,), w, b), LAYER_NORM, "mixed_dtypes", "float32", limits={}
    )
    assert (row.verdict, row.reason) == (Verdict.PASS, "")
    assert row.comparisons > 0


@pytest.mark.parametrize("check", ["modes", "mixed_dtypes"])
def test_they_are_of_pytorch(check: str):
    assert judged(JaxCandidate(PAIR.primal), PAIR, check).verdict is Verdict.SKIPPED


def test_a_right_module_is_judged_in_eval():
    plain, module = judged(pair, PAIR, "modes"), judged(PairModule(), PAIR, "modes")
    assert module.comparisons > plain.comparisons
    assert judged(RunningMean(), CENTRED, "modes").verdict is Verdict.PASS
