"""interleaved: two forwards of different inputs, then their backwards, in either order.

And a backward in another thread, as PyTorch runs those of a GPU's operators; then a call on other inputs in the same
memory, as that of parameters after a step of an optimizer.
"""

from concurrent.futures import ThreadPoolExecutor

from parity_tests.harness.checks.check import Check

_ORDERS = {"first in, first out": (0, 1), "last in, first out": (1, 0)}


def _run(trial):
    args, count = [trial.arguments("vjp", example) for example in range(2)], len(trial.primals)
    for order, turns in _ORDERS.items():
        tensors = [trial.tensors(x) for x in args]
        graphs = [trial.candidate.record(x[:count]) for x in tensors]
        yield from trial.compare("forward", args[0][:count], graphs[0].outputs, "after another forward")
        for i in turns:
            where = f"{order}, backward of call {i + 1}"
            yield from trial.compare("vjp", args[i], graphs[i].vjp(tensors[i][count:]), where)
    tensors = trial.tensors(args[0])
    graph = trial.candidate.record(tensors[:count])
    with ThreadPoolExecutor(1) as other:
        gradients = other.submit(graph.vjp, tensors[count:]).result()
    yield from trial.compare("vjp", args[0], gradients, "its backward in another thread")
    for x, y in zip(tensors, trial.tensors(args[1]), strict=True):
        x.copy_(y)
    graph, where = trial.candidate.record(tensors[:count]), "other inputs in the same memory"
    yield from trial.compare("forward", args[1][:count], graph.outputs, where)
    yield from trial.compare("vjp", args[1], graph.vjp(tensors[count:]), where)


CHECK = Check(
    "interleaved",
    "state kept on a class, a module or a thread instead of ctx, so that one call reads what another has saved",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
)
