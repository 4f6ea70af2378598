"""The cost of the rules in matrix products: none for what is absent, and never more than plain autodiff."""

import re
from collections.abc import Callable

import jax
import pytest
from jax.extend.core import ClosedJaxpr, Jaxpr

from jax_ref import attn, attn_ad, attn_primal, attn_jvp, attn_vjp
from parity_tests.suite.jax_ref._cases import FORMULAS, Formula, Sizes, draw

# All axes differ and none is so small that XLA would write a product as a sum.
SIZES = Sizes(n=12, m=10, d=8, e=6)
PRIMALS = draw(SIZES, "q k v", seed=30)
DOTS = draw(SIZES, "q_dot k_dot v_dot", seed=31)
BARS = draw(SIZES, "output_bar attn_bar", seed=32)
BARS_DOT = draw(SIZES, "output_bar_dot attn_bar_dot", seed=33)
