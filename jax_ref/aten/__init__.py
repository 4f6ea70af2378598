"""ATen's operators as plain JAX functions, with PyTorch's semantics; JAX differentiates them.

A function has the name and the arguments of its schema in PyTorch's native_functions.yaml, and takes and returns JAX
arrays. Left out are arguments that say where a tensor lies (device, layout, pin_memory, memory_format), random numbers,
and writes to an input: `add_` is `add`. Dtypes are promoted as in PyTorch. At kinks and ties a derivative is that of
PyTorch's convention, which the function names.

    import jax
    from jax_ref import aten

    aten.softmax(x, 1)
    jax.grad(lambda x: aten.logcumsumexp(x, 1).sum())(x)

`aten.var` is all overloads of an operator: the arguments say which one is meant. `OPERATORS` has each overload by its
full name, as "aten::var.dim". One module is one family. `jax_ref.functional` has the names and the arguments of
torch.nn.functional.

Products of float32 have JAX's default precision, which on a GPU or TPU is less than float32's:
`jax.default_matmul_precision("highest")` has all of it. An index out of range cannot be refused under `jax.jit`: where
one is taken, a function says what comes of it.
"""

from jax_ref.aten import activation_backwards as activation_backwards
from jax_ref.aten import activations as activations
from jax_ref.aten import attention as attention
from jax_ref.aten import comparisons as comparisons
from jax_ref.aten import complex_numbers as complex_numbers
from jax_ref.aten import convolutions as convolutions
from jax_ref.aten import ctc as ctc
from jax_ref.aten import factories as factories
from jax_ref.aten import factorizations as factorizations
from jax_ref.aten import grids as grids
from jax_ref.aten import indexing as indexing
from jax_ref.aten import layer_backwards as layer_backwards
from jax_ref.aten import loss_backwards as loss_backwards
from jax_ref.aten import losses as losses
from jax_ref.aten import normalization as normalization
from jax_ref.aten import padding as padding
from jax_ref.aten import pointwise as pointwise
from jax_ref.aten import polynomials as polynomials
from jax_ref.aten import pooling as pooling
from jax_ref.aten import pooling_backwards as pooling_backwards
from jax_ref.aten import products as products
from jax_ref.aten import quantization as quantization
from jax_ref.aten import reductions as reductions
from jax_ref.aten import resampling_backwards as resampling_backwards
from jax_ref.aten import rounding as rounding
from jax_ref.aten import scans as scans
from jax_ref.aten import segments as segments
from jax_ref.aten import special as special
from jax_ref.aten import upsampling as upsampling
from jax_ref.aten import view_backwards as view_backwards
from jax_ref.aten import views as views
from jax_ref.aten._packets import missing, packets
from jax_ref.aten._registry import Operators

OPERATORS = Operators(
    {
        name: module
        for name, module in sorted(globals().items())
        if getattr(module, "__name__", "") == f"{__name__}.{name}" and not name.startswith("_")
    }
)

globals().update(packets(OPERATORS, taken=globals()))


def __getattr__(name: str) -> object:
    raise missing(name, OPERATORS)
