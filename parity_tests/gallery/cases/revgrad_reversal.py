"""pytorch-revgrad: the identity whose gradient is reversed, and scaled."""

import torch
from pytorch_revgrad.functional import revgrad

from gradparity import OpSpec

# Y. Ganin, V. Lempitsky, arXiv:1409.7495, 2015.
spec = OpSpec("revgrad", lambda x: x, "(n,d)->(n,d)", input_names=("x",), surrogate=lambda x, w: (-0.5 * w,))


def candidate(x):
    return revgrad(x, torch.tensor(0.5))
