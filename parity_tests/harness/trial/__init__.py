"""One candidate at one sample, in one format: what a check is given."""
