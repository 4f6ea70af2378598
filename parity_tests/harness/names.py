"""The names that options accept, without the objects they stand for: PyTorch and JAX take seconds to import."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

QUICK = "quick run: "  # how the line begins that says how little a quick run judges
DEVICES = ("cpu", "cuda")  # where nobody names any; see `numbers.devices` for all that there are

# Every check, in the order in which they run, with its `Check.maps`: a line registers `checks/<name>.py`.
MAPS: dict[str, tuple[str, ...]] = {
    "forward": (),
    "vjp": ("vjp",),
    "vjp_partial": ("vjp",),
    "jvp": ("jvp",),
    "adjoint": ("vjp", "jvp"),
    "vjp_of_vjp": ("vjp_of_vjp",),
    "jvp_of_vjp": ("jvp_of_vjp",),
    "vjp_of_jvp": ("vjp_of_jvp",),
    "jvp_of_jvp": ("jvp_of_jvp",),
    "input_subsets": ("vjp",),
    "aliases": ("vjp",),
    "accumulation": ("vjp",),
    "captured": (),
    "nonfinite_cotangents": ("vjp",),
    "points": ("vjp", "jvp"),
    "points_second_order": ("vjp", "vjp_of_vjp", "jvp_of_vjp"),
    "exact": ("vjp", "jvp", "vjp_of_vjp"),
    "digits": ("vjp", "jvp"),
    "low_precision": ("vjp", "jvp"),
    "layouts": ("vjp", "jvp"),
    "linearity": ("vjp",),
    "purity": (),
    "modes": ("vjp",),
    "mixed_dtypes": ("vjp",),
    "in_place": ("vjp",),
    "retain_graph": ("vjp",),
    "interleaved": ("vjp",),
    "determinism": ("vjp",),
    "saved_tensors": ("vjp",),
    "checkpoint": ("vjp",),
    "leaks": (),
    "vmap": ("vjp", "jvp"),
    "functorch": ("vjp", "jvp", "vjp_of_vjp", "jvp_of_vjp", "vjp_of_jvp"),
    "fake": (),
    "make_fx": ("vjp",),
    "compile": ("vjp",),
    "autocast": ("vjp",),
    "opcheck": (),
    "int32_offsets": ("vjp",),
    "large_sizes": ("vjp",),
    "raises": (),
    "shortcuts": ("vjp",),
    "race": (),
    "proof": ("vjp",),
    "third_order": ("vjp_of_vjp_of_vjp",),
    "given_size": ("vjp",),
}
CHECKS = tuple(MAPS)
# Those with `Check.on_request`, and those with `Check.costly`; a test holds them together.
ON_REQUEST = frozenset(
    {"given_size", "int32_offsets", "large_sizes", "proof", "raises", "race", "shortcuts", "third_order"}
)
COSTLY = frozenset({"determinism", "vmap"})
# The keys of `formats.FORMATS`, in their order; a test holds them together.
FORMATS = ("float64", "float32", "bfloat16", "float16", "complex128", "complex64")


def one_of(kind: str, name: str, known: Sequence[str]) -> str:
    """The name, if it is known.

    Raises:
        ValueError: it is not; the message has the nearest, and the known ones unless they are too many for a line.
    """
    if name not in known:
        many = kind == "check"
        listed = "gradparity checks lists them" if many else f"there are {', '.join(known)}"
        raise ValueError(f"unknown {kind} {name!r}{nearest(str(name), known)}; {listed}")
    return name


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a question for the known name nearest to this one: " (did you mean 'vjp'?)"; empty if nothing is near."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def selected(kind: str, names: Iterable[str], known: Sequence[str]) -> list[str]:
    """These names, in the order of the known ones.

    Raises:
        TypeError: a string in place of a sequence of names.
        ValueError: an unknown name, or none at all.
    """
    if isinstance(names, str):
        raise TypeError(f"{kind}s must be a sequence of names, got the string {names!r}; write [{names!r}]")
    wanted = {one_of(kind, name, known) for name in names}
    if not wanted:
        raise ValueError(f"no {kind} is selected, so nothing would be compared")
    return [name for name in known if name in wanted]
