"""PyTorch's derivative formulas as data: the entries of derivatives.yaml, and their expressions as syntax trees."""

from torch_impl.derivatives.entries import Entry as Entry
from torch_impl.derivatives.entries import Formula as Formula
from torch_impl.derivatives.entries import entries as entries
from torch_impl.derivatives.entries import lookup as lookup
from torch_impl.derivatives.errors import DerivativeNotImplemented as DerivativeNotImplemented
from torch_impl.derivatives.errors import DerivativesFileError as DerivativesFileError
from torch_impl.derivatives.errors import EvaluationError as EvaluationError
from torch_impl.derivatives.errors import FormulaSyntaxError as FormulaSyntaxError
from torch_impl.derivatives.errors import NotEvaluable as NotEvaluable
from torch_impl.derivatives.parsing import parse as parse
from torch_impl.derivatives.unparsing import unparse as unparse
