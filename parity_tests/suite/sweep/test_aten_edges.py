"""`jax_ref.aten` where PyTorch's own samples do not look: empty axes, negative indices, masks, drivers, ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
import torch

from jax_ref import aten
from parity_tests.sweep.certification import certify
from parity_tests.sweep.recorded_calls import RecordedCall, as_numpy, as_torch

FULL = 2**63 - 1  # an end of a range that is none


def normal(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def integers(*numbers: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.tensor(numbers, dtype=dtype)


def wrong(name: str, *args: Any, **kwargs: Any) -> list[str]:
    """What is wrong with `jax_ref.aten` on a call of PyTorch's operator."""
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
    given = {argument.name: x for argument, x in zip(operator._schema.arguments, args, strict=False)} | kwargs
    arguments = {key: as_numpy(x) for key, x in given.items()}
    # slice_inverse returns the memory of which its first argument is a part; the others get copies.
    results = operator(**(given if name == "slice_inverse" else {key: as_torch(x) for key, x in arguments.items()}))
    returned = results if isinstance(results, tuple) else (results,)
    call = RecordedCall(f"aten::{name}", arguments, tuple(map(as_numpy, returned)), "by hand")
    return [f"{each.kind}: {each.text}" for each in certify(aten.OPERATORS[call.name], call)]


def put_cases() -> Iterator[tuple[torch.Tensor, list[torch.Tensor | None], torch.Tensor]]:
    x, mask = normal(4, 6), torch.tensor([True, False, True, True])
    yield x, [integers(0, 2, 2)], normal(3, 6, seed=1)
    yield x, [integers(-1, -4, 0)], normal(3, 6, seed=1)
    yield x, [None, integers(-1, 0, 5)], normal(3, seed=1)
    yield x, [integers(1, 0), integers(2, 2)], normal(2, seed=1)
    yield x, [integers(0, 1)[:, None], integers(2, 3)], normal(seed=1)
    yield x, [mask], normal(3, 6, seed=1)
    yield x, [mask.to(torch.uint8)], normal(3, 6, seed=1)
    yield x, [torch.zeros(4, dtype=torch.bool)], normal(0, 6)
    yield x, [torch.zeros(4, dtype=torch.bool)], normal(6)
    yield x, [integers(dtype=torch.int32)], normal(1, 6)
    yield x, [torch.tensor(2), torch.tensor(3)], normal()
    yield x.T, [integers(0, 1, 1)], normal(3, 4)
    yield normal(0, 6), [integers()], normal(0, 6)
    yield normal(3, 4, 5), [integers(0, 1), None, integers(2, 3)], normal(2, 4)
    yield normal(3, 4, 5), [None, integers(0, 1), integers(2, 3)], normal(3, 2)
    yield normal(4, dtype=torch.complex128), [integers(0, 1, 1)], normal(3, dtype=torch.complex128)
    yield integers(0, 1, 2, 3), [integers(0, 1, 1)], integers(3, 4, 5)
    yield torch.tensor([True, False, True]), [integers(0, 1, 1)], torch.tensor([False, True, True])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*torch.uint8")
@pytest.mark.parametrize("accumulate", [False, True])
def test_index_put(accumulate):
    # Which of two values at one place remains is open: here always the last, and no derivative at the others.
    found = [wrong("_index_put_impl", *case, accumulate) for case in put_cases()]
    assert found == [[] for _ in found]


RANGES = [
    *[(None, None, 1), (1, 4, 2), (-3, -1, 1), (-3, None, 1), (0, 100, 1), (0, FULL, 1), (4, 2, 1), (-100, 2, 1)],
    *[(3, 3, 1), (None, -1, 3), (1, None, 2)],
]


@pytest.mark.slow
@pytest.mark.parametrize("dim", [0, -1])
def test_slice_inverse(dim):
    whole = normal(5, 6)
    found = [wrong("slice_inverse", torch.ops.aten.slice(whole, dim, *each), whole, dim, *each) for each in RANGES]
    assert found == [[] for _ in found]


def test_as_strided_without_entries():
    found = [wrong("as_strided", normal(0), [0, 3, 2], [6, 2, 1], 0), wrong("as_strided", normal(4), [0, 2], [1, 1], 1)]
    assert found == [[], []]


@pytest.mark.slow
def test_zero():
    special = torch.tensor([float("nan"), float("inf")])
    inputs = [normal(), normal(0, 2), normal(2, dtype=torch.complex128), integers(1), torch.tensor([True]), special]
    assert [wrong("zero", x) for x in inputs] == [[] for _ in inputs]


SYSTEMS = {  # without a matrix whose rank is not full
    "tall": (normal(4, 3), normal(4, 2)),
    "wide": (normal(3, 4), normal(3, 2)),
    "square": (normal(3, 3), normal(3)),
    "no rows": (normal(0, 3), normal(0, 2)),
    "one row": (normal(1, 5), normal(1)),
    "several": (normal(2, 4, 3), normal(2, 4)),
    "none": (normal(0, 4, 3), normal(0, 4, 2)),
    "complex": (normal(4, 3, dtype=torch.complex128), normal(4, 2, dtype=torch.complex128)),
    "float32": (normal(4, 3).float(), normal(4, 2).float()),
}


@pytest.mark.slow
@pytest.mark.parametrize("driver", [None, "gelsy", "gels", "gelsd", "gelss"])
def test_lstsq(driver):
    found = {name: wrong("linalg_lstsq", *system, driver=driver) for name, system in SYSTEMS.items()}
    assert not any(found.values()), found


@pytest.mark.slow
@pytest.mark.parametrize("rank", [0, 2])
def test_lstsq_of_a_matrix_without_full_rank(rank):
    """The shortest of the solutions, as LAPACK's driver "gelsd" has it."""
    A, b = normal(4, rank) @ normal(rank, 3, seed=1), normal(4, 2, seed=2)
    right = torch.linalg.lstsq(A, b, driver="gelsd")
    with jax.enable_x64(True):
        solution, _, found, values = aten.OPERATORS["aten::linalg_lstsq"](A.numpy(), b.numpy(), driver="gelsd")
    np.testing.assert_allclose(solution, right.solution, rtol=0, atol=1e-12)
    np.testing.assert_allclose(values, right.singular_values, rtol=0, atol=1e-12)
    assert int(found) == int(right.rank) == rank


@pytest.mark.slow
def test_lstsq_leaves_out_small_singular_values():
    A, b = torch.diag(torch.tensor([1.0, 1e-3, 1e-5], dtype=torch.float64)), torch.ones(3, 1, dtype=torch.float64)
    right = torch.linalg.lstsq(A, b, rcond=1e-4, driver="gelsd")
    with jax.enable_x64(True):
        solution, _, rank, _ = aten.OPERATORS["aten::linalg_lstsq"](A.numpy(), b.numpy(), 1e-4, driver="gelsd")
    np.testing.assert_allclose(solution, right.solution, rtol=1e-12)
    assert int(rank) == int(right.rank) == 2


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("left", [True, False])
def test_ormqr_with_more_vectors_than_rows(left, dtype):
    wide, tau, other = normal(2, 5, dtype=dtype), normal(2, dtype=dtype, seed=1), normal(2, 2, dtype=dtype, seed=2)
    assert wrong("ormqr", wide, tau, other, left, True) == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
def test_pinv_of_a_hermitian_matrix_reads_the_lower_triangle(dtype):
    assert wrong("linalg_pinv.atol_rtol_tensor", normal(4, 4, dtype=dtype), hermitian=True) == []


def test_gather_nothing():
    assert wrong("gather", normal(5), 0, torch.zeros(2, 0, dtype=torch.int64)) == []


@pytest.mark.slow
def test_prelu_of_a_number():
    assert wrong("prelu", normal(), normal(1, seed=1)) == []


@pytest.mark.slow
def test_the_phase_of_a_running_sum_of_exponentials():
    """Taken from left to right it leaves (-π, π], by 2π more often than in any other order."""
    x = torch.complex(0.1 * normal(6, 40), 3 * normal(6, 40, seed=1))
    assert wrong("logcumsumexp", x, 1) == []


@pytest.mark.slow
def test_nanmedian_of_nan_only():
    """Which of the entries is meant is open."""
    x = normal(3, 5)
    x[1] = float("nan")
    assert wrong("nanmedian.dim", x, 1) == [] == wrong("nanmedian.dim", x, 0, True)
