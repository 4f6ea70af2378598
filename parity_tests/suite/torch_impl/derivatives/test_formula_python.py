"""A Python function of tensors is written as a formula, and the formula has the function's values."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from torch_impl.derivatives import (
    FormulaRefused,
    NotEvaluable,
    entries,
    evaluate,
    formula_of,
    parse,
    python_of,
    unparse,
)
from torch_impl.derivatives.functions.elementary import handle_r_to_c
from torch_impl.derivatives.functions.reductions import sum_backward
from torch_impl.derivatives.syntax import Member, Name, Number


def attn_vjp(grad_output: Tensor, grad_attn: Tensor, q: Tensor, k: Tensor, v: Tensor, attn: Tensor) -> Any:
    """The gradients of attn(q, k, v) = (a v, a) with a = tanh(q kᵀ)."""
    attn_bar = grad_attn + grad_output @ v.mH
    pre_bar = attn_bar * (1 - attn * attn).conj()
    return pre_bar @ k.conj(), pre_bar.mT @ q.conj(), attn.mH @ grad_output


def attn_jvp(q_p: Tensor, q_t: Tensor, k_p: Tensor, k_t: Tensor, v_p: Tensor, v_t: Tensor, attn: Tensor) -> Any:
    """The tangents of its outputs."""
    attn_dot = (q_t @ k_p.mT + q_p @ k_t.mT) * (1 - attn * attn)
    return attn_dot @ v_p + attn @ v_t, attn_dot


def tanh_vjp(grad: Tensor, result: Tensor) -> Tensor:
    return grad * (1 - result**2).conj()


def mul_vjp(grad: Tensor, self: Tensor, other: Tensor) -> Tensor:
    return handle_r_to_c(self.dtype, grad * other.conj())


def gelu_vjp(grad: Tensor, self: Tensor) -> Tensor:
    density = torch.exp(-0.5 * self * self) / math.sqrt(2 * math.pi)
    return grad * (0.5 * (1 + torch.erf(self / math.sqrt(2))) + self * density)


def mean_vjp(grad: Tensor, self: Tensor, dim: int, keepdim: bool) -> Tensor:
    return sum_backward(grad, self.shape, [dim], keepdim) / self.shape[dim]


def relu_vjp(grad: Tensor, self: Tensor) -> Tensor:
    return torch.where(self > 0, grad, torch.zeros_like(grad))


def norm_vjp(grad: Tensor, self: Tensor, p: float, keepdim: bool) -> Tensor:
    norm = self.abs().pow(p).sum(-1, keepdim=True).pow(1 / p)
    bar = grad if keepdim else grad.unsqueeze(-1)
    return torch.zeros_like(self) if p == 0.0 or not p > 0.0 else bar * self.sgn() * (self.abs() / norm) ** (p - 1.0)


def _x(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, dtype=dtype)


CASES: dict[Callable[..., Any], Callable[[], tuple]] = {
    attn_vjp: lambda: (_x(3, 4), _x(3, 2), _x(3, 5), _x(2, 5), _x(2, 4), _x(3, 2)),
    attn_jvp: lambda: (_x(3, 5), _x(3, 5), _x(2, 5), _x(2, 5), _x(2, 4), _x(2, 4), _x(3, 2)),
    tanh_vjp: lambda: (_x(3, dtype=torch.complex128), _x(3, dtype=torch.complex128)),
    mul_vjp: lambda: (_x(3, dtype=torch.complex128), _x(3), _x(3, dtype=torch.complex128)),
    gelu_vjp: lambda: (_x(4), _x(4)),
    mean_vjp: lambda: (_x(3), _x(3, 4), 1, False),
    relu_vjp: lambda: (_x(5), _x(5)),
    norm_vjp: lambda: (_x(3), _x(3, 4), 3.0, False),
}


@pytest.mark.parametrize("function", CASES, ids=lambda function: function.__name__)
def test_a_formula_has_the_values_of_its_function(function: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    arguments = CASES[function]()
    text = formula_of(function)
    names = inspect.signature(function).parameters
    found = evaluate(parse(text), dict(zip(names, arguments, strict=True)))
    torch.testing.assert_close(found, function(*arguments), rtol=1e-12, atol=1e-12)
    assert unparse(parse(text)) == text


def test_texts() -> None:
    assert formula_of(tanh_vjp) == "grad * (1 - result.pow(2)).conj()"
    assert formula_of(mean_vjp) == "sum_backward(grad, self.sym_sizes(), {dim}, keepdim) / self.sym_size(dim)"
    assert formula_of(mul_vjp) == "handle_r_to_c(self.scalar_type(), grad * other.conj())"


def test_keywords_are_put_into_their_places() -> None:
    def f(grad: Tensor, self: Tensor | None) -> Tensor:
        return grad.cumsum(0, dtype=grad.dtype) if self is None else torch.add(grad, self, alpha=2)

    assert formula_of(f) == "!self.defined() ? grad.cumsum(0, grad.scalar_type()) : at::add(grad, self, 2)"


def loop(grad):
    for _ in range(3):
        grad = grad + 1
    return grad


def branch(grad, self):
    if self is None:
        return grad
    return self


def unknown(grad):
    return inspect.getsource(grad.conj())


def truth_of_a_tensor(grad, self):
    return grad if self.sum() else self


def whole_quotient(grad, n: int):
    return grad * (1 / n)


def twice(grad):
    bar = grad * 2
    bar = bar + 1
    return bar


def in_place(grad):
    return grad.mul_(2)


def random(grad):
    return grad * torch.rand_like(grad)


def index(grad):
    return grad[0]


def sizes(grad):
    return grad.expand(2, 3)


def chain(grad, p: float):
    return grad if 0 < p < 1 else -grad


def free_name(grad):
    return grad * CASES


def nothing(grad):
    grad.sum()


def stars(*grads):
    return grads


@pytest.mark.parametrize(
    ("function", "line", "message"),
    [
        (loop, 1, "a statement For has no counterpart; a formula is one expression"),
        (branch, 1, "a statement If has no counterpart"),
        (unknown, 1, "inspect.getsource is no operator of ATen; call operators of torch"),
        (truth_of_a_tensor, 1, r"`self\.sum\(\)` is not known to be a bool"),
        (whole_quotient, 1, "C\\+\\+ cuts the fraction of a quotient of whole numbers off; make one of them a float"),
        (twice, 2, "bar is given a value twice; choose a new name"),
        (in_place, 1, "mul_ writes to a tensor"),
        (random, 1, "rand_like draws random numbers"),
        (index, 1, "an index of a tensor has no counterpart; use select"),
        (sizes, 1, "expand takes its sizes in C\\+\\+ as one list"),
        (chain, 1, "C\\+\\+ reads a chain of comparisons otherwise; join two of them with `and`"),
        (free_name, 1, "CASES is no parameter and was given no value"),
        (nothing, 1, "a statement Expr has no counterpart"),
        (stars, 0, r"a formula takes no \*args or \*\*kwargs"),
    ],
    ids=lambda one: one.__name__ if callable(one) else None,
)
def test_what_is_not_exact_is_refused_with_its_line(function: Callable[..., Any], line: int, message: str) -> None:
    at = inspect.getsourcelines(function)[1] + line
    with pytest.raises(FormulaRefused, match=rf"test_formula_python\.py:{at}: {message}"):
        formula_of(function)


def test_a_lambda_is_refused() -> None:
    with pytest.raises(FormulaRefused, match="only a function made with `def` is read"):
        formula_of(lambda grad: grad)


def _plain(tree: Any) -> Any:
    """A tree without what has two spellings in C++ for one meaning: at::, _symint, sizes, and 2. for 2.0."""
    if isinstance(tree, Name):
        last = tree.parts[-1].removesuffix("_symint")
        return dataclasses.replace(tree, parts=(*(part for part in tree.parts[:-1] if part != "at"), last))
    if isinstance(tree, Number):
        return Number(str(float(tree.text)))
    if isinstance(tree, Member):
        name = {"sizes": "sym_sizes", "size": "sym_size"}.get(tree.name, tree.name.removesuffix("_symint"))
        return dataclasses.replace(tree, of=_plain(tree.of), name=name)
    if isinstance(tree, tuple):
        return tuple(_plain(one) for one in tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return dataclasses.replace(tree, **{f.name: _plain(getattr(tree, f.name)) for f in dataclasses.fields(tree)})
    return tree


@pytest.mark.slow
def test_formulas_go_to_python_and_back(tmp_path: Path) -> None:
    texts: dict[str, str] = {}
    lines = [
        "import math",
        "import torch",
        "from torch import Tensor",
        "from torch_impl.derivatives.functions import MANUAL",
    ]
    lines += ["globals().update(MANUAL)"]
    for entry in entries():
        for formula in (*entry.vjps, *entry.jvps):
            with contextlib.suppress(NotEvaluable):
                source = python_of(entry, formula)
                name = f"formula_{len(texts)}"
                texts[name] = formula.text
                lines.append(source.replace("def formula(", f"def {name}(", 1))
    path = tmp_path / "formulas_in_python.py"
    path.write_text("\n".join(lines))
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    for name, text in texts.items():
        assert _plain(parse(formula_of(getattr(module, name)))) == _plain(parse(text)), text
    assert len(texts) >= 1000
