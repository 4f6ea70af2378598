"""Regions of a step that torch.compile compiles: each runs compiled, and its program once more, as it is."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx
from torch._dynamo import lookup_backend
from torch._dynamo.eval_frame import skip_code
from torch.autograd.function import BackwardCFunction
from torch.utils._python_dispatch import _disable_current_modes

from parity_tests.auditing.calls import Call, Held, Recorder
from parity_tests.auditing.modules import Modules
from parity_tests.auditing.nodes import graph_of
from parity_tests.auditing.program import NotFollowed, Program, is_real, program_of, results_of
from parity_tests.conversion.recording import line_of_frame
from parity_tests.harness.exceptions.errors import described


@dataclass(frozen=True)
class Region:
    """A region of a step as it ran compiled, and the calls that its program makes.

    Attributes:
        module: the path of the module in whose forward it ran; empty if there was none.
        line: the line of the user's code, as a traceback has it.
        failed: what the program raised that is not compiled; empty if nothing.
        inputs: of the compiled region, by the identities of the copies that the program was given.
        results: of the program, by the identities of those of the compiled region.
        calls: that the program makes.
        stopped: their results that no gradient passes through.
    """

    module: str
    line: str
    failed: str
    inputs: dict[int, Held]
    results: dict[int, Held]
    calls: Sequence[Call]
    stopped: Collection[Held]

    def program(self, wanted: Sequence[Held]) -> Program:
        """Return the program, with the inputs and these results of the compiled region.

        Raises:
            NotFollowed: it is no function that can be followed.
            Overwritten: the numbers of an input are lost.
        """
        if self.failed:
            raise NotFollowed(f"its code raises {self.failed} where it is not compiled")
        found = {id(self.results[id(y.tensor)].tensor): y for y in wanted if id(y.tensor) in self.results}
        program = program_of(self.calls, [self.results[id(y.tensor)] for y in found.values()], True, self.stopped)
        inputs = [self.inputs.get(id(x.tensor), x) for x in program.inputs]
        return replace(program, inputs=inputs, outputs=[found[id(y.tensor)] for y in program.outputs])


class _Compiling(Recorder):
    """Records calls, and lets torch.compile compile; in the context of another mode it does not."""

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Return that it does."""
        return True


class Regions:
    """Has torch.compile's regions compiled by Inductor, and records them, in its context.

    Attributes:
        recorder: records the calls that are not compiled.
        found: the regions, by the node of autograd that each has.
        ran: whether one ran.
    """

    def __init__(self, modules: Modules) -> None:
        self.recorder = _Compiling(modules)
        self.found: dict[Any, Region] = {}
        self.ran = False
        self._modules = modules
        for hook in modules.hooks:  # which are code of their own where PyTorch's around them is not compiled
            skip_code(hook.__code__)

    def __enter__(self) -> Regions:
        """Record the regions that run from now on."""
        _RUNNING.append(self)
        self._stance = torch.compiler.set_stance("default", force_backend=_compiled)
        return self

    def __exit__(self, *error: Any) -> None:
        """Record them no more."""
        self._stance.__exit__(*error)
        _RUNNING.remove(self)

    def run(
        self, compiled: Callable[..., Sequence[Any]], program: fx.GraphModule, args: Sequence[Any], line: str
    ) -> Sequence[Any]:
        """Run a compiled region, and its program on copies of the arguments."""
        self.ran = True
        given = {i: self.recorder.hold(x) for i, x in enumerate(args) if isinstance(x, Tensor)}
        # No leaves, to which a program may not write.
        copies = [x.detach().requires_grad_(x.requires_grad).clone() if i in given else x for i, x in enumerate(args)]
        inner, failed, expected = Recorder(self._modules), "", ()
        with torch.random.fork_rng(), torch.enable_grad():
            try:
                with inner:
                    expected = program(*copies)
            except Exception as error:
                failed = described(error)
        for i, x in given.items():
            # A program that was broken off may write to any; batch_norm writes to its buffers without a word.
            if failed or copies[i]._version or not x.tensor.requires_grad:
                self.recorder.save(x.memory)
        found = compiled(*args)
        nodes = {y.grad_fn for y in found if isinstance(y, Tensor) and isinstance(y.grad_fn, BackwardCFunction)}
        if nodes:
            self.recorder.see([y for y in found if isinstance(y, Tensor)])
            pairs = [(x, y) for x, y in zip(expected, found, strict=not failed) if isinstance(y, Tensor)]
            region = Region(
                self._modules.path_of(args),
                line,
                failed,
                {id(copies[i]): x for i, x in given.items()},
                {id(y): inner.hold(x) for x, y in pairs},
                [call for number in sorted(inner.calls) for call in inner.calls[number]],
                _stopped(inner, [x for x in expected if isinstance(x, Tensor)]),
            )
            self.found |= dict.fromkeys(nodes, region)
        return found


def _stopped(recorder: Recorder, results: Sequence[Tensor]) -> Collection[Held]:
    """The results of calls that no gradient passes through, by no_grad or detach; but not those in a Function."""
    within = set[Call]()
    for node in graph_of(results)[0]:
        if isinstance(node, BackwardCFunction):  # whose results are made by its last calls
            calls, made = recorder.calls_of(node), {y.memory for y in recorder.made[node].values()}
            makes = [i for i, call in enumerate(calls) if made & {y.memory for y in results_of(call, is_real)}]
            within |= {*calls[: max(makes, default=-1) + 1]}
    others = (call for calls in recorder.calls.values() for call in calls if call not in within)
    return {y for call in others for y in results_of(call, is_real) if not y.tensor.requires_grad}


_RUNNING: list[Regions] = []


def _compiled(module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A backend of torch.compile: Inductor's code, beside the program that it is of."""
    program = fx.GraphModule(module, copy.deepcopy(module.graph))  # Inductor changes the one that it is given
    code = lookup_backend("inductor")(module, [*example_inputs])

    def run(*args: Any) -> Any:
        if not _RUNNING:
            return code(*args)
        with _disable_current_modes():
            return _RUNNING[-1].run(code, program, args, line_of_frame(sys._getframe(1)))

    return run
