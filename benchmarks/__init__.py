"""Speed and memory of attn, side by side with its peers. A program, `python -m benchmarks`: nothing imports it."""
