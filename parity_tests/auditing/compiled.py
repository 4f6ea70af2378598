"""Regions of a step that torch.compile compiles: each runs compiled, and its program once more, as it is."""

from __future__ import annotations

import contextlib
import copy
import re
import sys
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx
from torch._dynamo import lookup_backend
from torch._dynamo.eval_frame import skip_code
from torch.autograd.function import BackwardCFunction
from torch.utils._python_dispatch import _disable_current_modes

from parity_tests.auditing.calls import Call, Held, Recorder, written_to
from parity_tests.auditing.modules import Modules
from parity_tests.auditing.nodes import graph_of
from parity_tests.auditing.program import (
    Arguments,
    NotFollowed,
    Program,
    is_real,
    names_of,
    program_of,
    results_of,
)
from parity_tests.auditing.structures import leaves
from parity_tests.conversion.recording import line_of_frame
from parity_tests.harness.exceptions.errors import described

_MOST = 150  # characters of what a program raises
_MANY = 2**16  # compilations of one function


@dataclass(frozen=True, eq=False)
class Region:
    """A region of a step as it ran compiled, and its program as it ran on copies of the arguments.

    Attributes:
        module: the path of the module in whose forward it ran; empty if there was none.
        line: the line of the user's code, as a traceback has it.
        failed: why the program cannot be followed; empty if it can.
        inputs: of the compiled region, by the identities of the copies.
        outputs: of the compiled region, by the identities of the program's results.
        recorder: has the calls of the program.
        results: of the program.
        returned: the tensors that the compiled region returns.
        changed: the names of the arguments that it writes real numbers to, by the identities of the copies.
        arguments: of the compiled region.
    """

    module: str
    line: str
    failed: str
    inputs: dict[int, Held]
    outputs: dict[int, Held]
    recorder: Recorder
    results: Sequence[Tensor]
    returned: Sequence[Held]
    changed: Mapping[int, str]
    arguments: Arguments

    def changed_in(self, program: Program) -> dict[int, str]:
        """Return the names of the arguments that are written to, by the places of a program's results."""
        names = {id(self.outputs[copy]): name for copy, name in self.changed.items()}
        return {k: names[id(y)] for k, y in enumerate(program.outputs) if id(y) in names}

    def program(self) -> Program:
        """Return the program, with the inputs and outputs of the compiled region.

        Raises:
            NotFollowed: it is no function that can be followed.
            Overwritten: the numbers of an input are lost.
        """
        if self.failed:
            raise NotFollowed(self.failed)
        of = self.recorder
        calls = [call for number in sorted(of.calls) for call in of.calls[number]]
        within = _within_functions(of, self.results)
        _verify_written(calls)
        outside = (call for call in calls if call not in within)
        stopped = {
            y for call in outside for y in results_of(call, is_real) if not (call.grad and y.tensor.requires_grad)
        }
        program = program_of(calls, [of.hold(y) for y in self.results], True, self.arguments, stopped)
        inputs = [self.inputs.get(id(x.tensor), x) for x in program.inputs]
        names, outputs = names_of(inputs, self.arguments), [self.outputs[id(y.tensor)] for y in program.outputs]
        return replace(program, inputs=inputs, names=names, outputs=outputs)


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
        ran: the regions, in their order.
        nodes: the region of each node of autograd that one has.
    """

    def __init__(self, modules: Modules) -> None:
        self.recorder = _Compiling(modules, is_function=True)
        self.ran: list[Region] = []
        self.nodes: dict[Any, Region] = {}
        self._modules = modules
        for hook in modules.hooks:  # which are code of their own where PyTorch's around them is not compiled
            skip_code(hook.__code__)

    def __enter__(self) -> Regions:
        """Record the regions that run from now on."""
        with contextlib.ExitStack() as stack:
            _RUNNING.append(self)
            stack.callback(_RUNNING.remove, self)
            # Else a region that was compiled for other sizes before would run uncompiled, without a word.
            limits = {"recompile_limit": _MANY, "accumulated_recompile_limit": _MANY}
            stack.enter_context(torch._dynamo.config.patch(limits))
            stack.enter_context(torch.compiler.set_stance("default", force_backend=_compiled))
            self._left = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        """Record them no more."""
        self._left.close()

    def run(
        self,
        compiled: Callable[..., Sequence[Any]],
        program: fx.GraphModule,
        names: Sequence[str],
        args: Sequence[Any],
        line: str,
    ) -> Sequence[Any]:
        """Run a compiled region, and its program on copies of the arguments, which have these names."""
        given = {i: self.recorder.hold(x) for i, x in enumerate(args) if isinstance(x, Tensor)}
        with torch.enable_grad():  # no leaves, to which a program may not write
            copies = [_copy(x) if i in given else x for i, x in enumerate(args)]
        inner, failed, expected = Recorder(self._modules, is_function=True), "", ()
        with torch.random.fork_rng():
            try:
                with inner:
                    expected = program(*copies)
            except Exception as error:
                failed = f"its program cannot be followed: {textwrap.shorten(described(error), _MOST)}"
        written = {x.memory for i, x in given.items() if failed or copies[i]._version}
        if len(written) < sum(x.memory in written for x in given.values()):
            failed = failed or "it writes to memory that several of its arguments share"
        for x in given.values():
            if x.memory in written or not x.tensor.requires_grad:  # batch_norm writes to its buffers without a word
                self.recorder.save(x.memory)
        found = compiled(*args)
        pairs = [(x, y) for x, y in zip(expected, found, strict=not failed) if isinstance(y, Tensor)]
        results = {id(x) for x, _ in pairs}
        numbers = [i for i, x in given.items() if not failed and copies[i]._version and is_real(x.tensor)]
        changed = {i: copies[i] for i in numbers if id(copies[i]) not in results}
        pairs += [(x, args[i]) for i, x in changed.items()]
        region = Region(
            self._modules.path_of(args),
            line,
            failed,
            {id(copies[i]): x for i, x in given.items()},
            {id(x): self.recorder.hold(y) for x, y in pairs},
            inner,
            [x for x, _ in pairs],
            [self.recorder.hold(y) for y in found if isinstance(y, Tensor)],
            {id(x): names[i] for i, x in changed.items()},
            Arguments({name: given.get(i, x) for i, (name, x) in enumerate(zip(names, args, strict=True))}),
        )
        self.ran.append(region)
        nodes = {y.grad_fn for y in found if isinstance(y, Tensor) and isinstance(y.grad_fn, BackwardCFunction)}
        self.recorder.see([y for y in found if isinstance(y, Tensor)])
        self.nodes |= dict.fromkeys(nodes, region)
        return found


def _copy(x: Tensor) -> Tensor:
    return x.detach().requires_grad_(x.requires_grad).clone()


def _within_functions(recorder: Recorder, results: Sequence[Tensor]) -> Collection[Call]:
    """The calls that the forwards of Functions make, which gradients pass through, though they are disabled.

    Raises:
        NotFollowed: it cannot be told which these are.
    """
    within = set[Call]()
    for node in graph_of(results)[0]:
        if not isinstance(node, BackwardCFunction):
            continue
        # Code under no_grad that follows has the same number.
        calls = [call for call in recorder.calls_of(node) if not call.grad]
        end = 0
        for y in recorder.made[node].values():
            itself, alike = (
                [i for i, call in enumerate(calls, 1) if any(is_it(z, y) for z in results_of(call, is_real))]
                for is_it in (lambda z, y: z.tensor is y.tensor, lambda z, y: z.memory == y.memory)
            )
            if not itself and len(alike) > 1:
                raise NotFollowed("a Function in it returns a view, and code under no_grad may follow")
            end = max(end, *itself, *alike[: not itself])
        within |= {*calls[:end]}
    return within


def _verify_written(calls: Sequence[Call]) -> None:
    """Refuse what changes numbers and lets their gradient be as it was.

    Raises:
        NotFollowed: a call does.
    """
    held = [x for call in calls for x in leaves((call.args, call.kwargs, call.results)) if isinstance(x, Held)]
    for call in calls:
        for y in written_to(call):
            under_no_grad = y.maker is not None and not call.grad
            shared = (x for x in held if x.memory == y.memory and x.tensor is not y.tensor)
            if under_no_grad or (not y.tensor.requires_grad and any(x.tensor.requires_grad for x in shared)):
                raise NotFollowed(f"{call.target.name()} writes to a tensor with a gradient, where none passes")


_RUNNING: list[Regions] = []
_PART = re.compile(r"\._(?:modules|parameters|buffers)\['([^']*)'\]")
_VARIABLE = re.compile(r"^[LG]\['(\w+)'\]")


def _names(program: fx.GraphModule) -> list[str]:
    """The names of a region's arguments: of variables, and of the parameters of modules by their paths."""
    found = list[str]()
    for i, node in enumerate(program.graph.find_nodes(op="placeholder")):
        source: Any = getattr(getattr(node, "_dynamo_source", None), "name", "")
        text = str(source() if callable(source) else source)
        name = _VARIABLE.sub(r"\1", _PART.sub(r".\1", text)).removeprefix("self.")
        is_name = name and "__" not in name and name not in found
        found.append(name if is_name else f"argument {i}")
    return found


def _compiled(module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A backend of torch.compile: Inductor's code, beside the program that it is of."""
    program = fx.GraphModule(module, copy.deepcopy(module.graph))  # Inductor changes the one that it is given
    names = _names(module)
    code = lookup_backend("inductor")(module, [*example_inputs])

    def run(*args: Any) -> Any:
        if not _RUNNING or torch.is_inference_mode_enabled():
            return code(*args)
        with _disable_current_modes():
            return _RUNNING[-1].run(code, program, names, args, line_of_frame(sys._getframe(1)))

    return run
