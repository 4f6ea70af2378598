"""Many operators: where their calls come from, and how the reference of ATen in JAX is certified on them."""
