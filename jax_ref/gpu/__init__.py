"""attn for one GPU, fused: kernels in Pallas that hold a block of the matrix where `jax_ref` holds all of it.

`attn(q, k, v) -> (output, attn)` writes the matrix because it is asked for, and holds nothing else of its size;
`attn_output(q, k, v) -> output` never holds it, in either direction. Both are `custom_vjp`s: for `jax.grad`, `jax.vjp`,
`jax.jacrev`, under `jit` and `vmap`, with derivatives of those in any mode. float32, bfloat16 and float16.

NOT MEASURED ON A GPU: what is tested is that the kernels compute the right thing in Pallas' interpreter, on a CPU, and
that JAX lowers them for CUDA. Until they have been timed nothing else here calls them; the block sizes are those of
comparable kernels, not tuned ones.

The kernels are lowered by Pallas' Triton backend, which JAX deprecates from 0.11 on in favour of Mosaic GPU, with a
`DeprecationWarning` when they are lowered. Hopper's matrix units, which that is made for, take float32 as TF32 only,
which is too coarse for a float32 reference. In these kernels float32 is float32.
"""

from jax_ref.gpu._attn import attn as attn
from jax_ref.gpu._attn import attn_output as attn_output
