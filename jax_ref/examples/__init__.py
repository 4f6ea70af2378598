"""One function, gelu(x) = x Φ(x), in every way of giving JAX a derivative: the cells of derivation/choosing.md."""
