"""Which tests run in one process with `--dist loadgroup`: those that share what takes long to prepare."""

from __future__ import annotations

# A module that compiles a library, runs processes, or certifies and judges attn for all of its tests.
# So do the tests of PyTorch's formulas, which read derivatives.yaml.
FILES = (
    "test_pytorch_formulas.py",
    *("test_formula_entries.py", "test_formula_python.py", "test_formula_syntax.py", "test_formula_values.py"),
    *("test_dtensor.py", "test_native_fused.py", "test_planted_formulas.py", "test_wave.py"),
    *("test_mutants.py", "test_parity.py"),
)
COLLECTION = "test_collection.py"  # an operator is traced and certified once for all of its tests

# Of the tests that take longest the names, or the beginnings of names. They and the files above begin before all
# others, or one process would still be at one of them when nothing is left for the other.
LONGEST = (
    *("test_certification.py::test_every_operator", "test_sharded.py::test_on_eight_devices"),
    "test_complex_harness.py::test_attn",
    *("test_guard.py::test_whatever_ends", "test_guard.py::test_a_candidate_that_hangs", "test_build.py::test_several"),
    *("test_values_indexing.py::test_windows", "test_ffi.py::test_agrees", "test_ffi.py::test_other_instruction"),
    *("test_warp_candidate.py::test_a_right_kernel_passes", "test_nn_example.py::test_a_planted_gradient"),
    *("test_benchmarks.py::test_from_end_to_end", "test_examples.py::test_agrees", "test_crashes.py::test_an_oracle"),
    *("test_from_torch.py::test_every_check", "test_last_failed.py::test_in_two_processes"),
)


def is_long(nodeid: str) -> bool:
    """True if the test is to begin first."""
    name = nodeid.rsplit("/", 1)[-1]
    return name.startswith(LONGEST) or name.partition("::")[0] in FILES


def group_of(nodeid: str) -> str:
    """The name of a test's group, which is its own where it shares nothing: "test_x.py::test_y[operator-mistake]"."""
    path, _, test = nodeid.partition("::")
    file = path.rsplit("/", 1)[-1]
    if file in FILES:
        return file
    if file.endswith(".md"):  # a block of a page goes on with what those before it have defined
        return path
    if file == COLLECTION and "[" in test:
        operator = test.partition("[")[2].rstrip("]").partition("-")[0]
        return f"{file}[{operator}]"
    return nodeid
