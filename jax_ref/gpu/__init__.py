"""attn for one GPU, fused: Triton's kernels, which hold a block of the matrix where `jax_ref` holds all of it.

`attn(q, k, v) -> (output, attn)` writes the matrix because it is asked for, and holds nothing else of its size;
`attn_output(q, k, v) -> output` never holds it, in either direction. Both are `custom_vjp`s: for `jax.grad`, `jax.vjp`,
`jax.jacrev`, under `jit` and `vmap`, with derivatives of those in any mode. float32, bfloat16 and float16. This needs
Triton and jax-triton, `jax_ref` does not.

NOT MEASURED ON A GPU: what is tested is that the kernels compute the right thing in Triton's interpreter, on a CPU, and
that jax-triton compiles them for Hopper. Until they have been timed nothing else here calls them.
"""

# Triton is not a requirement
# pyright: reportMissingImports=false
try:
    import triton as triton
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "jax_ref.gpu needs Triton and jax-triton: pip install 'gradparity[jax-triton]'; jax_ref.attn does without",
        name="triton",
    ) from error

from jax_ref.gpu._attn import attn as attn
from jax_ref.gpu._attn import attn_output as attn_output
