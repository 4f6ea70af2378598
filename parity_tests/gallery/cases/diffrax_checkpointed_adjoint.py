"""diffrax: an equation that Heun's method solves exactly, through the default adjoint, of checkpoints.

x' = v + 2 a t with x(0) = x0 has at t = 1 the solution x0 + v + a.
"""

import diffrax

from gradparity import JaxCandidate, OpSpec


def solve(x0, v, a):
    term = diffrax.ODETerm(lambda t, x, args: args[0] + 2 * args[1] * t)
    solution = diffrax.diffeqsolve(term, diffrax.Heun(), 0.0, 1.0, 0.25, x0, args=(v, a), max_steps=16)
    return solution.ys[-1]


spec = OpSpec("diffeqsolve", lambda x0, v, a: x0 + v + a, "(n),(n),(n)->(n)", dtypes=["float64", "float32"])
candidate = JaxCandidate(solve)
