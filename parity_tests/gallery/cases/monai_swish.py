"""MONAI: the swish of its memory-efficient layer for versions of PyTorch without silu."""

import jax
from monai.networks.blocks.activation import SwishImplementation

from gradparity import OpSpec

spec = OpSpec("swish", lambda x: x * jax.nn.sigmoid(x), "(n)->(n)", input_names=("x",))
candidate = SwishImplementation.apply
