"""jaxopt: the projection onto the simplex, whose JVP is a custom_jvp."""

from entmax_sparsemax import projection
from jaxopt.projection import projection_simplex

from gradparity import JaxCandidate, OpSpec

spec = OpSpec("projection_simplex", projection, "(d)->(d)", sizes="d >= 1")
candidate = JaxCandidate(projection_simplex)
