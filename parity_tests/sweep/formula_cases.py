"""An entry of a derivatives.yaml as a candidate, and what it is judged against: before anything is compiled."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from jax_ref import aten
from parity_tests.harness.specs.domains import DOMAINS, Domain
from parity_tests.harness.specs.spec import OpSpec
from parity_tests.sweep.elementwise import is_elementwise, results_of
from parity_tests.sweep.formula_function import by_formulas, of_pytorch
from parity_tests.sweep.formula_results import compared_of_jax, compared_of_torch, is_double
from parity_tests.sweep.formula_samples import samples
from parity_tests.sweep.invariants import CONSTANT
from parity_tests.sweep.operators import is_operator, operator_of
from parity_tests.sweep.recorded_calls import RecordedCall, as_jax, as_torch
from parity_tests.sweep.saved_statistics import recomputed
from torch_impl import derivatives

# Of an operator: the input of which one triangle is read, and what it is. A gradient has a meaning along the directions
# of such matrices only: PyTorch's is symmetric of a symmetric one, and whatever the formula has beside a factor.
_ONE_TRIANGLE = {
    "cholesky": ("self", "symmetric"),
    "linalg_cholesky_ex": ("self", "symmetric"),
    "cholesky_inverse": ("self", "lower"),
    "cholesky_solve": ("input2", "lower"),
    "_linalg_eigh": ("A", "symmetric"),
}
_UPPER = Domain("upper", lambda rng, shape, sizes: np.triu(rng.standard_normal(shape)) + 2 * np.eye(shape[-1]), np.triu)
_OF_FORWARD_MODE = ("jvp", "adjoint", "jvp_of_vjp")
CHECKS = (
    "forward",
    "vjp",
    "vjp_partial",
    "jvp",
    "adjoint",
    "vjp_of_vjp",
    "jvp_of_vjp",
    "input_subsets",
    "linearity",
    "purity",
    "points",
    "points_second_order",
)
_ENTRIES = 4096  # of an input: a sample with more is left out
_SHOWN = 8  # numbers of a fixed argument at most
_RANKS = ((), (2, 1, 3), (2, 3, 1, 2), (2, 1, 2, 1, 3))  # of an elementwise operator, which a formula may distinguish


def checks_of(entry: derivatives.Entry) -> tuple[str, ...]:
    """Return the checks that an entry is judged by: those of forward mode only if it has a formula for it.

    Not of the values of an operator that PyTorch does not have: they are its reference's.
    """
    left_out = ({"forward"} if not is_operator(entry.name) else set()) | (set() if entry.jvps else {*_OF_FORWARD_MODE})
    return tuple(name for name in CHECKS if name not in left_out)


class NoCase(Exception):
    """Raised where an entry cannot be judged; the message is the reason."""


@dataclass(frozen=True)
class FormulaCase:
    """The callable with the formulas of an entry, its spec, and the arguments that are fixed, by their names.

    The inputs are one of PyTorch's own samples of its operator or, of an elementwise one, what the harness makes,
    special points among them. `installed`: the same callable with PyTorch's own derivatives; None where a spec is the
    reference.
    """

    call: Callable[..., Any]
    spec: OpSpec
    fixed: Mapping[str, Any] = field(default_factory=dict)
    installed: Callable[..., Any] | None = None

    @property
    def where(self) -> str:
        """At which inputs it is judged, in words."""
        if self.spec.inputs is None:
            place = "inputs that are made for it"
        else:
            place = "a sample of " + ", ".join(str(np.shape(x)) for x in self.spec.inputs)
        given = ", ".join(f"{name}={_in_words(value)}" for name, value in self.fixed.items() if value is not None)
        return f"{place}, with {given}" if given else place


def _in_words(value: Any) -> str:
    """An argument as it is written in a call; of many numbers the shape."""
    if not isinstance(value, np.ndarray):
        return str(value)
    return str(value.tolist()) if value.size <= _SHOWN else f"an array {value.shape}"


def cases(entry: derivatives.Entry, most: int = 2) -> list[FormulaCase]:
    """Return cases of an entry, with different shapes and options: so many of real numbers, and one of complex ones.

    Of an operator that no sample named like it calls with real numbers, as `_conj`, all are of complex ones. An
    elementwise operator of real numbers is also judged at inputs that are made for it.

    Raises:
        NoCase: there is none: no reference in JAX, no sample, or something that its formulas need does not run here.
    """
    check_formulas(entry)
    if not any(entry.differentiable_outputs):
        raise NoCase("its output_differentiability says that no result has a derivative")
    name = f"aten::{entry.name}"
    if name not in aten.OPERATORS:
        raise NoCase(f"jax_ref.aten has no {name.partition('.')[0]}; give a spec of your own with --spec")
    if name.partition(".")[0] in CONSTANT:
        raise NoCase("it has no derivative by definition")
    found = _of(entry, samples(name, torch.float64), most)
    found += _of(entry, samples(name, torch.complex128), 1 if found else most)
    if not found:
        reached = samples(name, torch.float64) or samples(name, torch.complex128)
        problem = (
            "at no sample of PyTorch's own can it be judged" if reached else "no sample of PyTorch's own reaches it"
        )
        raise NoCase(f"{problem}: one array of numbers, or more, with a formula; give a spec of your own with --spec")
    return found


def case_of_spec(entry: derivatives.Entry, spec: OpSpec) -> FormulaCase:
    """Return the case of an entry that is judged by a spec, whose inputs are the tensors of the schema in its order.

    Those without a formula may be left out of both. An operator that PyTorch does not have gets its values from the
    primal, so that the formulas alone are judged.

    Raises:
        NoCase: the spec has another number of inputs, or a formula cannot be parsed, or must not be evaluated.
    """
    check_formulas(entry)
    with_formula = [name for formula in entry.vjps for name in formula.names]
    tensors = [a.name for a in entry.signature.arguments.flat_all if a.type.is_tensor_like()]
    names = tensors if spec.count == len(tensors) else [name for name in tensors if name in with_formula]
    if spec.count != len(names):
        inputs = f"{spec.count} input{'s' * (spec.count != 1)}"
        raise NoCase(
            f"the spec has {inputs}, the schema the tensors {', '.join(tensors)}; give it these, in this order"
        )
    moving = [name for name in names if name in with_formula]

    def call(*inputs: torch.Tensor, **params: Any) -> Any:
        given = dict(zip(names, inputs, strict=True))
        fixed = params | {name: x for name, x in given.items() if name not in moving}

        def values(**arguments: Any) -> Any:
            return _values(spec, [arguments[name] for name in names], params)

        operator = by_formulas(entry, moving, fixed, None if is_operator(entry.name) else values)
        return operator(*(given[name] for name in moving))

    return FormulaCase(call, replace(spec, dtypes=spec.dtypes or ("float64",)))


def _values(spec: OpSpec, inputs: Sequence[torch.Tensor], params: Mapping[str, Any]) -> Any:
    """The values of a spec's primal at tensors, as tensors."""
    arrays = [x.detach().resolve_conj().resolve_neg().numpy() for x in inputs]
    outputs = [torch.from_numpy(np.array(y)) for y in jax.tree.leaves(spec.primal(*spec.arranged(arrays), **params))]
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def check_formulas(entry: derivatives.Entry) -> None:
    """Parse all formulas, and look at what they call.

    Raises:
        NoCase: one cannot be parsed, or calls an operator that a formula must not call; with its file and line, the
            place in it, and what to write there.
    """
    texts = [(formula.line, ", ".join(formula.names), formula.text) for formula in (*entry.vjps, *entry.jvps)]
    if entry.condition is not None:
        texts.append((entry.line, "output_differentiability", entry.condition))
    for line, names, text in texts:
        try:
            derivatives.check_calls(derivatives.parse(text))
        except (derivatives.FormulaSyntaxError, derivatives.OperatorRefused) as error:
            raise NoCase(f"{entry.path}:{line}: {names}: {error}") from error


def _of(entry: derivatives.Entry, calls: Sequence[RecordedCall], most: int) -> list[FormulaCase]:
    usable = [(call, moving) for call in calls if (moving := _moving(entry, call)) and _is_taken(call, moving)]
    given = [_case(entry, call, moving) for call, moving in usable]
    chosen = sorted(given, key=lambda case: not _moves(case))[:most]
    for case in chosen:
        _moved_at(case)  # which raises where a case cannot be judged
    seen = set[tuple[str, str]]().union(*(_options(case) for case in chosen))
    for case in given:
        if not _options(case) <= seen and _moves(case):
            chosen.append(case)
            seen |= _options(case)
    elementwise = [each for each in usable if _is_elementwise(*each)]
    made = (_made_case(entry, *each) for each in elementwise)
    # What is made comes first: a failure there is shrunk, while nothing is known of other sizes of a sample.
    first = [*itertools.islice((case for case in made if case is not None), 1)]
    return [*first, *chosen, *(_case(entry, *each) for each in _of_ranks(elementwise))]


def _options(case: FormulaCase) -> set[tuple[str, str]]:
    """The arguments that a call gives: of a number whether it is complex, of what is no number or list its value."""
    found = set()
    for name, value in case.fixed.items():
        if isinstance(value, complex | float | int) and not isinstance(value, bool):
            found.add((name, "complex" if np.imag(value) else "real"))
        else:
            found.add((name, type(value).__name__ if isinstance(value, np.ndarray | list | tuple) else str(value)))
    return found


def _of_ranks(elementwise: Sequence[tuple[RecordedCall, list[str]]]) -> list[tuple[RecordedCall, list[str]]]:
    """The call with the most numbers, at arrays of the other ranks that both take, with as many of them as fit."""
    if not elementwise:
        return []
    call, moving = max(elementwise, key=lambda each: min(each[0].arguments[name].size for name in each[1]))
    found = []
    for shape in _RANKS:
        arguments = dict(call.arguments) | {name: np.resize(call.arguments[name], shape) for name in moving}
        results = results_of(call.name, arguments) or ()
        if [np.shape(y) for y in results] == [shape] and _takes(call, moving, shape):
            found.append((replace(call, arguments=arguments), moving))
    return found


def _moves(case: FormulaCase) -> bool:
    """Whether the sample tells anything: at some, as at a distance of order 0, all derivatives are zero."""
    try:
        return _moved_at(case)
    except NoCase:
        return False


def _moved_at(case: FormulaCase) -> bool:
    """Evaluate the VJP, of all results and of each alone; return whether a gradient is not zero.

    Raises:
        NoCase: PyTorch has no kernel of something here, or it is not written in Python, or it does not take what it
            is given; with file and line where it is about a formula.
    """
    inputs = [as_torch(np.asarray(x)).requires_grad_() for x in case.spec.inputs or ()]
    generator = torch.Generator().manual_seed(0)
    together: list[torch.Tensor] = []
    try:
        results = case.call(*inputs)
        several = results if isinstance(results, tuple | list) else (results,)
        moved = [y for y in several if y.requires_grad]
        bars = [torch.randn(y.shape, generator=generator, dtype=y.dtype) for y in moved]
        together += _gradients(moved, inputs, bars)
        for y, bar in zip(moved, bars, strict=True):
            _gradients([y], inputs, [bar])
    except Exception as error:  # of whatever kind: what is wrong with a formula is for its verdict
        reason = error.__cause__ if isinstance(error, derivatives.EvaluationError) else error
        # Whether a formula takes the undefined cotangents that one result alone leaves is for its verdict, too.
        if isinstance(reason, derivatives.EvaluationError | TypeError) and not together:
            raise NoCase(str(error)) from error
        if isinstance(reason, NotImplementedError):
            text = str(reason).partition(". This could be because")[0]
            raise NoCase("\n  ".join([*getattr(reason, "__notes__", ()), text])) from error
        return True
    return any(bool(gradient.any()) for gradient in together)


def _gradients(
    results: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor], bars: Sequence[torch.Tensor]
) -> list[torch.Tensor]:
    found = torch.autograd.grad(results, inputs, bars, allow_unused=True, retain_graph=True)
    return [gradient for gradient in found if gradient is not None]


def _moving(entry: derivatives.Entry, call: RecordedCall) -> list[str]:
    """The inputs with a formula, as arrays of numbers; none if the sample is empty, too large, or has no such."""
    names = [name for formula in entry.vjps for name in formula.names if name not in entry.not_implemented]
    moving = [name for name in names if is_double(call.arguments.get(name))]
    sizes = [call.arguments[name].size for name in moving]
    arrays = all(isinstance(y, np.ndarray) for y in call.results)
    if entry.name in _ONE_TRIANGLE and any(np.iscomplexobj(call.arguments[name]) for name in moving):
        return []  # those domains are of real numbers
    usable = arrays and all(0 < size <= _ENTRIES for size in sizes) and all(is_double(y) for y in call.results[:1])
    return moving if usable else []


def _is_taken(call: RecordedCall, moving: Sequence[str]) -> bool:
    """Whether PyTorch takes derivatives at all: of complex numbers it refuses some."""
    if not any(np.iscomplexobj(call.arguments[name]) for name in moving):
        return True
    operator = operator_of(call.name)
    given = {name: as_torch(value) for name, value in call.arguments.items()}
    try:
        operator(**{name: x.requires_grad_() if name in moving else x for name, x in given.items()})
    except RuntimeError as error:
        return "does not support automatic differentiation" not in str(error)
    return True


def _case(entry: derivatives.Entry, call: RecordedCall, moving: Sequence[str]) -> FormulaCase:
    domains, inputs = _domains(entry, call, moving), {name: call.arguments[name] for name in moving}
    spec = OpSpec(
        entry.name.replace(".", "_"),
        primal=compared_of_jax(entry, call, _primal(call, moving)),
        inputs=[domains[name].project(x) if name in domains else x for name, x in inputs.items()],
        input_names=list(moving),
        domains=domains,
        dtypes=["complex128" if any(np.iscomplexobj(call.arguments[name]) for name in moving) else "float64"],
    )
    by_entry, by_pytorch = (
        compared_of_torch(entry, call, _function(made, call, moving))
        for made in (partial(by_formulas, entry, moving), partial(of_pytorch, entry.name, moving))
    )
    return FormulaCase(by_entry, spec, _fixed(call, moving), by_pytorch)


def _function(
    made: Callable[[Mapping[str, Any]], Callable[..., Any]], call: RecordedCall, moving: Sequence[str]
) -> Callable[..., Any]:
    """A function of the moving inputs, `made` of the fixed ones; saved statistics, as constants, are of its input."""
    fixed, statistics_of = _fixed(call, moving), recomputed(call)
    if statistics_of is None or "input" not in moving:
        return made(fixed)

    def function(*inputs: torch.Tensor) -> Any:
        statistics = statistics_of(torch, inputs[moving.index("input")].detach())
        return made(fixed | dict(statistics))(*inputs)

    return function


def _domains(entry: derivatives.Entry, call: RecordedCall, moving: Sequence[str]) -> dict[str, Domain]:
    """The domain of an input of which one triangle is read."""
    name, domain = _ONE_TRIANGLE.get(entry.name, ("", ""))
    if name not in moving:
        return {}
    return {name: _UPPER if domain == "lower" and call.arguments.get("upper") else DOMAINS[domain]}


def _made_case(entry: derivatives.Entry, call: RecordedCall, moving: Sequence[str]) -> FormulaCase | None:
    """The case of an elementwise operator; in float32, too, where squares overflow that have room in float64.

    None if the reference does not take vectors of every length, as where PyTorch broadcasts a cotangent.
    """
    if not all(_takes(call, moving, (length,)) for length in (1, 4, 131)):
        return None
    spec = OpSpec(
        f"{entry.name.replace('.', '_')}, of each entry",
        primal=_primal(call, moving),
        signature=f"{','.join('(n)' for _ in moving)}->(n)",
        input_names=list(moving),
        domains={name: _domain_of(call.arguments[name]) for name in moving},
        dtypes=["float64", "float32"],
    )
    fixed = _fixed(call, moving)
    return FormulaCase(by_formulas(entry, moving, fixed), spec, fixed, of_pytorch(entry.name, moving, fixed))


def _takes(call: RecordedCall, moving: Sequence[str], shape: tuple[int, ...]) -> bool:
    """Whether the reference takes inputs of one shape."""
    try:
        jax.eval_shape(_primal(call, moving), *(jax.ShapeDtypeStruct(shape, np.float32) for _ in moving))
    except (IndexError, TypeError, ValueError, ZeroDivisionError):
        return False
    return True


def _domain_of(x: np.ndarray) -> str:
    """The widest domain of which PyTorch's own sample may be."""
    if not (x > 0).all():
        return "real"
    return "unit" if (x < 1).all() else "positive"


def _fixed(call: RecordedCall, moving: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in call.arguments.items() if name not in moving}


def _primal(call: RecordedCall, moving: Sequence[str]) -> Callable[..., Any]:
    """The reference as a function of these arguments, with the others of a call."""
    function, fixed, statistics_of = aten.OPERATORS[call.name], _fixed(call, moving), recomputed(call)

    def primal(*inputs: Any) -> Any:
        of_jax = {name: as_jax(value) for name, value in fixed.items()}  # here, since float64 may be off outside
        given = of_jax | dict(zip(moving, inputs, strict=True))
        statistics = statistics_of(jnp, given["input"]) if statistics_of else {}
        return function(**(given | dict(statistics)))

    return primal


def _is_elementwise(call: RecordedCall, moving: Sequence[str]) -> bool:
    """Whether vectors of other real numbers can be made for an operator, in any format."""
    if any(isinstance(value, np.dtype) for value in call.arguments.values()):  # the format of the result is fixed
        return False
    real = not any(np.iscomplexobj(x) for x in (*call.results, *(call.arguments[name] for name in moving)))
    return real and is_elementwise(call, moving)
