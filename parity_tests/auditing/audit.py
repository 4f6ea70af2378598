"""`audit`: one training step of PyTorch, each operator of which is judged at the numbers that it had there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch._C import _autograd
from torch.autograd.function import BackwardCFunction
from torch.utils.module_tracker import ModuleTracker

from parity_tests.auditing.calls import Call, Held, Overwritten, Recorder
from parity_tests.auditing.findings import Audit
from parity_tests.auditing.judged import Counterparts, Differentiated
from parity_tests.auditing.operation import Finding, Operation, finding_of
from parity_tests.auditing.program import NotFollowed, Program, is_real, program_of
from parity_tests.conversion import trees
from parity_tests.conversion.cannot_convert import CannotConvert
from parity_tests.harness.exceptions.errors import described


class StepFailed(RuntimeError):
    """Raised where the step itself, or its backward, raises something; its cause is that."""


def audit(
    step: Callable[..., Any], *inputs: Any, seed: int = 0, told: Callable[[int, int], None] | None = None, **kwargs: Any
) -> Audit:
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
        told: is called with the number of operations that have been judged, and of all.
        kwargs: its keyword arguments.

    Returns:
        What was found, of each operation in the order in which they ran. Parameters have their gradients afterwards, as
        after `backward()`.

    Raises:
        ValueError: nothing that the step returns has a gradient.
        StepFailed: the step raised something, or its backward did.
    """
    modules = ModuleTracker()
    recorder = Recorder(modules)
    try:
        with modules, recorder:
            result = step(*inputs, **kwargs)
    except Exception as error:
        raise StepFailed(f"the step raised {described(error)}") from error
    end = _autograd._get_sequence_nr()
    results = _differentiable(result)
    recorder.see(results)
    loss = _loss(results, seed)
    nodes, leaves = _graph_of(loss)
    nodes = [node for node in nodes if node._sequence_nr() < end]  # without those of the combination
    judge = _Judge(recorder, len(nodes), told)
    hooks = [node.register_hook(judge.hook_of(node)) for node in nodes]
    try:
        loss.backward()
    except Exception as error:
        if judge.failed:
            raise
        raise StepFailed(f"the step's backward raised {described(error)}") from error
    finally:
        for hook in hooks:
            hook.remove()
    named = dict(step.named_parameters()) if isinstance(step, nn.Module) else {}
    unreached = [name for name, x in named.items() if x.requires_grad and not any(x is leaf for leaf in leaves)]
    return Audit([judge.found[node] for node in nodes if node in judge.found], unreached)


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


def _graph_of(loss: Tensor) -> tuple[list[Any], list[Tensor]]:
    """The nodes of autograd that a gradient passes through, those that ran first first, and the leaves."""
    found, leaves, remaining = set[Any](), list[Tensor](), [loss.grad_fn]
    while remaining:
        node: Any = remaining.pop()
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        elif node is not None and node not in found:
            found.add(node)
            remaining += [each for each, _ in node.next_functions]
    return sorted(found, key=lambda node: node._sequence_nr()), leaves


class _Judge:
    """Judges operations while the gradient passes through them, so that none of their tensors outlives the step's."""

    def __init__(self, recorder: Recorder, count: int, told: Callable[[int, int], None] | None) -> None:
        self._recorder, self._count, self._told = recorder, count, told
        self._counterparts = Counterparts()
        self.found: dict[Any, Operation] = {}
        self.failed = False  # whether an error that is raised is a defect of ours

    def hook_of(self, node: Any) -> Callable[[Sequence[Tensor | None], Sequence[Tensor | None]], None]:
        """Return what autograd calls with a node's gradients and cotangents."""

        def judge(gradients: Sequence[Tensor | None], cotangents: Sequence[Tensor | None]) -> None:
            self.failed = True
            self.found[node] = self._judged(node, self._recorder.calls_of(node), gradients, cotangents)
            self.failed = False
            self._recorder.forget(node)
            if self._told is not None:
                self._told(len(self.found), self._count)

        return judge

    def _judged(
        self, node: Any, calls: Sequence[Call], gradients: Sequence[Tensor | None], cotangents: Sequence[Tensor | None]
    ) -> Operation:
        is_function = isinstance(node, BackwardCFunction)
        name = calls[0].target.name() if calls and not is_function else type(node).__name__
        where = (calls[0].module, calls[0].line) if calls else ("", "")
        made = self._recorder.made[node]
        try:
            if not calls:
                raise NotFollowed("no operator of PyTorch's was seen to make it")
            program = program_of(calls, [*made.values()] if is_function else None)
            of_results = _of_function(program, made, cotangents) if is_function else _of_operator(program, cotangents)
            differentiated = Differentiated(program, of_results, _gradients(node, program, gradients))
            rows, arrays = self._counterparts.compare(differentiated)
            if is_function and not all(row.agrees for row in rows[: len(program.outputs)]):
                raise NotFollowed("its result is not what the operators make that its forward calls; a kernel does")
        except (NotFollowed, Overwritten, CannotConvert) as error:
            return Operation(name, *where, Finding.NOT_JUDGED, reason=str(error))
        return Operation(name, *where, finding_of(rows), rows, arrays=arrays)


def _of_operator(program: Program, cotangents: Sequence[Tensor | None]) -> dict[int, Tensor | None]:
    """The cotangents by the places of an operator's results: the real ones, of which the last may have none."""
    real = [k for k, y in enumerate(program.outputs) if is_real(y.tensor)]
    return dict(zip(real, cotangents, strict=False))


def _of_function(
    program: Program, made: Mapping[int, Held], cotangents: Sequence[Tensor | None]
) -> dict[int, Tensor | None]:
    """The cotangents by the places of a Function's results.

    Raises:
        NotFollowed: a result comes from a kernel, and from no operator.
    """
    places = {y.place: k for k, y in enumerate(program.outputs)}
    found = dict[int, Tensor | None]()
    for which, c in enumerate(cotangents):
        if which in made and made[which].place in places:
            found[places[made[which].place]] = c
        elif c is not None:
            raise NotFollowed("its forward makes its result by a kernel, which calls no operator of PyTorch's")
    return found


def _gradients(node: Any, program: Program, gradients: Sequence[Tensor | None]) -> dict[int, Tensor | None]:
    """The gradients by the places of a program's inputs.

    Raises:
        NotFollowed: a gradient is by no input of the program.
    """
    found = dict[int, Tensor | None]()
    for (maker, which), g in zip(node.next_functions, gradients, strict=True):
        if maker is None:
            continue
        maker = getattr(maker, "variable", maker)
        at = [i for i, x in enumerate(program.inputs) if x.maker is maker and x.which == which]
        if not at:
            raise NotFollowed("it has a gradient by a tensor that none of its operators takes")
        before = found.get(at[0])
        found[at[0]] = g if before is None else before if g is None else before.double() + g
    return found
