"""Checks of an OpSpec's fields: one of a wrong kind, or too large, is refused with the field's name and an example."""

from __future__ import annotations

import math
import numbers
import sys
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from parity_tests.harness.numbers.contracts import Arithmetic
from parity_tests.harness.numbers.formats import FORMATS
from parity_tests.harness.specs.signature import Signature

FORMULAS = ("vjp", "jvp", "vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp", "jvp_of_jvp")
LARGEST = sys.float_info.max
MOST_AXES = 8  # named axes: `samples` has this many distinct sizes
MOST_ENTRIES = 2**26  # per array: half a gigabyte in float64, and the harness holds a dozen at once
_OF_THE_CANDIDATE = (
    "it is the candidate's: give crosscheck(..., arithmetic=Arithmetic(...)), in a case file "
    "arithmetic = Arithmetic(...), or to one of several candidates Candidate(f, arithmetic=Arithmetic(...))"
)
_MAPPINGS = {
    "domains": '{"x": "positive"}',
    "params": '{"eps": 1e-5}',
    "blocks": '{"n": 64}',
    "kinks": '{"x": (-1.0, 1.0)}',
    "conventions": '{"x": "the reason"}',
    "equations": '{"x_bar": "equation (3)"}',
}
_SEQUENCES = {
    "input_names": '("x", "y")',
    "output_names": '("y",)',
    "constants": '("mask",)',
    "detached": '("target",)',
    "dtypes": '("float64",)',
    "optional": '("bias",)',
}


def check_kinds(spec: Any) -> None:
    """Check that each field of an OpSpec holds a value of the right kind.

    Raises:
        TypeError: a field holds a value of a wrong kind.
        ValueError: a kink is not a finite number, or a name cannot be written to a file.
    """
    check_text("OpSpec: name", spec.name)
    start = f"OpSpec {spec.name}: "
    for field, example in (("signature", '"(n,d)->(n)"'), ("sizes", '"n <= m"')):
        value = getattr(spec, field)
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{start}{field} must be text, such as {example}, got {value!r}")
    for field, example in _MAPPINGS.items():
        _check_mapping(start, field, getattr(spec, field), example)
    for field, example in _SEQUENCES.items():
        value = getattr(spec, field)
        if value is not None:
            _check_names(start, field, value, example)
    if not isinstance(spec.accurate, bool):
        raise TypeError(f"{start}accurate must be True or False, got {spec.accurate!r}")
    contracts = spec.arithmetic.values() if isinstance(spec.arithmetic, Mapping) else [spec.arithmetic]
    if not all(isinstance(contract, Arithmetic) or spec.arithmetic is None for contract in contracts):
        example = f'Arithmetic("float32"), got {spec.arithmetic!r}'
        raise TypeError(f"{start}arithmetic must be an Arithmetic, such as {example}; {_OF_THE_CANDIDATE}")
    inputs = spec.inputs
    if inputs is not None and (isinstance(inputs, str) or not isinstance(inputs, Sequence)):
        raise TypeError(f"{start}inputs must be a sequence of arrays; write inputs=(x,), got {type(inputs).__name__}")
    for name, values in spec.kinks.items():
        plain = isinstance(values, Collection) and not isinstance(values, str)
        if not plain or not all(isinstance(value, numbers.Real) for value in values):
            raise TypeError(
                f'{start}kinks["{name}"] must be a sequence of numbers, such as (-1.0, 1.0), got {values!r}'
            )
        for value in values:
            if not abs(value) <= LARGEST:  # pyright: ignore[reportArgumentType]
                raise ValueError(f'{start}kinks["{name}"] must be places of finite numbers, got {repr(value)[:40]}')
    for field in ("conventions", "equations"):
        for name, text in getattr(spec, field).items():
            if not isinstance(text, str):
                raise TypeError(f'{start}{field}["{name}"] must be text, got {text!r}')


def warn_of_alias(spec: Any) -> None:
    """Warn of `OpSpec(arithmetic=...)` at the line that calls `OpSpec` or `OpSpec.from_torch`; not of a copy."""
    if spec.arithmetic is None:
        return
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("parity_tests.harness.specs"):
        frame, level = frame.f_back, level + 1
    if frame.f_globals.get("__name__") != "dataclasses":  # replace, which has the alias from another spec
        text = f"OpSpec {spec.name}: arithmetic is deprecated here; {_OF_THE_CANDIDATE}"
        warnings.warn(text, DeprecationWarning, stacklevel=level)


def _check_mapping(start: str, field: str, value: object, example: str) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{start}{field} must be a dictionary, such as {example}, got {value!r}")
    for key in value:
        if not isinstance(key, str):
            raise TypeError(f"{start}the keys of {field} must be names, such as {example}, got {key!r}")


def _check_names(start: str, field: str, value: object, example: str) -> None:
    if isinstance(value, str):
        raise TypeError(f"{start}{field} must be a sequence of names; write {field}=({value!r},)")
    if not isinstance(value, Collection):
        raise TypeError(f"{start}{field} must be a sequence of names, such as {example}, got {value!r}")
    for name in value:
        if not isinstance(name, str):
            raise TypeError(f"{start}{field} must be a sequence of names, such as {example}; {name!r} is none")
        check_text(f"{start}{field}", name)


def check_text(what: str, name: str) -> None:
    """Raise a ValueError if a name cannot be written to a file."""
    if any("\ud800" <= c <= "\udfff" for c in name):
        raise ValueError(f"{what} {name!r} has half a character (a lone surrogate), which no file can hold")


def check_formulas(spec: Any) -> None:
    """Raise an error unless the functions of an OpSpec are callable, and no more than one says what its gradient is."""
    for role in ("primal", *FORMULAS, "surrogate"):
        f = getattr(spec, role)
        if not callable(f) and (role == "primal" or f is not None):
            raise TypeError(f"OpSpec {spec.name}: {role} must be a JAX function, got {type(f).__name__}")
    if spec.surrogate is not None and (spec.vjp is not None or spec.jvp is not None):
        raise ValueError(
            f"OpSpec {spec.name}: give either surrogate, a gradient that is no derivative, or vjp and jvp, not both"
        )


def check_dtypes(spec: Any) -> None:
    """Raise a ValueError unless the formats of an OpSpec, if it names any, exist and fit its inputs."""
    if spec.dtypes is None:
        return
    unknown = [name for name in spec.dtypes if name not in FORMATS]
    if unknown:
        raise ValueError(f"OpSpec {spec.name}: unknown dtype {unknown[0]!r}; there are {', '.join(FORMATS)}")
    if not spec.dtypes:
        raise ValueError(f"OpSpec {spec.name}: dtypes is empty, so nothing would be compared")
    for name in spec.dtypes:
        spec.check_dtype(name)


def check_distinct(name: str, inputs: Sequence[str], outputs: Sequence[str], signature: Signature | None) -> None:
    """Raise a ValueError if names are empty or repeated, or if `outputs` has another length than the signature."""
    for field, names in (("input_names", inputs), ("output_names", outputs)):
        if "" in names:
            raise ValueError(f"OpSpec {name}: {field} has an empty name; name each, such as ('x', 'y')")
        twice = next((one for one, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise ValueError(f"OpSpec {name}: {field} has {twice!r} twice; the names must differ")
    if outputs and signature is not None and len(outputs) != len(signature.outputs):
        raise ValueError(f"OpSpec {name}: {len(outputs)} output_names for {len(signature.outputs)} outputs")


def check_optional(name: str, inputs: Sequence[str], optional: Sequence[str], differentiated: Sequence[bool]) -> None:
    """Raise a ValueError if no input would be differentiated where all optional ones are absent."""
    if optional and not any(flag for x, flag in zip(inputs, differentiated, strict=True) if x not in optional):
        raise ValueError(
            f"OpSpec {name}: without {', '.join(optional)} no input is differentiated; "
            "leave one of them out of optional"
        )


def check_blocks(
    name: str, blocks: Mapping[str, object], signature: Signature | None, defined: Collection[str]
) -> None:
    """Raise an error unless each block is a size from 2 on of an axis whose size does not follow from others."""
    axes = [] if signature is None else [axis for axis in signature.axes if axis not in defined]
    for axis, size in blocks.items():
        if axis not in axes:
            listed = ", ".join(axes) or "none, since inputs are given"
            raise ValueError(f"OpSpec {name}: blocks names {axis!r}; the axes with sizes of their own are {listed}")
        if type(size) is not int:
            raise TypeError(f'OpSpec {name}: blocks["{axis}"] must be an integer, such as 64, got {size!r}')
        if size < 2:
            raise ValueError(f'OpSpec {name}: blocks["{axis}"] must be 2 or more, got {size}')


def check_extent(name: str, signature: Signature, sizes: Mapping[str, int]) -> None:
    """Raise a ValueError if a signature has too many axes, or its arrays exceed memory at their first sizes."""
    if len(signature.axes) > MOST_AXES:
        raise ValueError(
            f"OpSpec {name}: its signature has {len(signature.axes)} named axes, and at most {MOST_AXES} can be told "
            "apart by their sizes; write a number for those that need no name"
        )
    for i, shape in enumerate(signature.input_shapes(sizes)):
        if math.prod(shape) > MOST_ENTRIES:
            raise ValueError(
                f"OpSpec {name}: input {i} has the shape {shape}, which is {math.prod(shape) * 8 / 2**30:,.3g} GiB of "
                f"float64; at most {MOST_ENTRIES:,} entries can be judged: give smaller sizes"
            )


def dtype_name(x: object) -> str:
    """Return the name of an array's dtype, or the name of the type of any other object."""
    return str(x.dtype).removeprefix("torch.") if hasattr(x, "dtype") else type(x).__name__  # type: ignore[attr-defined]


def check_inputs(name: str, names: Sequence[str], inputs: Sequence[Any], whole: Sequence[Any]) -> None:
    """Raise an error if given inputs have a dtype of no format, or if they are no part of `whole`, if there is one."""
    for i, x in enumerate([*inputs, *whole]):
        dtype = dtype_name(x)
        if dtype not in FORMATS and not dtype.startswith(("int", "uint", "bool")):
            raise TypeError(
                f"OpSpec {name}: the input {names[i % len(names)]} is {dtype}; give arrays of {', '.join(FORMATS)} or "
                "of integers, and close over anything else: primal=lambda x: f(x, index)"
            )
    if whole:
        _check_given_size(name, [tuple(x.shape) for x in inputs], whole)


def _check_given_size(name: str, parts: Sequence[tuple[int, ...]], whole: Sequence[Any]) -> None:
    if not parts:
        raise ValueError(f"OpSpec {name}: given_size is about inputs that are given, and there is a signature instead")
    if len(whole) != len(parts):
        raise ValueError(f"OpSpec {name}: given_size has {len(whole)} arrays for {len(parts)} inputs; give all of them")
    for i, (x, shape) in enumerate(zip(whole, parts, strict=True)):
        if len(x.shape) != len(shape) or any(n < m for n, m in zip(x.shape, shape, strict=True)):
            raise ValueError(
                f"OpSpec {name}: input {i} has the shape {shape}, which is no part of {tuple(x.shape)}, the shape that "
                "given_size has; inputs must be a part of given_size"
            )
