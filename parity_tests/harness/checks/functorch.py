"""functorch: the transforms of torch.func, one in another, as in jacrev, jacfwd, hessian and per-sample gradients."""

import contextlib
import functools

import numpy as np
import torch
from torch.func import jvp, vjp, vmap

from parity_tests.harness.candidates.reasons import first_to_tell
from parity_tests.harness.candidates.torch_candidate import Refused, refusals
from parity_tests.harness.candidates.torch_graphs import refusing_to_be_recorded
from parity_tests.harness.checks.check import Check
from parity_tests.harness.checks.jvp import has_forward_mode
from parity_tests.harness.checks.vmap import of_examples
from parity_tests.harness.exceptions.errors import under
from parity_tests.harness.maps import ORDERS
from parity_tests.harness.trial.generated_vmap import judged

_EXAMPLES = 2


def _run(trial):
    count = len(trial.primals)

    def call(*primals):
        return trial.candidate.forward(primals)

    def batched(*primals):
        return vmap(call)(*primals)

    gradients, tangents = _pulled(call, count), _pushed(call, count)
    of_vjp, of_jvp = trial.oracle.map("vjp_of_vjp").base, trial.oracle.map("vjp_of_jvp").base  # numbers of arguments
    vjp_of_vjp, jvp_of_vjp, vjp_of_jvp = (
        _pulled(gradients, of_vjp),
        _pushed(gradients, of_vjp),
        _pulled(tangents, of_jvp),
    )
    nestings = [  # how it is called, the oracle's map, a function of examples, how many arguments they have in common
        ("vjp", "vjp", _one_by_one(gradients), 0),
        ("jvp", "jvp", _one_by_one(tangents), 0),
        ("vjp of vjp", "vjp_of_vjp", _one_by_one(vjp_of_vjp), 0),
        ("jvp of vjp", "jvp_of_vjp", _one_by_one(jvp_of_vjp), 0),
        ("vjp of jvp", "vjp_of_jvp", _one_by_one(vjp_of_jvp), 0),
        ("vjp of vmap", "vjp", _pulled(batched, count), 0),
        ("jvp of vmap", "jvp", _pushed(batched, count), 0),
        ("vmap of vjp, as jacrev", "vjp", _over_the_rest(gradients, count), count),
        ("vmap of jvp, as jacfwd", "jvp", _over_the_rest(tangents, count), count),
        ("vmap of jvp of vjp, as hessian", "jvp_of_vjp", _over_the_rest(jvp_of_vjp, of_vjp), of_vjp),
        ("vmap of vjp of vjp, per sample", "vjp_of_vjp", vmap(vjp_of_vjp), 0),
        ("vmap of jvp of vjp, per sample", "jvp_of_vjp", vmap(jvp_of_vjp), 0),
    ]
    if not has_forward_mode(trial):  # the check "jvp" reports it
        nestings = [nesting for nesting in nestings if "jvp" not in nesting[0]]
    refused = []
    for where, name, function, common in nestings:
        try:
            yield from judged(trial, functools.partial(_compared, trial, name, function, common, where))
        except Refused as refusal:  # the checks of what is nested here report it, unless it is for no good reason
            refused.append(refusal)
    refusal = first_to_tell(refused, CHECK.name, trial.precision.name)
    all_refused = len(refused) == len(nestings)
    if refusal is not None and (all_refused or not refusal.excuses(CHECK.name, trial.precision.name)):
        raise refusal


def _pulled(f, split):
    return lambda *args: vjp(f, *args[:split])[1](tuple(args[split:]))


def _pushed(f, split):
    return lambda *args: jvp(f, args[:split], args[split:])[1]


def _one_by_one(f):
    """A function of several examples that calls a function of one example in a loop, without vmap."""

    def function(*args):
        results = [f(*(x[i] for x in args)) for i in range(_EXAMPLES)]
        return [torch.stack(xs) for xs in zip(*results, strict=True)]

    return function


def _over_the_rest(f, common):
    return lambda *args: vmap(f, in_dims=(*[None] * common, *[0] * (len(args) - common)))(*args)


def _compared(trial, name, function, common, where):
    examples = [trial.arguments(name, example) for example in range(_EXAMPLES)]
    examples = [[*examples[0][:common], *example[common:]] for example in examples]
    batch = [np.stack(xs) if i >= common else xs[0] for i, xs in enumerate(zip(*examples, strict=True))]
    to_first_order = functools.partial(trial.evaluate, "vjp", trial.arguments("vjp"))
    again = refusing_to_be_recorded(to_first_order) if len(ORDERS[name]) > 1 else contextlib.nullcontext()
    with under(where), again, refusals():
        results = function(*trial.tensors(batch))
    yield from of_examples(trial, name, examples, results, where)


CHECK = Check(
    "functorch",
    "a rule that is right alone and wrong inside another transform, such as the batching rule of a second derivative",
    ("vjp", "jvp", "vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp"),
    _run,
    generic=True,
    one_dtype=True,
    torch_only="torch.func is PyTorch's",
)
