"""The value of a JAX program in extended precision: all digits of the function that the program stands for.

A program is a formula. Evaluated in float64 it loses what cancels in it; evaluated with enough digits it loses nothing,
whichever formula it is. So the program of a derivative, JAX's own or an explicit one, gives the exact derivative of the
exact function. Constants of the program are part of the function, as they are in float64: an eps of 1e-12, or a π.

    evaluation  runs a jaxpr in numbers of mpmath, which are kept in NumPy arrays of objects
    adaptive    with as many bits as the result needs: they are doubled until two results agree
    slopes      the slopes of such a function on both sides of a point, by differences
    problem     how far one rounding of each input moves the exact results: the error that the problem forces
    remembered  of all these evaluations each value of a function once

The rules of the primitives stand in their records, in `primitives`.

mpmath is written in Python, and takes microseconds for an operation: it is for dozens of entries, not for thousands.
"""
