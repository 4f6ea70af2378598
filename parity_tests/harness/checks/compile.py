"""compile: values and gradients under torch.compile.

With the backend aot_eager: Dynamo and AOTAutograd trace the forward and the backward as for inductor, which would add
PyTorch's own code generation, a C++ compiler, and seconds for every graph. Nor are equal calls in a graph merged,
which is a pass over PyTorch's own graph and would import all of inductor, a fifth of an ordinary operator's time. Where
Dynamo breaks the graph, as it does before a Function that defines `jvp`, that part runs as without it, and is no
mistake.
"""

import contextlib
import logging

import torch

from parity_tests.harness.candidates.torch_candidate import refusals
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under


def _run(trial):
    args, count = trial.arguments("vjp"), len(trial.primals)
    tensors, candidate = trial.tensors(args), trial.candidate

    def function(*x):  # an operator by itself is nothing to compile
        return candidate.call(*candidate.positional(x), **candidate.params)

    with _fresh_dynamo(), refusals():
        compiled = candidate.through(torch.compile(function, backend="aot_eager")).bound({}, {}, candidate.returns)
        with torch.no_grad(), under("compiled, without gradients"):
            outputs = compiled.forward(tensors[:count])
        yield from trial.compare("forward", args[:count], outputs, "compiled, without gradients")
        with under("compiled"):
            gradients = compiled.vjp(tensors[:count], tensors[count:])
        yield from trial.compare("vjp", args, gradients, "compiled")


@contextlib.contextmanager
def _fresh_dynamo():
    """A block in which Dynamo has compiled nothing before, leaves nothing behind, and logs no graph breaks."""
    import torch._dynamo  # half a second, for whom this check is run
    import torch._functorch.config

    log = logging.getLogger("torch")
    level = log.level
    log.setLevel(logging.ERROR)
    torch._dynamo.reset()
    try:
        with torch._functorch.config.patch(cse=False):
            yield
    finally:
        torch._dynamo.reset()
        log.setLevel(level)


CHECK = Check(
    "compile",
    "a path of its own under torch.compile that is wrong",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="torch.compile is PyTorch's",
)
