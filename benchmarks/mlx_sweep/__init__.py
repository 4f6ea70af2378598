"""Operators of MLX, judged by JAX: `python -m benchmarks mlx`."""
