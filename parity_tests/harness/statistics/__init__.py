"""Statistics of errors: how far they are from what rounding makes, calibrated by runs of right code.

Rounding errors of many entries have the size that the roundings have, and hardly a direction. Those of a mistake are a
multiple of the result or of one of its terms, or sit in an entry, a row, a column or a tile, or have a pattern of rows
and columns. A worst-case bound sees none of that: it is many times as large as what rounding does. What a statistic may
be is known from right code: the oracle's own program, run in the format several times with stochastic rounding.
"""
