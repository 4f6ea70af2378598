"""derivation/engine.py: its formulas and walks, to third order in every mix of modes, and mistakes planted in it."""

from __future__ import annotations

import gc
import importlib.util
import itertools
import json
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import jax.numpy as jnp
import numpy as np
import pytest

from derivation import engine
from derivation.engine import Node, Variable, attn_composite, attn_formula, cos, mm, mul, pull, push, sin, sum_to, tanh
from parity_tests.catalog.attn import SPEC
from parity_tests.catalog.engine_candidate import EngineCandidate
from parity_tests.harness.checks import CHECKS
from parity_tests.harness.numbers.formats import FLOAT64
from parity_tests.harness.numbers.numerics import pinned
from parity_tests.harness.oracle.oracle import Oracle
from parity_tests.harness.specs.samples import samples
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.harness.trial.trial import Trial

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "derivation" / "engine.py"
DERIVATIVES = ("vjp", "jvp", "vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp")


def test_it_fits_on_a_page() -> None:
    assert len(SOURCE.read_text(encoding="utf-8").splitlines()) <= 200


@pytest.mark.parametrize(
    ("statement", "loaded"),
    [("import derivation.engine", {"derivation", "numpy"}), ("import derivation.engine, jinja2", {"jinja2"})],
    ids=["the engine", "the probe would notice"],
)
def test_it_needs_numpy_only(statement: str, loaded: set[str]) -> None:
    probe = (
        "import json, sys; before = {*sys.modules}; exec(sys.argv[1]); print(json.dumps([*{*sys.modules} - before]))"
    )
    run = subprocess.run([sys.executable, "-c", probe, statement], cwd=ROOT, capture_output=True, text=True, check=True)
    foreign = {name.split(".")[0] for name in json.loads(run.stdout)} - sys.stdlib_module_names
    assert foreign == loaded if len(loaded) == 2 else foreign > loaded


# Formulas that are linear in each argument: at small integers every derivative is one, and nothing is rounded.


def integers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng([seed, *shape]).integers(-4, 5, shape).astype(float)


def _linear_in_each(e: ModuleType) -> dict[str, tuple[Callable, list[tuple[int, ...]]]]:
    """Functions of variables, and the shapes of their arguments."""
    return {
        "add": (lambda a, b: (e.add(a, b),), [(2, 3), (2, 3)]),
        "mul": (lambda a, b: (e.mul(a, b),), [(2, 3), (2, 3)]),
        "square": (lambda a: (e.mul(a, a),), [(2, 3)]),
        "cube": (lambda a: (e.mul(a, e.mul(a, a)),), [(2, 3)]),
        "mm": (lambda a, b: (e.mm(a, b),), [(2, 3), (3, 4)]),
        "gram": (lambda a: (e.mm(a, e.transpose(a)), a), [(2, 3)]),
        "transpose": (lambda a: (e.transpose(a),), [(2, 3)]),
        "broadcast_to": (lambda a: (e.broadcast_to(a, shape=(4, 2, 3)),), [(2, 1)]),
        "sum_to": (lambda a: (e.sum_to(a, shape=(2, 1)),), [(4, 2, 3)]),
        "number": (lambda a: (e.add(1, e.mul(-3, a)),), [(2, 3)]),
        "three ways": (lambda a, b: (e.mul(e.add(a, b), e.mul(a, b)), e.add(a, a)), [(3,), (3,)]),
    }


def _differentiated(e: ModuleType, f: Callable, mode: str, count: int) -> Callable:
    """The VJP or JVP on flat arguments."""
    walk = {"vjp": e.pull, "jvp": e.push}[mode]
    return lambda *args: walk(f(*args[:count]), args[:count], args[count:])


def _values(results: Sequence) -> list:
    return [np.zeros(()) if y is None else y.value for y in results]


def _complex_step(e: ModuleType, f: Callable, x: Sequence[np.ndarray], u: Sequence[np.ndarray]) -> list[np.ndarray]:
    """J u, which is an integer: at x + i h u the imaginary part is h J u and a term of order h³, rounded off."""
    h = 2.0**-100
    results = f(*[e.Variable(a + 1j * h * b) for a, b in zip(x, u, strict=True)])
    return [np.round(y.imag / h) for y in _values(results)]


def _pairing(a: Sequence, b: Sequence) -> float:
    return sum(float(np.sum(x * y)) for x, y in zip(a, b, strict=True))


def _check_exactly(e: ModuleType, f: Callable, shapes: list[tuple[int, ...]], order: tuple[str, ...]) -> None:
    """The last derivative of the order against a complex step through the one below it."""
    x = [integers(*shape, seed=i) for i, shape in enumerate(shapes)]
    for mode in order[:-1]:
        like = x if mode == "jvp" else _values(f(*map(e.Variable, x)))
        f, x = _differentiated(e, f, mode, len(x)), [*x, *(integers(*a.shape, seed=9) for a in like)]
    u = [integers(*a.shape, seed=17) for a in x]
    Ju = _complex_step(e, f, x, u)
    if order[-1] == "jvp":
        got = _values(_differentiated(e, f, "jvp", len(x))(*map(e.Variable, [*x, *u])))
        assert all(np.all(a == b) for a, b in zip(got, Ju, strict=True))
    else:
        w = [integers(*a.shape, seed=23) for a in Ju]
        got = _values(_differentiated(e, f, "vjp", len(x))(*map(e.Variable, [*x, *w])))
        assert all(a.shape in (b.shape, ()) for a, b in zip(got, x, strict=True))
        assert _pairing(w, Ju) == _pairing(got, u)


ORDERS = [order for count in (1, 2, 3) for order in itertools.product(("vjp", "jvp"), repeat=count)]


@pytest.mark.parametrize("name", _linear_in_each(engine))
def test_integers_are_exact(name: str, subtests: pytest.Subtests) -> None:
    f, shapes = _linear_in_each(engine)[name]
    for order in ORDERS:
        with subtests.test(order="-".join(order)):
            _check_exactly(engine, f, shapes, order)


def test_the_derivatives_of_sin() -> None:
    """Reverse mode three times, and forward mode three times, in closed form."""
    x, one = Variable(np.linspace(-3, 3, 13)), Variable(np.ones(13))
    for derivative in (lambda y: pull([y], [x], [one])[0], lambda y: push([y], [x], [one])[0]):
        y = sin(x)
        for expected in (np.cos(x.value), -np.sin(x.value), -np.cos(x.value), np.sin(x.value)):
            y = derivative(y)
            assert np.array_equal(y.value, expected)


# Everything else by the court: JAX autodiff, and bounds on rounding that it works out itself


def failed(spec: OpSpec, f: Callable, checks: Sequence[str] = DERIVATIVES) -> list[str]:
    """The checks that a function of the engine fails, in float64, where all axes differ in size."""
    sample = next(iter(samples(spec, 0)))
    with pinned():
        trial = Trial(EngineCandidate(f, "f"), Oracle(spec, sample), sample, FLOAT64, "cpu")
        findings = {check: list(CHECKS[check].run(trial)) for check in checks}
    assert all(findings.values())
    return [check for check in checks if not all(finding.holds for finding in findings[check])]


def _primal(a, b):
    return jnp.sin(a @ b), jnp.sum(jnp.cos(a) * jnp.tanh(a))


OTHERS = OpSpec("others", primal=_primal, signature="(n,d),(d,m)->(n,m),()")


def others(a: Variable, b: Variable) -> tuple[Variable, Variable]:
    """Every formula that attn does not have."""
    return sin(mm(a, b)), sum_to(mul(cos(a), tanh(a)), shape=())


def test_other_functions_agree_with_jax() -> None:
    assert failed(OTHERS, others) == []
    assert set(failed(OTHERS, lambda a, b: (cos(mm(a, b)), others(a, b)[1]))) == {*DERIVATIVES}


@pytest.mark.slow
@pytest.mark.parametrize("attn", [attn_composite, attn_formula])
def test_third_order_of_attn(attn: Callable) -> None:
    assert failed(SPEC, attn, ["third_order"]) == []


# Absent directions, and the graph


def products(monkeypatch: pytest.MonkeyPatch, f: Callable) -> int:
    """The number of matrix products that f computes."""
    recorded: list[Node] = []

    def node(*fields):
        recorded.append(Node(*fields))
        return recorded[-1]

    with monkeypatch.context() as patch:
        patch.setattr(engine, "Node", node)
        f()
    return sum(n.vjp.__qualname__.startswith("mm.") for n in recorded)


@pytest.mark.parametrize("attn", [attn_composite, attn_formula])
def test_what_is_absent_costs_nothing(monkeypatch: pytest.MonkeyPatch, attn: Callable) -> None:
    """The table of products in derivation/attn_limits.md."""
    inputs = [Variable(integers(*shape)) for shape in [(2, 4), (3, 4), (3, 5)]]
    outputs = attn(*inputs)
    w, u = [Variable(np.ones(y.shape)) for y in outputs], [Variable(np.ones(x.shape)) for x in inputs]
    for present, count in {(0, 1): 4, (0,): 4, (1,): 2, (): 0}.items():
        some = [w[i] if i in present else None for i in range(2)]
        assert products(monkeypatch, lambda some=some: pull(outputs, inputs, some)) == count
    for present, count in {(0, 1, 2): 4, (1, 2): 3, (0, 2): 3, (0, 1): 3, (2,): 1, (): 0}.items():
        some = [u[i] if i in present else None for i in range(3)]
        assert products(monkeypatch, lambda some=some: push(outputs, inputs, some)) == count
    assert pull(outputs, inputs, [None, w[1]])[2] is None
    assert push(outputs, inputs, [None, None, u[2]])[1] is None
    assert pull(outputs, inputs, [None, None]) == (None, None, None)


def test_inputs_of_every_kind() -> None:
    x, unused, one = Variable(2.0), Variable(3.0), Variable(1.0)
    middle = mul(x, x)
    y = mul(middle, x)
    gradients = pull([y], [x, middle, x, unused, y], [one])  # with every way counted, also through `middle`
    assert [None if g is None else float(g.value) for g in gradients] == [12, 2, 12, None, 1]
    tangents = push([y, middle, unused], [x, middle], [one, one])  # the adjoint: middle moves by 2x, and by one
    assert [None if t is None else float(t.value) for t in tangents] == [14, 5, None]


def test_a_wrong_shape_is_an_error() -> None:
    x = Variable(np.ones((2, 3)))
    y = sum_to(x, shape=(3,))
    with pytest.raises(ValueError, match=r"a direction has shape \(2,\), its variable \(3,\)"):
        pull([y], [x], [Variable(np.ones(2))])
    with pytest.raises(ValueError, match="shape"):  # NumPy broadcasts by itself, and the engine does not
        pull([mul(x, y)], [x, y], [x])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtypes_are_kept(dtype: type) -> None:
    inputs = [Variable(integers(*shape).astype(dtype)) for shape in [(2, 4), (3, 4), (3, 5)]]
    outputs = attn_formula(*inputs)
    gradients = pull(outputs, inputs, outputs)
    tangents = push(gradients, inputs, inputs)
    assert {y.value.dtype for y in (*outputs, *gradients, *tangents)} == {np.dtype(dtype)}


@pytest.mark.slow
def test_the_graph_goes_with_its_variables() -> None:
    x = Variable(np.ones(3))
    y = tanh(sin(x))
    alive = weakref.ref(y.node)
    pull([y], [x], [x])
    assert alive() is not None
    del y
    gc.collect()  # a closure that holds on to its output makes a cycle
    assert alive() is None


# Mistakes that must be caught

IN_FORMULAS = {
    "the other factor": ("(mul(c_bar, b), mul(a, c_bar))", "(mul(c_bar, a), mul(b, c_bar))"),
    "one term of the product rule": ("add(product(a_dot, b), product(a, b_dot))", "product(a_dot, b)"),
    "no transpose": (
        "return mm(c_bar, transpose(b)), mm(transpose(a), c_bar)",
        "return c_bar, mm(transpose(a), c_bar)",
    ),
    "a constant factor": ("mm(c_bar, transpose(b))", "mm(c_bar, transpose(Variable(b.value)))"),
    "a term for one": ("lambda c_bar: (c_bar, c_bar), add", "lambda c_bar: (c_bar, None), add"),
    "transpose": ("Variable(x.value.T), transpose, transpose", "Variable(x.value.T), transpose, lambda t: t"),
    "the sum": ("lambda y_bar: sum_to(y_bar, shape=x.shape)", "lambda y_bar: mul(2, sum_to(y_bar, shape=x.shape))"),
    "the last one counts": ("total[x] = add(total.get(x), direction)", "total[x] = direction"),
    "the wrong way": ("for n in reversed(tape(outputs, inputs))", "for n in tape(outputs, inputs)"),
    "out of order": ("sorted(found, key=lambda node: node.depth)", "sorted(found, key=lambda node: 0)"),
    "dependence": ("depends.update(node.outputs)", "pass"),
}
IN_ATTN = {  # and the check that catches it
    "(4)": ("mul(add(1, mul(-1, A)), add(1, A))", "mul(add(1, mul(-1, A)), add(1, mul(-1, A)))", "vjp"),
    "(5)": ("add(mm(q_dot, transpose(k)), mm(q, transpose(k_dot)))", "mm(q_dot, transpose(k))", "jvp"),
    "(7)": ("return add(mm(A_dot, v), mm(A, v_dot)), A_dot", "return mm(A_dot, v), A_dot", "jvp"),
    "(8)": ("add(attn_bar, mm(output_bar, transpose(v)))", "mm(output_bar, transpose(v))", "vjp"),
    "(9)": ("P = mul(tanh_slope(A), G)", "P = G", "vjp"),
    "(10)": ("return mm(P, k), mm(", "return mm(P, mul(2, k)), mm(", "vjp"),
    "(11)": ("mm(P, k), mm(transpose(P), q)", "mm(P, k), mm(transpose(G), q)", "vjp"),
    "(12)": ("mm(transpose(A), output_bar)", "mul(-1, mm(transpose(A), output_bar))", "vjp"),
    "a saved slope": ("P = mul(tanh_slope(A), G)", "P = mul(Variable(tanh_slope(A).value), G)", "vjp_of_vjp"),
    "a saved output": ("mm(transpose(A), output_bar)", "mm(Variable(A.value.T), output_bar)", "vjp_of_vjp"),
    "a saved tangent": ("A_dot = mul(tanh_slope(A), T)", "A_dot = mul(Variable(tanh_slope(A).value), T)", "vjp_of_jvp"),
}


def _planted(right: str, wrong: str) -> ModuleType:
    """The engine with a line changed."""
    source = SOURCE.read_text(encoding="utf-8")
    assert source.count(right) == 1, f"{source.count(right)} times: {right}"
    spec = importlib.util.spec_from_loader("planted", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["planted"] = module  # where dataclass looks for what an annotation means
    try:
        exec(compile(source.replace(right, wrong), "planted", "exec"), vars(module))
    finally:
        del sys.modules["planted"]
    return module


def _check_everything(e: ModuleType) -> None:
    for f, shapes in _linear_in_each(e).values():
        for order in ORDERS:
            _check_exactly(e, f, shapes, order)


@pytest.mark.parametrize("mistake", IN_FORMULAS)
def test_a_mistake_in_a_formula_is_caught(mistake: str) -> None:
    with pytest.raises((AssertionError, ValueError)):
        _check_everything(_planted(*IN_FORMULAS[mistake]))


def test_no_mistake_is_caught_where_none_is() -> None:
    _check_everything(_planted("def several(x)", "def several(x)"))


@pytest.mark.parametrize("mistake", IN_ATTN)
def test_a_mistake_in_attn_is_caught(mistake: str) -> None:
    right, wrong, check = IN_ATTN[mistake]
    planted = _planted(right, wrong)
    planted.Variable = Variable  # the one that the candidate makes
    assert failed(SPEC, planted.attn_formula)[0] == check


def test_attn_has_no_mistake() -> None:
    assert failed(SPEC, attn_formula) == failed(SPEC, attn_composite) == []
