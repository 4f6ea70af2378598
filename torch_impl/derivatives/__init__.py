"""PyTorch's derivative formulas as data: the entries of derivatives.yaml, their syntax trees, and their values.

`lookup("tanh")` is an entry; `vjp` and `jvp` evaluate its formulas for a call whose arguments `bind` has put in order;
`formula_of` writes a formula from a Python function, `python_of` the other way.
"""

from torch_impl.derivatives.binding import bind as bind
from torch_impl.derivatives.checking import check_calls as check_calls
from torch_impl.derivatives.derivative import jvp as jvp
from torch_impl.derivatives.derivative import vjp as vjp
from torch_impl.derivatives.entries import entries as entries
from torch_impl.derivatives.entries import lookup as lookup
from torch_impl.derivatives.entry import Entry as Entry
from torch_impl.derivatives.entry import Formula as Formula
from torch_impl.derivatives.errors import DerivativeNotImplemented as DerivativeNotImplemented
from torch_impl.derivatives.errors import DerivativesFileError as DerivativesFileError
from torch_impl.derivatives.errors import EvaluationError as EvaluationError
from torch_impl.derivatives.errors import FormulaRefused as FormulaRefused
from torch_impl.derivatives.errors import FormulaSyntaxError as FormulaSyntaxError
from torch_impl.derivatives.errors import NotEvaluable as NotEvaluable
from torch_impl.derivatives.errors import OperatorRefused as OperatorRefused
from torch_impl.derivatives.evaluation import evaluate as evaluate
from torch_impl.derivatives.from_python import formula_of as formula_of
from torch_impl.derivatives.parsing import parse as parse
from torch_impl.derivatives.to_python import python_of as python_of
from torch_impl.derivatives.unparsing import unparse as unparse
