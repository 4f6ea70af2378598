"""The run for the day a GPU is at hand: `python -m benchmarks gpu`, and everywhere else with `--dry-run`."""
