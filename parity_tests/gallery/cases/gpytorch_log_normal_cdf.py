"""gpytorch: the logarithm of the normal distribution function, by three approximations."""

import jax.scipy.stats
from gpytorch.functions import log_normal_cdf

from gradparity import OpSpec

spec = OpSpec(
    "log_normal_cdf", jax.scipy.stats.norm.logcdf, "(n)->(n)", input_names=("z",), dtypes=["float64", "float32"]
)


def candidate(z):
    return log_normal_cdf(z)
