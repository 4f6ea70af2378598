"""interleaved: two forwards of different inputs, then their backwards, in either order.

And a backward in another thread, as PyTorch runs those of a GPU's operators; then a call on other inputs in the same
memory, as that of parameters after a step of an optimizer.
"""

from concurrent.futures import ThreadPoolExecutor

from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under

_ORDERS = {"first in, first out": (0, 1), "last in, first out": (1, 0)}


def _run(trial):
    args, count = [trial.arguments("vjp", example) for example in range(2)], len(trial.primals)
    for order, turns in _ORDERS.items():
        tensors = [trial.tensors(x) for x in args]
        graphs = [trial.candidate.record(x[:count]) for x in tensors]
        yield from trial.compare("forward", args[0][:count], graphs[0].outputs, "after another forward")
        for i in turns:
            where = f"{order}, backward of call {i + 1}"
            with under(where):
                gradients = graphs[i].vjp(tensors[i][count:])
            yield from trial.compare("vjp", args[i], gradients, where)
    tensors = trial.tensors(args[0])
    graph = trial.candidate.record(tensors[:count])
    where = "its backward in another thread"
    with ThreadPoolExecutor(1) as other, under(where):
        gradients = other.submit(graph.vjp, tensors[count:]).result()
    # The outputs, too: what is kept by address may be the next call's, which then is right by luck.
    yield from trial.compare("forward", args[0][:count], graph.outputs, where)
    yield from trial.compare("vjp", args[0], gradients, where)
    for x, y in zip(tensors, trial.tensors(args[1]), strict=True):
        x.copy_(y)
    where = "other inputs in the same memory"
    with under(where):
        graph = trial.candidate.record(tensors[:count])
        gradients = graph.vjp(tensors[count:])
    yield from trial.compare("forward", args[1][:count], graph.outputs, where)
    yield from trial.compare("vjp", args[1], gradients, where)


CHECK = Check(
    "interleaved",
    "state kept on a class, a module or a thread instead of ctx, so that one call reads what another has saved",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
)
