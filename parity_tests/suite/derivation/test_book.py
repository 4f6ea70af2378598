"""The formulas of the pages, as printed there, against JAX autodiff and as identities of SymPy."""

from __future__ import annotations

import ast
import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy
import torch

from parity_tests.harness.numbers.numerics import pinned
from parity_tests.suite.derivation import _pages
from parity_tests.suite.marks import fast
from parity_tests.suite.rotation import rotating

# A map, what it is the JVP or VJP of, and the shapes of that one's arguments, in letters.
MAPS = [
    ("sin.md", "sin_jvp", "jvp", "sin", "n"),
    ("sin.md", "sin_vjp", "vjp", "sin", "n"),
    ("sin.md", "sin_jvp_of_vjp", "jvp", "sin_vjp", "n n"),
    ("sin.md", "sin_vjp_of_vjp", "vjp", "sin_vjp", "n n"),
    ("sin.md", "sin_jvp_of_jvp", "jvp", "sin_jvp", "n n"),
    ("mm.md", "mm_jvp", "jvp", "mm", "nd dm"),
    ("mm.md", "mm_vjp", "vjp", "mm", "nd dm"),
    ("mm.md", "mm_vjp_by_indices", "vjp", "mm", "nd dm"),
    ("mm.md", "mm_jvp_of_vjp", "jvp", "mm_vjp", "nd dm nm"),
    ("mm.md", "mm_vjp_of_vjp", "vjp", "mm_vjp", "nd dm nm"),
    ("mm.md", "mm_jvp_of_jvp", "jvp", "mm_jvp", "nd dm nd dm"),
    ("broadcasting.md", "broadcast_vjp", "linear", "broadcast", "m"),
    ("broadcasting.md", "total_vjp", "linear", "total", "nm"),
    ("broadcasting.md", "mean_vjp", "linear", "mean", "nm"),
    ("broadcasting.md", "scale_and_shift_vjp", "vjp", "scale_and_shift", "nm m m"),
    ("attn.md", "jvp", "jvp", "primal", "nd md me"),
    ("attn.md", "vjp", "vjp", "primal", "nd md me"),
    ("attn.md", "jvp_of_vjp", "jvp", "vjp", "nd md me ne nm"),
    ("attn.md", "vjp_of_vjp", "vjp", "vjp", "nd md me ne nm"),
    ("attn.md", "vjp_of_jvp", "vjp", "jvp", "nd md me nd md me"),
    ("attn.md", "jvp_of_jvp", "jvp", "jvp", "nd md me nd md me"),
    ("second_order.md", "jvp", "jvp", "f", "3"),
    ("second_order.md", "vjp", "vjp", "f", "3"),
    ("second_order.md", "jvp_of_jvp", "jvp", "jvp", "3 3"),
    ("second_order.md", "jvp_of_vjp", "jvp", "vjp", "3 2"),
    ("second_order.md", "vjp_of_jvp", "vjp", "jvp", "3 3"),
    ("second_order.md", "vjp_of_vjp", "vjp", "vjp", "3 2"),
    ("undefined.md", "vjp_of_both", "vjp", "both", "n"),
    ("your_own.md", "sin_layer_jvp", "jvp", "sin_layer", "nd dm m"),
    ("your_own.md", "sin_layer_vjp", "vjp", "sin_layer", "nd dm m"),
]
SIZES = {"n": 2, "m": 4, "d": 3, "e": 5, "3": 3, "2": 2}
SMALL = SIZES | {"n": 2, "m": 2, "d": 1, "e": 1}
NAMES = [f"{page} {name}" for page, name, *_ in MAPS]


def _definitions(page: str, library: SimpleNamespace, sizes: dict[str, int]) -> dict:
    """The functions of a page, with another library in the place of NumPy, and the constants that they use."""
    n, m, e = (sizes[axis] for axis in "nme")
    namespace = {"np": library, "n": n, "m": m, "absent": (library.zeros((n, e)), library.zeros((n, m)))}
    for block in _pages.blocks(page):
        functions = [node for node in ast.parse(block).body if isinstance(node, ast.FunctionDef)]
        exec(compile(ast.Module([*functions], []), page, "exec"), namespace)
    return namespace


def _shapes(letters: str, sizes: dict[str, int]) -> list[tuple[int, ...]]:
    return [tuple(sizes[letter] for letter in axes) for axes in letters.split()]


@functools.cache
def _of_jax(page: str) -> dict:
    return _definitions(page, SimpleNamespace(**vars(jnp) | {"stack": jnp.array}), SIZES)


@rotating(5)
@fast("sin.md*", "mm.md mm_vjp", "attn.md vjp")
@pytest.mark.parametrize(("page", "name", "kind", "base", "letters"), MAPS, ids=NAMES)
def test_the_formulas_are_those_of_jax(page: str, name: str, kind: str, base: str, letters: str) -> None:
    _assert_as_in_jax(_of_jax(page), name, kind, base, letters)


def test_a_wrong_formula_is_noticed() -> None:
    def without_transposes(X, Y, Z_bar):
        return [Z_bar @ Y, X @ Z_bar]

    functions = _of_jax("mm.md")
    square = "nn nn"
    _assert_as_in_jax(functions, "mm_vjp", "vjp", "mm", square)
    with pytest.raises(AssertionError, match="Not equal"):
        _assert_as_in_jax(functions | {"mm_vjp": without_transposes}, "mm_vjp", "vjp", "mm", square)


def _assert_as_in_jax(functions: dict, name: str, kind: str, base: str, letters: str) -> None:
    rng = np.random.default_rng(2)
    shapes = _shapes(letters, SIZES)

    def f(*x):
        return tuple(functions[base](*x))

    with pinned(), jax.numpy_rank_promotion("allow"):
        x = [rng.uniform(0.25, 1, shape) for shape in shapes]
        outputs = f(*x)
        if kind == "jvp":
            u = [rng.uniform(-1, 1, shape) for shape in shapes]
            got, expected = functions[name](*x, *u), jax.jvp(f, tuple(x), tuple(u))[1]
        else:
            w = tuple(jnp.asarray(rng.uniform(-1, 1, y.shape)) for y in outputs)
            got = functions[name](*(() if kind == "linear" else x), *w)
            expected = jax.vjp(f, *x)[1](w)
        for a, b in zip(got, expected, strict=True):
            assert a.shape == b.shape
            assert np.abs(b).max() > 1e-3
            np.testing.assert_allclose(a, b, rtol=1e-13, atol=1e-14)


def _of_sympy() -> SimpleNamespace:
    """As much of NumPy as the pages use, on arrays of symbols."""

    def entrywise(function):
        return lambda x: np.vectorize(function, otypes=[object])(x)

    functions = {name: entrywise(getattr(sympy, name)) for name in ("sin", "cos", "tanh")}
    return SimpleNamespace(**functions, einsum=np.einsum, stack=np.stack, zeros=lambda shape: np.zeros(shape, object))


def _symbols(prefix: str, shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    return [
        np.array(sympy.symbols(f"{prefix}{i}_:{np.prod(shape)}"), object).reshape(shape)
        for i, shape in enumerate(shapes)
    ]


PROVED = [case for case in MAPS if case[0] in ("sin.md", "mm.md", "second_order.md", "attn.md")]


@pytest.mark.parametrize(("page", "name", "kind", "base", "letters"), PROVED, ids=[" ".join(c[:2]) for c in PROVED])
def test_the_formulas_are_identities(page: str, name: str, kind: str, base: str, letters: str) -> None:
    """For symbols in the place of numbers: a proof, at small sizes."""
    functions, shapes = _definitions(page, _of_sympy(), SMALL), _shapes(letters, SMALL)
    x = _symbols("x", shapes)
    outputs = [np.asarray(y, object) for y in functions[base](*x)]
    u = _symbols("u", shapes)
    along = [
        sum(np.vectorize(lambda y, s=s: sympy.diff(y, s), otypes=[object])(y) * t for s, t in _pairs(x, u))
        for y in outputs
    ]
    if kind == "jvp":
        for a, b in zip(functions[name](*x, *u), along, strict=True):
            assert _zero(np.asarray(a) - b)
    else:
        w = _symbols("w", [y.shape for y in outputs])
        pulled = functions[name](*x, *w)
        left = sum(np.sum(a * b) for a, b in zip(w, along, strict=True))
        right = sum(np.sum(a * b) for a, b in zip(pulled, u, strict=True))
        assert _zero(np.array([left - right]))


def _pairs(x: list[np.ndarray], u: list[np.ndarray]):
    return [pair for a, b in zip(x, u, strict=True) for pair in zip(a.flat, b.flat, strict=True)]


def _zero(differences: np.ndarray) -> bool:
    return all(sympy.expand(entry) == 0 for entry in differences.flat)


def test_a_wrong_identity_is_noticed() -> None:
    (x,), (u,) = _symbols("x", [(2,)]), _symbols("u", [(2,)])
    assert _zero((1 - x) * (1 + x) - 1 + x * x)
    assert not _zero((1 - x) * (1 + x) - 1 - x * x)
    assert not _zero(x - u)


def test_the_slope_of_tanh() -> None:
    s = sympy.Symbol("s", real=True)
    a = sympy.tanh(s)
    assert sympy.expand(sympy.diff(a, s) - (1 - a) * (1 + a)) == 0  # (4)
    t = sympy.exp(-2 * s)  # attn.md: the slope from the scores, for s > 0
    assert sympy.simplify((4 * t / (1 + t) ** 2 - sympy.diff(a, s)).rewrite(sympy.exp)) == 0


def test_the_best_step() -> None:
    h, u, f, third = sympy.symbols("h u f third", positive=True)
    error = h**2 / 6 * third + u / h * f  # (90)
    (best,) = sympy.solve(sympy.diff(error, h), h)
    assert sympy.simplify(best - (3 * u * f / third) ** sympy.Rational(1, 3)) == 0  # (91)


def test_ties_are_shared_as_the_page_says() -> None:
    shared = _pages.run("broadcasting.md")["largest_vjp_shared"]
    tied = np.array([0.5, -0.25, 0.5])
    (expected,) = shared(tied, 1.0)
    assert expected.tolist() == [0.5, 0, 0.5]
    np.testing.assert_array_equal(jax.grad(jnp.max)(jnp.array(tied)), expected)
    x = torch.tensor(tied, requires_grad=True)
    np.testing.assert_array_equal(torch.autograd.grad(torch.amax(x, 0), x)[0], expected)
    assert sorted(torch.autograd.grad(torch.max(x, 0).values, x)[0].tolist()) == [0, 0, 1]


def test_a_forgotten_sum_is_as_the_page_says() -> None:
    """JAX refuses a cotangent that was not summed over the broadcast axis; PyTorch's engine sums it."""

    class Add(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, b):
            return x + b

        @staticmethod
        def backward(ctx, z_bar):
            return z_bar, z_bar

    b = torch.zeros(3, requires_grad=True)
    weights = torch.arange(6.0).reshape(2, 3)
    (gradient,) = torch.autograd.grad(Add.apply(torch.zeros(2, 3), b), b, weights)
    assert gradient.tolist() == weights.sum(0).tolist()

    add = jax.custom_vjp(lambda x, b: x + b[None, :])
    add.defvjp(lambda x, b: (x + b[None, :], None), lambda _, z_bar: (z_bar, z_bar))
    with pytest.raises(ValueError, match="shape"):
        jax.vjp(add, jnp.zeros((2, 3)), jnp.zeros(3))[1](jnp.ones((2, 3)))


def test_complex_conventions_are_those_of_the_frameworks() -> None:
    """(74) is JAX's VJP and (75) PyTorch's gradient of the page's function, which is not holomorphic."""
    page = _pages.run("complex.md")
    z, w = page["z"], page["w"]
    with pinned():
        (of_jax,) = jax.vjp(page["f"], jnp.asarray(z))[1](jnp.asarray(w))
    leaf = torch.tensor(z, requires_grad=True)
    (of_torch,) = torch.autograd.grad(page["f"](leaf), leaf, torch.tensor(w))
    np.testing.assert_allclose(of_jax, page["jax_vjp"](z, w), rtol=1e-14)
    np.testing.assert_allclose(of_torch.resolve_conj(), page["torch_vjp"](z, w), rtol=1e-14)
    assert np.abs(np.asarray(of_jax) - of_torch.resolve_conj().numpy()).min() > 1e-3
