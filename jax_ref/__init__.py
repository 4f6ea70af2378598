"""The oracle: attn in JAX with explicit derivative formulas. Imports JAX, never torch."""

from jax_ref._attn import attn as attn
from jax_ref._attn import attn_ad as attn_ad
from jax_ref._attn import attn_jvp as attn_jvp
from jax_ref._attn import attn_jvp_of_jvp as attn_jvp_of_jvp
from jax_ref._attn import attn_jvp_of_vjp as attn_jvp_of_vjp
from jax_ref._attn import attn_primal as attn_primal
from jax_ref._attn import attn_vjp as attn_vjp
from jax_ref._attn import attn_vjp_of_jvp as attn_vjp_of_jvp
from jax_ref._attn import attn_vjp_of_vjp as attn_vjp_of_vjp
from jax_ref._dot_product_attention import dot_product_attention as dot_product_attention
from jax_ref._dot_product_attention import dot_product_attention_ad as dot_product_attention_ad
