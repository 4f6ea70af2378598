"""How large rounding errors can be: a running error analysis over a function's jaxpr.

`bounded(jaxpr, *args, precision=p)` evaluates it in float64 and carries, next to every intermediate value x, an
entrywise bound E_x on the error that a computation of the same quantity in the format p makes: each operation passes on
the errors of its operands, and adds its own rounding. Hence cancellation is excused where the mathematics forces it and
nowhere else, and no tolerance is chosen. With u the unit roundoff of a stored result and u_acc the accumulator's:

    E(input)  = 2 u |x|
    E(const)  = |c - c rounded to the format|
    E(x ± y)  = E_x + E_y + u |x ± y|
    E(x ∘ y)  = |x| E_y + E_x |y| + E_x E_y + u |x ∘ y|
    E(X Y)    = |X| E_Y + E_X |Y| + E_X E_Y + γ_K |X| |Y| + u |X Y|,    γ_K = min(K, λ √K) u_acc
    E(f(x))   = max |f(y) - f(x)| over |y - x| <= E_x, + (2 u + 8 u_acc) |f(x)|

The inputs are exact, but start with an error all the same: an algorithm is called stable if its result is nearly the
right one for nearly the given inputs (N. Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 1.5).
So a candidate may distribute c (x - y) to c x - c y, or write 1 - y y where the oracle has (1 - y) (1 + y); it may not
lose more than the problem's own sensitivity and the oracle's own roundings explain.
γ_K: K roundings at worst; of more than 47 the probabilistic bound (N. Higham, T. Mary, "A new approach to probabilistic
rounding error analysis", SIAM J. Sci. Comput. 41, 2019), with more roundings where terms are equal (`bound.terms`).
λ = 6.9: of the 10^7 sums that a report may compare, any of independent roundings exceeds it with probability 10^-3 at
most (`precision`). The 8 covers
elementary functions: the worst in use, XLA's float32 tanh, errs by 4.7 u.

Where right code may go another way than the oracle, and lose more, that is counted, too: products are multiplied in
any order (`rounding.products`), sums of sums are added up in any order (`rounding.fused`), and what has a logarithm is
divided by with that (`_by_logarithm`). What else another algorithm loses is not: one that divides by a factor to take
it out of a product, say, is judged by an oracle that does so, too, in an explicit formula.

What the terms of log Σ exp are off by passes through it once, and not by each of its equations: `rounding.log_sums`.

Where nothing can round, the sum or product of small integers, the bound is 0: see `rounding.exact`.

An entry whose value may overflow the format gets an infinite bound: it cannot be judged. Nor can a sum of which a
partial sum may, in whatever order. An intermediate may, if only because of a constant: see `rounding.scales`. Where a
product may overflow in another order than the oracle's, a candidate's infinity or NaN is no mistake, and any number is
judged: see `rounding.products`.
"""
