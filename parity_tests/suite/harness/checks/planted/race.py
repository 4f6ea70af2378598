"""Pallas kernels whose accesses to memory are not ordered, with values that are right in spite of it."""

from __future__ import annotations

import inspect
from dataclasses import replace

import jax
import jax.numpy as jnp
from jax._src.pallas.mosaic_gpu.interpret import params
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu
from jax.experimental.pallas import tpu as pltpu

from parity_tests import JaxCandidate, OpSpec
from parity_tests.operators.operator import Mistake, Operator
from parity_tests.suite.harness._ops import normal

_ROWS, _COLUMNS = 8, 128
_NAMES, _OLD_NAMES = ("out_type", "scratch_types"), ("out_shape", "scratch_shapes")


def _double(x_ref, y_ref):
    y_ref[...] = 2 * x_ref[...]


def _doubled(x, block):
    """Twice x, in two steps that run at once, each of which reads and writes the block of a `BlockSpec`."""
    return pl.pallas_call(
        _double,
        grid=(2,),
        in_specs=[block],
        out_specs=block,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel",)),
        interpret=True,
    )(x)


def _copied(x, waits):
    """Twice x, which is copied asynchronously into memory of the kernel's own."""

    def kernel(x_ref, y_ref, kept_ref, semaphore):
        copy = pltpu.make_async_copy(x_ref, kept_ref, semaphore)
        copy.start()
        if waits:
            copy.wait()
        y_ref[...] = 2 * kept_ref[...] if waits else 2 * x_ref[...]
        if not waits:
            kept_ref[...] = y_ref[...]
            copy.wait()

    return pl.pallas_call(
        kernel,
        in_specs=[pl.BlockSpec(memory_space=pltpu.VMEM)],
        out_specs=pl.BlockSpec(memory_space=pltpu.VMEM),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[pltpu.VMEM(x.shape, x.dtype), pltpu.SemaphoreType.DMA],
        interpret=pltpu.InterpretParams(),
    )(x)


def _rule(forward, backward):
    """A function with its own backward, each of which is a kernel."""

    @jax.custom_vjp
    def double(x):
        return forward(x)

    double.defvjp(lambda x: (forward(x), None), lambda _, y_bar: (backward(y_bar),))
    return JaxCandidate(double)


def _own(x):
    """Each step writes its own rows."""
    return _doubled(x, pl.BlockSpec((_ROWS, _COLUMNS), lambda i: (i, 0)))


def _same(x):
    """Both steps write all of the rows, the same numbers."""
    return _doubled(x, pl.BlockSpec((x.shape[0], _COLUMNS), lambda i: (0, 0)))


def _on_threads(x, at):
    """Twice x, by two threads of a block, of which each reads and writes the half that `at` says."""

    def kernel(x_ref, y_ref):
        half = pl.ds(at(jax.lax.axis_index("thread")) * (x.shape[0] // 2), x.shape[0] // 2)
        y_ref[half] = 2 * x_ref[half]

    return _run(kernel, x, num_threads=2, thread_name="thread")


def _both_by_each_thread(x):
    """Both threads write all of the rows, the same numbers."""

    def kernel(x_ref, y_ref):
        y_ref[...] = 2 * x_ref[...]

    return _run(kernel, x, num_threads=2, thread_name="thread")


def _through_shared_memory(x, waits):
    """Twice x, which is copied to shared memory; what is copied there is read before the barrier, and after it."""

    def kernel(x_ref, y_ref, shared_ref, barrier):
        plgpu.copy_gmem_to_smem(x_ref, shared_ref, barrier)
        if not waits:
            y_ref[...] = shared_ref[...]
        plgpu.barrier_wait(barrier)
        y_ref[...] = 2 * shared_ref[...]

    return _run(kernel, x, [plgpu.SMEM(x.shape, x.dtype), plgpu.Barrier()])


def _run(kernel, x, scratch=(), **threads):
    """The result, as large as x, of a kernel; JAX 0.10.0 has other names for what it takes."""
    out, kept = _NAMES if "out_type" in inspect.signature(plgpu.kernel).parameters else _OLD_NAMES
    like = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return plgpu.kernel(kernel, **{out: like, kept: scratch}, **threads)(x)


def _on_gpu(x):
    return _on_threads(x, lambda thread: thread)


_VALUES = ("forward", "vjp")
_SPEC = OpSpec("double", primal=lambda x: 2 * jnp.asarray(x), inputs=(normal(2 * _ROWS, _COLUMNS),))

# Only the interpreter can compute its values: no other check runs on a CPU. JAX 0.10.0 cannot, either.
ON_GPU = Operator(
    replace(_SPEC, name="double on a GPU"),
    _rule(_on_gpu, lambda x: _through_shared_memory(x, True)),
    {
        "both threads write all rows": Mistake(_rule(_both_by_each_thread, _on_gpu), "race"),
        "both threads of the backward write all rows": Mistake(_rule(_on_gpu, _both_by_each_thread), "race"),
        "shared memory that is read before it is copied to": Mistake(
            _rule(lambda x: _through_shared_memory(x, False), _on_gpu), "race"
        ),
    },
)
RUNS_ON_GPU = hasattr(params, "force_gpu_interpret_mode")

CASES = (
    Operator(
        _SPEC,
        _rule(_own, _own),
        {
            "both steps write one block": Mistake(_rule(_same, _own), "race", passes=_VALUES),
            "both steps of the backward write one block": Mistake(_rule(_own, _same), "race", passes=_VALUES),
            "written while it is copied to": Mistake(
                _rule(lambda x: _copied(x, False), lambda x: _copied(x, True)), "race", passes=_VALUES
            ),
        },
    ),
    *((ON_GPU,) if RUNS_ON_GPU else ()),
)
