"""optax: the projection onto the simplex, whose JVP is a custom_jvp."""

from jaxopt_projection_simplex import spec as spec
from optax.projections import projection_simplex

from gradparity import JaxCandidate

candidate = JaxCandidate(projection_simplex)
