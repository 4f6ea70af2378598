"""Whether what computes attn on a device is right: the reports of `crosscheck` there, and the suite's tests."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import torch
from torch import Tensor

import torch_impl
from benchmarks import soak
from benchmarks.cases import WHATS, Case, What
from benchmarks.gpu.device import Device, Results, float32_as_tf32
from benchmarks.gpu.items import IN_JAX
from benchmarks.gpu.outcome import LEFT_OUT, RAISED, RIGHT, WRONG, LeftOut, Outcome
from benchmarks.torch_worker import call_of
from parity_tests import JaxCandidate, OpSpec, crosscheck
from parity_tests.catalog import attn as catalog
from parity_tests.harness.candidates.not_built import NotBuilt
from parity_tests.harness.numbers.formats import PRECISIONS
from parity_tests.harness.report.report import Report
from parity_tests.suite.gpu_kernels import FIRST_ORDER, spec_at
from parity_tests.suite.interpreted_jax_triton import interpreted

AT, TINY = (200, 64, 300, 40), (4, 3, 5, 2)  # n, d, m, e of the fused kernels: blocks, and a part of one
# The most that is held at once, in n x m matrices: in a forward, and in a forward with its backward.
MATRICES = {
    "attn_function": (1.1, 2.1),
    "attn_native": (1.1, 2.1),
    "attn_triton": (1.1, 1.1),
    "attn_output_triton": (0.1, 0.1),
}
COMPOSITE = 3  # the least that the plain version holds: a meter that says less does not see


def callable_of(of: str, device: Device) -> Callable[..., Any] | JaxCandidate:
    """A candidate by its name.

    Raises:
        LeftOut: it is not to be had here.
    """
    if of.endswith(IN_JAX):
        return JaxCandidate(in_jax(of, device), name=of)
    if of.endswith("_triton"):
        return _triton(of, device)
    found = catalog.candidate(of)
    if isinstance(found, NotBuilt):
        raise LeftOut(found.reason)
    return getattr(torch_impl, of)


def _triton(of: str, device: Device) -> Callable[..., Any]:
    _needs("triton", "Triton")
    from derivation.attn_kernels import INTERPRETED
    from torch_impl import gpu

    where = "cpu" if INTERPRETED else "cuda"
    if device.kind != where:
        raise LeftOut(f"Triton's kernels run on {where} here, and not on {device.kind}")
    return getattr(gpu, of)


def in_jax(of: str, device: Device) -> Callable[..., Any]:
    """The function of JAX arrays, as of "attn_triton_in_jax". It is called, and pulled back, inside `interpreting`.

    Raises:
        LeftOut: it is not to be had here.
    """
    has_gpu = jax.default_backend() == "gpu"
    if device.kind != ("cuda" if has_gpu else "cpu"):
        raise LeftOut(f"JAX runs on {'a GPU' if has_gpu else 'the CPU'} here, and not on {device.kind}")
    _needs("triton", "Triton")
    if has_gpu:
        _needs("jax_triton", "jax-triton")
    from jax_ref import gpu

    return getattr(gpu, of.removesuffix(IN_JAX))


def interpreting(of: str) -> contextlib.AbstractContextManager[None]:
    """A block in which Triton's kernels in JAX run in its interpreter, where JAX has no GPU."""
    plain = not of.endswith(IN_JAX) or jax.default_backend() == "gpu"
    return contextlib.nullcontext() if plain else interpreted()


def _needs(module: str, name: str) -> None:
    if importlib.util.find_spec(module) is None:
        raise LeftOut(f"{name} is not installed")


def report_there(device: Device, f: Callable[..., Any] | JaxCandidate, spec: OpSpec, **options: Any) -> Report:
    """The report of `crosscheck` on the device."""
    return crosscheck(f, spec, device=device.name, progress=False, **options)


def of_report(report: Report) -> Outcome:
    """The outcome that a report says: wrong with the rows that failed, or raised, if it was not judged."""
    ratios = [row.error_over_bound for row in report.rows if row.passed]
    judged = {"rows": len(report.rows), "device": report.rows[0].device if report.rows else ""}
    data = judged | {"error_over_bound": float(f"{max(ratios, default=0.0):.4g}")}
    if report.passed:
        return Outcome(RIGHT, data=data)
    failed = [f"{row.candidate}, {row.check}, {row.dtype}: {row.verdict} {row.reason}".strip() for row in report.failed]
    return Outcome(WRONG if failed else RAISED, "; ".join(failed) or report.error or "nothing was judged", data)


def candidate(device: Device, tiny: bool, of: str, dtypes: Sequence[str], every: bool = False) -> Outcome:
    """Judge a candidate: by the first order, or by every check of a default run."""
    f, output_only = callable_of(of, device), of.startswith("attn_output")
    if of in catalog.IN_TORCH:
        options: dict[str, Any] = {"limits": catalog.LIMITS.get(of), "checks": None if every else FIRST_ORDER}
        if tiny:
            options |= {"quick": True, "checks": ["vjp_of_vjp"] if every else ["vjp"]}
        return of_report(report_there(device, f, catalog.SPEC, name=of, dtypes=dtypes, **options))
    spec = spec_at("attn_output" if output_only else "attn", TINY if tiny else AT)
    with interpreting(of):
        return of_report(report_there(device, f, spec, name=of, dtypes=dtypes, checks=["vjp"] if tiny else FIRST_ORDER))


def placed(device: Device, tiny: bool, of: str, how: str) -> Outcome:
    """Judge a candidate on a stream of its own, in a graph, or on a device that is not the current one."""
    f = callable_of(of, device)
    assert not isinstance(f, JaxCandidate)
    if how == "stream":
        f = device.on_a_stream(f)
    elif how == "graph":
        f = device.in_a_graph(f)
    else:
        other = device.another()
        if other is None:
            raise LeftOut(f"there is one device of the kind {device.kind}")
        device = Device(other)
    spec = spec_at("attn_output" if of.startswith("attn_output") else "attn", TINY if tiny else AT)
    return of_report(report_there(device, f, spec, name=of, dtypes=["float32"], checks=["forward", "vjp"]))


def tf32(device: Device, tiny: bool) -> Outcome:
    """Judge the plain version in float32 where the program allows TF32: while it is judged, no product may be in it."""
    inside = []

    def plain(q: Tensor, k: Tensor, v: Tensor) -> Results:
        inside.append(error_of_a_product(device))
        return torch_impl.attn_composite(q, k, v)

    with float32_as_tf32():
        outside = error_of_a_product(device)
        report = report_there(device, plain, spec_at("attn", TINY), name="plain", dtypes=["float32"], checks=["vjp"])
    found = of_report(report)
    data = found.data | {"units outside": outside, "units while judged": max(inside, default=None)}
    if found.ended == RIGHT and max(inside) > 1:
        return Outcome(WRONG, f"a product while judged has {max(inside):.3g} units of its bound", data)
    return Outcome(found.ended, found.reason, data)


def error_of_a_product(device: Device, product: Callable[[Tensor, Tensor], Tensor] = torch.matmul) -> float:
    """The largest error of a product of float32 matrices, in units of what float32 may be wrong by."""
    n, k = 512, 64  # a bound of many terms would leave room for TF32
    x, y = (torch.randn(shape, generator=torch.Generator().manual_seed(n)) for shape in ((n, k), (k, n)))
    found = product(x.to(device.name), y.to(device.name)).cpu().double()
    x, y = x.double(), y.double()
    return ((found - x @ y).abs() / (k * PRECISIONS["float32"].u * (x.abs() @ y.abs()))).max().item()


def memory(device: Device, tiny: bool, of: str) -> Outcome:
    """Hold what a candidate has at once, in n x m matrices, to its bar."""
    if device.kind not in ("cpu", "cuda"):
        raise LeftOut(f"there is no meter for the memory of {device.kind}")
    f = callable_of(of, device)
    assert not isinstance(f, JaxCandidate)
    interpreted = 128  # which takes seconds; at so few native holds tiles that count
    n = (interpreted if of.endswith("_triton") else 1024) if tiny else 4096
    held = [matrices(device, f, n, what, of) for what in WHATS if what != "output"]
    plain = matrices(device, torch_impl.attn_composite, n, "both", "attn")
    data = {"forward": round(held[0], 3), "both": round(held[1], 3), "plain": round(plain, 3)}
    if plain < COMPOSITE:
        return Outcome(LEFT_OUT, f"the meter sees {plain:.2f} matrices of the plain version, which has more", data)
    over = [f"{x:.2f}, and the bar is {bar}" for x, bar in zip(held, MATRICES[of], strict=True) if x > bar]
    return Outcome(WRONG if over else RIGHT, f"{of}: matrices: {'; '.join(over)}" if over else "", data)


def matrices(device: Device, f: Callable[..., Any], n: int, what: What, of: str) -> float:
    """The matrices of n x n float32 numbers that a call holds at once, at one feature."""
    output_only = of.startswith("attn_output")
    shapes = [(n, 1)] * 4 + [(n, n)]
    tensors = [torch.randn(shape, device=device.name) for shape in shapes]
    inputs, bars = [x.requires_grad_() for x in tensors[:3]], tensors[3:]
    direction: What = "output" if output_only and what == "both" else what

    def tupled(*args: Tensor) -> tuple[Tensor, ...]:
        results = f(*args)
        return results if isinstance(results, tuple) else (results,)

    return device.peak(call_of(tupled, Case(n, n, 1, what=direction), inputs, bars)) / (4 * n * n)


def tests(device: Device, tiny: bool, file: str, marks: str, some: str | None) -> Outcome:
    """Run the suite's tests of a file; on a GPU they run there."""
    if "triton" in file:
        _needs("triton", "Triton")
    path = Path("parity_tests/suite") / file
    done = soak.run(str(path), marks=marks, options=["-q", "-p", "no:cacheprovider", *(["-k", some] if some else [])])
    data = {"passed": done.passed, "skipped": done.skips, "failed": done.failures}
    if done.code:
        return Outcome(WRONG, f"pytest ended with {done.code}: {', '.join(done.failures)}", data)
    return Outcome(RIGHT if done.passed else LEFT_OUT, "" if done.passed else "; ".join(sorted(set(done.skips))), data)
