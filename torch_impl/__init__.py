"""What stands trial: attn in PyTorch, every way of giving it a derivative. Imports torch, never JAX."""

from torch_impl._attn_composite import attn_composite as attn_composite
from torch_impl._attn_function import ATTN_FUNCTION_LIMITS as ATTN_FUNCTION_LIMITS
from torch_impl._attn_function import attn_function as attn_function
