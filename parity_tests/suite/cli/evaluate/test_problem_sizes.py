"""The sizes of a problem: by the role of each number, from the least on, with fewer parameters where there are many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F
from typer.testing import CliRunner

from parity_tests import OpSpec
from parity_tests.cli.app import app
from parity_tests.cli.sources.kernelbench import KernelBenchProblem
from parity_tests.cli.sources.problem_arguments import Made, cut
from parity_tests.cli.sources.problem_inputs import problem_inputs, real_domain
from parity_tests.harness.candidates.not_built import NotBuilt

SIZE = 32


@pytest.mark.parametrize(
    ("reference", "shapes", "text", "sizes"),
    [
        (torch.matmul, [(SIZE, SIZE)] * 2, "a: (n,m), b: (m,k)", None),
        (torch.mul, [(SIZE, SIZE)] * 2, "a: (n,m), b: (n,m)", None),
        (
            lambda a, b: F.interpolate(a, scale_factor=3.0) + b,
            [(SIZE, 2, 8), (SIZE, 2, 24)],
            None,
            "l = 3*k, n >= 1, m >= 1, k >= 1",
        ),
        (lambda a: F.conv2d(a, torch.ones(SIZE, 3, 3, 5)), [(SIZE, 3, SIZE, SIZE)], "a: (n,3,m,k)", "m >= 3, k >= 5"),
        (lambda a: a.unflatten(1, (-1, 4)).sum(2), [(SIZE, 24)], "a: (n,m)", "m >= 4, m % 4 == 0"),
        (lambda a: F.batch_norm(a, None, None, training=True), [(SIZE, 5)], "a: (n,m)", "n >= 2"),
    ],
    ids=["a product", "pairs", "a multiple", "a kernel", "blocks", "a batch"],
)
def test_axes_vary_by_their_role(
    reference: Callable, shapes: Sequence[tuple[int, ...]], text: str | None, sizes: str | None
) -> None:
    found = problem_inputs("abc"[: len(shapes)], [torch.rand(shape) for shape in shapes], reference, ())
    assert found.sizes == sizes
    if text is not None:
        assert found.text() == text
    for each in found.some_sizes():
        reference(*map(torch.rand, found.shapes(each)))
    assert [x.shape for x in found.small()] == [
        tuple(shape) for shape in found.shapes(_sizes_of(found.axes, found.small()))
    ]


def _sizes_of(axes: Sequence[tuple[str, ...]], given: Sequence[torch.Tensor]) -> dict[str, int]:
    return {axis: n for each, x in zip(axes, given, strict=True) for axis, n in zip(each, x.shape, strict=True)}


@pytest.mark.parametrize(
    ("reference", "domain"),
    [(torch.tanh, "real"), (torch.sqrt, "positive"), (torch.acos, "unit"), (torch.acosh, "real")],
)
def test_a_domain_follows_from_no_chance(reference: Callable, domain: str) -> None:
    found = problem_inputs("a", [torch.rand(1)], reference, (1,))
    for seed in range(10):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            assert real_domain(reference, found) == domain
            assert torch.equal(torch.get_rng_state(), before)


def test_axes_that_a_run_cannot_tell_apart_are_tried_as_one() -> None:
    given = [torch.rand(shape) for shape in ((7, 5), (8, 5), (8, 4))]
    found = problem_inputs("qkv", given, lambda q, k, v: q.sum() + k.sum() + v.sum(), ())
    assert found.text() == "q: (n,m), k: (l,h), v: (w,a)"
    assert [each.text() for each in found.merged()] == ["q: (n,m), k: (l,m), v: (w,a)", "q: (n,m), k: (l,h), v: (l,a)"]


def test_a_problem_is_cut_to_sizes_that_keep_to_its_rules() -> None:
    given = [torch.rand(3, 2, 40, 400), torch.rand(3, 2, 80, 800)]
    found = problem_inputs("ab", given, lambda a, b: F.conv2d(F.interpolate(a, scale_factor=2.0) + b, _WIDE_KERNEL), ())
    small = found.small()
    assert small[0].shape[2] * 2 == small[1].shape[2] >= 31
    assert small[0].shape[3] * 2 == small[1].shape[3]
    assert sum(x.numel() for x in small) <= 2**14


_WIDE_KERNEL = torch.ones(1, 2, 31, 1)


# The arguments of a model.


def _made(model: Callable[..., torch.nn.Module], arguments: Sequence, *shapes: tuple[int, ...]) -> Made:
    return Made(lambda new: model(*new), lambda model, *x: model(*x), arguments, shapes, [torch.float32] * len(shapes))


class Shaped(torch.nn.Module):
    """A convolution with a bias of a shape of its own, and a number that nothing shows."""

    def __init__(self, channels: int, filters: int, width: int, shape: tuple[int, ...], unused: int = 1) -> None:
        super().__init__()
        self.filters = torch.nn.Conv2d(channels, filters, width)
        self.bias = torch.nn.Parameter(torch.ones(shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.filters(x) + self.bias


@pytest.mark.parametrize(
    ("made", "arguments", "shapes"),
    [
        (_made(torch.nn.Linear, [512, 512], (512, 512)), [6, 7], [(512, 6)]),
        (_made(Shaped, [32, 64, 3, (64, 1, 1)], (64, 32, 64, 64)), [6, 12, 3, (12, 1, 1)], [(64, 6, 64, 64)]),
        (_made(torch.nn.LayerNorm, [(48, 96, 96)], (96, 48, 96, 96)), [(6, 12, 18)], [(96, 6, 12, 18)]),
        (_made(torch.nn.GroupNorm, [64, 512], (512, 512)), [4, 8], [(512, 8)]),
        (_made(torch.nn.InstanceNorm1d, [64], (64, 64, 9)), [64], [(64, 64, 9)]),
        (_made(torch.nn.AvgPool1d, [11], (64, 64, 99)), [11], [(64, 64, 99)]),
    ],
    ids=["equal numbers", "batch as filters", "nested", "groups", "a number that nothing shows", "a window"],
)
def test_smaller_arguments(made: Made, arguments: Sequence, shapes: Sequence[tuple[int, ...]]) -> None:
    new, called = made.changed(made.smaller())
    assert (new, called) == (arguments, shapes)
    assert made.make(new)(*[torch.rand(shape) for shape in called]) is not None


def test_an_axis_may_mean_a_number_that_nothing_shows() -> None:
    assert _made(torch.nn.InstanceNorm1d, [64], (64, 64, 9)).unseen() == {64}
    assert _made(torch.nn.BatchNorm1d, [64], (64, 64, 9)).unseen() == set()
    assert _made(Shaped, [3, 64, 3, (64, 1, 1), 64], (64, 3, 64, 64)).unseen() == set()
    assert _made(Shaped, [3, 64, 3, (64, 1, 1), 32], (32, 3, 64, 64)).unseen() == {32}


def test_integers_of_a_smaller_problem_are_within_their_bounds() -> None:
    parts = cut([torch.full((8,), 99), torch.rand(8, 4)], [(3,), (8, 4)])
    assert [x.shape for x in parts] == [(3,), (8, 4)]
    assert not parts[0].any()


# Whole problems.

_WIDE = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class {name}(nn.Module):
    def __init__(self, features, outputs, groups, shape):
        super().__init__()
        {first}
        self.groups, self.linear = groups, nn.Linear(features, outputs, bias=False)
        self.scale = nn.Parameter(torch.randn(shape))

    def forward(self, x):
        return {value}

def get_inputs():
    return [torch.rand(64, {features})]

def get_init_inputs():
    return [{features}, {outputs}, 64, ({outputs},)]
"""
_GROUPED = "F.group_norm(self.linear(x), self.groups) * self.scale"
_RIGHT = "F.group_norm(x @ self.linear.weight.T, self.groups) * self.scale"
_WRONG = "F.group_norm(x @ self.linear.weight.T, self.groups) * self.scale.detach()"


def _wide(folder: Path, value: str, first: str = "pass", features: int = 2048, outputs: int = 4096) -> None:
    sizes = {"features": features, "outputs": outputs}
    (folder / "problem.py").write_text(_WIDE.format(name="Model", value=_GROUPED, first="pass", **sizes))
    (folder / "solution.py").write_text(_WIDE.format(name="ModelNew", value=value, first=first, **sizes))


def _loaded(folder: Path, given: bool) -> OpSpec | NotBuilt:
    spec, candidates = KernelBenchProblem(Path("problem.py"), Path("solution.py"), given, folder).load()
    (candidate,) = candidates
    return candidate if isinstance(candidate, NotBuilt) else spec


@pytest.mark.slow
def test_a_model_of_many_parameters_is_made_with_fewer(tmp_path: Path) -> None:
    _wide(tmp_path, _RIGHT)
    given, sizes = _loaded(tmp_path, True), _loaded(tmp_path, False)
    assert isinstance(given, NotBuilt)
    assert (given.expected, given.reason) == (
        True,
        "Model has 8,392,704 parameters; it is judged at smaller sizes only",
    )
    assert isinstance(sizes, OpSpec)
    assert (sizes.name, sizes.signature) == ("problem, Model(8, 16, 4, (16,))", "(n,8),(16),(16,8)->(n,16)")


@pytest.mark.slow
def test_a_solution_for_the_given_arguments_is_judged_with_these_if_it_can_be(tmp_path: Path) -> None:
    _wide(tmp_path, _RIGHT, first="assert features == 2048")
    sizes = _loaded(tmp_path, False)
    assert isinstance(sizes, NotBuilt)
    assert not sizes.expected
    _wide(tmp_path, _RIGHT, first="assert features == 96", features=96, outputs=128)
    sizes = _loaded(tmp_path, False)
    assert isinstance(sizes, OpSpec)
    assert (sizes.name, sizes.signature) == ("problem", "(n,96),(128),(128,96)->(n,128)")


@pytest.mark.slow
@pytest.mark.parametrize(("value", "code"), [(_RIGHT, 0), (_WRONG, 1)], ids=["right", "wrong"])
def test_the_verdict_is_that_of_the_smaller_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    _wide(tmp_path, value)
    options = ("--quick", "--only", "forward,vjp", "--no-isolate", "--device", "cpu")
    ran = CliRunner().invoke(app, ["evaluate", "problem.py", "solution.py", *options], env={"COLUMNS": "300"})
    assert ran.exit_code == code, ran.output
    assert "Model(8, 16, 4, (16,))" in ran.output


@pytest.mark.slow
def test_what_is_refused_at_other_sizes_is_judged_at_the_given_ones(tmp_path: Path) -> None:
    text = (
        "import torch\n\nclass {}(torch.nn.Module):\n"
        "    def forward(self, x):\n        return torch.sin(x).repeat(len(x) ** 2)\n\n"
        "def get_inputs():\n    return [torch.rand(3)]\n"
    )
    (tmp_path / "problem.py").write_text(text.format("Model"))
    (tmp_path / "solution.py").write_text(text.format("ModelNew"))
    assert isinstance(_loaded(tmp_path, True), OpSpec)
    sizes = _loaded(tmp_path, False)
    assert isinstance(sizes, NotBuilt)
    assert not sizes.expected
    assert "problem.py: OpSpec problem: axis 0 of output 0 is 8 at n = 2" in sizes.reason
