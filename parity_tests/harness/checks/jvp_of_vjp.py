"""jvp_of_vjp: forward over reverse, the cheap Hessian-vector product.

With gradients off, `torch.linalg.solve`, `logdet` and `det` silently drop tangents: their backwards re-use a saved
factorization there. A composition of PyTorch's own operations is not charged with that, and other frameworks have no
such switch.
"""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from parity_tests.harness.candidates.reasons import Reason
from parity_tests.harness.candidates.torch_candidate import Refused
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under


class _Namespaces(TorchDispatchMode):
    """A mode that notes the libraries whose operators are called."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.add(func.namespace)
        return func(*args, **(kwargs or {}))


def _is_composite(trial) -> bool:
    """True if the candidate consists of PyTorch's own operations, and has no derivative of its own."""
    with _Namespaces() as namespaces:
        outputs = trial.candidate.record(trial.tensors(trial.primals)).outputs
    nodes, known = [y.grad_fn for y in outputs if y.grad_fn is not None], set()
    while nodes:
        node = nodes.pop()
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            return False
        known.add(node)
        nodes += [child for child, _ in node.next_functions if child is not None and child not in known]
    return namespaces.seen <= {"aten", "prims"}


def _run(trial):
    args, split = trial.arguments("jvp_of_vjp"), trial.oracle.map("jvp_of_vjp").base
    count = len(trial.primals)
    for create_graph, circumstance in ((True, ""), (False, "without create_graph")):
        if not create_graph and (trial.candidate.framework != "torch" or _is_composite(trial)):
            continue
        tensors = trial.tensors(args)
        try:
            with under(circumstance):
                results = trial.candidate.jvp_of_vjp(count, tensors[:split], tensors[split:], create_graph)
        except Refused as refusal:
            if create_graph or refusal.reason is Reason.OWN:
                raise
            continue  # with gradients off PyTorch's own operations may refuse, silu for one; they must not be wrong
        yield from trial.compare("jvp_of_vjp", args, results, circumstance)


CHECK = Check("jvp_of_vjp", "a backward whose forward derivative is wrong or missing", ("jvp_of_vjp",), _run)
