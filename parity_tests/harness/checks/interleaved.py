"""interleaved: two forwards of different inputs, then their backwards, in either order."""

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


CHECK = Check(
    "interleaved",
    "state kept on a class or a module instead of ctx, so that one call reads what another has saved",
    ("vjp",),
    _run,
    generic=True,
    one_dtype=True,
)
