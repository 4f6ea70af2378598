"""optax: the cross-entropy of probabilities that may be 0, by a custom_jvp."""

import jax
from optax.losses import safe_softmax_cross_entropy

from gradparity import JaxCandidate, OpSpec

spec = OpSpec(
    "safe_softmax_cross_entropy",
    lambda x, labels: -(labels * jax.nn.log_softmax(x, axis=-1)).sum(-1),
    "(n,d),(n,d)->(n)",
    domains={"labels": "probabilities"},
    sizes="d >= 1",
)
candidate = JaxCandidate(safe_softmax_cross_entropy)
