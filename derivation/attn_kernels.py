"""attn.md as Triton kernels, forward and backward; no n*m matrix is written but attn itself, where it is asked for.

They are of no framework: `torch_impl.gpu` launches them on PyTorch's tensors, `jax_ref.gpu` on JAX's arrays. Neither is
an oracle: both are judged by `jax_ref.attn`, whose formulas have nothing from here.

One program has a block of rows of its result and goes over the other axis in blocks: `forward` and `backward_of_rows`
over keys, `backward_of_columns` over queries. Nothing is added up across programs, so no atomics, and the same launch
gives the same bits. The price: both backward kernels make the scores and their cotangent, seven products for five.

The backward makes the scores again, in float32, and takes no saved attn: 1 - attn² has lost the small slopes near
saturation, which in bfloat16 begins at 3.5, and the scores have not ("Saturation and low precision" in
derivation/attn.md). Sums are in float32 in every dtype; attn and P are rounded to the inputs' dtype, since tensor cores
take them so. float32 products are IEEE's, without TF32. tanh.approx.f32, wrong by up to 1.1e-5, is not used: what it
would gain was not measured.

Axes: B examples, n queries, m keys, d and e features; a stride is named after its tensor and axis. Tiles are named
after the matrices of derivation/attn.md. Beyond the edge they are loaded as zeros. That is not enough where an input is
infinite, 0 * inf is NaN, so that what a sum runs over is masked once more.

`INTERPRETED`: Triton's interpreter multiplies bfloat16 as if its bits were integers, and cuts floats off where a GPU
rounds to nearest; there, products are of float32, which holds bfloat16 exactly, and rounding is done by hand.
"""

# Triton is not a requirement
# pyright: reportMissingImports=false

from collections.abc import Iterable, Sequence

import triton
import triton.language as tl

# tanh(s) = s + s z (C0 + C1 z + ...), z = s², for |s| <= SMALL: minimax, its own error is 0.02 of float32's u
SMALL = tl.constexpr(0.55)
C0 = tl.constexpr(-0.33333316445350647)
C1 = tl.constexpr(0.13332585990428925)
C2 = tl.constexpr(-0.053852275013923645)
C3 = tl.constexpr(0.021071532741189003)
C4 = tl.constexpr(-0.006274023093283176)


@triton.jit
def slope_and_tanh(s):
    """D and A, equations (4) and (2), from scores in float32: neither cancels, at zero or near saturation.

    With t = exp(-2 |s|), A = ±(1 - 2 t / (1 + t)), and D = 4 t / (1 + t)².
    """
    x = tl.abs(s)
    t = tl.exp(-2.0 * x)
    r = 1.0 / (1.0 + t)
    D = 4.0 * (t * r) * r  # (4)
    far = 1.0 - 2.0 * (t * r)
    z = s * s
    near = s + s * (z * (C0 + z * (C1 + z * (C2 + z * (C3 + z * C4)))))
    return D, tl.where(x <= SMALL, near, tl.where(s < 0, -far, far))  # (2)


@triton.jit
def tile(base, rows, columns, row_stride, column_stride, row_count, column_count):
    """A block of a matrix; zeros beyond the edge."""
    inside = (rows < row_count)[:, None] & (columns < column_count)[None, :]
    return tl.load(base + rows[:, None] * row_stride + columns[None, :] * column_stride, mask=inside, other=0.0)


@triton.jit
def put(base, x, rows, columns, row_stride, column_stride, row_count, column_count):
    """The part of a block that is inside of the matrix."""
    inside = (rows < row_count)[:, None] & (columns < column_count)[None, :]
    tl.store(base + rows[:, None] * row_stride + columns[None, :] * column_stride, x, mask=inside)


@triton.jit
def rounded(x, dtype: tl.constexpr, INTERPRETED: tl.constexpr):
    """float32 to a dtype, to nearest even."""
    if INTERPRETED and dtype == tl.bfloat16:
        bits = x.to(tl.int32, bitcast=True)
        bits = tl.where(x == x, bits + 0x7FFF + ((bits >> 16) & 1), 0x7FC00000)
        y = (bits >> 16).to(tl.int16).to(tl.bfloat16, bitcast=True)
    else:
        y = x.to(dtype)
    return y


@triton.jit
def product(x, y, total, INTERPRETED: tl.constexpr):
    """total + x y, in float32."""
    if INTERPRETED:
        x = x.to(tl.float32)
        y = y.to(tl.float32)
    return tl.dot(x, y, total, input_precision="ieee")


@triton.jit(do_not_specialize=["work"])
def forward(
    q, k, v, output, attn, n, m, d, e,
    q_B, q_n, q_d, k_B, k_m, k_d, v_B, v_m, v_e, output_B, output_n, output_e, attn_B, attn_n, attn_m, work,
    WITH_ATTN: tl.constexpr, INDEX: tl.constexpr, INTERPRETED: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """output (B, n, e), and attn (B, n, m) if WITH_ATTN: equations (1) to (3)."""
    blocks = tl.cdiv(n, BLOCK_N)
    example = (tl.program_id(0) // blocks).to(tl.int64)
    rows = ((tl.program_id(0) % blocks) * BLOCK_N + tl.arange(0, BLOCK_N)).to(INDEX)
    ds = tl.arange(0, BLOCK_D).to(INDEX)
    es = tl.arange(0, BLOCK_E).to(INDEX)
    dtype: tl.constexpr = q.dtype.element_ty
    Q = tile(q + example * q_B, rows, ds, q_n, q_d, n, d)
    output_rows = tl.zeros([BLOCK_N, BLOCK_E], tl.float32)
    for start in range(0, m, BLOCK_M):
        columns = (start + tl.arange(0, BLOCK_M)).to(INDEX)
        K = tile(k + example * k_B, columns, ds, k_m, k_d, m, d)
        S = product(Q, tl.trans(K), tl.zeros([BLOCK_N, BLOCK_M], tl.float32), INTERPRETED)  # (1)
        _, A = slope_and_tanh(S)  # (2)
        A = rounded(tl.where((columns < m)[None, :], A, 0.0), dtype, INTERPRETED)
        if WITH_ATTN:
            put(attn + example * attn_B, A, rows, columns, attn_n, attn_m, n, m)
        V = tile(v + example * v_B, columns, es, v_m, v_e, m, e)
        output_rows = product(A, V, output_rows, INTERPRETED)  # (3)
    output_rows = rounded(output_rows, dtype, INTERPRETED)
    put(output + example * output_B, output_rows, rows, es, output_n, output_e, n, e)


@triton.jit(do_not_specialize=["work"])
def backward_of_rows(
    q, k, v, output_bar, attn_bar, q_bar, n, m, d, e,
    q_B, q_n, q_d, k_B, k_m, k_d, v_B, v_m, v_e,
    output_bar_B, output_bar_n, output_bar_e, attn_bar_B, attn_bar_n, attn_bar_m, q_bar_B, q_bar_n, q_bar_d, work,
    HAS_OUTPUT_BAR: tl.constexpr, HAS_ATTN_BAR: tl.constexpr, INDEX: tl.constexpr, INTERPRETED: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """q_bar (B, n, d): equations (8) to (10)."""
    blocks = tl.cdiv(n, BLOCK_N)
    example = (tl.program_id(0) // blocks).to(tl.int64)
    rows = ((tl.program_id(0) % blocks) * BLOCK_N + tl.arange(0, BLOCK_N)).to(INDEX)
    ds = tl.arange(0, BLOCK_D).to(INDEX)
    es = tl.arange(0, BLOCK_E).to(INDEX)
    dtype: tl.constexpr = q.dtype.element_ty
    Q = tile(q + example * q_B, rows, ds, q_n, q_d, n, d)
    if HAS_OUTPUT_BAR:
        O_bar = tile(output_bar + example * output_bar_B, rows, es, output_bar_n, output_bar_e, n, e)
    q_bar_rows = tl.zeros([BLOCK_N, BLOCK_D], tl.float32)
    for start in range(0, m, BLOCK_M):
        columns = (start + tl.arange(0, BLOCK_M)).to(INDEX)
        K = tile(k + example * k_B, columns, ds, k_m, k_d, m, d)
        S = product(Q, tl.trans(K), tl.zeros([BLOCK_N, BLOCK_M], tl.float32), INTERPRETED)  # (1)
        D, _ = slope_and_tanh(S)  # (4)
        G = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
        if HAS_ATTN_BAR:
            G = tile(attn_bar + example * attn_bar_B, rows, columns, attn_bar_n, attn_bar_m, n, m).to(tl.float32)
        if HAS_OUTPUT_BAR:
            V = tile(v + example * v_B, columns, es, v_m, v_e, m, e)
            G = product(O_bar, tl.trans(V), G, INTERPRETED)  # (8)
        P = tl.where((columns < m)[None, :], D * G, 0.0)  # (9)
        q_bar_rows = product(rounded(P, dtype, INTERPRETED), K, q_bar_rows, INTERPRETED)  # (10)
    q_bar_rows = rounded(q_bar_rows, dtype, INTERPRETED)
    put(q_bar + example * q_bar_B, q_bar_rows, rows, ds, q_bar_n, q_bar_d, n, d)


@triton.jit(do_not_specialize=["work"])
def backward_of_columns(
    q, k, v, output_bar, attn_bar, k_bar, v_bar, n, m, d, e,
    q_B, q_n, q_d, k_B, k_m, k_d, v_B, v_m, v_e,
    output_bar_B, output_bar_n, output_bar_e, attn_bar_B, attn_bar_n, attn_bar_m,
    k_bar_B, k_bar_m, k_bar_d, v_bar_B, v_bar_m, v_bar_e, work,
    HAS_OUTPUT_BAR: tl.constexpr, HAS_ATTN_BAR: tl.constexpr, WANTS_K: tl.constexpr, WANTS_V: tl.constexpr,
    INDEX: tl.constexpr, INTERPRETED: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """k_bar (B, m, d) if WANTS_K, v_bar (B, m, e) if WANTS_V: equations (8), (9), (11), (12).

    All n*m tiles are transposed, so that the sums of (11) and (12) are products of what is there already.
    """
    blocks = tl.cdiv(m, BLOCK_M)
    example = (tl.program_id(0) // blocks).to(tl.int64)
    columns = ((tl.program_id(0) % blocks) * BLOCK_M + tl.arange(0, BLOCK_M)).to(INDEX)
    ds = tl.arange(0, BLOCK_D).to(INDEX)
    es = tl.arange(0, BLOCK_E).to(INDEX)
    dtype: tl.constexpr = q.dtype.element_ty
    K = tile(k + example * k_B, columns, ds, k_m, k_d, m, d)
    if WANTS_K and HAS_OUTPUT_BAR:
        V = tile(v + example * v_B, columns, es, v_m, v_e, m, e)
    k_bar_rows = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    v_bar_rows = tl.zeros([BLOCK_M, BLOCK_E], tl.float32)
    for start in range(0, n, BLOCK_N):
        rows = (start + tl.arange(0, BLOCK_N)).to(INDEX)
        inside = (rows < n)[None, :]
        Q = tile(q + example * q_B, rows, ds, q_n, q_d, n, d)
        S = product(K, tl.trans(Q), tl.zeros([BLOCK_M, BLOCK_N], tl.float32), INTERPRETED)  # (1)
        D, A = slope_and_tanh(S)  # (2), (4)
        if HAS_OUTPUT_BAR:
            O_bar = tile(output_bar + example * output_bar_B, rows, es, output_bar_n, output_bar_e, n, e)
        if WANTS_V:
            A = rounded(tl.where(inside, A, 0.0), dtype, INTERPRETED)
            v_bar_rows = product(A, O_bar, v_bar_rows, INTERPRETED)  # (12)
        if WANTS_K:
            G = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
            if HAS_ATTN_BAR:
                G = tile(attn_bar + example * attn_bar_B, columns, rows, attn_bar_m, attn_bar_n, m, n).to(tl.float32)
            if HAS_OUTPUT_BAR:
                G = product(V, tl.trans(O_bar), G, INTERPRETED)  # (8)
            P = tl.where(inside, D * G, 0.0)  # (9)
            k_bar_rows = product(rounded(P, dtype, INTERPRETED), Q, k_bar_rows, INTERPRETED)  # (11)
    if WANTS_K:
        k_bar_rows = rounded(k_bar_rows, dtype, INTERPRETED)
        put(k_bar + example * k_bar_B, k_bar_rows, columns, ds, k_bar_m, k_bar_d, m, d)
    if WANTS_V:
        v_bar_rows = rounded(v_bar_rows, dtype, INTERPRETED)
        put(v_bar + example * v_bar_B, v_bar_rows, columns, es, v_bar_m, v_bar_e, m, e)


INTERPRETED = not isinstance(forward, triton.runtime.JITFunction)
"""Do the kernels run in Triton's interpreter, and not on a GPU? Triton decides it when they are defined."""

WIDEST = 128
"""The most features, d or e, that a program can hold."""

# Different, so that one in the other's place is noticed; small, so that small inputs have several blocks.
INTERPRETED_BLOCKS = {"BLOCK_N": 16, "BLOCK_M": 32}

# BLOCK_N, BLOCK_M, warps, stages: those that ptxas gives Hopper's registers to with few spills or none, up to 128
# features. Which is the fastest was not measured; Triton tries them out at the first call, and keeps the fastest for as
# long as the process lives. 16-bit products are made by groups of 4 warps on tiles of 64 rows and more.
_HOPPER = {
    "forward": [(64, 64, 4, 3), (128, 64, 4, 3), (128, 64, 8, 3), (128, 128, 8, 2)],
    "backward_of_rows": [(64, 64, 4, 3), (64, 32, 4, 4), (128, 64, 8, 2)],
    "backward_of_columns": [(64, 64, 4, 2), (32, 64, 4, 3), (64, 128, 8, 2)],
}
_HOPPER_FLOAT32 = {
    "forward": [(32, 32, 4, 2), (64, 32, 8, 2), (32, 64, 8, 2)],
    "backward_of_rows": [(32, 32, 4, 2), (64, 32, 8, 2), (32, 64, 8, 2)],
    "backward_of_columns": [(16, 32, 4, 2), (32, 32, 8, 2), (16, 64, 8, 2)],
}


def configurations(name: str, float32: bool) -> list[triton.Config]:
    """The sizes of blocks that are tried out for a kernel."""
    return [
        triton.Config({"BLOCK_N": N, "BLOCK_M": M}, num_warps=warps, num_stages=stages)
        for N, M, warps, stages in (_HOPPER_FLOAT32 if float32 else _HOPPER)[name]
    ]


def width(features: int) -> int:
    """The size of a tile along features: a power of 2, and of no fewer than the 16 that a tensor core takes."""
    return max(16, triton.next_power_of_2(max(features, 1)))


def index_type(matrices: Iterable[Sequence[int]]) -> tl.dtype:
    """int64 if an entry of a matrix is so far from its first one that int32 does not hold it.

    A block reaches beyond the edge, up to which masks are computed; hence twice as far.

    Args:
        matrices: rows, columns, and their strides, of an example.
    """
    far = max(
        2 * rows * row_stride + 2 * columns * column_stride for rows, columns, row_stride, column_stride in matrices
    )
    return tl.int64 if far >= 2**31 else tl.int32
