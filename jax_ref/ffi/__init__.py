"""attn on the CPU by a kernel in C++, through `jax.ffi`: one pass over blocks that stay in the cache.

Forward and backward together, in float32, with d = e = 64, on one core with AVX-512: 1.4 times as fast as
`jax.jit` of `jax_ref.attn` at 256 x 256 scores, twice as fast from 1024 x 1024 to 8192 x 8192. The backward makes no
(n, m) matrix. Forward alone the difference is small: take this where there is a gradient.

The kernels are compiled when they are first called, in seconds, once, into `$XDG_CACHE_HOME/gradparity` or
`~/.cache/gradparity`. That needs a C++ compiler, GCC or Clang, and nothing else. Importing compiles nothing.
"""

from jax_ref.ffi._attn import attn as attn
from jax_ref.ffi._attn import attn_fused as attn_fused
from jax_ref.ffi._build import BuildError as BuildError
from jax_ref.ffi._build import CompilerMissing as CompilerMissing
