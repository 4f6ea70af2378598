"""`audit`: one training step of PyTorch, each operator of which is judged at the numbers that it had there."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction

from parity_tests.auditing.calls import Call, Held, Overwritten, Recorder
from parity_tests.auditing.findings import Audit
from parity_tests.auditing.judged import COTANGENT_NAN, GIVEN_NAN, Compared, Differentiated, compare
from parity_tests.auditing.modules import Modules
from parity_tests.auditing.nodes import graph_of, is_leaf
from parity_tests.auditing.operation import NO_BOUND, Finding, Operation, finding_of
from parity_tests.auditing.program import (
    Arguments,
    NotFollowed,
    Program,
    arguments_of,
    is_integral,
    is_real,
    program_of,
    results_of,
)
from parity_tests.certificate.certificate import Row
from parity_tests.conversion import trees
from parity_tests.conversion.cannot_convert import CannotConvert
from parity_tests.harness.exceptions.errors import described

if TYPE_CHECKING:
    from parity_tests.auditing.compiled import Region, Regions

_TOLD = 3  # comparisons of an operation, of which no bound is known


class StepFailed(RuntimeError):
    """Raised where the step itself, or its backward, raises something; its cause is that."""


def audit(step: Callable[..., Any], *inputs: Any, seed: int = 0, compiled: bool = False, **kwargs: Any) -> Audit:
    """Run one training step in PyTorch, and judge each operator's results and gradients in it.

    The step runs as it is: in its dtypes, under autocast if it says so, with its own Functions and kernels. While the
    gradient passes through it, each operator's results, and its gradients by its inputs, are compared with those of
    its counterpart in JAX (`jax_ref.aten`) in float64, at the numbers and cotangents that it has there, within bounds
    of their rounding errors. A `torch.autograd.Function` is compared with the derivative of the operators that its
    forward calls. So the one that is wrong is named, and none of those that were given its wrong numbers.

    Args:
        step: a module or function. Its result, or the `loss` of its result, is what the gradient is of, if it is one
            number; else a random combination of its results is.
        inputs: its arguments.
        seed: of the combination.
        compiled: whether what torch.compile compiles runs as Inductor's code: each compiled region is one operation,
            compared with the derivative of its own code. Without it such code runs uncompiled, operator by operator.
        kwargs: its keyword arguments.

    Returns:
        What was found, of each operation in the order in which they ran. Parameters have their gradients afterwards, as
        after `backward()`.

    Raises:
        ValueError: nothing that the step returns has a gradient; or nothing in it is compiled, with `compiled`.
        StepFailed: the step raised something, or its backward did.
    """
    return audited(step, inputs, kwargs, seed, compiled)


def audited(
    step: Callable[..., Any],
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any],
    seed: int,
    compiled: bool = False,
    told: Callable[[int, int], None] | None = None,
) -> Audit:
    """Return what `audit` returns; `told` is called with the number of operations that are judged, and of all."""
    modules = Modules()
    regions = _regions(modules) if compiled else None
    recorder = Recorder(modules) if regions is None else regions.recorder
    try:
        # Else torch.compile would skip for good what it finds in the context of a recorder.
        with modules, regions or torch.compiler.set_stance("force_eager"), recorder:
            result = step(*inputs, **kwargs)
    except (Exception, SystemExit) as error:
        raise StepFailed(f"the step raised {described(error)}") from error
    results = _differentiable(result)
    if regions is not None and not regions.ran:
        raise ValueError("audit: compiled=True, but torch.compile compiles nothing that this step runs")
    recorder.see(results)
    nodes, leaves = graph_of(results)
    judge = _Judge(recorder, {} if regions is None else regions.nodes, len(nodes), told)
    hooks = [node.register_hook(judge.hook_of(node)) for node in nodes]
    loss = _loss(results, seed)
    try:
        loss.backward()
    except (Exception, SystemExit) as error:
        if judge.failed:
            raise
        raise StepFailed(f"the step's backward raised {described(error)}") from error
    finally:
        for hook in hooks:
            hook.remove()
    named = dict(step.named_parameters()) if isinstance(step, nn.Module) else {}
    reached = set(map(id, leaves))
    unreached = [name for name, x in named.items() if x.requires_grad and id(x) not in reached]
    gradients = [leaf.grad for leaf in leaves if leaf.grad is not None and leaf.grad.layout is torch.strided]
    is_finite = all(bool(torch.isfinite(x).all()) for x in (loss, *gradients))
    found = [judge.found[node] for node in nodes if node in judge.found]
    if regions is not None:  # those that no gradient passes through
        found += [judge.of_region(region) for region in regions.ran if region not in judge.regions]
    return Audit(_settled(found, is_finite), unreached)


def _regions(modules: Modules) -> Regions:
    from parity_tests.auditing.compiled import Regions  # which imports PyTorch's compiler

    return Regions(modules)


def _settled(operations: Sequence[Operation], is_finite: bool) -> Sequence[Operation]:
    """The findings, once the end is known.

    An infinity that is right, as of a mask, is no fault where the loss and all gradients are finite. A NaN that no
    operation has made comes from outside, or from a hook: it is told of the first operation that had it.
    """
    if is_finite:
        return [replace(each, finding=Finding.AGREES) if each.is_as_it_should_be else each for each in operations]
    if any(each.is_fault for each in operations):
        return operations
    ran, differentiated = ([x for x in operations if x.reason == why] for why in (GIVEN_NAN, COTANGENT_NAN))
    first = ran[0] if ran else differentiated[-1] if differentiated else None
    reason = (
        f"{GIVEN_NAN} by a parameter or an argument" if ran else "its cotangent has a NaN: a hook, or a kernel, made it"
    )
    told = {id(first): replace(first, finding=Finding.NOT_FINITE, reason=reason)} if first else {}
    return [told.get(id(each), each) for each in operations]


def _differentiable(result: Any) -> list[Tensor]:
    """The results that the gradient may be of: the loss, if it has that name.

    Raises:
        ValueError: none has one.
    """
    named = result.get("loss") if isinstance(result, dict) else getattr(result, "loss", None)
    leaves = [named] if isinstance(named, Tensor) else trees.flatten(result)[0]
    found = [y for y in leaves if isinstance(y, Tensor) and y.requires_grad and y.is_floating_point()]
    if not found:
        raise ValueError(
            "audit: nothing that the step returns has a gradient; it must return its loss, or results that depend on "
            "parameters or inputs with requires_grad=True, and must not call backward() itself"
        )
    return found


def _loss(results: Sequence[Tensor], seed: int) -> Tensor:
    """Return the one number that there is, or a random combination of all."""
    if len(results) == 1 and results[0].numel() == 1:
        return results[0]
    generator = torch.Generator().manual_seed(seed)
    drawn = (torch.randn(y.shape, generator=generator).to(y) for y in results)
    return torch.stack([(c * y).sum().double() for c, y in zip(drawn, results, strict=True)]).sum()


class _Judge:
    """Judges operations while the gradient passes through them, so that none of their tensors outlives the step's."""

    def __init__(
        self,
        recorder: Recorder,
        regions: Mapping[Any, Region],
        count: int,
        told: Callable[[int, int], None] | None,
    ) -> None:
        self._recorder, self._regions, self._count, self._told = recorder, regions, count, told
        self.found: dict[Any, Operation] = {}
        self.regions: set[Region] = set()  # that were judged
        self.failed = False  # whether an error that is raised is a defect of ours

    def hook_of(self, node: Any) -> Callable[[Sequence[Tensor | None], Sequence[Tensor | None]], None]:
        """Return what autograd calls with a node's gradients and cotangents."""

        def judge(gradients: Sequence[Tensor | None], cotangents: Sequence[Tensor | None]) -> None:
            self.failed = True
            region = self._regions.get(node)
            of = self._of_node if region is None else functools.partial(self.of_region, region)
            self.found[node] = of(node, gradients, cotangents)
            self._recorder.forget(node)
            if self._told is not None:
                self._told(len(self.found), self._count)
            self.failed = False

        return judge

    def _of_node(self, node: Any, gradients: Sequence[Tensor | None], cotangents: Sequence[Tensor | None]) -> Operation:
        """Judge an operator or a Function."""
        calls, is_function = self._recorder.calls_of(node), isinstance(node, BackwardCFunction)
        name = calls[0].target.name() if calls and not is_function else type(node).__name__
        where = (calls[0].module, calls[0].line) if calls else ("", "")

        def compared() -> Compared:
            if not calls or not (is_function or _is_of(node, calls[0])):
                raise NotFollowed("no operator of PyTorch's was seen to make it")
            numbered = self._recorder.made[node] if is_function else dict(enumerate(results_of(calls[0], is_real)))
            made = dict(sorted(numbered.items()))
            wanted = [y for which, y in made.items() if which < len(cotangents) and cotangents[which] is not None]
            # An operator says by integers which numbers it has chosen for the entries of a result.
            shapes = [] if is_function else [y.tensor.shape for y in wanted]
            chosen = [y for y in results_of(calls[0], is_integral) if y.tensor.shape in shapes]
            arguments = self._arguments(node) if is_function else arguments_of(calls[0])
            program = program_of(calls, [*wanted, *chosen], is_function, arguments)
            of_results = _cotangents(program, made, cotangents)
            of_inputs = _gradients(node, program, gradients)
            returned = made if is_function else dict(enumerate(results_of(calls[0], lambda _: True)))
            found = compare(Differentiated(program, of_results, of_inputs, [*of_results], program.places_of(returned)))
            _verify_comparable(name, is_function, found.rows)
            return found

        return _operation(name, *where, compared)

    def _arguments(self, node: Any) -> Arguments:
        """The arguments of a Function; none if its forward calls no operator, or takes what it cannot be called by."""
        applied = self._recorder.applied_by(node)
        with contextlib.suppress(TypeError, ValueError):
            return Arguments(applied.named, [*applied.kwargs]) if applied is not None else Arguments()
        return Arguments()

    def of_region(
        self,
        region: Region,
        node: Any = None,
        gradients: Sequence[Tensor | None] = (),
        cotangents: Sequence[Tensor | None] = (),
    ) -> Operation:
        """Judge a compiled region: all its results, and its gradients, if a gradient passes through it."""
        self.regions.add(region)

        def compared() -> Compared:
            program = region.program()
            made = self._recorder.made[node] if node is not None else {}
            if any(c is not None and which not in made for which, c in enumerate(cotangents)):
                raise NotFollowed("a result of it is a view of a tensor that it does not return")
            of_results = _cotangents(program, made, cotangents)
            of_inputs = _gradients(node, program, gradients) if node is not None else {}
            real = [k for k, y in enumerate(program.outputs) if is_real(y.tensor)]
            places = program.places_of(dict(enumerate(region.returned)))
            changed = region.changed_in(program)
            return compare(Differentiated(program, of_results, of_inputs, real, places, changed))

        found = _operation("compiled region", region.module, region.line, compared)
        if found.finding is not Finding.NOT_JUDGED or NO_BOUND not in found.reason:
            return found
        return replace(found, reason=f"{found.reason}; compile smaller modules, such as each block: they have a bound")


def _operation(name: str, module: str, line: str, compared: Callable[[], Compared]) -> Operation:
    """An operation, with what its comparison says."""
    try:
        found = compared()
    except (NotFollowed, Overwritten, CannotConvert) as error:
        return Operation(name, module, line, Finding.NOT_JUDGED, reason=str(error))
    except Exception as error:
        return Operation(name, module, line, Finding.NOT_JUDGED, reason=f"its counterpart raises {described(error)}")
    finding = finding_of(found.rows)
    if finding is Finding.AGREES and found.reason:
        finding = Finding.NOT_JUDGED
    unknown = [str(row) for row in found.rows if not row.agrees] if finding is Finding.NOT_JUDGED else []
    more = [f"and {len(unknown) - _TOLD} more"] if len(unknown) > _TOLD else []
    reason = found.reason or "; ".join([*unknown[:_TOLD], *more])
    operation = Operation(name, module, line, finding, found.rows, reason)
    kept = found.recorded if operation.is_fault else None
    return replace(operation, arrays=kept.arrays, facts=kept.facts) if kept is not None else operation


def _is_of(node: Any, call: Call) -> bool:
    """Whether a call may be that of a node, by their names: one of another thread has the number of another."""
    of_node = type(node).__name__.partition("Backward")[0].lower()
    of_call = call.target._schema.name.partition("::")[2].replace("_", "")
    return of_node.startswith(of_call) or of_call.startswith(of_node)


def _verify_comparable(name: str, is_function: bool, rows: Sequence[Row]) -> None:
    """Refuse a comparison that says nothing of what is right.

    Raises:
        NotFollowed: it does not.
    """
    if name in _CONVENTIONS:
        raise NotFollowed(_CONVENTIONS[name])
    if any("differs" in row.reason for row in rows if row.name.startswith("result")):
        if is_function:
            raise NotFollowed("its result is not what the operators make that its forward calls; a kernel does")
        if name in _UP_TO_A_SIGN:
            raise NotFollowed("its result is determined up to signs or phases only, and is not JAX's")


def _cotangents(program: Program, made: Mapping[int, Held], cotangents: Sequence[Tensor | None]) -> dict[int, Tensor]:
    """The cotangents by the places of a program's results.

    Raises:
        NotFollowed: a result comes from a kernel, and from no operator.
    """
    found = dict[int, Tensor]()
    for which, c in enumerate(cotangents):
        if c is None:
            continue
        k = program.index_of(made[which]) if which in made else None
        if k is None:
            raise NotFollowed("its forward makes its result by a kernel, which calls no operator of PyTorch's")
        found[k] = found[k] + c if k in found else c
    return found


# Whose gradients are others by convention, and right for the inputs that they are for.
_CONVENTIONS = {
    "aten::_ctc_loss": "its gradient is, by PyTorch's convention, right for a log_softmax only",
    "aten::_linalg_eigh": "its gradient is, by PyTorch's convention, symmetric, though it reads one triangle",
}
_UP_TO_A_SIGN = {"aten::_linalg_svd", "aten::linalg_eig", "aten::linalg_qr"}


def _gradients(node: Any, program: Program, gradients: Sequence[Tensor | None]) -> dict[int, Tensor | None]:
    """The gradients by the places of a program's inputs.

    Raises:
        NotFollowed: a gradient is by no input of the program.
    """
    edges = [(x.variable if is_leaf(x) else x, which) for x, which in node.next_functions]
    if any(x.maker is not None and not any(x.maker is maker for maker, _ in edges) for x in program.inputs):
        raise NotFollowed("it reads a tensor with a gradient that is none of its arguments, so that none reaches it")
    found = dict[int, Tensor | None]()
    for (maker, which), g in zip(edges, gradients, strict=True):
        if maker is None:
            continue
        at = [i for i, x in enumerate(program.inputs) if x.maker is maker and x.which == which]
        if not at:
            raise NotFollowed("it has a gradient by a tensor that none of its operators takes")
        before = found.get(at[0])
        found[at[0]] = g if before is None else before if g is None else before.double() + g
    return found
