"""attn as fused Triton kernels, forward and backward, for CUDA GPUs. This needs Triton, `torch_impl` does not.

Not measured on a GPU yet, and nothing's default: the kernels were run in Triton's interpreter, and compiled for Hopper.
"""

# Triton is not a requirement
# pyright: reportMissingImports=false
try:
    import triton as triton
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "torch_impl.gpu needs Triton: pip install triton, or pip install 'gradparity[triton]'; "
        "torch_impl.attn_composite and torch_impl.attn_function do without",
        name="triton",
    ) from error

from torch_impl.gpu._attn_triton import attn_output_triton as attn_output_triton
from torch_impl.gpu._attn_triton import attn_triton as attn_triton
