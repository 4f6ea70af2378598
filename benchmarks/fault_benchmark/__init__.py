"""The fault benchmark: which acceptance rules catch which planted faults, `python -m benchmarks faults`."""
