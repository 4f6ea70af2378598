"""optax: the logarithm of a softmax by weights, with a custom_jvp for weights of 0."""

import jax
from optax.losses import weighted_logsoftmax

from gradparity import JaxCandidate, OpSpec


def weighted(x, weights):
    return weights * jax.nn.log_softmax(x, axis=-1)


spec = OpSpec("weighted_logsoftmax", weighted, "(n,d),(n,d)->(n,d)", domains={"weights": "probabilities"}, sizes="d >= 1")
candidate = JaxCandidate(weighted_logsoftmax)
