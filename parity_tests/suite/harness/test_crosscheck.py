"""crosscheck, the public call: what it takes, what it refuses, and that a seed reproduces it."""

from __future__ import annotations

import re
from unittest.mock import MagicMock

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from parity_tests import OpSpec, Verdict, assert_parity, crosscheck
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.checks import CHECKS
from parity_tests.harness.crosscheck import as_candidate, asserting, assertions, named, select_precisions
from parity_tests.harness.numbers import devices
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.report.results import ORACLE

from ._ops import PAIR, SQUARE, normal, pair_function, rows, unary_function


def square(x):
    return x * x


def test_a_mock_is_a_callable_and_no_candidate_of_a_framework():
    """It has every attribute, and mocks as its name and limits could not be sent to another process."""
    candidate = as_candidate(MagicMock(), "mock", None)
    assert (type(candidate), candidate.name, candidate.limits) == (Candidate, "mock", None)
    assert list(named([MagicMock()])) == ["MagicMock"]
    report = crosscheck(MagicMock(), PAIR, checks=["forward"], dtypes=["float64"])
    (row,) = rows(report)
    assert row.verdict is Verdict.MISMATCH
    (failure,) = report.failures
    assert "returned MagicMock where a tensor, or a tuple of tensors, is expected" in failure.wrong[0].pattern


@pytest.mark.slow
def test_everything_by_default():
    report = crosscheck(square, OpSpec("square", primal=square, inputs=(normal(3, 4),)), limits={})
    judged = [(row.dtype, row.check) for row in rows(report)]
    assert judged == [
        (dtype, check.name)
        for dtype in PRECISIONS
        for check in CHECKS.values()
        if (dtype == "float64" or not check.one_dtype) and not check.on_request
        if dtype in ("bfloat16", "float16") or not check.only_short
    ]
    assert {row.device for row in report.rows} == {"cpu"}
    assert [row.check for row in report.rows if row.candidate == ORACLE] == [
        "vjp",
        "jvp",
        "vjp_of_vjp",
        "jvp_of_vjp",
        "vjp_of_jvp",
        "jvp_of_jvp",
    ]


def test_a_signature_makes_the_inputs():
    shapes = set()

    def product(x, y):
        shapes.add((*x.shape, *y.shape))
        return x @ y

    spec = OpSpec("product", primal=lambda x, y: x @ y, signature="(n,k),(k,m)->(n,m)")
    assert crosscheck(product, spec, checks=["forward"], dtypes=["float32"]).passed
    ones, zeros = {(1, 3, 3, 5), (4, 1, 1, 5), (4, 3, 3, 1)}, {(0, 3, 3, 5), (4, 0, 0, 5), (4, 3, 3, 0)}
    assert shapes >= {(4, 3, 3, 5), (33, 35, 35, 37)} | ones | zeros


def test_a_plain_function_with_inputs():
    report = crosscheck(torch.sin, jnp.sin, inputs=(normal(4),), checks=["forward"], dtypes=["float64"])
    assert report.passed, str(report)
    (row,) = rows(report)
    assert (row.op, row.candidate) == ("sin", "sin")


CALLS = [
    pytest.param(pair_function().apply, "Pair", id="a Function's apply"),
    pytest.param(lambda x, y: (torch.tanh(x) * y, x * y * y), "lambda", id="a lambda"),
]


@pytest.mark.parametrize(("call", "name"), CALLS)
def test_the_name_of_a_candidate(call, name):
    (row,) = rows(crosscheck(call, PAIR, checks=["forward"], dtypes=["float64"]))
    assert (row.candidate, row.verdict) == (name, Verdict.PASS)
    (row,) = rows(crosscheck(call, PAIR, checks=["forward"], dtypes=["float64"], name="mine"))
    assert row.candidate == "mine"


@pytest.mark.parametrize(
    ("call", "name"),
    [
        pytest.param(torch.ops.aten.tanh.default, "tanh.default", id="an operator's overload"),
        pytest.param(torch.ops.aten.tanh, "tanh", id="an operator"),
        pytest.param(torch.nn.Tanh(), "Tanh", id="a module"),
        pytest.param(torch.Tensor.tanh, "tanh", id="a method"),
    ],
)
def test_any_callable_on_tensors(call, name):
    spec = OpSpec("tanh", primal=jnp.tanh, inputs=(normal(4),))
    report = crosscheck(call, spec, checks=["vjp", "jvp", "vjp_of_vjp"], dtypes=["float64"], limits={})
    assert report.passed, str(report)
    assert {row.candidate for row in rows(report)} == {name}


def test_a_list_of_outputs_is_as_good_as_a_tuple():
    spec = OpSpec("pair", primal=lambda x: [x, x * x], inputs=(normal(4),))
    assert crosscheck(lambda x: [x * 1, x * x], spec, checks=["vjp"], dtypes=["float64"]).passed


def _content(report):
    return [(row.check, row.dtype, row.verdict, row.error_over_bound, row.comparisons) for row in report.rows]


@pytest.mark.slow
def test_a_seed_reproduces_and_another_does_not():
    spec = OpSpec("pair", primal=PAIR.primal, signature="(n,m),(n,m)->(n,m),(n,m)")

    def run(seed):
        report = crosscheck(pair_function().apply, spec, checks=["forward", "vjp"], dtypes=["float32"], seed=seed)
        assert report.environment["seed"] == seed
        return _content(report)

    assert run(3) == run(3)
    assert run(3) != run(4)


@pytest.mark.slow
def test_a_failure_is_the_same_whichever_checks_and_dtypes_ran_before():
    """So that its replay line, which names one check and one dtype, shows the same numbers."""
    wrong = unary_function(square, lambda x, g: x * g)
    alone = crosscheck(wrong, SQUARE, checks=["vjp"], dtypes=["float32"]).failures
    (among,) = (f for f in crosscheck(wrong, SQUARE).failures if (f.check, f.dtype) == ("vjp", "float32"))
    assert alone == [among]


def test_checks_and_dtypes_run_in_the_harness_s_order_and_once():
    report = crosscheck(square, SQUARE, checks=("vjp", "forward", "vjp"), dtypes=iter(["float32", "float64"]))
    assert [(row.dtype, row.check) for row in rows(report)] == [
        ("float64", "forward"),
        ("float64", "vjp"),
        ("float32", "forward"),
        ("float32", "vjp"),
    ]


def test_the_inputs_that_are_given_are_left_alone():
    x = normal(3, 3)
    before = x.copy()

    def writes(t):
        result = t * t
        t.data.zero_()
        return result

    report = crosscheck(writes, OpSpec("square", primal=square, inputs=(x,)), checks=["purity"], dtypes=["float64"])
    assert not report.passed
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        pytest.param(
            {"checks": ["vpj"]},
            ValueError,
            "unknown check 'vpj' (did you mean 'vjp'?); gradparity checks lists them",
            id="check",
        ),
        pytest.param(
            {"dtypes": ["float23"]},
            ValueError,
            "unknown dtype 'float23' (did you mean 'float32'?); there are float64, float32, bfloat16, float16, "
            "complex128, complex64",
            id="dtype",
        ),
        pytest.param(
            {"device": "cdua"},
            ValueError,
            f"crosscheck: device cdua cannot be judged here: PyTorch {torch.__version__} has no such device "
            f"(did you mean 'cuda'?); available: {', '.join(devices.available())}",
            id="device",
        ),
        pytest.param({"checks": []}, ValueError, "no check is selected, so nothing would be compared", id="no check"),
        pytest.param({"dtypes": ()}, ValueError, "no dtype is selected, so nothing would be compared", id="no dtype"),
        pytest.param(
            {"checks": "vjp"},
            TypeError,
            "checks must be a sequence of names, got the string 'vjp'; write ['vjp']",
            id="a string for checks",
        ),
        pytest.param(
            {"dtypes": "float32"},
            TypeError,
            "dtypes must be a sequence of names, got the string 'float32'; write ['float32']",
            id="a string for dtypes",
        ),
        pytest.param(
            {"limits": {"vpj": "no"}},
            ValueError,
            "unknown check 'vpj' (did you mean 'vjp'?); gradparity checks lists them",
            id="limits",
        ),
        pytest.param(
            {"inputs": (normal(3),)},
            TypeError,
            "crosscheck: an OpSpec makes its own inputs; give inputs to OpSpec(...) instead of here",
            id="inputs with a spec",
        ),
    ],
)
def test_arguments_that_cannot_be_used(options, error, text):
    with pytest.raises(error, match=f"^{re.escape(text)}$"):
        crosscheck(square, SQUARE, **options)


def test_a_candidate_that_is_not_callable():
    with pytest.raises(TypeError, match=r"^candidate 'Tensor' must be callable on tensors, got Tensor$"):
        crosscheck(torch.ones(3), SQUARE)  # type: ignore[arg-type]


def test_a_spec_that_is_not_one():
    with pytest.raises(TypeError, match=r"^crosscheck: spec must be an OpSpec or a JAX function, got str$"):
        crosscheck(square, "square")  # type: ignore[arg-type]


def test_a_plain_function_without_inputs():
    text = "crosscheck: give inputs=(...) with a plain JAX function, or an OpSpec with a signature"
    with pytest.raises(TypeError, match=f"^{re.escape(text)}$"):
        crosscheck(square, square)


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
def test_a_device_that_is_not_there():
    with pytest.raises(ValueError, match=r"^crosscheck: device cuda cannot be judged here: PyTorch .* sees no CUDA"):
        crosscheck(square, SQUARE, device="cuda")


def test_nothing_global_is_left_changed():
    before = torch.is_grad_enabled(), torch.get_default_dtype(), jnp.ones(1).dtype
    with torch.no_grad():
        assert crosscheck(square, SQUARE, checks=["vjp"], dtypes=["float64"]).passed
        assert not torch.is_grad_enabled()
    assert before == (torch.is_grad_enabled(), torch.get_default_dtype(), jnp.ones(1).dtype)


# Several candidates, quick runs, budgets, options of a pytest run.


def test_options_of_a_run_of_tests():
    before, received = assertions(), []
    with asserting(received.append, quick=True, seed=1), asserting(seed=2):
        quick = assert_parity(square, SQUARE, checks=["forward"])
        whole = assert_parity(square, SQUARE, checks=["forward"], quick=False)
    assert {row.dtype for row in rows(quick)} == {"float64", "bfloat16"}
    assert {row.dtype for row in rows(whole)} == {*PRECISIONS}
    assert received == [quick, whole]
    assert quick.environment["seed"] == 2
    assert assertions() == before


def wrong(x):
    """Twice what it should be."""
    return 2 * x * x


def test_several_candidates_share_a_table_and_the_certificates():
    report = crosscheck({"mine": square, "other": wrong}, SQUARE, checks=["forward", "vjp"], dtypes=["float64"])
    verdicts = [(row.candidate, row.check, row.verdict) for row in report.rows]
    assert verdicts == [
        (ORACLE, "vjp", Verdict.PASS),
        ("mine", "forward", Verdict.PASS),
        ("mine", "vjp", Verdict.PASS),
        ("other", "forward", Verdict.MISMATCH),
        ("other", "vjp", Verdict.MISMATCH),
    ]
    assert re.search(r"check +┃ oracle +┃ mine +┃ other", str(report))


def test_several_candidates_that_cannot_be_used():
    with pytest.raises(TypeError, match="several candidates have their own names; leave name out"):
        crosscheck({"mine": square}, SQUARE, name="yours")
    with pytest.raises(ValueError, match="no candidate is given, so nothing would be judged"):
        crosscheck({}, SQUARE)


@pytest.mark.parametrize(
    ("dtypes", "quick"),
    [
        (None, ["float64", "bfloat16"]),
        (["float32", "bfloat16", "float16"], ["float32", "bfloat16"]),  # of a reference that casts to float32
        (["bfloat16", "float16"], ["bfloat16"]),
        (["float16"], ["float16"]),
    ],
)
def test_the_formats_of_a_quick_run(dtypes, quick):
    spec = OpSpec("square", primal=square, signature="(n)->(n)", dtypes=dtypes)
    assert [precision.name for precision in select_precisions(None, spec, quick=True)] == quick


@pytest.mark.slow
def test_a_quick_run_judges_the_format_in_which_the_reference_computes():
    """A mistake of a thousandth is within the bound of bfloat16."""

    def reference(x):
        return torch.tanh(x.float()).to(x.dtype)

    wrong = crosscheck(lambda x: 1.001 * torch.tanh(x), reference, inputs="x: (n)", checks=["forward"], quick=True)
    assert [row.dtype for row in rows(wrong) if row.verdict is Verdict.MISMATCH] == ["float32"]


@pytest.mark.slow
def test_a_quick_run():
    report = crosscheck(square, OpSpec("square", primal=square, signature="(n,m)->(n,m)"), quick=True, limits={})
    assert report.passed, str(report)
    cheap = {name for name, check in CHECKS.items() if not check.costly and not check.on_request}
    assert {row.check for row in rows(report)} == cheap
    assert {row.dtype for row in rows(report)} == {"float64", "bfloat16"}
    (line,) = report.skipped
    assert line.startswith("quick run: float64 and bfloat16 only, few samples; not run: ")


def test_what_is_asked_for_is_in_a_quick_run_and_its_replay_line_is_quick():
    report = crosscheck(wrong, SQUARE, quick=True, checks=["determinism", "forward"], dtypes=["float32"])
    assert [(row.check, row.dtype) for row in rows(report)] == [("forward", "float32"), ("determinism", "float32")]
    assert (report.failures[0].replay or "").endswith("quick=True")
    assert "the same call with" in (report.failures[0].replay or "")


def test_a_budget_that_is_spent():
    report = crosscheck(square, SQUARE, budget=0)
    assert report.error == "the budget of 0 s is spent"
    assert report.exit_code == 2
    assert len(report.rows) == 1


def test_a_budget_that_is_enough():
    report = crosscheck(square, SQUARE, checks=["forward"], dtypes=["float64"], budget=600)
    assert report.passed
    assert report.error is None


@pytest.mark.parametrize("budget", [-1, float("nan")])
def test_a_budget_that_is_none(budget):
    with pytest.raises(ValueError, match="crosscheck: budget must be a number of seconds"):
        crosscheck(square, SQUARE, budget=budget)


@pytest.mark.parametrize(("terminal", "wanted"), [(True, True), (True, False), (False, True)])
def test_progress_is_shown_on_a_terminal_only(terminal, wanted, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR" if terminal else "NO_COLOR", "1")  # rich takes stderr for a terminal, or not
    crosscheck(square, SQUARE, checks=["forward"], dtypes=["float64"], progress=wanted)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("certifying the oracle" in captured.err) == (terminal and wanted)


def test_a_device_may_be_given_as_pytorch_has_it():
    report = crosscheck(torch.square, SQUARE, checks=["forward"], dtypes=["float64"], device=torch.device("cpu"))
    assert {row.device for row in report.rows} == {"cpu"}
    with pytest.raises(TypeError, match=r"device must be a name, such as \"cuda:1\", or a torch.device, got None"):
        crosscheck(torch.square, SQUARE, device=None)
