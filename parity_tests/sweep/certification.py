"""How a function of `jax_ref.aten` is certified on a call of the operator: values, and JAX's derivatives of it.

Values are PyTorch's to half of their digits: another function, another convention or a shifted index differ in more,
and how many of the last digits are right is a question for `crosscheck`. Of what rounding leaves where terms cancel,
as the gradient of a layer norm over one entry, no digits are right: there PyTorch's own results move as far if its
arguments are rounded. JAX's derivatives are those of the values, by
differences; the VJP is the transpose of the JVP.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from parity_tests.harness.numbers.formats import FORMATS
from parity_tests.sweep.comparison import HALF, HALF_OF_THE_DIGITS, MOST
from parity_tests.sweep.invariants import ANY_OF_EQUAL, CONSTANT, INVARIANTS, NOT_COMPARED, SURROGATES
from parity_tests.sweep.recorded_calls import RecordedCall, results_of_pytorch

Arrays = list[np.ndarray]
_STEP = 2.0**-10  # of differences, whose error is its fourth power; no tolerance
_KINK = 0.75  # a slope that halves with the step is a second derivative; one that stays is a kink


@dataclass(frozen=True)
class Disagreement:
    """A way in which a function is wrong on a call: its kind, "values", "JVP" or "VJP", and a sentence."""

    kind: str
    text: str


def certify(
    function: Callable[..., Any],
    call: RecordedCall,
    derivatives: bool = True,
    compiled: MutableMapping[Any, Callable[..., Any]] | None = None,
) -> list[Disagreement]:
    """Return what is wrong with a function on a call, in float64; nothing if it is certified there.

    `compiled`: the function, compiled for earlier calls; one that differs in its numbers only is not compiled again.
    """
    with jax.enable_x64(True):
        given = _compared(call, call.results)
        as_called, inputs = _of_its_numbers(function, call)
        results_of = jax.jit(as_called)
        if compiled is not None:
            results_of = compiled.setdefault((call.signature, _of_integers(call.arguments)), results_of)
        try:
            try:
                found = _compared(call, results_of(*inputs))
            except jax.errors.JAXTypeError:  # an operator whose result's shape, or Python value, is up to the numbers
                results_of = as_called
                found = _compared(call, results_of(*inputs))
        except Exception as error:  # of whatever kind: it is told
            return [Disagreement("values", f"raises {type(error).__name__}: {str(error).splitlines()[:1]}")]
        wrong = _values(found, given)
        if wrong and len(found) == len(given):
            wrong = _values(found, given, _moved_by_rounding(call))
        if wrong or not derivatives or call.name.partition(".")[0] in (*CONSTANT, *SURROGATES):
            return wrong
        return _derivatives(lambda *xs: _compared(call, results_of(*xs)), inputs, compiled=results_of is not as_called)


def _of_its_numbers(
    function: Callable[..., Any], call: RecordedCall
) -> tuple[Callable[..., tuple[Any, ...]], list[jax.Array]]:
    """The results as a function of the call's real and complex arrays, and these arrays.

    So that the function is compiled as a whole: one by one its operations take twice as long to compile.
    """
    leaves, tree = jax.tree.flatten(_as_jax(dict(call.arguments)))
    moving = [i for i, x in enumerate(leaves) if _is_inexact(x)]

    def results_of(*inputs: jax.Array) -> tuple[Any, ...]:
        whole = list(leaves)
        for i, x in zip(moving, inputs, strict=True):
            whole[i] = x
        return _results(function(**jax.tree.unflatten(tree, whole)))

    return results_of, [leaves[i] for i in moving]


def _of_integers(value: Any) -> Any:
    """Return the arrays of integers and masks in a value, as bytes: constants of the compiled function of a call."""
    if isinstance(value, np.ndarray):
        return None if value.dtype.kind in "fc" else value.tobytes()
    if isinstance(value, Mapping):
        return _of_integers(list(value.values()))
    return tuple(_of_integers(each) for each in value) if isinstance(value, list) else None


def _as_jax(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return jnp.asarray(value)
    if isinstance(value, Mapping):
        return {key: _as_jax(each) for key, each in value.items()}
    return [_as_jax(each) for each in value] if isinstance(value, list) else value


def _results(results: Any) -> tuple[Any, ...]:
    return tuple(results) if isinstance(results, list | tuple) else (results,)


def _compared(call: RecordedCall, results: Sequence[Any]) -> list[Any]:
    """The results that are compared, or what does not depend on a choice that an operator leaves open."""
    packet = call.name.partition(".")[0]
    if packet in INVARIANTS:
        return list(INVARIANTS[packet](call.arguments, *results))
    if packet in ANY_OF_EQUAL and len(results) == 2:
        return [results[0], _entries_at(results[1], call.arguments)]
    skipped = NOT_COMPARED.get(packet, ())
    return [y for i, y in enumerate(results) if i not in skipped]


def _entries_at(index: Any, arguments: Mapping[str, Any]) -> Any:
    """The entries of self at the index that a reduction of one axis returns."""
    x, places, dim = jnp.asarray(arguments["self"]), jnp.asarray(index), arguments["dim"]
    if not x.ndim:
        return x
    if arguments.get("keepdim", False):
        return jnp.take_along_axis(x, places, dim)
    return jnp.take_along_axis(x, jnp.expand_dims(places, dim), dim).squeeze(dim)


def _moved_by_rounding(call: RecordedCall) -> list[float]:
    """How far each result of PyTorch's moves at most if its arguments are rounded at random, four times that."""

    def results(arguments: Mapping[str, Any]) -> Arrays:
        return [np.asarray(y) for y in _compared(call, results_of_pytorch(call.name, arguments))]

    rng, given = np.random.default_rng(0), results(call.arguments)
    farthest = [0.0] * len(given)
    for _ in range(8):
        moved = results({key: _rounded(value, rng) for key, value in call.arguments.items()})
        for i, (x, y) in enumerate(zip(moved, given, strict=True)):
            if x.dtype.kind in "fc" and x.shape == y.shape:
                both = np.isfinite(x) & np.isfinite(y)
                farthest[i] = max(farthest[i], 4 * float(np.abs(x[both] - y[both]).max(initial=0)))
    return farthest


def _rounded(value: Any, rng: np.random.Generator) -> Any:
    if isinstance(value, list):
        return [_rounded(each, rng) for each in value]
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "fc":
        return value
    moved = value * (1 + 2 * FORMATS[value.dtype.name].u * rng.choice([-1, 1], value.shape))
    return np.asarray(moved, value.dtype)  # what NumPy multiplies without axes is no array any more


def _values(found: Sequence[Any], given: Sequence[Any], slack: Sequence[float] | None = None) -> list[Disagreement]:
    if len(found) != len(given):
        return [Disagreement("values", f"{len(found)} results where PyTorch has {len(given)}")]
    wrong = []
    for i, (mine, other) in enumerate(zip(found, given, strict=True)):
        x, y = np.asarray(mine), np.asarray(other)
        if x.shape != y.shape or x.dtype != y.dtype:
            text = f"result {i} is {x.dtype} of shape {x.shape} where PyTorch has {y.dtype} of shape {y.shape}"
            wrong.append(Disagreement("values", text))
        elif not _equal(x, y, slack[i] if slack else 0.0):
            wrong.append(Disagreement("values", f"result {i} differs by {_largest_difference(x, y):.2g}"))
    return wrong


def _equal(x: np.ndarray, y: np.ndarray, slack: float = 0.0) -> bool:
    """Equal to half of the digits of the largest finite entry; infinities and NaN at the same places."""
    if x.dtype.kind not in "fc":
        return np.array_equal(x, y)
    finite = np.isfinite(y)
    if x.dtype.kind == "c":  # by the modulus, since a part may be what rounding leaves of 0
        others = [(part(x[~finite]), part(y[~finite])) for part in (np.real, np.imag)]
        if not all(_equal(mine, other) for mine, other in others):
            return False
    elif not np.array_equal(x[~finite], y[~finite], equal_nan=True):
        return False
    scale = np.abs(y[finite]).max(initial=0)
    u = FORMATS[x.dtype.name].u
    room = u**HALF * np.abs(y[finite]) + u**MOST * scale + slack
    return bool((np.abs(x[finite] - y[finite]) <= room).all())


def _largest_difference(x: np.ndarray, y: np.ndarray) -> float:
    with np.errstate(invalid="ignore"):
        return float(np.nanmax(np.abs(x.astype(complex) - y.astype(complex)), initial=0))


def _derivatives(
    results_of: Callable[..., list[Any]], inputs: Sequence[jax.Array], compiled: bool
) -> list[Disagreement]:
    """The JVP against differences, along a random direction, and the VJP against the JVP."""
    if not any(x.size for x in inputs) or not all(map(_is_double, inputs)):
        return []  # in float32 differences have no digits

    def outputs(*inputs: jax.Array) -> list[jax.Array]:
        return [y for y in results_of(*inputs) if _is_inexact(y)]

    def both_modes(inputs: Any, tangents: Any, cotangents: Any) -> tuple[Any, Any]:
        return jax.jvp(outputs, inputs, tangents)[1], jax.vjp(outputs, *inputs)[1](cotangents)

    values = outputs(*inputs)
    if not values or not all(map(_is_double, values)):
        return []
    rng = np.random.default_rng(0)
    tangents = [_random_like(x, rng) for x in inputs]
    cotangents = [_random_like(y, rng) for y in values]
    try:
        slopes, gradients = (jax.jit(both_modes) if compiled else both_modes)(inputs, tangents, cotangents)
    except Exception as error:  # of whatever kind: it is told
        return [Disagreement("JVP", f"raises {type(error).__name__}: {str(error).splitlines()[:1]}")]
    wrong = _against_differences(outputs, inputs, tangents, slopes, _STEP)
    if wrong:  # unless a kink lies within the step
        wrong = _against_differences(outputs, inputs, tangents, slopes, _STEP / 64)
    return wrong or _transposed(tangents, slopes, cotangents, gradients)


def _is_inexact(x: Any) -> bool:
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.inexact)


def _is_double(x: jax.Array) -> bool:
    return x.dtype in (jnp.float64, jnp.complex128)


def _random_like(x: jax.Array, rng: np.random.Generator) -> jax.Array:
    y = rng.standard_normal(x.shape)
    return jnp.asarray(y + 1j * rng.standard_normal(x.shape) if jnp.iscomplexobj(x) else y, x.dtype)


def _against_differences(
    outputs: Callable[..., list[jax.Array]],
    inputs: Sequence[jax.Array],
    tangents: Sequence[jax.Array],
    slopes: Any,
    width: float,
) -> list[Disagreement]:
    """Where differences have a limit, the slopes are it: where they converge as the step halves, at no kink."""

    def at(step: float) -> Arrays:
        return [np.asarray(y) for y in outputs(*(x + step * v for x, v in zip(inputs, tangents, strict=True)))]

    middle, (ahead, behind), (near, back) = at(0.0), (at(width), at(-width)), (at(width / 2), at(-width / 2))
    wrong = []
    for i, slope in enumerate(map(np.asarray, slopes)):
        with np.errstate(invalid="ignore", over="ignore"):
            wide = (ahead[i] - behind[i]) / (2 * width)
            narrow = (near[i] - back[i]) / width
            best = (4 * narrow - wide) / 3
            bend, half = (
                np.abs(a[i] - 2 * middle[i] + b[i]) / step
                for a, b, step in ((ahead, behind, width), (near, back, width / 2))
            )
            scale = np.abs(best) + np.abs(middle[i]) + 1
            smooth = np.isfinite(best) & ((half <= _KINK * bend) | (bend <= HALF_OF_THE_DIGITS * scale))
            error = np.abs(slope - best)
            allowed = 2 * np.abs(best - narrow) + HALF_OF_THE_DIGITS * scale
            bad = smooth & ~(error <= allowed)
        if bad.any():
            place = np.unravel_index(np.argmax(np.where(bad, error, 0)), bad.shape)
            text = f"of result {i} at {tuple(map(int, place))} is {slope[place]:.6g}, differences {best[place]:.6g}"
            wrong.append(Disagreement("JVP", text))
    return wrong


def _transposed(tangents: Any, slopes: Any, cotangents: Any, gradients: Any) -> list[Disagreement]:
    """<cotangents, J tangents> = <Jᵀ cotangents, tangents>."""

    def inner(xs: Any, ys: Any) -> tuple[float, float]:
        with np.errstate(invalid="ignore", over="ignore"):
            terms = [np.real(np.asarray(x) * np.asarray(y)).ravel() for x, y in zip(xs, ys, strict=True)]
            whole = np.concatenate(terms) if terms else np.zeros(0)
            return float(whole.sum()), float(np.abs(whole).sum())

    (left, size), (right, other) = inner(cotangents, slopes), inner(gradients, tangents)
    if not np.isfinite(left) or abs(left - right) <= HALF_OF_THE_DIGITS * (size + other):
        return []
    return [Disagreement("VJP", f"is not the JVP's transpose: {right:.9g} where it gives {left:.9g}")]
