"""A problem in the form of KernelBench as a source: a file with `Model`, and a file with `ModelNew`.

https://github.com/ScalingIntelligence/KernelBench: `Model(*get_init_inputs())` is a module that is called with
`get_inputs()`; `ModelNew`, made with the same arguments after the same seed, must compute the same.
"""

from __future__ import annotations

import functools
import math
import shlex
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from parity_tests.cli.sources.source import OneCandidate

if TYPE_CHECKING:
    from types import ModuleType

    import torch

    from parity_tests.cli.sources.apart import Apart
    from parity_tests.cli.sources.problem_arguments import Made
    from parity_tests.cli.sources.problem_inputs import ProblemInputs
    from parity_tests.harness.candidates.not_built import NotBuilt
    from parity_tests.harness.candidates.torch_candidate import Candidate
    from parity_tests.harness.isolation.messages import Candidates
    from parity_tests.harness.solutions.proxy import Solution
    from parity_tests.harness.specs.spec import OpSpec

SEED = 42  # KernelBench's
NAME = "ModelNew"
_MOST_PARAMETERS = 2**22  # entries, with which a Jacobian product of the oracle takes seconds
_MANY_PARAMETERS = 2**12  # entries, beyond which other sizes are those of a model with fewer


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
    def at_other_inputs(self) -> Hashable:
        """Both files."""
        return self.problem, self.solution

    @property
    def origin(self) -> Mapping[str, str]:
        """Both files, and which inputs."""
        files = {"problem": self.problem, "solution": self.solution}
        return {role: str((self.start / path).resolve()) for role, path in files.items()} | {"given": str(self.given)}

    def load(self) -> tuple[OpSpec, Candidates]:
        """Run the problem's file and, unless it is apart, the solution's; make the specification of the model.

        Raises:
            CannotLoad: the problem cannot be used; a solution that cannot is a candidate that is not built, and so is
                one that cannot be judged at these inputs.
        """
        from parity_tests.cli.sources.evaluated import nothing_to_judge
        from parity_tests.harness.candidates.not_built import NotBuilt

        problem = Problem.of(self.problem, self.start)
        found: list[NotBuilt] = []
        for each in [problem] if self.given else problem.at_other_sizes():
            name = f"{self.problem.stem}{', get_inputs()' if self.given else each.title}"
            judged = self._judged(each, name)
            if not isinstance(judged, NotBuilt):
                return judged
            found.append(replace(judged, op=name))
        return nothing_to_judge(found[0].op), found[:1]

    def _judged(self, problem: Problem, name: str) -> tuple[OpSpec, Candidates] | NotBuilt:
        from parity_tests.cli.case_file import CaseError
        from parity_tests.harness.candidates.not_built import NotBuilt

        if problem.model is None:
            many = f"Model has {problem.entries:,} parameters"
            if self.given:
                return NotBuilt(NAME, f"{many}; it is judged at smaller sizes only", too_large=True)
            return NotBuilt(NAME, f"{many}; write a copy of the problem with smaller sizes", expected=False)
        try:
            solution = (
                problem.solution(self.solution, self.start)
                if self.apart is None
                else problem.solution_apart(self.problem, self.solution, self.start, self.apart)
            )
        except CaseError as error:
            return NotBuilt(NAME, str(error), expected=False)
        try:
            spec = problem.spec(solution, name, self.given)
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:  # of the model, somewhere
            return NotBuilt(NAME, f"{self.problem}: {error}", expected=False)
        return spec if isinstance(spec, NotBuilt) else (spec, [problem.candidate(solution)])

    def command(self, candidate: str) -> str:
        """Evaluate the solution again."""
        return f"evaluate {shlex.quote(str(self.problem))} {shlex.quote(str(self.solution))}"


@dataclass(frozen=True, eq=False)
class Problem:
    """A model, the arguments that it was made with, the inputs that it is called with, and further arguments.

    Attributes:
        make: the model, of its arguments.
        arguments: that it is made with.
        inputs: the tensors that it is called with, by name.
        params: what else it is called with.
        title: what tells the problem from the one that the file has; empty if it is the same.
    """

    make: Callable[[Sequence[Any]], torch.nn.Module]
    arguments: Sequence[Any]
    inputs: Mapping[str, torch.Tensor]
    params: Mapping[str, object]
    title: str = ""

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
            model = _member(path, module, "Model")
            inputs = _inputs(_listing(_member(path, module, "get_inputs")))
            problem = cls(lambda made_of: _seeded(lambda: model(*made_of)), arguments, {}, {})
            parameters = _positional(model if problem.model is None else problem.model)
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
        return replace(problem, inputs=tensors, params=params)

    @functools.cached_property
    def entries(self) -> int:
        """The number of parameters; a model that cannot be made without numbers is made with them."""
        from torch._subclasses.fake_tensor import FakeTensorMode

        try:
            with FakeTensorMode():
                model = self.make(self.arguments)
        except Exception:  # it needs numbers, or raises in any case
            model = self.make(self.arguments)
        return sum(p.numel() for p in model.parameters())

    @functools.cached_property
    def model(self) -> torch.nn.Module | None:
        """The model; None if it has too many parameters."""
        return self.make(self.arguments) if self.entries <= _MOST_PARAMETERS else None

    @functools.cached_property
    def _made(self) -> Made:
        from parity_tests.cli.sources.problem_arguments import Made

        given = [*self.inputs.values()]
        shapes, dtypes = [tuple(x.shape) for x in given], [x.dtype for x in given]
        return Made(self.make, lambda model, *x: model(*x, **self.params), self.arguments, shapes, dtypes)

    def at_other_sizes(self) -> list[Problem]:
        """This problem, and before it the one that is made with smaller numbers, if it has many parameters."""
        from parity_tests.cli.sources.problem_arguments import cut

        new = self._made.smaller() if self.entries > _MANY_PARAMETERS else {}
        if not new:
            return [self]
        arguments, shapes = self._made.changed(new)
        inputs = dict(zip(self.inputs, cut([*self.inputs.values()], shapes), strict=True))
        title = f", Model({', '.join(map(repr, arguments))})"
        return [replace(self, arguments=arguments, inputs=inputs, title=title), self]

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

        assert self.model is not None
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

        assert self.model is not None
        sizes = {n for p in self.model.parameters() for n in p.shape} | {*self._made.numbers.values()}
        called = self._called(self.model)
        inputs = problem_inputs([*self.inputs], [*self.inputs.values()], called, self._made.unseen(), sizes)
        reference: Callable = self.model
        if shared_parameters(self.model, new) is None:
            reference, name = Evaluated(self.model, self.model), f"{name}, parameters as they are"
        refusal: ValueError | None = None
        for each in (inputs, *inputs.merged()):
            try:
                return self._spec(reference, each, name, given, self._called(new))
            except ValueError as error:
                refusal = refusal or error
        assert refusal is not None
        raise refusal

    def _spec(
        self, reference: Callable, inputs: ProblemInputs, name: str, given: bool, new: Callable
    ) -> OpSpec | NotBuilt:
        from parity_tests.cli.sources.problem_inputs import LARGEST, follows, is_fake, real_domain
        from parity_tests.harness.candidates.not_built import NotBuilt
        from parity_tests.harness.specs.spec import OpSpec

        assert self.model is not None
        called = self._called(self.model)
        entries = sum(math.prod(x.shape) for x in inputs.given)
        if not given:
            why = follows(new, called, inputs) if not inputs.letters else None
            if why is None:
                text, sizes = inputs.text(real_domain(called, inputs)), inputs.sizes
                spec = OpSpec.from_torch(reference, inputs=text, name=name, params=self.params, sizes=sizes)
                why = follows(new, called, inputs)
            return spec if why is None else NotBuilt(NAME, why)
        if any(map(is_fake, inputs.given)):
            why = f"get_inputs() has {entries:,} numbers; it is judged at smaller sizes only"
            return NotBuilt(NAME, why, too_large=True)
        names: dict[str, Any] = {} if reference is self.model else {"input_names": tuple(inputs.names)}
        if entries <= LARGEST:
            return OpSpec.from_torch(reference, inputs=[*inputs.given], name=name, params=self.params, **names)
        spec = OpSpec.from_torch(
            reference,
            inputs=inputs.small(),
            name=name,
            params=self.params,
            given_size=[*inputs.given],  # the check of this name
            **names,
        )
        why = follows(new, called, inputs)
        if why is not None:
            size = f"get_inputs() has {entries:,} numbers, too many for the oracle, and "
            return NotBuilt(NAME, f"{size}{why}", expected=False)
        return spec

    def _called(self, module: Callable) -> Callable:
        return lambda *tensors: module(*tensors, **self.params)


def _seeded(make: Callable[[], Any]) -> Any:
    """Return the result of `make` after KernelBench's seed, and leave PyTorch's random numbers where they were."""
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
    """Return the inputs of a problem's `get_inputs`; tensors without numbers if there would be too many."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    from parity_tests.cli.sources.problem_inputs import LARGEST

    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            fake = _seeded(get_inputs)
    except Exception:  # it needs numbers
        return _seeded(get_inputs)
    tensors = [x for x in fake if isinstance(x, torch.Tensor)]
    entries = sum(x.numel() for x in tensors)
    if entries <= 2**11 * LARGEST:
        return _seeded(get_inputs)
    of_integers = [isinstance(x, torch.Tensor) and not (x.is_floating_point() or x.is_complex()) for x in fake]
    if not any(of_integers) or entries > 2**14 * LARGEST:
        return fake
    return [x if whole else y for whole, x, y in zip(of_integers, _seeded(get_inputs), fake, strict=True)]


def _member(path: Path, module: ModuleType, name: str) -> Any:
    from parity_tests.cli.case_file import CaseError

    if not callable(getattr(module, name, None)):
        raise CaseError(f"{path}: defines no {name}")
    return getattr(module, name)


def _positional(model: Any) -> list[str]:
    import inspect

    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)
    return [
        p.name for p in inspect.signature(model.forward).parameters.values() if p.kind in kinds and p.name != "self"
    ]


def _has_tensors(value: object) -> bool:
    import torch
    from torch.utils._pytree import tree_leaves

    return any(isinstance(x, torch.Tensor) for x in tree_leaves(value))


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
