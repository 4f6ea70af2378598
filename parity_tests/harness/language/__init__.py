"""JAX's programs as a language: one walk over their equations, in whatever numbers a domain has.

    interpret    runs a program in a domain: calls, loops, branches and linear solvers are here and nowhere else
    steps        what is known of each equation before it has numbers, found once for a program
    calls        the program that an equation calls, or stands for (`spelled_out`)
    values       float64 in NumPy, the domain of the oracle's values
    live         the part of a program that its results depend on
    unrolled     the same program without calls and loops
    jaxprs       properties of programs, and `digest`, which is equal for equal programs

The other domains are where their numbers are: bounds of rounding errors and rounded numbers in `rounding`, hundreds of
bits in `extended`, the terms of a sum in `oracle.addends`. What is known of each primitive, in whatever numbers, is its
record in `primitives`.
"""
