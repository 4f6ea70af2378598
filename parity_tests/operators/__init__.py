"""One catalogue of operators, with right versions and planted mistakes, for the suite and the benchmarks."""
