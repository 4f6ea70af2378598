"""A function or a module of PyTorch as a function of JAX arrays: see `to_jax`."""

from __future__ import annotations

import contextlib
import inspect
import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax.core import Tracer

from parity_tests.conversion import trees
from parity_tests.conversion.cannot_convert import CannotConvert
from parity_tests.conversion.program import TENSOR, Program, Returned
from parity_tests.conversion.weights import Array, Weights, as_array, as_tensor

_PRECISIONS = {"as written": False, "exact": True}
_LOCK = threading.RLock()
Params = Mapping[str, jax.Array]


class Converted:
    """A function of PyTorch as a function of JAX arrays: `f(params, *args, key=None, **kwargs)`. `to_jax` makes it.

    It is exported anew for each set of shapes, dtypes and arguments that are no arrays, and what was exported is kept;
    so it keeps the module, too, which must not be changed. Under `jax.jit` that happens when JAX traces it.

    Attributes:
        writes: the names of the buffers that a call writes to; if there are any, `f` returns `(result, new_buffers)`.
        draws: whether a call draws random numbers, and needs a key.
        operators: the names of the operators that it calls, such as "aten::tanh".
    """

    def __init__(self, function: Callable, exact: bool) -> None:
        module = function if isinstance(function, torch.nn.Module) else torch.nn.Module()
        self.function, self.weights, self._exact = function, Weights.of(module), exact
        self._training = {m: m.training for m in module.modules()}
        self._programs: dict[Any, list[Program]] = {}
        self._reads: dict[str, None] = {}  # the arguments that it was found to read
        forward = function.forward if isinstance(function, torch.nn.Module) else function
        self._has_key = _has_parameter(forward, "key")
        self.writes: tuple[str, ...] = ()
        self.draws, self.operators = False, list[str]()

    @property
    def __name__(self) -> str:
        """The name of the function, or of the module's class."""
        return getattr(self.function, "__name__", type(self.function).__name__)

    def __call__(self, params: Params, /, *args: Any, key: Any = None, **kwargs: Any) -> Any:
        """Return what the module returns with these parameters and buffers.

        Args:
            params: all parameters and buffers by PyTorch's names, as `to_jax` returns them.
            args: as for the module, with JAX arrays in the place of tensors.
            key: a key of `jax.random`, for dropout and other random numbers. If the module has a keyword of this name
                itself, as attention has, this one is the random key if it is one of `jax.random.key`.
            kwargs: as for the module.

        Raises:
            TypeError: random numbers are drawn, and there is no key.
            ValueError: `params` lacks a name, has one too many, or an array of another shape.
            CannotConvert: the function cannot be made one of JAX at these arguments.
        """
        if self._has_key and key is not None and not _is_random_key(key):
            key, kwargs = None, kwargs | {"key": key}
        program, inputs = self.program(params, args, kwargs)
        if program.written and not self.writes:
            raise CannotConvert(
                f"at these arguments the module writes to its buffer {program.written[0]!r}, and at those of to_jax to "
                "none; give to_jax arguments at which it does"
            )
        found, new = program.evaluated(inputs, key)
        return (found, new) if self.writes else found

    def split(self, params: Params) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        """Return the parameters that PyTorch would train, and all else: parameters without gradient, and buffers.

        `f(trained | rest, x)` is differentiated by `trained`.
        """
        trained = {name: x for name, x in params.items() if name in self.weights.trained}
        return trained, {name: x for name, x in params.items() if name not in trained}

    def load(self, state: Mapping[str, Any]) -> dict[str, jax.Array]:
        """Return the params of a `state_dict`, or of a dictionary of arrays of these names, as a safetensors file has.

        Raises:
            ValueError: it lacks a name, has one too many, or an array of another shape.
        """
        return self.weights.loaded(state)

    def state_dict(self, params: Params) -> dict[str, torch.Tensor]:
        """Return params as tensors, which the module's `load_state_dict` takes."""
        own = self.weights.tensors
        return {key: as_tensor(params[name], own[name].dtype) for key, name in self.weights.saved.items()}

    def program(self, params: Params, args: Any, kwargs: Any) -> tuple[Program, list[Array]]:
        """Return the program of a call, and its inputs: parameters and buffers, and the arguments' arrays.

        Raises:
            ValueError: `params` lacks a name, has one too many, or an array of another shape.
            CannotConvert: there is none.
        """
        self.weights.check(params)
        leaves, structure = trees.flatten((args, kwargs))
        fixed = without_arrays(leaves)
        inputs = [as_array(params[name]) for name in self.weights.tensors]
        inputs += [as_array(x) for x in leaves if _is_array(x)]
        key = (structure, tuple((type(x), _hashed(x)) for x in fixed), *((x.shape, str(x.dtype)) for x in inputs))
        with _LOCK:
            programs = self._programs.setdefault(key, [])
            for program in programs:
                if all(_is_equal(inputs[i], numbers) for i, numbers in program.read.items()):
                    return program, inputs
            names = [*self.weights.tensors, *self.names_of(args, kwargs)]
            programs.append(self._made(inputs, fixed, structure, names))
            return programs[-1], inputs

    @staticmethod
    def names_of(args: Any, kwargs: Any) -> list[str]:
        """Return where the arrays of the arguments lie, such as "argument 0"."""
        leaves, _ = trees.flatten((args, kwargs))
        return [path for path, x in zip(trees.paths((args, kwargs)), leaves, strict=True) if _is_array(x)]

    def _made(self, inputs: Sequence[Array], fixed: Any, structure: trees.Structure, names: Any) -> Program:
        """The program that reads integers and booleans at most; if there is none, that which reads any argument."""
        own = len(self.weights.tensors)
        concrete = [i for i, x in enumerate(inputs) if not isinstance(x, Tracer)]
        integers = [i for i in concrete if not jnp.issubdtype(inputs[i].dtype, jnp.inexact)]
        try:
            found = self._exported(inputs, fixed, structure, integers)
        except CannotConvert as error:
            readable = [i for i in concrete if i >= own or i in integers]
            if readable == integers:
                raise self._with_what_is_traced(error, inputs, names) from error.__cause__
            try:
                found = self._exported(inputs, fixed, structure, readable)
            except CannotConvert:
                raise self._with_what_is_traced(error, inputs, names) from error.__cause__
        self._reads |= dict.fromkeys(names[i] for i in found.read)
        return found

    def _with_what_is_traced(self, error: CannotConvert, inputs: Sequence[Array], names: Any) -> CannotConvert:
        traced = [name for i, name in enumerate(names) if isinstance(inputs[i], Tracer)]
        hidden = [name for name in traced if name in self._reads]
        if not hidden:
            return error
        return CannotConvert(
            f"{error}; the function reads the numbers of {hidden[0]}, which JAX traces here: do not pass it through "
            "jit, grad or vmap, but let what they transform close over it"
        )

    def _exported(
        self, inputs: Sequence[Array], fixed: Any, structure: trees.Structure, read: Sequence[int]
    ) -> Program:
        returned = list[Returned]()
        function = self.pytorch(fixed, structure, returned)
        tensors = [torch.empty(x.shape, dtype=self._dtype(x)) for x in inputs]
        given = {i: as_tensor(inputs[i], tensors[i].dtype) for i in read}
        buffers = {i: name for i, name in enumerate(self.weights.tensors) if name in self.weights.buffers}
        with self.as_at_first():
            program = Program.of(function, tensors, given, self._exact, buffers, returned)
        # What has no counterpart in JAX is refused here, and not where it is computed.
        try:
            jax.eval_shape(lambda *arrays: program.evaluated(arrays, jax.random.key(0))[1], *inputs)
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError) as error:
            raise CannotConvert(f"an operator of jax_ref.aten needs numbers: {str(error).splitlines()[0]}") from error
        return program

    def pytorch(
        self, fixed: Sequence[Any], structure: trees.Structure, returned: list[Returned]
    ) -> Callable[..., list[torch.Tensor]]:
        """Return PyTorch's function of the parameters, buffers and arguments of a call, all of them tensors.

        It returns the tensors of the result, and the buffers that are others now; what else it returns is appended.
        """
        names = [*self.weights.tensors]

        def function(*tensors: torch.Tensor) -> list[torch.Tensor]:
            own, rest = dict(zip(names, tensors[: len(names)], strict=True)), iter(tensors[len(names) :])
            args, kwargs = structure.rebuilt([next(rest) if x is TENSOR else x for x in fixed])
            before = dict(own)
            found = self._called(own, args, kwargs)
            replaced = [name for name in self.weights.buffers if own[name] is not before[name]]
            leaves, tree = jax.tree.flatten(trees.for_jax(found), is_leaf=lambda x: x is None)
            tensor = [isinstance(x, torch.Tensor) for x in leaves]
            fixed_leaves = [TENSOR if t else _number(x) for t, x in zip(tensor, leaves, strict=True)]
            returned.append(Returned(fixed_leaves, tree, replaced))
            return [x for t, x in zip(tensor, leaves, strict=True) if t] + [own[name] for name in replaced]

        return function

    def _called(self, own: dict[str, torch.Tensor], args: Any, kwargs: Any) -> Any:
        if isinstance(self.function, torch.nn.Module):
            return torch.func.functional_call(self.function, own, args, kwargs)
        return self.function(*args, **kwargs)

    def _dtype(self, x: Array) -> torch.dtype:
        """The dtype in which an input is exported."""
        dtype = getattr(torch, x.dtype.name)
        if self._exact and (dtype.is_floating_point or dtype.is_complex):
            return torch.complex128 if dtype.is_complex else torch.float64
        # Without 64 bits JAX has int32 in the place of int64, which many of PyTorch's operators need.
        return torch.int64 if dtype is torch.int32 and jax.dtypes.canonicalize_dtype(np.int64) != np.int64 else dtype

    @contextlib.contextmanager
    def as_at_first(self) -> Iterator[None]:
        """Run a block with the module in the mode, train or eval, that it was in when it was converted.

        Afterwards it has the tensors and attributes that it had before, of which an export leaves some without numbers.
        """
        # The attributes of each module, and the tables among them: of parameters, buffers and modules.
        tables = [x for m in self._training for x in (m.__dict__, *m.__dict__.values()) if type(x) is dict]
        before = [(table, table.copy()) for table in tables]
        try:
            for module, training in self._training.items():
                module.training = training
            yield
        finally:
            for table, entries in before:
                table.clear()
                table.update(entries)


def to_jax(
    function: Callable, /, *example: Any, precision: str = "as written", **kwargs: Any
) -> tuple[Converted, dict[str, jax.Array]]:
    """Return a PyTorch module, or a function of tensors, as a function of JAX arrays, and its parameters and buffers.

    `f(params, *args, key=None, **kwargs)` returns what the module returns for these arguments, in the same structure:
    tuples, lists, dictionaries, named tuples, and what else JAX knows; dataclasses and outputs of Hugging Face's
    models, which it does not, are dictionaries of their fields. It works under `jit`, `grad`, `vmap`, `jax.checkpoint`
    and `jax.export`. Sizes and dtypes may differ from those of the example at each call.

    - The module is in train or eval mode as it is now. A module that writes to its buffers, as batch norm does in train
      mode, makes `f` return `(result, new_buffers)`: go on with `params | new_buffers`.
    - Random numbers, such as those of dropout, are drawn by `key`: they have PyTorch's distribution, and are others.
    - Numbers that the code reads, for `if`, for the sizes of results, or by `.item()`, must follow from constants, or
      from arguments that JAX does not trace where `f` is called: close over them under `jit`. They are then part of the
      program, which is made again for others.
    - A function that is no module has no params: the tensors that it closes over are constants.

    Args:
        function: a `torch.nn.Module`, or a function of tensors.
        example: arguments for it, tensors or arrays of any framework; only shapes, dtypes and what the code reads
            matter.
        precision: "as written" computes in the dtypes of the code, with the casts that it says; "exact" leaves them
            out, and computes in the widest real dtype of the arguments.
        kwargs: keyword arguments for it.

    Raises:
        CannotConvert: it cannot be made a function of JAX; the message has the line and a remedy.
        TypeError: `function` cannot be called.
        ValueError: there is no such precision.
    """
    if not callable(function):
        raise TypeError(f"to_jax: function must be a PyTorch module or function, got {type(function).__name__}")
    if precision not in _PRECISIONS:
        raise ValueError(f"to_jax: precision is 'as written' or 'exact', got {precision!r}")
    f = Converted(function, _PRECISIONS[precision])
    params = f.weights.arrays()
    program, _ = f.program(params, example, kwargs)
    f.writes, f.draws, f.operators = tuple(program.written), bool(program.drawing), program.operators
    return f, params


def _has_parameter(function: Callable, name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):  # a builtin function
        return False


def without_arrays(leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Return leaves with `TENSOR` in the place of each array."""
    return tuple(TENSOR if _is_array(x) else x for x in leaves)


def _is_array(x: Any) -> bool:
    return isinstance(x, torch.Tensor | jax.Array | np.ndarray | np.generic)


def _is_random_key(x: Any) -> bool:
    return isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jax.dtypes.prng_key)


def _is_equal(x: Array, numbers: np.ndarray) -> bool:
    return not isinstance(x, Tracer) and np.array_equal(np.asarray(x), numbers, equal_nan=True)


def _hashed(x: Any) -> Any:
    """The same for arguments with which the module does the same; an object may have changed since the last call."""
    if isinstance(x, float | complex):
        return repr(x)  # 0.0 and -0.0 are not the same
    if x is None or isinstance(x, bool | int | str | torch.dtype | torch.device):
        return x
    try:
        return pickle.dumps(x)
    except Exception:  # nothing is known of it: the module is exported anew
        return object()


def _number(x: Any) -> Any:
    """A leaf of a result that is no tensor, as it is.

    Raises:
        CannotConvert: it is an object that may hold tensors.
    """
    if x is None or isinstance(x, bool | int | float | complex | str):
        return x
    raise CannotConvert(
        f"the function returns {type(x).__name__}, whose parts are not known here; let it return tensors, "
        "or register the class by torch.utils._pytree.register_pytree_node"
    )
