"""The specification of an operator: what a candidate should compute, as data."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import torch

from parity_tests.harness.numbers.contracts import Arithmetic
from parity_tests.harness.numbers.formats import COMPLEX, FORMATS, PRECISIONS
from parity_tests.harness.specs.arguments import Tree, check_names, is_flat, leaves, mapped
from parity_tests.harness.specs.domains import (
    COMPLEX_NUMBERS,
    Domain,
    EmptyDomain,
    Sampler,
    constant,
    domain_of,
    draws_integers,
    integer,
    is_sampler,
    undifferentiated,
)
from parity_tests.harness.specs.records import Input, Output, names_in, without_records
from parity_tests.harness.specs.signature import Signature
from parity_tests.harness.specs.size_rules import SizeRules, axis_sizes, resolved
from parity_tests.harness.specs.spec_kinds import (
    FORMULAS as FORMULAS,
)
from parity_tests.harness.specs.spec_kinds import (
    check_blocks,
    check_distinct,
    check_dtypes,
    check_extent,
    check_formulas,
    check_inputs,
    check_kinds,
    check_optional,
    dtype_name,
    warn_of_alias,
)

ArrayLike = np.ndarray | jax.Array | torch.Tensor
# The default name of a single output, and of several with a number at its end: the first that no input's name has.
_OUTPUT = ("output", "result", "returned", "value")


@dataclass(frozen=True)
class OpSpec:
    """The specification of an operator in JAX.

    Attributes:
        name: the operator's name in reports.
        primal: the plain JAX function (inputs...) -> output or tuple of outputs. Its dtypes must follow its inputs';
            of real inputs an output may be complex, and of complex ones real.
            It may return a dictionary or named tuple, nested ones, too: then so does the candidate, and its outputs
            are matched by name; the signature has them in the order of JAX, that of the sorted keys. Outputs that are
            integers or booleans must be equal where rounding cannot change them; they have no derivative, and no
            cotangent among the arguments of `vjp`.
        signature: a NumPy gufunc signature, "(n,d),(m,d),(m,e)->(n,e),(n,m)"; inputs of many sizes are made from it.
            "(...,d),(d)->(...,d)" is an operator whose inputs may have any number of leading axes; it is judged with
            none, one, two and three.
        sizes: rules for the sizes of the axes, which the samples keep to: "n <= m, d in (16, 64), k = 2*h, c >= 1,
            h % 4 == 0, r = min(n, d)". An axis of an output that no input has is defined by them, unless it is always
            of one size.
        blocks: the sizes of a kernel's blocks along axes, {"n": 64}. Forward, vjp and jvp are judged with all of these
            axes at one block, one entry less, one entry more, at three blocks, and at a prime number beyond two.
        inputs: instead of a signature, the arrays (NumPy, JAX or torch) to judge at. Exactly one of the two is given.
            An item may be a dictionary, list, tuple or named tuple of arrays. Each array is an input then, named by
            what leads to it ("params.weight"), and `arguments` follows from them.
        given_size: larger arrays, of which `inputs` are a part: the check `given_size` alone judges at them.
        arguments: what the primal and the candidate are called with, where that is not one array an argument: a tuple
            with the inputs' names in the place of the arrays, `("x", {"weight": "w", "bias": "b"})`. The inputs are in
            this order, unless `input_names` has another. Everything else (vjp, domains, ...) is about the inputs.
        vjp: optional explicit formula (primals..., output cotangents...) -> input cotangents; `None` for an exact zero,
            in arguments and results. Judges in place of JAX autodiff of `primal`, once autodiff has certified it.
        jvp: optional explicit formula (primals..., tangents...) -> output tangents.
        surrogate: instead of vjp and jvp, a gradient that is a choice and no derivative of the primal, as that of a
            straight-through estimator; with the arguments and results of `vjp`. It must be linear in the cotangents. It
            is compared with as it is, at kinks, too; so is its transpose, as the JVP; second order is its derivative.
            If the candidate's values are x + (q - x).detach(), write that into the primal: it rounds more.
        vjp_of_vjp, jvp_of_vjp, vjp_of_jvp, jvp_of_jvp: optional explicit formulas of second order; each takes the
            arguments of the inner formula, then the outer one's cotangents or tangents.
        input_names, output_names: names for messages; by default the parameters of `primal`, and the keys of what it
            returns, or output0, output1, ... In place of a name an `Input` or `Output` says all of one at once:
            `[Input("x", "positive", kinks=(1.0,)), Input("mask", constant=True), "w"]`.
        domains: where an input lies, by its name: "real" (the default), "extended" (and infinite, as a mask of -inf: at
            special points a difference at an infinity fails, and is only reported of other domains), "positive", "unit"
            (the open interval from 0 to 1), "nonzero", "distinct" (entries), "sorted" (in ascending order along the
            last axis), "probabilities" (positive, with the sum 1 along the last axis); of matrices "symmetric",
            "definite" (and symmetric), "lower" (triangular), "well-conditioned" (square), "orthogonal" (orthonormal
            columns); `integer(low, high)`, a `Domain`, or a sampler (generator, shape) -> array. Integers are not
            differentiated, and are handed to both sides as int64; so are those that a sampler draws, and booleans as
            booleans. "complex": a complex input beside real ones, complex128 in float64 and complex64 in float32.
            Derivatives are compared along the directions of the domain only: what a gradient has outside of it (above
            the diagonal of "lower", the antisymmetric part of "symmetric") is reported as a convention, with its size.
        constants: the names of floating-point inputs that are not differentiated.
        detached: the names of inputs that the primal uses behind `lax.stop_gradient` only. Their gradient must be 0, or
            None; beyond first order nothing is asked of them. `from_torch` finds them by itself.
        optional: the names of inputs that may be absent, such as ["bias"]. The primal and the candidate are also called
            with None in their place, one by one and all together. So are the formulas, with None for the tangent or
            cotangent of what is absent too; they return None, or anything, for its gradient.
        dtypes: the dtypes in which the operator exists and is judged: float64, float32, bfloat16, float16, complex128,
            complex64; ["bfloat16", "float16"] for one of 16 bits only. By default the four real ones, or, if complex
            inputs are given, the two complex ones. In a complex one every floating-point input is complex, its parts
            drawn as real numbers are, and must be in the domain "real"; if a given input is complex, every given input
            keeps its own kind. The 16-bit dtypes have no complex numbers.
            Formulas follow JAX's convention: a VJP is the transpose, without a conjugate.
        params: keyword parameters, handed to the primal and to the candidate; not differentiated. `AxisSize("d")` in
            one of them stands for the size of the axis d.
        kinks: values of an input, by its name, at which it is also judged: {"x": (-1.0, 1.0)}. Zero, and the numbers
            that the primal's program has in it, need not be listed.
        conventions: inputs or outputs for which the oracle's choice at a kink is binding, with the reason:
            {"x": "its gradient at 0 is 0, as in the paper"}. Otherwise all between the one-sided derivatives is
            right, and reported as a convention.
        accurate: True if a result that has lost digits is wrong, although the oracle's formula loses as many, where the
            problem does not force anybody to lose them. Otherwise it is only reported: LOSES DIGITS.
        arithmetic: deprecated: what the candidates round in the 16-bit dtypes, or one by name for each of several;
            see `crosscheck(..., arithmetic=...)` and `Candidate`.
        equations: where a result is derived, for messages: {"k_bar": "equation (11) in derivation/attn.md"}.

    Raises:
        TypeError, ValueError: a field that cannot be used, with the remedy.
    """

    name: str
    primal: Callable
    signature: str | None = None
    inputs: Sequence[ArrayLike | Tree] | None = None
    vjp: Callable | None = None
    jvp: Callable | None = None
    surrogate: Callable | None = None
    vjp_of_vjp: Callable | None = None
    jvp_of_vjp: Callable | None = None
    vjp_of_jvp: Callable | None = None
    jvp_of_jvp: Callable | None = None
    input_names: Sequence[str | Input] | None = None
    output_names: Sequence[str | Output] | None = None
    domains: Mapping[str, str | Domain | Sampler] = field(default_factory=dict)
    constants: Sequence[str] = ()
    dtypes: Sequence[str] | None = None
    params: Mapping[str, object] = field(default_factory=dict)
    kinks: Mapping[str, Sequence[float]] = field(default_factory=dict)
    conventions: Mapping[str, str] = field(default_factory=dict)
    equations: Mapping[str, str] = field(default_factory=dict)
    sizes: str | None = None
    arguments: Sequence[Tree] | None = None
    accurate: bool = False
    optional: Sequence[str] = ()
    blocks: Mapping[str, int] = field(default_factory=dict)
    arithmetic: Arithmetic | Mapping[str, Arithmetic] | None = None
    given_size: Sequence[ArrayLike] = ()
    detached: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"OpSpec: name must be a non-empty string, got {self.name!r}")
        for field_name, value in without_records(self).items():
            object.__setattr__(self, field_name, value)
        check_formulas(self)
        check_kinds(self)
        if (self.signature is None) == (self.inputs is None):
            raise ValueError(
                f"OpSpec {self.name}: give either a signature, such as '(n,d),(m,d)->(n,m)', or inputs, not "
                + ("both" if self.inputs is not None else "neither")
            )
        self._arrange()
        if self.count == 0:
            raise ValueError(f"OpSpec {self.name}: inputs is empty; an operator without inputs has no derivative")
        if self.input_names is not None and len(self.input_names) != self.count:
            raise ValueError(f"OpSpec {self.name}: {len(self.input_names)} input_names for {self.count} inputs")
        names = self.names
        check_distinct(self.name, names, names_in(self.output_names or ()), self.parsed)
        for field_name in ("domains", "constants", "detached", "kinks", "optional"):
            unknown = [name for name in getattr(self, field_name) if name not in names]
            if unknown:
                raise ValueError(
                    f"OpSpec {self.name}: {field_name} names {unknown[0]!r}; the inputs are {', '.join(names)}"
                )
        for what in self.domains.values():
            try:
                domain_of(what)
            except (TypeError, ValueError) as error:
                raise type(error)(f"OpSpec {self.name}: {error}") from error
        check_dtypes(self)
        self._check_sizes()
        check_inputs(self.name, names, self.inputs or (), self.given_size)
        domains = zip(names, self.drawn_from, strict=True)
        moving = [domain.differentiable and name not in self.detached for name, domain in domains]
        if not any(moving):
            drawn = ", ".join(sorted(self._integer_inputs))
            remedy = f" (integers are drawn for {drawn}; multiply by 1.0 for real numbers)" if drawn else ""
            raise ValueError(
                f"OpSpec {self.name}: no input is differentiated{remedy}; an operator without one has no derivative"
            )
        check_optional(self.name, names, self.optional, moving)
        warn_of_alias(self)

    @classmethod
    def from_torch(
        cls,
        reference: Callable,
        signature: str | None = None,
        *,
        inputs: str | Sequence[ArrayLike | Tree] | None = None,
        name: str | None = None,
        **fields: Any,
    ) -> OpSpec:
        """Return the specification of what a function of PyTorch computes; JAX alone differentiates it.

        Args:
            reference: a function, or a module, whose parameters are inputs, too, as those of a candidate. Its graph
                is computed by `jax_ref.aten`; casts between floating-point formats do nothing.
            signature: that of `OpSpec`.
            inputs: instead of it, the arrays to judge at, or the inputs in one line, "x: (n,d), w: (d), y: (n)
                integer(0,d)"; the axes of the outputs are then found, and a module's parameters come last.
            name: the operator's name in reports; by default the reference's.
            fields: further fields of `OpSpec`, such as params, domains, sizes, dtypes.

        Raises:
            TypeError, ValueError: a field that cannot be used, or a reference that cannot be made a function of JAX.
        """
        from parity_tests.harness.specs.from_torch import as_spec

        return as_spec(reference, signature, inputs, name, **fields)

    def _arrange(self) -> None:
        """Make `inputs` a flat sequence, and check `arguments`, which says how they are handed over."""
        if self.inputs is not None and not is_flat(self.inputs):
            if self.arguments is not None:
                raise ValueError(
                    f"OpSpec {self.name}: inputs are nested, so that arguments follow from them; omit these"
                )
            self._flatten(self.inputs)
        if self.arguments is None:
            return
        if self.input_names is None:
            object.__setattr__(self, "input_names", tuple(dict.fromkeys(name for _, name in leaves(self.arguments))))
        try:
            check_names(self.arguments, names_in(self.input_names or ()))
        except (TypeError, ValueError) as error:
            raise type(error)(f"OpSpec {self.name}: {error}") from error

    def _flatten(self, inputs: Sequence[Tree]) -> None:
        parameters = self._parameters()
        if len(parameters) < len(inputs):
            parameters = tuple(f"input{i}" for i in range(len(inputs)))
        named = zip(parameters, inputs, strict=False)
        found = [(".".join((first, *path)), x) for first, tree in named for path, x in leaves(tree)]
        names = self.input_names or tuple(name for name, _ in found)
        if len(names) != len(found):
            raise ValueError(f"OpSpec {self.name}: {len(names)} input_names for {len(found)} inputs")
        in_order = iter(names)
        object.__setattr__(self, "arguments", tuple(mapped(lambda _: next(in_order), tree) for tree in inputs))
        object.__setattr__(self, "input_names", tuple(names))
        object.__setattr__(self, "inputs", tuple(x for _, x in found))

    def arranged(self, inputs: Sequence) -> Sequence:
        """Return these inputs as the arguments of the primal and of the candidate."""
        if self.arguments is None:
            return inputs
        by_name = dict(zip(self.names, inputs, strict=True))
        return mapped(by_name.__getitem__, tuple(self.arguments))

    def _check_sizes(self) -> None:
        signature = self.parsed
        if signature is None:
            if self.sizes is not None:
                raise ValueError(f"OpSpec {self.name}: sizes are rules for the axes of a signature, and there is none")
        else:
            sizes = dict.fromkeys(signature.axes, 4)
            try:
                sizes = self.size_rules.nearest(sizes) if self.sizes is not None else sizes
            except ValueError as error:
                raise ValueError(f"OpSpec {self.name}: {error}") from error
            except EmptyDomain as error:
                raise ValueError(f"OpSpec {self.name}: sizes {self.sizes!r}: {error}") from error
            check_extent(self.name, signature, sizes)
        check_blocks(self.name, self.blocks, signature, self.size_rules.defined)
        known = {*(signature.core if signature else ()), *self.size_rules.defined}
        unknown = sorted(axis_sizes(self.params) - known)
        if unknown:
            listed = ", ".join(sorted(known)) or "none, since inputs are given"
            raise ValueError(f"OpSpec {self.name}: params names the axis {unknown[0]!r}; the axes are {listed}")

    def check_dtype(self, name: str) -> None:
        """Check that the operator can be judged in this format.

        Raises:
            ValueError: its inputs are given as complex numbers, and the format is of real ones.
        """
        if name not in COMPLEX and self._given_complex:
            raise ValueError(
                f"OpSpec {self.name}: the given inputs are complex, so it cannot be judged in {name}; "
                f"dtypes are {' and '.join(COMPLEX)}"
            )

    def exists_in(self, name: str) -> bool:
        """Return whether the operator exists in this format: in any, unless `dtypes` says in which."""
        return self.dtypes is None or name in self.dtypes

    @property
    def formats(self) -> tuple[str, ...]:
        """The names of the formats in which the operator is judged."""
        if self.dtypes is not None:
            return tuple(self.dtypes)
        if self._given_complex:
            return tuple(COMPLEX)
        declared = any(domain is COMPLEX_NUMBERS for domain in self.drawn_from)
        return tuple(name for name, p in PRECISIONS.items() if not declared or p.complex_name is not None)

    @property
    def _given_complex(self) -> bool:
        return any(dtype_name(x) in COMPLEX for x in self.inputs or ())

    @property
    def count(self) -> int:
        """The number of inputs, differentiated or not."""
        return len(self.parsed.inputs) if self.parsed else len(self.inputs or ())

    @property
    def parsed(self) -> Signature | None:
        """The parsed signature; None if the spec has fixed inputs."""
        return None if self.signature is None else Signature.parse(self.signature)

    @property
    def size_rules(self) -> SizeRules:
        """The parsed rules for the sizes of the axes."""
        signature = self.parsed
        if signature is None or self.sizes is None:
            return SizeRules()
        of_outputs = {axis for axes in signature.outputs for axis in axes if not axis.isdigit()}
        return SizeRules.parse(self.sizes, signature.core, of_outputs)

    def params_at(self, sizes: Mapping[str, int]) -> Mapping[str, object]:
        """Return the keyword parameters at these sizes of the axes: an `AxisSize` becomes an integer."""
        return {name: resolved(parameter, sizes) for name, parameter in self.params.items()}

    @property
    def params_have_sizes(self) -> bool:
        """True if a keyword parameter depends on the size of an axis."""
        return bool(axis_sizes(self.params))

    @property
    def drawn_from(self) -> tuple[Domain, ...]:
        """The domain of each input."""
        domains = []
        for i, name in enumerate(self.names):
            x = self.inputs[i] if self.inputs else None
            if x is not None and dtype_name(x) not in FORMATS:
                domains.append(integer(0, 1))  # given as it is; nothing is drawn
                continue
            domain = domain_of(self.domains.get(name, "real"))
            if name in self._integer_inputs:
                domain = undifferentiated(domain)
            domains.append(constant(domain) if name in self.constants and domain.differentiable else domain)
        return tuple(domains)

    @functools.cached_property
    def _integer_inputs(self) -> frozenset[str]:
        """The names of the inputs whose samplers draw integers or booleans, found by one small draw of each."""
        if self.parsed is None:
            return frozenset()
        shapes = self.parsed.input_shapes(dict.fromkeys(self.parsed.axes, 2))
        named = [(name, self.domains.get(name), shape) for name, shape in zip(self.names, shapes, strict=True)]
        return frozenset(name for name, what, shape in named if is_sampler(what) and draws_integers(what, shape))

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each input."""
        if self.input_names is not None:
            return names_in(self.input_names)
        names, count = self._parameters(), self.count
        return names[:count] if len(names) >= count else tuple(f"input{i}" for i in range(count))

    def _parameters(self) -> tuple[str, ...]:
        """The names of the primal's positional parameters."""
        try:
            parameters = inspect.signature(self.primal).parameters.values()
        except ValueError:  # a builtin has no signature to read
            parameters = ()
        return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))

    def names_of_outputs(self, count: int) -> tuple[str, ...]:
        """Return a name for each output."""
        if self.output_names is not None and len(self.output_names) == count:
            return names_in(self.output_names)
        taken = self.names
        base = next(base for base in _OUTPUT if not any(re.match(rf"{base}\d*(_bar|_dot)*$", name) for name in taken))
        return (base,) if count == 1 else tuple(f"{base}{i}" for i in range(count))
