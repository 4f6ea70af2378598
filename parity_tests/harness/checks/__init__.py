"""The checks, one file each. A check is a name, the mistakes that it is there to catch, and a function of a trial."""

from parity_tests.harness.checks import (
    adjoint,
    forward,
    input_subsets,
    jvp,
    jvp_of_jvp,
    jvp_of_vjp,
    layouts,
    purity,
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
        layouts,
        purity,
        vmap,
    )
}
