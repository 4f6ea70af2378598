"""Sizes 0 and 1 in every axis: shapes, values and every first and second derivative of both faces."""

import jax
import numpy as np
import pytest

from jax_ref import attn, attn_ad, attn_primal
from parity_tests.suite.jax_ref._cases import Sizes, draw, quick_jit, same, shape
from parity_tests.suite.marks import fast

SIZES = {
    f"{axis}_{size}": Sizes(n=3, m=5, d=4, e=2)._replace(**{axis: size}) for axis in Sizes._fields for size in (0, 1)
} | {"all_0": Sizes(0, 0, 0, 0), "all_1": Sizes(1, 1, 1, 1), "only_n_and_e": Sizes(3, 0, 0, 2)}
faces = pytest.mark.parametrize("op", [pytest.param(attn, id="attn"), pytest.param(attn_ad, id="attn_ad")])


def derivatives(op, primals, bars, dots) -> dict:
    """All orders up to the second; forward mode first only where the face has it."""

    def vjp(*primals):
        return jax.vjp(op, *primals)[1](bars)

    results = {
        "values": op(*primals),
        "vjp": vjp(*primals),
        "jvp_of_vjp": jax.jvp(vjp, primals, dots)[1],
        "vjp_of_vjp": jax.vjp(vjp, *primals)[1](dots),
    }
    if op is not attn:

        def jvp(*primals):
            return jax.jvp(op, primals, dots)[1]

        results |= {
            "jvp": jvp(*primals),
            "jvp_of_jvp": jax.jvp(jvp, primals, dots)[1],
            "vjp_of_jvp": jax.vjp(jvp, *primals)[1](bars),
        }
    return results


@fast("m_0", "only_n_and_e")
@pytest.mark.parametrize("sizes", [pytest.param(sizes, id=name) for name, sizes in SIZES.items()])
def test_values_and_derivatives(sizes):
    args = (draw(sizes, "q k v", seed=60), draw(sizes, "output_bar attn_bar", seed=61), draw(sizes, "q k v", seed=62))
    expected = quick_jit(lambda *args: derivatives(attn_primal, *args))(*args)
    for op in (attn, attn_ad):
        results = quick_jit(lambda *args, op=op: derivatives(op, *args))(*args)
        same(results, {name: expected[name] for name in results}, zeros=0 in sizes)
        assert [x.shape for x in results["values"]] == [shape(sizes, "output"), shape(sizes, "attn")]
        assert [x.shape for x in results["vjp"]] == [x.shape for x in args[0]]


@faces
def test_no_keys_give_zeros(op):
    """A sum over nothing: (1) to (3) at m = 0, by hand."""
    output, A = op(*draw(Sizes(n=3, m=0, d=4, e=2), "q k v", seed=63))
    assert A.shape == (3, 0)
    np.testing.assert_array_equal(output, np.zeros((3, 2)))


@pytest.mark.slow
@faces
def test_no_features_give_attn_zero_and_slope_one(op):
    """S = 0 at d = 0, so that attn and output are 0, D is 1, and v has no gradient."""
    primals = draw(Sizes(n=3, m=5, d=0, e=2), "q k v", seed=64)
    bars = draw(Sizes(n=3, m=5, d=0, e=2), "output_bar attn_bar", seed=65)
    values, pull = jax.vjp(op, *primals)
    for x in values:
        np.testing.assert_array_equal(x, np.zeros(x.shape))
    q_bar, k_bar, v_bar = pull(bars)
    assert (q_bar.shape, k_bar.shape) == ((3, 0), (5, 0))
    np.testing.assert_array_equal(v_bar, np.zeros((5, 2)))
