"""efficientnet-pytorch: the memory-efficient swish."""

import jax
from efficientnet_pytorch.utils import SwishImplementation

from gradparity import OpSpec

spec = OpSpec("swish", lambda x: x * jax.nn.sigmoid(x), "(n)->(n)", input_names=("x",))
candidate = SwishImplementation.apply
