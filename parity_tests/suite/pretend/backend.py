"""The Python side of the device "pretend": the module of a package that `import torch` finds, as it finds vendors'.

`built.py` makes that package of it. Nothing else is imported here: PyTorch is still importing itself.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.utils import backend_registration


def register() -> None:
    """Make "pretend" a device of PyTorch in this process, with the module `torch.pretend`."""
    torch.ops.load_library(Path(__file__).with_name("pretend.so"))
    backend_registration.rename_privateuse1_backend("pretend")
    torch._register_device_module("pretend", _module())
    backend_registration.generate_methods_for_privateuse1_backend()


def _module() -> types.ModuleType:
    module, ops = types.ModuleType("torch.pretend"), torch.ops.pretend
    module.is_available = lambda: True
    module.is_initialized = lambda: True
    module.device_count = lambda: 2
    module.current_device = ops.current_device
    module.set_device = ops.set_device
    module.device = _device
    module.synchronize = lambda device=None: None
    module.memory_allocated = lambda device=None: ops.memory_allocated()
    module.transfers = ops.transfers
    module.get_amp_supported_dtype = lambda: [torch.bfloat16, torch.float16]
    # Random numbers are those of the CPU.
    module._is_in_bad_fork = lambda: False
    module.manual_seed_all = lambda seed: None
    module.get_rng_state = lambda device=None: torch.get_rng_state()
    module.set_rng_state = lambda state, device=None: torch.set_rng_state(state)
    return module


@contextlib.contextmanager
def _device(device: int | torch.device) -> Iterator[None]:
    index = device.index if isinstance(device, torch.device) else device
    before = torch.ops.pretend.current_device()
    torch.ops.pretend.set_device(before if index is None else index)
    try:
        yield
    finally:
        torch.ops.pretend.set_device(before)
