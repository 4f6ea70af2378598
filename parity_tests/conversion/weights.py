"""The parameters and buffers of a module by their names, and the `state_dict` that they come from and go to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from parity_tests.conversion.graph import as_written, numbers_of

Array = jax.Array | np.ndarray


def as_array(x: Any) -> Array:
    """Return an array of any framework as one of JAX or NumPy, of the same dtype as far as JAX has it.

    An array of another framework is one of NumPy: JAX's own constants hide their numbers where JAX traces.
    """
    if isinstance(x, jax.Array):
        return x
    x, dtype = (numbers_of(x), as_written(x.dtype)) if isinstance(x, torch.Tensor) else (np.asarray(x), x.dtype)
    return x.astype(jax.dtypes.canonicalize_dtype(dtype))


def as_tensor(x: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Return a new tensor with an array's numbers, in its dtype if no other is given."""
    x = np.asarray(x)
    own = getattr(torch, x.dtype.name)
    wide = x.astype(np.float64) if x.dtype.name in ("bfloat16", "float16") else x
    return torch.from_numpy(np.array(wide, order="C")).to(dtype or own)


@dataclass(frozen=True)
class Weights:
    """The names of a module's parameters and buffers.

    Attributes:
        tensors: the parameters and buffers, each under its first name.
        trained: the names of those parameters that require gradients.
        saved: by each name in the module's `state_dict`, the name here: another one of a tensor that two modules share.
    """

    tensors: Mapping[str, torch.Tensor]
    trained: frozenset[str]
    saved: Mapping[str, str]

    @staticmethod
    def of(module: torch.nn.Module) -> Weights:
        """Return the names of a module's parameters and buffers."""
        tensors: dict[str, torch.Tensor] = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        first = {id(x): name for name, x in tensors.items()}
        state = {key: x for key, x in module.state_dict(keep_vars=True).items() if id(x) in first}
        trained = frozenset(name for name, x in module.named_parameters() if x.requires_grad)
        return Weights(tensors, trained, {key: first[id(x)] for key, x in state.items()})

    @property
    def buffers(self) -> list[str]:
        """The names of the buffers."""
        return [name for name, x in self.tensors.items() if not isinstance(x, torch.nn.Parameter)]

    def arrays(self) -> dict[str, jax.Array]:
        """Return the module's own numbers."""
        return {name: jnp.asarray(as_array(x)) for name, x in self.tensors.items()}

    def loaded(self, state: Mapping[str, Any]) -> dict[str, jax.Array]:
        """Return the numbers of a `state_dict`; of buffers that it does not have by design, the module's own.

        Raises:
            ValueError: it lacks a name, has one too many, or an array of another shape.
        """
        unknown = [key for key in state if key not in self.saved and key not in self.tensors]
        given = {self.saved.get(key, key): x for key, x in state.items()}
        missing = [name for name in {*self.saved.values()} if name not in given]
        if missing:
            raise ValueError(f"the state has no {missing[0]!r}")
        if unknown:
            raise ValueError(f"the module has no {unknown[0]!r}, which the state has")
        arrays = {name: jnp.asarray(as_array(given.get(name, x))) for name, x in self.tensors.items()}
        self.check(arrays)
        return arrays

    def check(self, params: Mapping[str, Any]) -> None:
        """Raise ValueError if parameters or buffers are missing, unknown, or of another shape than the module's."""
        if missing := [name for name in self.tensors if name not in params]:
            raise ValueError(f"params has no {missing[0]!r}; pass all parameters and buffers, as to_jax returns them")
        if unknown := [name for name in params if name not in self.tensors]:
            raise ValueError(f"params has {unknown[0]!r}, which is no parameter or buffer of the module")
        for name, x in self.tensors.items():
            if tuple(params[name].shape) != tuple(x.shape):
                raise ValueError(
                    f"params[{name!r}] has shape {tuple(params[name].shape)}, the module's {tuple(x.shape)}"
                )
