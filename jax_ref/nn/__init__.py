"""Layers over `jax_ref.dot_product_attention`: `jax_ref.nn.flax` and `jax_ref.nn.equinox`, each with its own library.

Neither is imported before it is asked for. Both write and read their weights under the names of `jax_ref.nn._weights`.
"""
