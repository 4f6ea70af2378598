"""Tests of what an operator is, and of the inputs that it is judged at."""
