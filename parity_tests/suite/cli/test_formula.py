"""`gradparity formula`: PyTorch's formulas are shown, and those of a file are judged before they are compiled."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from parity_tests.cli.app import app
from parity_tests.suite.marks import slow_after

WRONG_SIGN = """
- name: sin(Tensor self) -> Tensor
  self: -grad * self.cos()
  result: self_t * self_p.cos()
"""
SCALED = """
- name: mul.Tensor(Tensor self, Tensor other) -> Tensor
  self: mul_tensor_backward(grad, other, self.scalar_type())
  other: mul_tensor_backward(grad, self, other.scalar_type())
  result: other_t * self_p + self_t * other_p
"""
WITHOUT_CONJUGATE = """
- name: mul.Tensor(Tensor self, Tensor other) -> Tensor
  self: grad * other
  other: grad * self.conj()
  result: other_t * self_p + self_t * other_p
"""
# PyTorch's own entry loses digits, see docs/found.md, 35; the mended one does not.
OWN = """
- name: expm1(Tensor self) -> Tensor
  self: grad * (result.conj() + 1)
  result: auto_element_wise
"""
MENDED = """
- name: expm1(Tensor self) -> Tensor
  self: grad * self.exp().conj()
  result: auto_element_wise
"""
# Weights of a resampling are computed in the oracle's program, and round there as they do in PyTorch.
RESAMPLING = """
- name: _upsample_bicubic2d_aa(Tensor self, SymInt[2] output_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor
  self: FACTOR_upsample_KERNEL2d_aa_backward_symint(grad, output_size, self.sym_sizes(), align_corners, scales_h, scales_w)
  result: auto_linear

- name: _upsample_bicubic2d_aa_backward(Tensor grad_output, SymInt[2] output_size, SymInt[4] input_size, bool align_corners, float? scales_h=None, float? scales_w=None) -> Tensor
  grad_output: FACTOR_upsample_KERNEL2d_aa_symint(grad, output_size, align_corners, scales_h, scales_w)
  result: auto_linear
"""  # noqa: E501
SPEC = """
import jax.numpy as jnp
from gradparity import OpSpec

spec = OpSpec("sine", lambda self: jnp.sin(self), "(n)->(n)", domains={"self": "real"})
"""


def gradparity(*args: str):
    return CliRunner(env={"COLUMNS": "120"}).invoke(app, [*args], catch_exceptions=False)


@pytest.fixture
def written(tmp_path: Path):
    def write(text: str, name: str = "derivatives.yaml") -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_the_formulas_of_an_operator_are_shown():
    shown = gradparity("formula", "tanh")
    assert shown.exit_code == 0, shown.output
    for text in ("tanh(Tensor self) -> Tensor", "tanh_backward(grad, result)", "auto_element_wise", "jax_ref.aten"):
        assert text in shown.output


def test_an_unknown_operator_is_told_with_those_that_are_near():
    told = gradparity("formula", "tanhh")
    assert told.exit_code == 2
    assert "no entry for 'tanhh' of the key Default; there is tanh" in told.output


@pytest.mark.slow
@pytest.mark.usefixtures("shrinking")
def test_a_wrong_entry_is_a_disagreement_with_its_line(written):
    path = written(WRONG_SIGN)
    judged = gradparity("formula", str(path))
    assert judged.exit_code == 1, judged.output
    assert f"{path}:2: sin DISAGREES" in judged.output
    assert "  line 3  self: -grad * self.cos()" in judged.output
    assert "looks like  self_bar = -oracle" in judged.output
    assert judged.output.count("sin disagrees with the oracle   [vjp, ") == 1, judged.output
    assert "  smallest  n=1; " in judged.output
    assert "sin disagrees in the same results at a sample of (20, 20), complex128" in judged.output
    assert f"  replay  gradparity formula {path} --op sin\n" in judged.output
    assert "gradparity explain vjp\n" in judged.output
    assert gradparity("formula", str(path), "--op", "sin").exit_code == 1  # what the failure says


WITHOUT_ALPHA = """
- name: index_add(Tensor self, int dim, Tensor index, Tensor source, *, Scalar alpha=1) -> Tensor
  self: grad
  source: grad.index_select(dim, index).expand_as(source)
  index: non_differentiable
"""


@pytest.mark.slow
def test_the_options_of_a_sample_are_told(written):
    judged = gradparity("formula", str(written(WITHOUT_ALPHA)))
    assert judged.exit_code == 1, judged.output
    assert ": index_add, at a sample of (), (), with dim=0, index=[0], alpha=-1\n" in judged.output


# The factor alpha is missing in one gradient.
ADDMM = """
- name: addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor
  self: maybe_multiply(grad, beta.conj())
  mat1: grad.mm(mat2.t().conj())
  mat2: maybe_multiply(mat1.t().conj().mm(grad), alpha.conj())
"""


@pytest.mark.slow
@pytest.mark.usefixtures("shrinking")
def test_a_sample_of_pytorch_s_own_is_shrunk(written):
    judged = gradparity("formula", str(written(ADDMM)))
    assert judged.exit_code == 1, judged.output
    assert "with beta=0.2, alpha=0.6" in judged.output
    (smallest,) = (line for line in judged.output.splitlines() if line.startswith("  smallest  "))
    for one in ("mat1 = [[", "mat2 = [[", "self = [[", "output_bar = [[1]]"):
        assert one in smallest
    assert "," not in smallest.partition("mat1 = ")[2].partition("]]")[0]  # one number


WITHOUT_OTHER = """
- name: mul.Tensor(Tensor self, Tensor other) -> Tensor
  self: grad * other.conj()
"""
LEFT_OUT = "mul.Tensor has no formula for other, and PyTorch "


@pytest.mark.slow
def test_an_input_that_has_no_formula_must_be_meant(written):
    """PyTorch's own entry differentiates it, and codegen would say nothing."""
    path = written(WITHOUT_OTHER)
    told = gradparity("formula", str(path))
    assert told.exit_code == 1, told.output
    assert f"{path}:2: {LEFT_OUT}" in told.output
    assert "write the formula or, if that is meant, `other: non_differentiable`\n" in told.output
    assert told.output.endswith("mul.Tensor DISAGREES\n")
    meant = gradparity("formula", str(written(WITHOUT_OTHER + "  other: non_differentiable\n")))
    assert meant.exit_code == 0, meant.output
    assert "mul.Tensor declares other to be non_differentiable, and PyTorch " in meant.output
    assert meant.output.endswith("mul.Tensor agrees with its reference\n")


@pytest.mark.slow
@pytest.mark.parametrize(("more", "code"), [("", 1), ("  weight: non_differentiable\n", 0)])
def test_of_an_operator_without_an_entry_too(written, more, code):
    """PyTorch composes it of others, and differentiates both."""
    entry = "- name: prelu(Tensor self, Tensor weight) -> Tensor\n  self: where(self >= 0, grad, grad * weight)\n"
    told = gradparity("formula", str(written(entry + more)))
    assert told.exit_code == code, told.output
    says = "declares weight to be non_differentiable" if more else "has no formula for weight"
    assert f"prelu {says}, and PyTorch {torch.__version__.partition('+')[0]} differentiates it" in told.output


def test_an_entry_of_no_differentiable_result_is_not_judged(written):
    entry = "- name: sin(Tensor self) -> Tensor\n  self: grad * self.cos()\n  output_differentiability: [False]\n"
    told = gradparity("formula", str(written(entry)))
    assert told.exit_code == 2, told.output
    assert told.output.endswith("not judged: its output_differentiability says that no result has a derivative\n")


def test_an_entry_with_no_formula_at_all_has_left_them_out(written):
    told = gradparity("formula", str(written("- name: sin(Tensor self) -> Tensor\n")))
    assert told.exit_code == 1, told.output
    assert "sin has no formula for self" in told.output
    assert "sin DISAGREES, and is not judged: " in told.output


MALFORMED = {  # the formula, of sin, and what is told
    "a bracket that is left open": ("grad * (self.cos()", ["expected `)` at position 18", "  grad * (self.cos()\n"]),
    "another arity": (
        "grad * cos(self, self)",
        ["no overload of aten::cos takes (Tensor, Tensor)", "cos(Tensor self)"],
    ),
    "an argument too few": ("mul_tensor_backward(grad)", ["missing 2 required positional arguments: 'other'"]),
    "an unknown function": ("grad * cosinus(self)", ["cannot evaluate cosinus: there is no such operator"]),
    "an unknown name": ("grad * selv.cos()", ["cannot evaluate selv: it is no argument, result, cotangent"]),
}


@pytest.mark.parametrize("name", slow_after(2, MALFORMED))
def test_a_malformed_formula_is_told_with_its_line_and_not_judged(written, name):
    formula, texts = MALFORMED[name]
    path = written(f"- name: sin(Tensor self) -> Tensor\n  self: {formula}\n")
    told = gradparity("formula", str(path))
    assert told.exit_code == 2, told.output
    for text in (f"{path}:2: ", formula, *texts):
        assert text in told.output
    assert "MISMATCH" not in told.output


def test_an_entry_that_a_file_lacks_is_told_with_those_it_has(written):
    path = written(WRONG_SIGN)
    told = gradparity("formula", str(path), "--op", "cosh")
    assert told.exit_code == 2
    assert f"no entry for 'cosh' of the key Default in {path}; there is sin" in " ".join(told.output.split())


@pytest.mark.slow
def test_a_right_entry_of_two_inputs_agrees(written):
    judged = gradparity("formula", str(written(SCALED)), "--op", "mul.Tensor")
    assert judged.exit_code == 0, judged.output
    assert "mul.Tensor agrees with its reference" in judged.output


@pytest.mark.slow
def test_another_mistake_at_complex_numbers_is_told_in_full(written):
    """The sign is wrong for both kinds of numbers, the conjugate, of another input, for complex ones alone."""
    text = WITHOUT_CONJUGATE.replace("other: grad", "other: -grad")
    judged = gradparity("formula", str(written(text)))
    assert judged.exit_code == 1, judged.output
    assert judged.output.count("mul.Tensor disagrees with the oracle   [vjp, ") == 2, judged.output


@pytest.mark.slow
def test_a_missing_conjugate_is_seen(written):
    judged = gradparity("formula", str(written(WITHOUT_CONJUGATE)))
    assert judged.exit_code == 1, judged.output
    assert "[vjp, given, complex128" in judged.output
    assert "[vjp, given, float64" not in judged.output


@pytest.mark.slow
def test_pytorch_s_own_entry_is_told_and_does_not_count(written):
    """It loses digits, which is shown in full; the exit code is that of what is new."""
    judged = gradparity("formula", str(written(OWN)))
    assert judged.exit_code == 0, judged.output
    assert "expm1 disagrees with the oracle   [vjp, " in judged.output
    text = "expm1 DISAGREES: the entry is PyTorch 2.13.0's own, unchanged; it does not count for the exit code"
    assert text.replace("2.13.0", torch.__version__.partition("+")[0]) in judged.output
    mended = gradparity("formula", str(written(MENDED)))
    assert mended.exit_code == 0, mended.output
    assert "expm1 agrees with its reference" in mended.output


@pytest.mark.slow
def test_only_the_changed_formula_counts(written):
    """The VJP is PyTorch's; the JVP is one's own, and right; or has the wrong sign."""
    right = gradparity("formula", str(written(OWN.replace("auto_element_wise", "self_t * self_p.exp()"))))
    assert right.exit_code == 0, right.output
    assert "expm1 agrees in its JVP, and DISAGREES in its VJP: that is PyTorch " in right.output
    wrong = gradparity("formula", str(written(OWN.replace("auto_element_wise", "-self_t * self_p.exp()"))))
    assert wrong.exit_code == 1, wrong.output
    assert "'s own expm1 agrees at these inputs: the disagreement is new" in wrong.output
    assert wrong.output.endswith("expm1 DISAGREES\n")


@pytest.mark.slow
def test_a_changed_formula_that_is_as_wrong_as_pytorch_s_is_told_to_be(written):
    """Nothing but a comparison of both tells that; the entry is changed, so that it counts."""
    judged = gradparity(
        "formula", str(written(OWN.replace("grad * (result.conj() + 1)", "(result.conj() + 1) * grad")))
    )
    assert judged.exit_code == 1, judged.output
    same = re.findall("'s own expm1 disagrees in the same results at these inputs, by at most (.*)", judged.output)[0]
    theirs, mine = re.findall(r"[^ ()]+e-\d+", same)
    assert theirs == mine
    assert float(mine) < 1e-6


@pytest.mark.slow
def test_a_formula_is_proved_on_request(written):
    right = written(MENDED)
    result = gradparity("formula", str(right), "--proof")
    assert "expm1, at inputs that are made for it: forward, vjp, jvp, vjp_of_vjp, jvp_of_vjp proved" in result.output
    assert (result.exit_code, "expm1 agrees with its reference" in result.output) == (0, True)
    assert "finite fields" not in gradparity("formula", str(right)).output


def test_options_of_a_file_are_refused_without_one():
    result = gradparity("formula", "tanh", "--proof")
    assert (result.exit_code, "are for a file of formulas, and 'tanh' is no .yaml" in result.output) == (2, True)


@pytest.mark.slow
def test_an_entry_is_judged_by_a_spec(written):
    spec = written(SPEC, "my_case.py")
    wrong = gradparity("formula", str(written(WRONG_SIGN)), "--op", "sin", "--spec", str(spec))
    assert wrong.exit_code == 1, wrong.output
    right = gradparity("formula", str(written(WRONG_SIGN.replace("-grad", "grad"))), "--op", "sin", "--spec", str(spec))
    assert right.exit_code == 0, right.output


OF_ONE_S_OWN = """
- name: gated_rows(Tensor x, Tensor gate, Tensor rows, float scale=2.0) -> Tensor
  x: at::zeros_like(x).index_add(0, rows, grad * (gate * scale).sigmoid())
  gate: grad * x.index_select(0, rows) * scale * (gate * scale).sigmoid() * (1 - (gate * scale).sigmoid())
"""
SPEC_OF_ONE_S_OWN = """
import torch
from gradparity import OpSpec


def gated_rows(x, gate, rows, scale=2.0):
    return x.index_select(0, rows) * torch.sigmoid(scale * gate)


spec = OpSpec.from_torch(gated_rows, inputs="x: (n,d), gate: (m,d), rows: (m) integer(0,n)", sizes="n >= 1")
"""


@pytest.mark.slow
def test_an_operator_of_one_s_own_is_judged_by_its_spec(written):
    spec = ["--op", "gated_rows", "--spec", str(written(SPEC_OF_ONE_S_OWN, "my_case.py"))]
    right = gradparity("formula", str(written(OF_ONE_S_OWN)), *spec)
    assert right.exit_code == 0, right.output
    for wrong in (
        OF_ONE_S_OWN.replace("* scale * (gate", "* (gate"),  # of the gate's slope
        OF_ONE_S_OWN.replace("(0, rows, grad * (gate * scale)", "(0, rows, grad * (gate + scale)"),
        OF_ONE_S_OWN.replace("scale=2.0", "scale=2.5"),
    ):
        told = gradparity("formula", str(written(wrong)), *spec)
        assert told.exit_code == 1, told.output
    with_bias = OF_ONE_S_OWN.replace("Tensor rows,", "Tensor rows, Tensor bias,")
    assert "the spec has 3 inputs, the schema the tensors x, gate, rows, bias" in _in_a_line(
        gradparity("formula", str(written(with_bias)), *spec).output
    )


def test_an_operator_of_aten_must_have_its_schema(written):
    spec = ["--op", "sin", "--spec", str(written(SPEC, "my_case.py"))]
    told = gradparity("formula", str(written("- name: sin(Tensor x) -> Tensor\n  x: grad\n")), *spec)
    assert told.exit_code == 2
    assert "no operator has this schema" in told.output


def _in_a_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.slow
def test_what_cannot_be_judged_is_told(written):
    path = written("- name: made_up(Tensor self) -> Tensor\n  self: grad\n")
    told = gradparity("formula", str(path))
    assert told.exit_code == 2
    assert "made_up" in told.output
    assert str(path) in told.output
    two = written(WRONG_SIGN + SCALED)
    assert "--spec is for one operator" in gradparity("formula", str(two), "--spec", "my_case.py").output


@pytest.mark.parametrize(
    ("text", "says"), [("[]\n", "has no entries with formulas"), ("", "must be a list of entries")]
)
def test_a_file_without_entries_is_told(written, text: str, says: str):
    path = written(text)
    told = gradparity("formula", str(path))
    assert told.exit_code == 2
    assert str(path) in told.stderr
    assert says in told.stderr


def _resampling(factor: str, kernel: str) -> str:
    return RESAMPLING.replace("FACTOR", factor).replace("KERNEL", kernel)


@pytest.mark.slow
def test_weights_that_are_computed_in_another_order_are_right(written):
    judged = gradparity("formula", str(written(_resampling("", "bicubic"))))
    assert judged.exit_code == 0, judged.output
    assert judged.output.count("agrees with its reference") == 2


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "kernel"), [("", "bilinear"), ("1.0000001 * ", "bicubic"), ("-", "bicubic")])
def test_a_wrong_resampling_disagrees(written, factor, kernel):
    judged = gradparity("formula", str(written(_resampling(factor, kernel))))
    assert judged.exit_code == 1, judged.output
    assert judged.output.count(" DISAGREES") == 2
