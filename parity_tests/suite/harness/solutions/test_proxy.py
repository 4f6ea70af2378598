"""A solution in a process of its own is called as in this one, and differentiated once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad

from parity_tests.harness.candidates.torch_candidate import BadOutput, Candidate, Refused
from parity_tests.harness.exceptions.errors import is_candidates, place_of
from parity_tests.harness.exceptions.from_solution import FromSolution
from parity_tests.harness.solutions.guest.values import NotPlain
from parity_tests.harness.solutions.process import SolutionProcess, Solved
from parity_tests.harness.solutions.proxy import Solution
from parity_tests.harness.solutions.signs import signs_of
from parity_tests.suite.harness.solutions.stranger import STRANGER

X = torch.tensor([1.0, -2.0, 3.0])


@pytest.fixture(scope="module")
def solution(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Solution]:
    path: Path = tmp_path_factory.mktemp("stranger") / "stranger.py"
    path.write_text(STRANGER)
    process = SolutionProcess(Solved(path, "call", seconds=60.0))
    yield Solution(process)
    process.close()


@pytest.fixture
def call(solution: Solution) -> Callable[..., Any]:
    return solution


def _told(y: torch.Tensor) -> list[float]:
    return y.tolist()


@pytest.mark.slow
def test_tensors_arrive_as_they_are(call: Callable) -> None:
    x, y = X.clone().requires_grad_(), X.clone()
    assert _told(call("arguments", x, y)) == [0, 0, 1, 0, 0, 1, 0]
    assert _told(call("arguments", x, x)) == [1, 1, 1, 1, 0, 1, 0]
    both = torch.arange(8.0)
    assert _told(call("arguments", both[:4], both[4:])) == [0, 1, 0, 0, 0, 1, 0]
    assert _told(call("arguments", torch.nn.Parameter(X), y)) == [0, 0, 1, 0, 1, 1, 0]
    assert _told(call("arguments", x * 1, y)) == [0, 0, 1, 0, 0, 0, 0]


@pytest.mark.slow
def test_the_layout_of_memory_arrives(call: Callable) -> None:
    z = torch.arange(24.0).reshape(4, 6)
    assert _told(call("strides", z[1:, ::2].T)) == [2, 6, 6, 0, 0]
    assert _told(call("strides", torch.zeros(1).expand(3, 2))) == [0, 0, 0, 0, 0]
    complex_ = torch.tensor([1 + 2j, 3 - 1j])
    assert _told(call("strides", complex_.conj())) == [1, 0, 1, 0]
    assert _told(call("strides", complex_.conj().imag)) == [2, 1, 0, 1]
    assert torch.equal(call("itself", complex_.conj()), complex_.conj())
    assert torch.equal(call("itself", complex_.conj().imag), complex_.conj().imag)


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.int64, torch.bool]
)
def test_each_dtype_comes_back(call: Callable, dtype: torch.dtype) -> None:
    x = torch.tensor([0, 1, 3]).to(dtype)
    assert torch.equal(call("view", x), x[1:])
    assert call("itself", torch.zeros(0, 3, dtype=dtype)).shape == (0, 3)


def test_other_arguments_arrive(call: Callable) -> None:
    params = {"device": torch.device("cpu"), "format": torch.channels_last}
    args = (None, True, 3, 2.5, float("inf"), 1 + 2j, "text", [1, (2,)], torch.bfloat16)
    assert torch.equal(call("numbers", X, *args, **params), 2 * X)
    with pytest.raises(NotPlain, match="a set, which cannot be sent"):
        call("numbers", X, {1})


def test_the_same_tensor_and_the_same_memory_are_the_same_there(call: Callable) -> None:
    x = X.clone()
    memory, identity, version = _told(call("places", x))
    assert _told(call("places", x)) == [memory, identity, version]
    leaf = x.detach().requires_grad_()
    assert _told(call("places", leaf))[0] == memory
    x.copy_(2 * X)
    assert _told(call("places", x)) == [memory, identity, version + 1]
    assert torch.equal(call("itself", x), 2 * X)
    assert _told(call("places", x.clone()))[0] != memory


def test_a_result_that_is_overwritten_by_a_later_call(call: Callable) -> None:
    """One memory for the results of all calls is seen here as it is in one process."""
    x = X.clone().requires_grad_()
    first = call("in_one_memory", x)
    assert first.tolist() == (2 * X).tolist()
    slope = torch.autograd.grad(first, x, X)[0]
    assert slope.tolist() == (2 * X).tolist()
    kept = slope.clone()
    call("itself", X)
    assert torch.equal(slope, kept)
    second = call("in_one_memory", 2 * x)
    assert first.tolist() == second.tolist() == (4 * X).tolist()
    torch.autograd.grad(second, x, 10 * X)
    assert slope.tolist() == (20 * X).tolist()


def test_a_graph_whose_inputs_were_written_to(solution: Solution) -> None:
    """Refused as in this process; what this side writes is no write of the solution's."""
    x, y = X.clone().requires_grad_(), X.clone()
    p, s = solution("product", x, y)
    y.copy_(2 * X)
    solution("product", x, y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad([p, s], x, [torch.ones(3), torch.ones(3)])
    p, s = solution("product", x, X)
    y.copy_(3 * X)
    version = y._version
    solution("itself", y)
    assert torch.autograd.grad([p, s], x, [torch.ones(3), torch.zeros(3)])[0].tolist() == X.tolist()
    assert (y._version, X._version) == (version, 0)


def test_its_process_has_imported_neither_jax_nor_the_judge(call: Callable) -> None:
    torch_, jax, *judge = _told(call("imported", X))
    assert (torch_, jax, *judge) == (1, 0, 0, 0)


def test_the_modes_of_the_call_arrive(call: Callable) -> None:
    assert _told(call("modes", X)) == [1, 0, 0, 0]
    with torch.no_grad():
        assert _told(call("modes", X)) == [0, 0, 0, 0]
    with torch.inference_mode():
        assert _told(call("modes", X)) == [0, 1, 0, 0]
    with torch.autocast("cpu", torch.bfloat16):
        assert _told(call("modes", X)) == [1, 0, 1, 0]
    torch.use_deterministic_algorithms(True)
    try:
        assert _told(call("modes", X)) == [1, 0, 0, 1]
    finally:
        torch.use_deterministic_algorithms(False)
    assert _told(call("modes", X)) == [1, 0, 0, 0]


def _candidate(solution: Solution, which: str) -> Candidate:
    return Candidate(lambda *args: solution(which, *args), which)


def test_gradients(solution: Solution) -> None:
    candidate, y = _candidate(solution, "product"), torch.tensor([4.0, 5.0, 6.0])
    p, s = torch.tensor([1.0, 10.0, 100.0]), torch.tensor([0.5, 0.25, 0.0])
    assert [g.tolist() for g in candidate.vjp([X, y], [p, s])] == [(p * y + s).tolist(), (p * X + s).tolist()]
    assert candidate.vjp([X, y], [None, s])[0].tolist() == s.tolist()
    assert [g is None for g in candidate.vjp([X, y], [p, s], [True, False])] == [False, True]
    undefined = candidate.vjp_undefined([X, y])
    assert undefined is not None
    x_bar, y_bar = undefined
    assert (x_bar is None or not x_bar.any(), y_bar.tolist()) == (True, [7.0] * 3)
    graph = candidate.record([X, y])
    assert graph.vjp([p, s], retain_graph=True)[0].tolist() == graph.vjp([p, s])[0].tolist()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        graph.vjp([p, s])


def test_no_more_than_a_first_derivative(solution: Solution) -> None:
    candidate = _candidate(solution, "product")
    with pytest.raises(Refused, match=r"judged to first order only; --no-isolate") as refused:
        candidate.vjp_of_vjp(2, [X, X, X, X], [X, X])
    assert not refused.value.excuses("vjp_of_vjp", "float64")
    with pytest.raises(Refused, match="first order only"):
        candidate.jvp([X, X], [X, X])
    with pytest.raises(Refused, match="first order only"):
        candidate.vmap((0, 0), [X[None], X[None]])
    with forward_ad.dual_level(), pytest.raises(Refused, match="first order only"):
        candidate.forward([X, X])


def test_outputs_that_need_no_gradient(call: Callable) -> None:
    x = X.clone().requires_grad_()
    assert [y.requires_grad for y in call("detached", x)] == [False, True, False]


def test_outputs_share_memory_with_the_inputs(call: Callable) -> None:
    x = X.clone()
    for which in ("itself", "view"):
        y = call(which, x)
        assert y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert call("detached", x)[1].untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_writes_to_the_inputs_are_seen(call: Callable) -> None:
    x = X.clone()
    call("writes", x)
    assert (x.tolist(), x._version > 0) == ([0.0] * 3, True)
    x = X.clone()
    call("puts_back", x)
    assert (x.tolist(), x._version > 0) == (X.tolist(), True)
    x = X.clone()
    call("detached", x)
    assert x._version == 0


@pytest.mark.parametrize(
    ("which", "words"),
    [
        ("later", "returned Later, a subclass of torch.Tensor of its own, where"),
        ("sparse", "returned a tensor that is torch.sparse_coo, where"),
        ("text", "returned str where a tensor"),
    ],
)
def test_a_result_that_is_no_plain_tensor(solution: Solution, which: str, words: str) -> None:
    with pytest.raises(BadOutput, match=words):
        _candidate(solution, which).forward([X])


def test_an_exception_comes_with_its_type_and_its_place(solution: Solution) -> None:
    with pytest.raises(IndexError, match="too far") as raised:
        _candidate(solution, "raises").forward([X])
    assert isinstance(raised.value, FromSolution)
    assert type(raised.value).__name__ == "IndexError"
    assert place_of(raised.value).endswith(", in raises")
    assert is_candidates(raised.value)
    with pytest.raises(FromSolution) as left:
        _candidate(solution, "leaves").forward([X])
    assert type(left.value).__name__ == "SystemExit"


def test_each_thread_has_one_of_its_own(call: Callable) -> None:
    from concurrent.futures import ThreadPoolExecutor

    here = call("thread_local", X).item()
    with ThreadPoolExecutor(1) as pool:
        there = [pool.submit(call, "thread_local", X).result().item() for _ in range(2)]
    assert there[0] == there[1] != here


@pytest.mark.slow
def test_a_module_in_the_mode_of_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "import torch\n\nclass Scale(torch.nn.Module):\n"
        "    def __init__(self, size):\n        super().__init__()\n"
        "        self.weight = torch.nn.Parameter(torch.rand(size))\n"
        "        self.register_buffer('count', torch.zeros(()))\n"
        "    def forward(self, x):\n        self.count += 1\n"
        "        return self.weight * x * (2 if self.training else 3) * self.count\n"
    )
    process = SolutionProcess(Solved(path, "Scale", arguments=((3,), 42), seconds=60.0))
    module = Solution(process)
    torch.random.manual_seed(42)
    weight = torch.rand(3)
    assert {name: p.tolist() for name, p in module.named_parameters()} == {"weight": weight.tolist()}
    for _ in range(2):  # each call has buffers of its own
        assert torch.equal(module(X), weight * X * 2)
    assert torch.equal(module(X, torch.ones(3)), X * 2), "the last argument stands for the parameter"
    with module.evaluating():
        assert torch.equal(module(X), weight * X * 3)
    assert torch.equal(module.with_parameters(["weight"])(X, torch.ones(3)), X * 2)
    process.close()


def test_what_it_replaces_is_named(solution: Solution) -> None:
    assert signs_of(solution) == []
    solution("changes", X)
    assert signs_of(solution) == ["replaces torch.allclose by functions of its own"]
