"""Values of primitives at float64 arguments, in NumPy: those that take more than a function of NumPy's."""
