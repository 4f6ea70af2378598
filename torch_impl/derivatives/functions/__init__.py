"""The functions of PyTorch's FunctionsManual.cpp that formulas call, written anew from the mathematics.

`MANUAL` has them by their C++ names. The arguments are those of the C++ functions, in their order; an undefined tensor
and an empty optional are `None`.
"""

from torch_impl.derivatives.functions import activations as activations
from torch_impl.derivatives.functions import arithmetic as arithmetic
from torch_impl.derivatives.functions import cumulative as cumulative
from torch_impl.derivatives.functions import elementary as elementary
from torch_impl.derivatives.functions import factorizations as factorizations
from torch_impl.derivatives.functions import losses as losses
from torch_impl.derivatives.functions import normalization as normalization
from torch_impl.derivatives.functions import norms as norms
from torch_impl.derivatives.functions import products as products
from torch_impl.derivatives.functions import reductions as reductions
from torch_impl.derivatives.functions import scatters as scatters
from torch_impl.derivatives.functions import shapes as shapes
from torch_impl.derivatives.functions import solvers as solvers
from torch_impl.derivatives.functions import spectra as spectra
from torch_impl.derivatives.functions._registry import MANUAL as MANUAL
