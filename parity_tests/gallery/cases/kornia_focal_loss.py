"""kornia: the focal loss, whose Function recomputes the softmax for double backward."""

import jax
import jax.numpy as jnp
from kornia.losses import focal_loss

from gradparity import OpSpec, integer


def focal(x, target):
    """-(1 - p)² log p of the target's probability p: T. Lin et al., arXiv:1708.02002, equation (4)."""
    log_p = jnp.take_along_axis(jax.nn.log_softmax(x, axis=1), target[:, None], axis=1)[:, 0]
    p_of_others = -jnp.expm1(log_p)
    return (-(p_of_others**2) * log_p).sum()


spec = OpSpec(
    "focal_loss",
    focal,
    "(n,c,m),(n,m)->()",
    domains={"target": integer(0, "c")},
    sizes="c >= 2, n >= 1, m >= 1",
    dtypes=["float64", "float32"],
)


def candidate(x, target):
    return focal_loss(x, target, alpha=None, gamma=2.0, reduction="sum")
