"""Values at float64 arguments, in NumPy where that is as good as JAX: what the families share."""
