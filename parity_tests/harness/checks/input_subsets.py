"""input_subsets: the gradients for every choice of inputs that require one.

All choices of up to four inputs. Of more: each input alone, all but one, and on a generic sample every pair, as of the
two factors that LoRA trains; beyond eight inputs, where pairs become many, choices among which any three inputs have
all eight patterns.
"""

import itertools

from parity_tests.harness.candidates.captured_tensors import captured_tensors
from parity_tests.harness.candidates.torch_graphs import nodes
from parity_tests.harness.checks.check import Check
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.findings import Fact

_ALL_SUBSETS_UP_TO = 4  # inputs
_ALL_PAIRS_UP_TO = 8


def masks(count: int, pairs: bool = True) -> list[tuple[bool, ...]]:
    """Return choices of inputs, neither all nor none: for each of `count` inputs, whether it requires a gradient.

    Without `pairs` only those of one and of all but one, if there are more than four inputs.
    """
    if count <= _ALL_SUBSETS_UP_TO:
        return list(itertools.product((True, False), repeat=count))[1:-1]
    many = count > _ALL_PAIRS_UP_TO
    sizes = (1, 2, count - 1) if pairs and not many else (1, count - 1)
    chosen = [
        tuple(i in some for i in range(count)) for size in sizes for some in itertools.combinations(range(count), size)
    ]
    return list(dict.fromkeys([*chosen, *(_any_three(count) if pairs and many else ())]))


def _any_three(count: int) -> list[tuple[bool, ...]]:
    """The code words of the first-order Reed-Muller code, which as an array has strength three.

    The parities of the bits of an input's number, of each choice of bits, and their opposites: twice the next power of
    two of words, in which each three of the inputs have every pattern equally often. All and none are left out.
    """
    bits = (count - 1).bit_length()
    words = [tuple((i & chosen).bit_count() % 2 == 1 for i in range(count)) for chosen in range(1, 2**bits)]
    return [*words, *(tuple(not flag for flag in word) for word in words)]


def _run(trial):
    args = trial.arguments("vjp")
    inputs, count = trial.oracle.inputs, len(trial.primals)
    for mask in [(True,) * count, *masks(count, trial.sample.generic)]:
        names = ", ".join(name for name, flag in zip(inputs, mask, strict=True) if flag)
        tensors = trial.tensors(args)
        where = f"gradients of {names} alone"
        with under(where):
            results = trial.candidate.vjp(tensors[:count], tuple(tensors[count:]), requires_grad=mask)
        requested = {slot.label for slot, flag in zip(trial.oracle.map("vjp").results, mask, strict=True) if flag}
        yield from trial.compare("vjp", args, results, where, only=requested)
    with under("no gradient asked for"):
        outputs = trial.candidate.forward(trial.tensors(args[:count]))
    if any(y.requires_grad for y in outputs) and _asked_by_a_captured_tensor(trial, outputs):
        return  # the check "captured" judges its gradient
    for name, y in zip(trial.oracle.outputs, outputs, strict=True):
        yield Fact(name, not y.requires_grad, "requires a gradient", "no gradient asked for", evidence=0)


def _asked_by_a_captured_tensor(trial, outputs):
    """True if all leaves that the outputs have gradients for are tensors that the candidate captures."""
    captured = {id(x) for x in captured_tensors(trial.candidate.source).values()}
    leaves = [leaf for node in nodes(outputs) if (leaf := getattr(node, "variable", None)) is not None]
    return bool(leaves) and all(id(x) in captured for x in leaves)


CHECK = Check("input_subsets", "a gradient that is right only when every input asks for one", ("vjp",), _run)
