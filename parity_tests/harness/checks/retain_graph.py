"""retain_graph: one graph, several backwards with different cotangents, and gradients that the caller writes to."""

from parity_tests.harness.candidates.torch_candidate import may_be_written
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under


def _run(trial):
    args, count = trial.arguments("vjp"), len(trial.primals)
    other = [*args[:count], *trial.arguments("vjp", 1)[count:]]
    graph = trial.candidate.record(trial.tensors(args[:count]))
    with under("two backwards of one graph"):
        first, second = (graph.vjp(trial.tensors(x[count:]), retain_graph=True) for x in (args, other))
    yield from trial.compare("vjp", other, second, "the second backward, with other cotangents")
    yield from trial.compare("vjp", args, first, "the first backward, looked at after the second")
    for gradient in (*first, *second):  # as clipping, or a sum over micro-batches, does
        if gradient is not None and may_be_written(gradient):
            gradient.zero_()
    where = "a backward after earlier gradients were written to"
    with under(where):
        third = graph.vjp(trial.tensors(args[count:]))
    yield from trial.compare("vjp", args, third, where)


CHECK = Check(
    "retain_graph",
    "a backward that keeps its first result, returns a buffer that the next one overwrites, or a saved tensor",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
)
