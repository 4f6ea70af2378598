"""The smallest part of given inputs that fails: how they are cut, and what is never made of them."""

from __future__ import annotations

import time

import numpy as np
import pytest
from typer.testing import CliRunner

from parity_tests import OpSpec, crosscheck
from parity_tests.cli.app import app
from parity_tests.harness.judging import shrink
from parity_tests.harness.specs.samples import Sample, given_arrays, samples
from parity_tests.suite.harness._ops import PAIR, pair_backward, pair_function


@pytest.mark.usefixtures("shrinking")
def test_given_inputs_are_cut_and_have_few_digits():
    wrong = pair_function(backward=lambda x, y, g, h: (pair_backward(x, y, g, h)[0], 2 * x * y * h))
    (smallest,) = [f.smallest for f in crosscheck(wrong.apply, PAIR, checks=["vjp"], dtypes=["float64"]).failures]
    assert smallest.sizes == {}
    for name, given_ in zip(("x", "y"), PAIR.inputs or (), strict=True):
        number = float(smallest.entries[name].strip("[]"))
        assert number * 64 == int(number * 64)
        assert np.min(given_) <= number <= np.max(given_)
    assert smallest.entries["first_bar"] == "[[1]]"
    assert "second_bar" not in smallest.entries
    assert smallest.wrong.label == "y_bar"


def given(spec: OpSpec) -> Sample:
    return next(iter(samples(spec, 0)))


def cut_to(spec: OpSpec, fails=lambda s: True) -> tuple[Sample, list[Sample]]:
    """The smallest sample, and every one that was tried."""
    names, tried = given(spec).differentiated(spec.names), []

    def counted(sample):
        tried.append(sample)
        sample.primals(names)
        return fails(sample)

    return shrink.shrunk(spec, given(spec), names, counted, time.monotonic() + 60), tried


MATRIX_PRODUCT = OpSpec("matmul", lambda x, y: x @ y, inputs=(np.ones((6, 9)), np.ones((9, 6))))


@pytest.mark.usefixtures("shrinking")
def test_axes_of_one_size_are_cut_together():
    found, tried = cut_to(MATRIX_PRODUCT, lambda s: s.shapes[0][1] >= 5)
    assert found.shapes == ((1, 5), (5, 1))
    assert all(s.shapes[0] == s.shapes[1][::-1] for s in tried)


@pytest.mark.usefixtures("shrinking")
def test_an_entry_in_the_middle_is_all_that_is_left():
    """Of the first entries it is the last."""
    x = np.arange(1.0, 13)
    found, _ = cut_to(OpSpec("op", lambda x: x, inputs=(x,), input_names=["x"]), lambda s: 8 in given_arrays(s)[0])
    assert given_arrays(found)[0].tolist() == [8]
    spec = OpSpec("take", lambda x, i: x[i], inputs=(x, np.array([7, 0, -1])), input_names=["x", "i"])
    found, tried = cut_to(spec, lambda s: 8 in given_arrays(s)[0])
    assert {i: y.tolist() for i, y in given_arrays(found).items()} == {0: [8], 1: [0]}
    for sample in tried:
        size, indices = len(given_arrays(sample)[0]), given_arrays(sample)[1]
        assert ((-size <= indices) & (indices < size)).all()


@pytest.mark.usefixtures("shrinking")
def test_an_axis_that_has_become_as_long_as_another_is_still_another():
    found, _ = cut_to(MATRIX_PRODUCT, lambda s: s.shapes[0][1] >= 6 and s.shapes[0][0] >= 2)
    assert found.shapes == ((2, 6), (6, 2))


@pytest.mark.usefixtures("shrinking")
def test_indices_stay_below_the_axis_that_is_cut():
    """Nobody may read beyond an array: indices are brought below, offsets that end with a size keep the size."""
    x = np.arange(1.0, 13).reshape(6, 2)
    found, tried = cut_to(OpSpec("take", lambda x, i: x[i], inputs=(x, np.array([5, 0, 3]))))
    assert found.shapes == ((1, 1),)
    assert found.constants[1].tolist() == [0]
    assert all(s.constants[1].max() < s.shapes[0][0] for s in tried)
    found, _ = cut_to(OpSpec("segments", lambda x, i: x, inputs=(x, np.array([0, 2, 6]))))
    assert found.shapes == ((6, 1),)
    found, _ = cut_to(OpSpec("from the end", lambda x, i: x[i], inputs=(x, np.array([0, -3, 2]))))
    assert found.shapes == ((3, 1),)


@pytest.mark.usefixtures("shrinking")
@pytest.mark.parametrize(("domain", "shape"), [("probabilities", (4, 1)), ("definite", (1, 1)), ("positive", (1, 1))])
def test_a_part_of_a_given_input_is_in_its_domain(domain, shape):
    """Three probabilities of four have another sum; nor may rows be cut, since that is known of no such domain."""
    x = np.full((4, 1), 1.0) if domain == "probabilities" else np.eye(4) + 1
    found, _ = cut_to(OpSpec("op", lambda x: x, inputs=(x,), domains={"x": domain}, input_names=["x"]))
    assert found.shapes == (shape,)


@pytest.mark.usefixtures("shrinking")
@pytest.mark.parametrize("low", [0.0, -1.0])
def test_given_numbers_stay_between_the_smallest_and_the_largest(low):
    """That they all are between 0 and 1, or of one sign, may be what the operator needs."""
    x = np.random.default_rng(0).uniform(low, low + 1, (3, 2))
    _, tried = cut_to(OpSpec("op", lambda x: x, inputs=(x,), input_names=["x"]))
    assert any("x 0" in s.given for s in tried)
    for sample in tried:
        (entries,) = sample.primals(("x",))
        assert x.min() <= entries.min() <= entries.max() <= x.max()


@pytest.mark.slow
@pytest.mark.usefixtures("shrinking")
def test_a_shrunk_failure_of_given_inputs_is_replayed(tmp_path):
    (tmp_path / "case.py").write_text(
        "import numpy as np\nimport torch\nfrom gradparity import OpSpec\n"
        "class Half(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x):\n        ctx.save_for_backward(x)\n        return x * x\n"
        "    @staticmethod\n    def backward(ctx, g):\n        return ctx.saved_tensors[0] * g\n"
        "candidate = Half.apply\n"
        'spec = OpSpec("square", lambda x: x * x, inputs=(np.arange(1.0, 13).reshape(3, 4) / 7,), input_names=["x"])\n'
    )
    run = CliRunner().invoke(app, ["check", str(tmp_path / "case.py"), "--only", "vjp", "--failures", str(tmp_path)])
    assert run.exit_code == 1, run.output
    (file,) = tmp_path.glob("*.npz")
    with np.load(file) as arrays:
        assert arrays["drawn.x 0"].shape == (1, 1)
    again = CliRunner().invoke(app, ["replay", str(file), "--case", str(tmp_path / "case.py")])
    assert again.exit_code == 1, again.output
    assert "x_bar" in again.output
