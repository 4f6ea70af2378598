"""Functions and modules of PyTorch as functions of JAX arrays: `to_jax`, and the parts of it that the harness uses.

PyTorch's code is exported to a graph of ATen's operators (`exported`, by the rules of `recording`), numbers that follow
from constants are computed meanwhile (`known_numbers`), and `jax_ref.aten` evaluates the graph (`graph`). Nothing here
judges anything: the harness, which does, imports this package, and is not imported by it.
"""
