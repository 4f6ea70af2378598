"""The faces of the kernels, and their registration with JAX.

A kernel cannot be differentiated by JAX. What stands for its derivative is an explicit formula of `jax_ref`, in plain
JAX: so the derivatives of the first-order kernels, in any mode and of any order, are not fused. Those of `attn` hold
matrices, as `jax_ref.attn` does; those of `attn_output` go by blocks, as `jax_ref.dot_product_attention` does.
"""

from __future__ import annotations

import jax
from jaxtyping import Array, Float

from derivation import attn_kernels
from jax_ref import _attn, _blockwise
from jax_ref._validate import validate
from jax_ref._zeros import none, with_symbolic_zeros
from jax_ref.gpu import _launch

DTYPES = ("float32", "bfloat16", "float16")
_REMEDY = "or call jax_ref.attn, which takes it"


def attn(
    q: Float[Array, "n d"], k: Float[Array, "m d"], v: Float[Array, "m e"]
) -> tuple[Float[Array, "n e"], Float[Array, "n m"]]:
    """output = attn v, attn = tanh(q kᵀ), by one kernel forward and two backward, which compute a block at a time.

    Not measured on a GPU, see `jax_ref.gpu`.

    Args:
        q: queries (n, d), of float32, bfloat16 or float16. k: keys (m, d), same dtype. v: values (m, e), same dtype.
            n and m may be anything from 0 on, d and e at most 128; batch axes: `jax.vmap`.

    Returns:
        output (n, e) and attn (n, m), in the dtype of the inputs; sums are float32.

    Its VJP is (8) to (12); a cotangent that is not there costs nothing. The backward kernels compute attn again, in
    float32, so that 1 - tanh² has more digits than a rounded attn could give. As of any `custom_vjp`, forward mode
    first is refused: take `jax_ref.attn_ad` for it.

    Raises:
        TypeError, ValueError: a wrong type, dtype, rank or size.
        RuntimeError: JAX sees no GPU.
        ModuleNotFoundError: jax-triton is not installed.
    """
    _validate(q, k, v)
    return _with_attn(q, k, v)


def attn_output(q: Float[Array, "n d"], k: Float[Array, "m d"], v: Float[Array, "m e"]) -> Float[Array, "n e"]:
    """The output of `attn` alone: (n, e). The matrix, (n, m), is never held, in the derivatives neither.

    Arguments, derivatives and errors as `attn`.
    """
    _validate(q, k, v)
    return _output(q, k, v)


def _validate(q: jax.Array, k: jax.Array, v: jax.Array) -> None:
    validate(q, k, v)
    if str(q.dtype) not in DTYPES:
        raise TypeError(
            f"attn: q, k and v have dtype {q.dtype}, and the GPU kernels take {', '.join(DTYPES)}; "
            f"convert them, {_REMEDY}"
        )
    for axis, name, size in (("d", "q", q.shape[1]), ("e", "v", v.shape[1])):
        if size > attn_kernels.WIDEST:
            raise ValueError(
                f"attn: axis {axis} is {size} in {name}, and the GPU kernels take up to {attn_kernels.WIDEST}; "
                f"split it, {_REMEDY}"
            )
    if jax.default_backend() != "gpu" and not attn_kernels.INTERPRETED:
        raise RuntimeError(
            f"attn: JAX sees no GPU here, its platform is {jax.default_backend()!r}; "
            "call jax_ref.attn, which runs anywhere"
        )


def _nothing_to_fuse(q: jax.Array, v: jax.Array) -> bool:
    """Is an axis empty? A grid without programs cannot be launched."""
    return 0 in (*q.shape, *v.shape)


# output and attn.


@jax.custom_jvp
def _with_attn_ad(q, k, v):
    if _nothing_to_fuse(q, v):
        return _attn.attn_primal(q, k, v)
    return _launch.forward(q, k, v, with_attn=True)


def _with_attn_jvp(primals, tangents):
    output, A = _with_attn_ad(*primals)
    tangents = _attn._jvp_rule(*primals, A, *map(none, tangents))
    return (output, A), with_symbolic_zeros((output, A), tangents)


_with_attn_ad.defjvp(_with_attn_jvp, symbolic_zeros=True)


@jax.custom_jvp
def _with_attn_vjp(q, k, v, A, output_bar, attn_bar):
    if _nothing_to_fuse(q, v) or (output_bar is None and attn_bar is None):
        return _attn._vjp(q, k, v, A, output_bar, attn_bar)
    return _launch.backward(q, k, v, output_bar, attn_bar)


def _with_attn_jvp_of_vjp(primals, tangents):
    results = _with_attn_vjp(*primals)
    return results, with_symbolic_zeros(results, _attn._jvp_of_vjp(*primals, *map(none, tangents)))


_with_attn_vjp.defjvp(_with_attn_jvp_of_vjp, symbolic_zeros=True)


@jax.custom_vjp
def _with_attn(q, k, v):
    return _with_attn_ad(q, k, v)


def _with_attn_fwd(q, k, v):
    q, k, v = (x.value for x in (q, k, v))
    output, A = _with_attn_ad(q, k, v)
    return (output, A), (q, k, v, A)


def _with_attn_bwd(residuals, cotangents):
    return _with_attn_vjp(*residuals, *map(none, cotangents))


_with_attn.defvjp(_with_attn_fwd, _with_attn_bwd, symbolic_zeros=True)


# output alone.


def _by_blocks(q: jax.Array, k: jax.Array, v: jax.Array) -> tuple[_blockwise.Static, _blockwise.Head]:
    """The same function for `jax_ref._blockwise`: no scale, bias or mask, every query and key."""
    return _blockwise.Static(scale=1.0, is_causal=False, block=512), _blockwise.Head(q, k, v, *[None] * 4)


@jax.custom_jvp
def _output_ad(q, k, v):
    if _nothing_to_fuse(q, v):
        return _attn.attn_primal(q, k, v)[0]
    return _launch.forward(q, k, v, with_attn=False)[0]


def _output_jvp(primals, tangents):
    output = _output_ad(*primals)
    static, head = _by_blocks(*primals)
    tangents = _blockwise._jvp_rule(static, *head, *map(none, tangents), None)
    return output, with_symbolic_zeros((output,), tangents)[0]


_output_ad.defjvp(_output_jvp, symbolic_zeros=True)


@jax.custom_jvp
def _output_vjp(q, k, v, output_bar):
    if _nothing_to_fuse(q, v):
        return _attn.attn_vjp(q, k, v, output_bar, None)
    return _launch.backward(q, k, v, output_bar, None)


def _output_jvp_of_vjp(primals, tangents):
    results = _output_vjp(*primals)
    q, k, v, output_bar = primals
    q_dot, k_dot, v_dot, output_bar_dot = map(none, tangents)
    static, head = _by_blocks(q, k, v)
    second = _blockwise._jvp_of_vjp(static, head, output_bar, (q_dot, k_dot, v_dot, None), output_bar_dot)
    return results, with_symbolic_zeros(results, second[:3])


_output_vjp.defjvp(_output_jvp_of_vjp, symbolic_zeros=True)


@jax.custom_vjp
def _output(q, k, v):
    return _output_ad(q, k, v)


def _output_fwd(q, k, v):
    q, k, v = (x.value for x in (q, k, v))
    return _output_ad(q, k, v), (q, k, v)


def _output_bwd(residuals, cotangent):
    output_bar = none(cotangent)
    return (None,) * 3 if output_bar is None else _output_vjp(*residuals, output_bar)


_output.defvjp(_output_fwd, _output_bwd, symbolic_zeros=True)
