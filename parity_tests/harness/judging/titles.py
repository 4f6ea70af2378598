"""A sample by name and sizes, for messages."""

from __future__ import annotations

from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.specs.samples import Sample


def sizes_of(sample: Sample) -> str:
    """ "n=4, d=3"."""
    return ", ".join(f"{axis}={size}" for axis, size in sample.sizes.items())


def extent_of(sample: Sample, oracle: Oracle) -> str:
    """The sizes of a sample: "n=4, d=3"; where no axis has a name the shapes: "x (4, 3), w (3,)"."""
    shapes = zip(oracle.inputs, sample.shapes, strict=True)
    return sizes_of(sample) or ", ".join(f"{name} {shape}" for name, shape in shapes)


def title(sample: Sample) -> str:
    """A sample's name, with its sizes."""
    sizes = sizes_of(sample)
    return f"{sample.name} ({sizes})" if sizes else sample.name
