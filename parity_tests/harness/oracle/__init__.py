"""The oracle: every map of an operator in float64 JAX, its certificates, and what holds where it has no derivative."""
