"""The commands beside `run` and `check`, one file each."""
