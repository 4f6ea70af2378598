"""The fields of an OpSpec whose keys name results: a name that is none would have no effect, and nobody would notice.

The names of outputs may be the keys of what the primal returns, so that only the oracle knows them.
"""

from __future__ import annotations

from parity_tests.harness.language import jaxprs
from parity_tests.harness.maps import ORDERS
from parity_tests.harness.names import CHECKS
from parity_tests.harness.numbers.contracts import Arithmetic
from parity_tests.harness.oracle.oracle import Oracle, OracleError
from parity_tests.harness.specs.samples import Sample


def check_names_of_results(oracle: Oracle) -> None:
    """Check that `conventions` names inputs and outputs, and `equations` what some check compares.

    Raises:
        OracleError: one of them does not; the message has the names that there are.
    """
    spec = oracle.spec
    inputs, outputs = spec.names, (*oracle.outputs, *oracle.integers)
    for name in spec.conventions:
        if name not in (*inputs, *outputs):
            raise OracleError(
                f"{spec.name}: conventions names {name!r}; the inputs are {', '.join(inputs)}, "
                f"the outputs are {', '.join(outputs)}"
            )
    results = {check: [slot.label for slot in oracle.map(check).results] for check in ORDERS}
    results["forward"] += oracle.integers
    first_order = [label for check, order in ORDERS.items() if len(order) <= 1 for label in results[check]]
    for name in spec.equations:
        check, _, label = name.rpartition("/")
        known = results.get(check, first_order if check in ("", *CHECKS) else [])
        if label not in known:
            raise OracleError(
                f"{spec.name}: equations names {name!r}; the results are {', '.join(first_order)}, and those of "
                f'second order are written with their map, such as "vjp_of_vjp/{results["vjp_of_vjp"][0]}"'
            )


def stored_names(oracle: Oracle, sample: Sample) -> tuple[str, ...]:
    """The names of all intermediates that an `Arithmetic` can name: outputs, and those of `checkpoint_name`."""
    named = set[str]()
    for name in ("forward", "vjp", "jvp"):
        arguments = oracle.arguments(name, sample)
        named |= jaxprs.checkpoint_names(oracle.traced(name, arguments, by_autodiff=False).closed.jaxpr)
    return (*oracle.outputs, *sorted(named - set(oracle.outputs)))


def check_stored(oracle: Oracle, sample: Sample, candidate: str, arithmetic: Arithmetic | None) -> None:
    """Check that the arithmetic of a candidate names outputs, or what the programs at a sample name.

    Raises:
        OracleError: it does not; the message has the names that there are.
    """
    stated = () if arithmetic is None else arithmetic.stored
    known = stored_names(oracle, sample) if stated else ()
    for name in stated:
        if name not in known:
            raise OracleError(
                f"candidate {candidate!r}: arithmetic names {name!r} as stored; the outputs and named intermediates of "
                f"{oracle.spec.name} are {', '.join(known)} (jax.ad_checkpoint.checkpoint_name names one in the primal "
                "or a formula)"
            )
