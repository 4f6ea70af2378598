"""Wrong arguments: exact texts, and the same texts from jax_ref for the same bad_call."""

from __future__ import annotations

from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
import torch

import jax_ref
import torch_impl
from parity_tests.suite.torch_impl._common import PRIMALS, Attn, draw, implementations, native_implementations
from torch_impl import attn_composite, attn_function

DTYPES = "float64, float32, bfloat16, float16, complex128, complex64"


class BadCall(NamedTuple):
    """Shapes and dtypes that are refused; an argument that is not named is (3, 2), (4, 2) or (4, 5) in float64."""

    why: str
    error: type[Exception]
    text: str
    shapes: dict[str, tuple[int, ...]] = {}  # noqa: RUF012 (never written to)
    dtypes: dict[str, str] = {}  # noqa: RUF012 (never written to)
    others: dict[str, object] = {}  # noqa: RUF012 (never written to)


def rank(name: str, axes: str, shape: tuple[int, ...]) -> BadCall:
    text = f"attn: {name} must have 2 axes ({axes}), got {len(shape)} (shape {shape}); map over batch axes with vmap"
    return BadCall(f"{name}_has_rank_{len(shape)}", ValueError, text, shapes={name: shape})


BAD_CALLS = [
    rank("q", "n, d", (7, 3, 2)),
    rank("q", "n, d", (2,)),
    rank("k", "m, d", (7, 4, 2)),
    rank("k", "m, d", ()),
    rank("v", "m, e", (7, 1, 4, 5)),
    rank("v", "m, e", (4,)),
    BadCall(
        "axis_d",
        ValueError,
        "attn: axis d is 2 in q but 3 in k (q has shape (3, 2), k has shape (4, 3)); make them equal",
        shapes={"k": (4, 3)},
    ),
    BadCall(
        "axis_d_could_broadcast",
        ValueError,
        "attn: axis d is 1 in q but 2 in k (q has shape (3, 1), k has shape (4, 2)); make them equal",
        shapes={"q": (3, 1)},
    ),
    BadCall(
        "axis_m",
        ValueError,
        "attn: axis m is 4 in k but 3 in v (k has shape (4, 2), v has shape (3, 5)); make them equal",
        shapes={"v": (3, 5)},
    ),
    BadCall(
        "axis_m_empty",
        ValueError,
        "attn: axis m is 0 in k but 4 in v (k has shape (0, 2), v has shape (4, 5)); make them equal",
        shapes={"k": (0, 2)},
    ),
    BadCall(
        "k_transposed",
        ValueError,
        "attn: axis d is 2 in q but 4 in k (q has shape (3, 2), k has shape (2, 4)); make them equal",
        shapes={"k": (2, 4)},
    ),
    *[
        BadCall(
            f"{name}_of_{dtype}",
            TypeError,
            f"attn: {name} has dtype {dtype}; convert it to one of {DTYPES} before calling",
            dtypes=dict.fromkeys(others, dtype),
        )
        for name, others, dtype in [
            ("q", "qkv", "int64"),
            ("q", "q", "int32"),
            ("k", "k", "bool"),
            ("v", "v", "uint8"),
            ("v", "v", "float8_e4m3fn"),
        ]
    ],
    BadCall(
        "float32_among_float64",
        TypeError,
        "attn: q, k and v must share one dtype, got float64, float32 and float64; "
        "convert them to a common dtype before calling",
        dtypes={"k": "float32"},
    ),
    BadCall(
        "three_dtypes",
        TypeError,
        "attn: q, k and v must share one dtype, got bfloat16, float16 and complex64; "
        "convert them to a common dtype before calling",
        dtypes={"q": "bfloat16", "k": "float16", "v": "complex64"},
    ),
]

NOT_TENSORS = [
    BadCall(
        f"{name}_is_{type(x).__name__}",
        TypeError,
        f"attn: {name} must be an array with axes ({axes}), got {type(x).__name__}",
        others={name: x},
    )
    for name, axes, x in [
        ("q", "n, d", [[1.0, 2.0]]),
        ("k", "m, d", None),
        ("v", "m, e", 3.0),
    ]
]


def text_of(error: type[Exception], function, args) -> str:
    with pytest.raises(error) as raised:
        function(*args)
    assert type(raised.value) is error
    return str(raised.value)


def arguments(bad_call: BadCall, make) -> list[object]:
    shapes = {"q": (3, 2), "k": (4, 2), "v": (4, 5)} | bad_call.shapes
    made = {name: make(shapes[name], bad_call.dtypes.get(name, "float64")) for name in PRIMALS}
    return list((made | bad_call.others).values())


def torch_zeros(shape, dtype):
    return torch.zeros(shape, dtype=getattr(torch, dtype))


def numpy_zeros(shape, dtype):
    return np.zeros(shape, dtype=getattr(ml_dtypes, dtype, dtype))


@implementations
def test_text(attn: Attn, subtests):
    for bad_call in BAD_CALLS:
        with subtests.test(bad_call.why):
            assert text_of(bad_call.error, attn, arguments(bad_call, torch_zeros)) == bad_call.text


@pytest.mark.parametrize("attn", [attn_composite, attn_function], ids=["composite", "function"])
def test_text_of_no_tensor(attn: Attn, subtests):
    for bad_call in NOT_TENSORS:
        with subtests.test(bad_call.why):
            assert text_of(bad_call.error, attn, arguments(bad_call, torch_zeros)) == bad_call.text


def test_jax_ref_says_the_same(subtests):
    for bad_call in (*BAD_CALLS, *NOT_TENSORS):
        with subtests.test(bad_call.why):
            assert text_of(bad_call.error, jax_ref.attn_primal, arguments(bad_call, numpy_zeros)) == bad_call.text


@pytest.mark.parametrize("attn", [attn_composite, attn_function], ids=["composite", "function"])
def test_numpy_array_is_refused(attn: Attn):
    """Arrays cross frameworks in one place, and this is not it."""
    args = [x.numpy() for x in draw(PRIMALS)]
    assert text_of(TypeError, attn, args) == "attn: q must be an array with axes (n, d), got ndarray"


@native_implementations
@pytest.mark.parametrize("name", PRIMALS)
@pytest.mark.parametrize("x", [[[1.0, 2.0]], 3.0, np.ones((4, 2))], ids=lambda x: type(x).__name__)
def test_schema_refuses_what_is_no_tensor(attn: Attn, name, x):
    """As any operator's schema does, and before a kernel sees it."""
    args = dict(zip(PRIMALS, draw(PRIMALS), strict=True)) | {name: x}
    text = text_of(RuntimeError, attn, args.values())
    assert text.startswith(
        f"gradparity::{attn.__name__}() Expected a value of type 'Tensor' for argument '{name}' "
        f"but instead found type '{type(x).__name__}'."
    )


@native_implementations
@pytest.mark.parametrize("recorded", [True, False], ids=["autograd", "inference_mode"])
@pytest.mark.parametrize("name", PRIMALS)
def test_none_is_refused(attn: Attn, name, recorded):
    """To a schema, `None` is a tensor: an undefined one."""
    args = dict(zip(PRIMALS, draw(PRIMALS), strict=True)) | {name: None}
    axes = {"q": "n, d", "k": "m, d", "v": "m, e"}[name]
    error, expected = TypeError, f"attn: {name} must be an array with axes ({axes}), got NoneType"
    if (
        recorded and attn is torch_impl.attn_native
    ):  # the kernel that PyTorch generates for autograd is the first to look
        error = RuntimeError
        expected = (
            "Expected a proper Tensor but got None (or an undefined Tensor in C++) "
            f"for argument #{PRIMALS.index(name)} '{name}'"
        )
    with torch.inference_mode(not recorded):
        assert text_of(error, attn, args.values()) == expected


@implementations
def test_shape_inside_vmap(attn: Attn):
    """The shape of one sample is what is checked and reported."""
    q, k, v = draw(PRIMALS, batch=(7,))
    expected = "attn: axis m is 4 in k but 3 in v (k has shape (4, 2), v has shape (3, 5)); make them equal"
    assert text_of(ValueError, torch.vmap(attn), (q, k, v[:, :3])) == expected


@implementations
def test_remedy_works(attn: Attn):
    """What the text says about batch axes and dtypes."""
    q, k, v = draw(PRIMALS, batch=(7,))
    assert torch.vmap(attn)(q, k, v)[0].shape == (7, 3, 5)
    (q, k, v), dtype = draw(PRIMALS), torch.float32
    assert attn(q.to(dtype), k.to(dtype), v.to(dtype))[0].dtype == dtype
