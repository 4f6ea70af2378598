"""The package sparsemax: the projection onto the simplex, whose Function saves its output."""

from entmax_sparsemax import spec as spec
from sparsemax import Sparsemax


def candidate(x):
    return Sparsemax(dim=-1)(x)
