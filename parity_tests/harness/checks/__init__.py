"""The checks, one file each. A check is a name, the mistakes that it is there to catch, and a function of a trial."""

from parity_tests.harness.checks import (
    adjoint,
    checkpoint,
    determinism,
    exact,
    forward,
    in_place,
    input_subsets,
    interleaved,
    jvp,
    jvp_of_jvp,
    jvp_of_vjp,
    layouts,
    leaks,
    linearity,
    points,
    purity,
    retain_graph,
    saved_tensors,
    vjp,
    vjp_of_jvp,
    vjp_of_vjp,
    vjp_partial,
    vmap,
)
from parity_tests.harness.checks.check import Check as Check

CHECKS: dict[str, Check] = {
    module.CHECK.name: module.CHECK
    for module in (
        forward,
        vjp,
        vjp_partial,
        jvp,
        adjoint,
        vjp_of_vjp,
        jvp_of_vjp,
        vjp_of_jvp,
        jvp_of_jvp,
        input_subsets,
        points,
        exact,
        layouts,
        linearity,
        purity,
        in_place,
        retain_graph,
        interleaved,
        determinism,
        saved_tensors,
        checkpoint,
        leaks,
        vmap,
    )
}
