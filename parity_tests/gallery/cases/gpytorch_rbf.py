"""gpytorch: the RBF covariance, whose Function differentiates by the length scale alone."""

import jax.numpy as jnp
from gpytorch.functions import RBFCovariance

from gradparity import OpSpec


def rbf(x, y, lengthscale):
    """exp(-|x - y|² / (2 l²))."""
    square = ((x[:, None] - y[None]) ** 2).sum(-1)
    return jnp.exp(-square / (2 * lengthscale[0, 0] ** 2))


spec = OpSpec(
    "rbf_covariance",
    rbf,
    "(n,d),(m,d),(1,1)->(n,m)",
    domains={"lengthscale": "positive"},
    constants=["x", "y"],
    dtypes=["float64", "float32"],
)


def candidate(x, y, lengthscale):
    return RBFCovariance.apply(x, y, lengthscale, lambda a, b: ((a[:, None] - b[None]) ** 2).sum(-1))
