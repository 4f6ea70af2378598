"""entmax: the sparsemax loss, whose Function saves the difference of its projection and the target."""

import jax
from entmax import sparsemax_loss
from entmax_sparsemax import projection

from gradparity import OpSpec, integer


def loss(x, target):
    """<p - e, x> + (1 - |p|²) / 2, p the projection of x: A. Martins, R. Astudillo, arXiv:1602.02068, section 3."""
    p = projection(x)
    e = jax.nn.one_hot(target, x.shape[-1], dtype=x.dtype)
    return ((p - e) * x).sum(-1) + (1 - (p**2).sum(-1)) / 2


spec = OpSpec("sparsemax_loss", loss, "(n,d),(n)->(n)", domains={"target": integer(0, "d")}, sizes="d >= 1")
candidate = sparsemax_loss
