"""One function, gelu(x) = x Φ(x), in every place where a derivative can live: the cells of derivation/choosing.md."""
