"""A problem in the form of KernelBench as a source: a file with `Model`, and a file with `ModelNew`.

https://github.com/ScalingIntelligence/KernelBench: `Model(*get_init_inputs())` is a module that is called with
`get_inputs()`; `ModelNew`, made with the same arguments after the same seed, must compute the same.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from parity_tests.cli.sources.source import OneCandidate

if TYPE_CHECKING:
    from types import ModuleType

    import torch

    from parity_tests.cli.sources.apart import Apart
    from parity_tests.cli.sources.problem_inputs import ProblemInputs
    from parity_tests.harness.candidates.not_built import NotBuilt
    from parity_tests.harness.candidates.torch_candidate import Candidate
    from parity_tests.harness.isolation.messages import Candidates
    from parity_tests.harness.solutions.proxy import Solution
    from parity_tests.harness.specs.spec import OpSpec

SEED = 42  # KernelBench's
NAME = "ModelNew"
_MOST_PARAMETERS = 2**22  # entries, with which a Jacobian product of the oracle takes seconds


@dataclass(frozen=True)
class KernelBenchProblem(OneCandidate):
    """One solution, at the inputs that the problem gives or at others of many sizes.

    Attributes:
        problem: the file with `Model`, `get_inputs` and `get_init_inputs`.
        solution: the file with `ModelNew`.
        given: whether it is judged at `get_inputs()`, or else at inputs of other sizes and signs.
        start: the folder where the paths begin.
        apart: how the solution runs in a process of its own; None if it runs in the one that judges.
    """

    problem: Path
    solution: Path
    given: bool
    start: Path = Path()
    apart: Apart | None = None

    candidate_name: ClassVar[str] = NAME

    @property
    def files(self) -> Sequence[Path]:
        """Both files."""
        return (self.start / self.problem, self.start / self.solution)

    @property
    def origin(self) -> Mapping[str, str]:
        """Both files, and which inputs."""
        files = {"problem": self.problem, "solution": self.solution}
        return {role: str((self.start / path).resolve()) for role, path in files.items()} | {"given": str(self.given)}

    def load(self) -> tuple[OpSpec, Candidates]:
        """Run the problem's file and, unless it is apart, the solution's; make the specification of the model.

        Raises:
            CannotLoad: the problem cannot be used; a solution that cannot is a candidate that is not built.
        """
        from parity_tests.cli.case_file import CaseError
        from parity_tests.cli.sources.evaluated import nothing_to_judge
        from parity_tests.harness.candidates.not_built import NotBuilt

        problem = Problem.of(self.problem, self.start)
        name = f"{self.problem.stem}{', get_inputs()' if self.given else ''}"
        try:
            solution = (
                problem.solution(self.solution, self.start)
                if self.apart is None
                else problem.solution_apart(self.problem, self.solution, self.start, self.apart)
            )
        except CaseError as error:
            return nothing_to_judge(name), [NotBuilt(NAME, str(error), expected=False, op=name)]
        try:
            spec = problem.spec(solution, name, self.given)
        except (TypeError, ValueError) as error:
            raise CaseError(f"{self.problem}: {error}") from error
        if isinstance(spec, NotBuilt):
            return nothing_to_judge(name), [replace(spec, op=name)]
        return spec, [problem.candidate(solution)]

    def command(self, candidate: str) -> str:
        """Evaluate the solution again."""
        return f"evaluate {shlex.quote(str(self.problem))} {shlex.quote(str(self.solution))}"


@dataclass(frozen=True, eq=False)
class Problem:
    """A model, the arguments that it was made with, the inputs that it is called with, and further arguments."""

    model: torch.nn.Module
    arguments: Sequence[Any]
    inputs: Mapping[str, torch.Tensor]
    params: Mapping[str, object]

    @classmethod
    def of(cls, path: Path, start: Path) -> Problem:
        """Run a problem's file.

        Raises:
            CannotLoad: it does not run, or is none in KernelBench's form.
        """
        from parity_tests.cli.case_file import CaseError, load_module

        module = load_module(path, start)
        try:
            arguments = _seeded(getattr(module, "get_init_inputs", list))
            model = _seeded(lambda: _member(path, module, "Model")(*arguments))
            inputs = _inputs(_listing(_member(path, module, "get_inputs")))
            parameters = _positional(model)
            if len(inputs) > len(parameters):
                raise TypeError(f"get_inputs() has {len(inputs)} values, and forward takes {len(parameters)}")
        except CaseError:
            raise
        except Exception as error:  # whatever the problem raises
            raise CaseError(f"{path}: {type(error).__name__}: {error}") from error
        tensors, params = dict[str, Any](), dict[str, object]()
        for name, value in zip(parameters, inputs, strict=False):
            (tensors if hasattr(value, "dtype") else params)[name] = value
        if not tensors or any(_has_tensors(value) for value in params.values()):
            raise CaseError(f"{path}: get_inputs() must return tensors and numbers")
        return cls(model, arguments, tensors, params)

    def solution(self, path: Path, start: Path) -> torch.nn.Module:
        """Run a solution's file, and make its module.

        Raises:
            CannotLoad: it does not run, or has no `ModelNew`.
        """
        from parity_tests.cli.case_file import CaseError, load_module

        module = load_module(path, start)
        try:
            return _seeded(lambda: _member(path, module, NAME)(*self.arguments))
        except CaseError:
            raise
        except Exception as error:  # whatever the solution raises
            raise CaseError(f"{path}: {NAME}: {type(error).__name__}: {error}") from error

    def solution_apart(self, own: Path, path: Path, start: Path, apart: Apart) -> Solution:
        """A solution's module in a process of its own.

        Raises:
            CannotLoad: see `solution`; or the process ends, or gives no answer.
        """
        module = start / path
        return apart.solution(module, path, NAME, arguments=(self.arguments, SEED), reference=start / own)

    def candidate(self, new: torch.nn.Module | Solution) -> Candidate:
        """A solution as a candidate, whose parameters are the model's."""
        import torch

        from parity_tests.cli.sources.evaluated import Evaluated
        from parity_tests.harness.candidates.torch_candidate import Candidate
        from parity_tests.harness.candidates.torch_modules import with_parameters

        names = shared_parameters(self.model, new) or ()
        if isinstance(new, torch.nn.Module):
            return Candidate(Evaluated(new, with_parameters(new, names)), NAME, limits={})
        return Candidate(new.with_parameters(names), NAME, limits={})

    def spec(self, new: torch.nn.Module | Solution, name: str, given: bool) -> OpSpec | NotBuilt:
        """The specification that a solution is judged by; or the candidate that is not, with the reason.

        Raises:
            TypeError, ValueError: the model is none that can be judged.
        """
        from parity_tests.cli.sources.evaluated import Evaluated
        from parity_tests.cli.sources.problem_inputs import problem_inputs

        parameters = dict(self.model.named_parameters())
        entries = sum(p.numel() for p in parameters.values())
        if entries > _MOST_PARAMETERS:
            raise ValueError(f"Model has {entries:,} parameters; write a copy of the problem with smaller sizes")
        sizes = {n for p in parameters.values() for n in p.shape} | set(_numbers(self.arguments))
        inputs = problem_inputs([*self.inputs], [*self.inputs.values()], self._called(self.model), sizes)
        if shared_parameters(self.model, new) is not None:
            return self._spec(self.model, inputs, name, given, self._called(new))
        as_they_are = Evaluated(self.model, self.model)
        return self._spec(as_they_are, inputs, f"{name}, parameters as they are", given, self._called(new))

    def _spec(
        self, reference: Callable, inputs: ProblemInputs, name: str, given: bool, new: Callable
    ) -> OpSpec | NotBuilt:
        from parity_tests.cli.sources.problem_inputs import LARGEST, follows, is_fake, real_domain
        from parity_tests.harness.candidates.not_built import NotBuilt
        from parity_tests.harness.specs.spec import OpSpec

        called = self._called(self.model)
        why = "no axis of get_inputs() may have another size" if not inputs.letters else follows(new, called, inputs)
        entries = sum(math.prod(x.shape) for x in inputs.given)
        if given and (why is None or entries <= LARGEST):
            if any(map(is_fake, inputs.given)):
                why = f"get_inputs() has {entries:,} numbers; it is judged at smaller sizes only"
                return NotBuilt(NAME, why, too_large=True)
            arrays = inputs.small() if entries > LARGEST else [*inputs.given]
            names: dict[str, Any] = {} if reference is self.model else {"input_names": tuple(inputs.names)}
            names |= {"given_size": [*inputs.given]} if entries > LARGEST else {}  # the check of this name
            return OpSpec.from_torch(reference, inputs=arrays, name=name, params=self.params, **names)
        if given or why is not None:
            size = f"get_inputs() has {entries:,} numbers, too many for the oracle, and " if given else ""
            return NotBuilt(NAME, f"{size}{why}", expected=not given)
        text = inputs.text(real_domain(called, inputs))
        return OpSpec.from_torch(reference, inputs=text, name=name, params=self.params)

    def _called(self, module: Callable) -> Callable:
        return lambda *tensors: module(*tensors, **self.params)


def _seeded(make: Callable[[], Any]) -> Any:
    """What is made after KernelBench's seed, with PyTorch's random numbers left where they were."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        return make()


def _listing(get_inputs: Callable[[], Any]) -> Callable[[], Sequence[Any]]:
    """`get_inputs`, which raises a TypeError if it returns no list: a generator would draw after the seed is gone."""

    def listed() -> Sequence[Any]:
        given = get_inputs()
        if not isinstance(given, list | tuple):
            kind = type(given).__name__
            raise TypeError(f"get_inputs() must return a list of what forward is called with, and returns a {kind}")
        return given

    return listed


def _inputs(get_inputs: Callable[[], Sequence[Any]]) -> Sequence[Any]:
    """What a problem's `get_inputs` returns; tensors without numbers if there would be too many."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from parity_tests.cli.sources.problem_inputs import LARGEST

    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            fake = _seeded(get_inputs)
    except Exception:  # it needs numbers
        return _seeded(get_inputs)
    entries = sum(x.numel() for x in fake if isinstance(x, torch.Tensor))
    return fake if entries > 2**11 * LARGEST else _seeded(get_inputs)


def _member(path: Path, module: ModuleType, name: str) -> Any:
    from parity_tests.cli.case_file import CaseError

    if not callable(getattr(module, name, None)):
        raise CaseError(f"{path}: defines no {name}")
    return getattr(module, name)


def _positional(model: torch.nn.Module) -> list[str]:
    import inspect

    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    return [p.name for p in inspect.signature(model.forward).parameters.values() if p.kind in kinds]


def _has_tensors(value: object) -> bool:
    import torch
    from torch.utils._pytree import tree_leaves

    return any(isinstance(x, torch.Tensor) for x in tree_leaves(value))


def _numbers(value: Any) -> list[int]:
    """The integers in the arguments of a module, which may be sizes."""
    if isinstance(value, list | tuple):
        return [x for each in value for x in _numbers(each)]
    if isinstance(value, dict):
        return _numbers([*value.values()])
    return [value] if isinstance(value, int) and not isinstance(value, bool) else []


def shared_parameters(model: torch.nn.Module, new: torch.nn.Module | Solution) -> list[str] | None:
    """For each parameter of the model the solution's, by name, by its equal numbers, or by its place.

    The seed that both were made after gives them equal numbers. None if one has none.
    """
    own, theirs = dict(model.named_parameters()), dict(new.named_parameters())
    if all(name in theirs and theirs[name].shape == p.shape for name, p in own.items()):
        return [*own]
    found: list[str] = []
    for p in own.values():
        equal = [n for n, q in theirs.items() if n not in found and q.shape == p.shape and bool((q == p).all())]
        found += equal[:1]
    if len(found) == len(own):
        return found
    same = [p.shape for p in own.values()] == [q.shape for q in theirs.values()]
    return [*theirs] if same else None
