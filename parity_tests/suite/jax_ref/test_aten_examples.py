"""The examples in the docstrings of `jax_ref.aten` give what they say; products have the precision that is set."""

from __future__ import annotations

import doctest
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from jax_ref import aten
from parity_tests.harness.language.jaxprs import equations
from parity_tests.harness.numbers.numerics import pinned_jax


@pytest.fixture(autouse=True)
def as_jax_starts() -> Iterator[None]:
    with jax.enable_x64(False):
        yield


PARSER = doctest.DocTestParser()
NAMES = [name.removeprefix("aten::") for name in aten.OPERATORS]
EXAMPLES = {
    name: test
    for name in NAMES
    if (test := PARSER.get_doctest(aten.OPERATORS[name].__doc__ or "", {}, name, None, 0)).examples
}


def failures(test: doctest.DocTest) -> int:
    """How many examples give something else."""
    found = PARSER.get_doctest(test.docstring, {"aten": aten, "jnp": jnp}, test.name, None, 0)
    runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    return runner.run(found, out=lambda text: None).failed


@pytest.mark.slow
def test_the_examples_give_what_they_say():
    assert len(EXAMPLES) >= 40
    assert [name for name, test in EXAMPLES.items() if failures(test)] == []


def test_an_example_that_says_something_else_is_noticed():
    wrong = PARSER.get_doctest(">>> aten.relu(jnp.array([2.0]))\nArray([3.], dtype=float32)\n", {}, "wrong", None, 0)
    assert failures(wrong) == 1


def test_indices_out_of_range():
    """As the docstrings say."""
    x, far = jnp.array([1.0, 2.0, 3.0]), jnp.array([5])
    for found in (aten.gather(x, 0, far), aten.index_select(x, 0, far), aten.embedding(x[:, None], far)[0]):
        assert found.tolist() == [3]
    nothing = jnp.array([9.0])
    for found in (aten.scatter(x, 0, far, nothing), aten.scatter_add(x, 0, far, nothing)):
        assert found.tolist() == [1, 2, 3]
    for loss in (aten.cross_entropy_loss, aten.nll_loss):
        assert np.isnan(loss(jnp.zeros((1, 2)), far))


PRODUCTS: dict[str, tuple[Callable, tuple[tuple[int, ...], ...]]] = {
    "mm": (aten.mm, ((2, 3), (3, 4))),
    "linear": (aten.linear, ((2, 3), (4, 3))),
    "conv2d": (aten.conv2d, ((1, 2, 5, 5), (3, 2, 2, 2))),
    "attention": (aten.scaled_dot_product_attention, ((2, 4, 3), (2, 5, 3), (2, 5, 3))),
    "affine_grid": (lambda theta: aten.affine_grid_generator(theta, [1, 1, 3, 3], False), ((1, 2, 3),)),
}


def precisions(name: str) -> Iterator[object]:
    """The precision of each product in a call and its gradient."""
    function, shapes = PRODUCTS[name]
    args = [jnp.ones(shape, "float32") for shape in shapes]
    jaxpr = jax.make_jaxpr(jax.grad(lambda *x: function(*x).sum(), argnums=tuple(range(len(args)))))(*args)
    for eqn in equations(jaxpr.jaxpr):
        if eqn.primitive.name in ("dot_general", "conv_general_dilated"):
            yield eqn.params["precision"]


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_has_the_precision_that_is_set(name: str):
    with jax.default_matmul_precision(None):  # as it is where a user has set nothing
        assert set(precisions(name)) == {None}
    with jax.default_matmul_precision("tensorfloat32"):
        assert set(precisions(name)) == {(lax.Precision.HIGH, lax.Precision.HIGH)}
    with pinned_jax():  # what judges has all of it
        assert set(precisions(name)) == {(lax.Precision.HIGHEST, lax.Precision.HIGHEST)}
