"""The worked example as data: the spec of attn, and the implementations that are judged."""

from __future__ import annotations

import functools
from dataclasses import replace

import jax.numpy as jnp

import jax_ref
import jax_ref.ffi
import torch_impl
from derivation import engine
from parity_tests.catalog.engine_candidate import EngineCandidate
from parity_tests.harness.candidates.base import AnyCandidate
from parity_tests.harness.candidates.jax_candidate import JaxCandidate
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.candidates.torch_candidate import Candidate
from parity_tests.harness.specs.spec import OpSpec
from torch_impl.native.build import BuildError, ToolchainMissing
from torch_impl.native.declarations import DeclarationError

_NUMBERS = {  # of the equations in derivation/attn.md
    "output": 3,
    "attn": 2,
    "q_bar": 10,
    "k_bar": 11,
    "v_bar": 12,
    "attn_dot": 6,
    "output_dot": 7,
    "jvp_of_vjp/q_bar_dot": 16,
    "jvp_of_vjp/k_bar_dot": 17,
    "jvp_of_vjp/v_bar_dot": 18,
    "vjp_of_vjp/q_bar": 19,
    "vjp_of_vjp/k_bar": 19,
    "vjp_of_vjp/v_bar": 19,
    "vjp_of_vjp/output_bar_bar": 20,
    "vjp_of_vjp/attn_bar_bar": 20,
    "vjp_of_jvp/q_bar": 21,
    "vjp_of_jvp/k_bar": 21,
    "vjp_of_jvp/v_bar": 21,
    "vjp_of_jvp/q_dot_bar": 21,
    "vjp_of_jvp/k_dot_bar": 21,
    "vjp_of_jvp/v_dot_bar": 21,
    "jvp_of_jvp/attn_dot_dot": 23,
    "jvp_of_jvp/output_dot_dot": 24,
}

SPEC = OpSpec(
    "attn",
    primal=jax_ref.attn_primal,
    signature="(n,d),(m,d),(m,e)->(n,e),(n,m)",
    vjp=jax_ref.attn_vjp,
    jvp=jax_ref.attn_jvp,
    vjp_of_vjp=jax_ref.attn_vjp_of_vjp,
    jvp_of_vjp=jax_ref.attn_jvp_of_vjp,
    vjp_of_jvp=jax_ref.attn_vjp_of_jvp,
    jvp_of_jvp=jax_ref.attn_jvp_of_jvp,
    output_names=("output", "attn"),
    equations={result: f"equation ({number}) in derivation/attn.md" for result, number in _NUMBERS.items()},
)

# For kernels that never write the matrix
SPEC_OUTPUT = OpSpec(
    "attn_output",
    primal=lambda q, k, v: jax_ref.attn_primal(q, k, v)[0],
    signature="(n,d),(m,d),(m,e)->(n,e)",
    vjp=lambda q, k, v, output_bar: jax_ref.attn_vjp(q, k, v, output_bar, None),
    output_names=("output",),
)

# For kernels that compute in this format only; of checks that need one format, it is the one.
SPEC_FLOAT32 = replace(SPEC, name="attn_float32", dtypes=("float32",))

LIMITS = {"attn_function": {"jvp_of_jvp": torch_impl.ATTN_FUNCTION_LIMITS["nested forward AD"]}}
IN_TORCH = ("attn_composite", "attn_function", "attn_native_implicit", "attn_native")
IN_NUMPY = {"engine_composite": engine.attn_composite, "engine_formula": engine.attn_formula}
NAMES = (*IN_TORCH, *IN_NUMPY)
IN_JAX = {"attn_ffi": jax_ref.ffi.attn_fused}  # of SPEC_FLOAT32


@functools.cache
def candidate(name: str) -> AnyCandidate | NotBuilt:
    """The implementation of this name; a native one is compiled when it is first asked for."""
    if name in IN_NUMPY:
        return EngineCandidate(IN_NUMPY[name], name)
    try:
        return Candidate(getattr(torch_impl, name), name, LIMITS.get(name, {}))
    except ToolchainMissing as error:
        return NotBuilt(name, str(error))
    except (BuildError, DeclarationError) as error:
        return NotBuilt(name, str(error), expected=False)


@functools.cache
def candidate_float32(name: str) -> JaxCandidate | NotBuilt:
    """The implementation of `SPEC_FLOAT32` of this name, compiled when it is first asked for."""
    try:
        IN_JAX[name](*[jnp.ones((1, 1), jnp.float32)] * 3)
    except jax_ref.ffi.CompilerMissing as error:
        return NotBuilt(name, str(error))
    except jax_ref.ffi.BuildError as error:
        return NotBuilt(name, str(error), expected=False)
    return JaxCandidate(IN_JAX[name], name)
