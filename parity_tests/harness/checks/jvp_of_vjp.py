"""jvp_of_vjp: forward over reverse, the cheap Hessian-vector product."""

from parity_tests.harness.candidate import Refused
from parity_tests.harness.checks.check import Check


def _run(trial):
    args, split = trial.arguments("jvp_of_vjp"), trial.oracle.map("jvp_of_vjp").base
    count = len(trial.primals)
    for create_graph, circumstance in ((True, ""), (False, "without create_graph")):
        tensors = trial.tensors(args)
        try:
            results = trial.candidate.jvp_of_vjp(count, tensors[:split], tensors[split:], create_graph)
        except Refused:
            if create_graph:
                raise
            continue  # with gradients off PyTorch's own operations may refuse, silu for one; they must not be wrong
        yield from trial.compare("jvp_of_vjp", args, results, circumstance)


CHECK = Check("jvp_of_vjp", "a backward whose forward derivative is wrong or missing", ("jvp_of_vjp",), _run)
