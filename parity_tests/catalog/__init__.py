"""The operators that `gradparity run` judges: their specs, and their implementations."""
