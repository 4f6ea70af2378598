"""A folder of operators in the form of BackendBench as a source: an implementation for each operator of ATen.

https://github.com/meta-pytorch/BackendBench: the folder `add__Tensor` has a file `add__Tensor_implementation*.py`, the
first by name of which defines `add__Tensor_kernel_impl`, which is called as `torch.ops.aten.add.Tensor` is.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from parity_tests.cli.sources.source import OneCandidate

if TYPE_CHECKING:
    import torch

    from parity_tests.cli.sources.apart import Apart
    from parity_tests.cli.sources.problem_inputs import ProblemInputs
    from parity_tests.harness.candidates.torch_candidate import Candidate
    from parity_tests.harness.isolation.messages import Candidates
    from parity_tests.harness.specs.spec import OpSpec
    from parity_tests.sweep.recorded_calls import RecordedCall

NAME = "kernel_impl"
AT_CALLS = (0, 1)  # of PyTorch's samples, at which an operator is judged as they are


@dataclass(frozen=True)
class BackendBenchOperator(OneCandidate):
    """The implementation of one operator, at the arguments of one of PyTorch's samples, or at other sizes.

    Attributes:
        folder: of all operators, as the user has given it.
        op: the name of the operator's own folder, "add__Tensor".
        call: the number of the sample; None for others of many sizes.
        start: the folder where the path begins.
        apart: how the implementation runs in a process of its own; None if it runs in the one that judges.
    """

    folder: Path
    op: str
    call: int | None
    start: Path = Path()
    apart: Apart | None = None

    candidate_name: ClassVar[str] = NAME

    @property
    def files(self) -> Sequence[Path]:
        """The implementation's."""
        return (implementations(self.start / self.folder)[self.op],)

    @property
    def at_other_inputs(self) -> Hashable:
        """The folder and the operator."""
        return self.folder, self.op

    @property
    def origin(self) -> Mapping[str, str]:
        """The folder, the operator and the sample."""
        path = (self.start / self.folder).resolve()
        return {"folder": str(path), "op": self.op, "call": "" if self.call is None else str(self.call)}

    def load(self) -> tuple[OpSpec, Candidates]:
        """Run the implementation's file, and make the specification of the operator at the sample.

        An implementation that cannot be used, and an operator that cannot be judged, are candidates not built.
        """
        from parity_tests.cli.case_file import CaseError
        from parity_tests.cli.sources.evaluated import nothing_to_judge
        from parity_tests.harness.candidates.not_built import NotBuilt

        name = operator_name(self.op)
        title = name if self.call is None else f"{name}, sample {self.call}"
        try:
            implementation = self.implementation()
            sample = self.sample()
        except (CaseError, LookupError) as error:
            reason = str(error.args[0]) if error.args else str(error)
            return nothing_to_judge(title), [NotBuilt(NAME, f"{name}: {reason}", expected=False, op=title)]
        if sample is None:
            reason = f"{name}: PyTorch's samples have no further call"
            return nothing_to_judge(title), [NotBuilt(NAME, reason, op=title)]
        spec = sample.spec(title, self.call is not None, implementation)
        if isinstance(spec, str):
            return nothing_to_judge(title), [NotBuilt(NAME, f"{name}: {spec}", expected=self.call is None, op=title)]
        return spec, [sample.candidate(implementation)]

    def command(self, candidate: str) -> str:
        """Evaluate the operator again."""
        return f"evaluate --backendbench {shlex.quote(str(self.folder))} --op {self.op}"

    def sample(self) -> OperatorCall | None:
        """The call of the operator that PyTorch's samples make; None if they make fewer.

        Raises:
            LookupError: there is no such operator, or no call of it.
        """
        operator = _operator(operator_name(self.op))
        calls, number = _calls(operator), self.call or 0
        return OperatorCall.of(operator, calls[number]) if number < len(calls) else None

    def implementation(self) -> Callable:
        """The function that the operator's file defines, or what calls it in a process of its own.

        Raises:
            CannotLoad: the file does not run, or has no such function; or its process ends, or gives no answer.
        """
        from parity_tests.cli.case_file import CaseError, load_module

        path = implementations(self.start / self.folder)[self.op]
        if self.apart is not None:
            packet = operator_name(self.op).rpartition(".")[0]
            return self.apart.solution(path, path, f"{self.op}_kernel_impl", operator=packet)
        function = getattr(load_module(path), f"{self.op}_kernel_impl", None)
        if not callable(function):
            raise CaseError(f"{path}: defines no {self.op}_kernel_impl")
        return function


def implementations(folder: Path) -> dict[str, Path]:
    """The file of each operator in a folder, by the names of the operators' own folders."""
    found = dict[str, Path]()
    for own in sorted(path for path in folder.iterdir() if path.is_dir()):
        files = sorted(own.glob(f"{own.name}_implementation*.py"))
        if files:
            found[own.name] = files[0]
    return found


def operator_name(folder: str) -> str:
    """The name of the operator that a folder is for: "add.Tensor" of "add__Tensor"."""
    name, _, overload = folder.rpartition("__")
    return f"{name}.{overload}" if name else f"{folder}.default"


def _operator(name: str) -> torch._ops.OpOverload:
    import torch

    packet, _, overload = name.rpartition(".")
    try:
        return getattr(getattr(torch.ops.aten, packet), overload)
    except AttributeError:
        raise LookupError(f"this PyTorch has no operator aten::{name}") from None


def _calls(operator: torch._ops.OpOverload) -> Sequence[RecordedCall]:
    """The calls of an operator that PyTorch's samples make, on real numbers; those with the most entries first.

    What returns nothing but zeros is left out, since a wrong implementation may, too, and what is not finite.
    """
    import numpy as np

    from parity_tests.sweep.calls import arrays_of, calls_of

    calls = calls_of(operator.name().removeprefix("aten::"), "float64")
    results = [(call, arrays_of([*call.results])) for call in calls]
    telling = [call for call, y in results if any(map(np.any, y)) and all(np.isfinite(x).all() for x in y)]
    if not telling:
        raise LookupError("PyTorch has no derivative formula of it, or no sample that calls it")
    return sorted(telling, key=lambda call: -sum(x.size for x in arrays_of([*call.arguments.values()])))


@dataclass(frozen=True, eq=False)
class OperatorCall:
    """The arguments of a call in the order of the schema, among them the tensors by their names."""

    operator: torch._ops.OpOverload
    args: Sequence[Any]
    keywords: Mapping[str, Any]
    tensors: Mapping[str, torch.Tensor]

    @classmethod
    def of(cls, operator: torch._ops.OpOverload, call: RecordedCall) -> OperatorCall:
        """The call with the arguments in their order, without those at the end that are defaults."""
        from parity_tests.sweep.recorded_calls import as_torch

        schema, args, keywords = operator._schema.arguments, list[Any](), dict[str, Any]()
        tensors = dict[str, Any]()
        for argument in schema:
            value = as_torch(call.arguments.get(argument.name, argument.default_value))
            tensors |= _named(argument.name, value)
            if argument.kwarg_only:
                keywords |= {argument.name: value} if argument.name in call.arguments else {}
            else:
                args.append(value)
        optional = [a for a in schema if not a.kwarg_only]
        while args and optional[len(args) - 1].has_default_value() and _is(args[-1], optional[len(args) - 1]):
            args.pop()
        return cls(operator, args, keywords, tensors)

    def of_tensors(self, call: Callable) -> Callable:
        """A function that is called as the operator is, as one of the tensors alone."""
        import torch
        from torch.utils._pytree import tree_flatten, tree_unflatten

        leaves, structure = tree_flatten((list(self.args), dict(self.keywords)))

        def called(*tensors: torch.Tensor) -> Any:
            remaining = iter(tensors)
            filled = [next(remaining) if isinstance(x, torch.Tensor) else x for x in leaves]
            args, keywords = tree_unflatten(filled, structure)
            return call(*args, **keywords)

        return called

    def candidate(self, implementation: Callable) -> Candidate:
        """An implementation that is called as the operator is."""
        from parity_tests.cli.sources.evaluated import Evaluated
        from parity_tests.harness.candidates.torch_candidate import Candidate

        return Candidate(Evaluated(implementation, self.of_tensors(implementation)), NAME, limits={})

    def spec(self, title: str, given: bool, implementation: Callable) -> OpSpec | str:
        """The specification at the tensors of the call, or at others; or why there is none."""
        from parity_tests.cli.sources.evaluated import Evaluated
        from parity_tests.cli.sources.problem_inputs import follows, problem_inputs, real_domain
        from parity_tests.harness.specs.spec import OpSpec

        reference = Evaluated(self.operator, self.of_tensors(self.operator))
        names, tensors = [*self.tensors], [*self.tensors.values()]
        try:
            if given:
                return OpSpec.from_torch(reference, inputs=tensors, name=title, input_names=tuple(names))
            inputs: ProblemInputs = problem_inputs(names, tensors, reference, _integers((self.args, self.keywords)))
            why = follows(self.of_tensors(implementation), reference, inputs)
            if why is not None:
                return why
            return OpSpec.from_torch(
                reference, inputs=inputs.text(real_domain(reference, inputs)), name=title, sizes=inputs.sizes
            )
        except (TypeError, ValueError, RuntimeError) as error:
            return next(iter(str(error).splitlines()), type(error).__name__)


def _named(name: str, value: Any) -> dict[str, Any]:
    """The tensors in an argument: one under its name, those of a list under their places."""
    import torch

    if isinstance(value, list | tuple):
        return {key: x for i, each in enumerate(value) for key, x in _named(f"{name}.{i}", each).items()}
    return {name: value} if isinstance(value, torch.Tensor) else {}


def _is(value: Any, argument: Any) -> bool:
    """Whether a value is an argument's default."""
    import torch

    return not isinstance(value, torch.Tensor) and value == argument.default_value


def _integers(value: Any) -> set[int]:
    """The integers among arguments, which may be sizes."""
    if isinstance(value, list | tuple):
        return {x for each in value for x in _integers(each)}
    if isinstance(value, Mapping):
        return _integers([*value.values()])
    return {value} if isinstance(value, int) and not isinstance(value, bool) else set()
